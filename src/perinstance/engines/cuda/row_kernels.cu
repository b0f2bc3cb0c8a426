// The leverages and predictions of rows, and what follows from them. kernels.py compiles this.
//
// D columns of X; OUT_TILES of eight columns of W, of which each ends at its own diagonal where TRIANGULAR; BLOCKS of
// THREADS each are meant to run on a multiprocessor at once.
//
// A warp works on tiles of 16 x 8 with fused multiply-adds of float64 (mma m16n8k8): lane l = 4 g + k holds of A the
// entries (g, k), (g + 8, k), (g, k + 4), (g + 8, k + 4), of B (k, g), (k + 4, g), and of the sum (g, 2 k),
// (g, 2 k + 1), (g + 8, 2 k), (g + 8, 2 k + 1).

#ifdef __CUDACC__  // a test has its own of these four
#define INLINE __device__ __forceinline__

INLINE void multiply_add(double (&c)[4], double a0, double a1, double a2, double a3, double b0, double b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b0), "d"(b1));
}

// Bytes from the device's memory straight into shared memory; those beyond the first are zeros.
INLINE void copy_16(double* to, const double* from, int bytes) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(there), "l"(from), "r"(bytes) : "memory");
}

INLINE void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }

INLINE void copies_done() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
#endif

// A warp brings ROWS consecutive rows from base on, zeros beyond n; base is even, so that they begin at 16 bytes.
template <int ROWS>
INLINE void bring_rows(double* to, const double* X, whole base, whole n, int lane) {
    const double* from = X + base * D;
    if (base + ROWS <= n) {
#pragma unroll
        for (int i = 0; i < ROWS * D; i += 64)
            if (i + 64 <= ROWS * D || i + 2 * lane < ROWS * D) copy_16(to + i + 2 * lane, from + i + 2 * lane, 16);
        return;
    }
    const int there = n > base ? (int)(n - base) * D : 0;
#pragma unroll 1
    for (int i = 2 * lane; i < ROWS * D; i += 64) {
        const int left = there - i;
        copy_16(to + i, left > 0 ? from + i : X, left >= 2 ? 16 : left == 1 ? 8 : 0);
    }
}

#define DEPTH ((D + 7) / 8)
#define LAST_TILE(j) (TRIANGULAR && (j) + 1 < DEPTH ? (j) + 1 : DEPTH)

// A row of A: lane 4 g + k holds columns 8 s + 2 k and 8 s + 2 k + 1, as entries k and k + 4 of the product.
INLINE void load_half(const double* x, int k, double (&a)[DEPTH][2]) {
#pragma unroll
    for (int s = 0; s < DEPTH; s++) {
        const int column = 8 * s + 2 * k;
        a[s][0] = a[s][1] = 0.0;
        if (D % 2 == 0 && column < D) {
            const double2 both = *reinterpret_cast<const double2*>(x + column);
            a[s][0] = both.x;
            a[s][1] = both.y;
        } else {
            if (column < D) a[s][0] = x[column];
            if (column + 1 < D) a[s][1] = x[column + 1];
        }
    }
}

// The rows of a warp's thirty-two that lane group g has: neighbours lie in different banks where D allows it.
INLINE int row_of(int g) {
    const int half = D / 2;
    return D % 2 == 0 && half % 2 ? 4 * (g & 1) + (g >> 1) : half % 4 == 2 ? (g & 1) * 2 + (g & 4) + (g >> 1 & 1) : g;
}

// Leverages and predictions in one reading of X. factor: (OUT_TILES, DEPTH, 32 lanes, 2), then offset and image
// (OUT_TILES, 4, 2) each. A warp takes 32 rows at a time, and while it works on them the next ones come.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    row_products(const double* X, const double* factor, whole n, double* leverage, double* prediction) {
    extern __shared__ double2 shared[];
    const int entries = OUT_TILES * DEPTH * 32;
    for (int i = threadIdx.x; i < entries + 8 * OUT_TILES; i += blockDim.x)
        shared[i] = reinterpret_cast<const double2*>(factor)[i];
    __syncthreads();
    const double2 *offset = shared + entries, *image = offset + 4 * OUT_TILES;
    double* mine = reinterpret_cast<double*>(shared + entries + 8 * OUT_TILES) + (threadIdx.x >> 5) * (32 * D);
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const whole warps = (whole)gridDim.x * (blockDim.x >> 5);
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    bring_rows<32>(mine, X, 32 * warp, n, lane);
    copies_begun();
#pragma unroll 1
    for (whole base = 32 * warp; base < n; base += 32 * warps) {
        const whole row = base + 8 * k + row_of(g);  // the one that this lane answers for
        double a[2][DEPTH][2], b[2][DEPTH][2];
        double sum[2][4];  // of rows g and g + 8: leverages, then predictions
        copies_done();
        __syncwarp();
#pragma unroll
        for (int h = 0; h < 2; h++) {
            load_half(mine + (16 * h + row_of(g)) * D, k, a[h]);
            load_half(mine + (16 * h + 8 + row_of(g)) * D, k, b[h]);
            sum[h][0] = sum[h][1] = sum[h][2] = sum[h][3] = 0.0;
        }
        __syncwarp();
        bring_rows<32>(mine, X, base + 32 * warps, n, lane);
        copies_begun();
#pragma unroll
        for (int j = 0; j < OUT_TILES; j++) {
            const double2 o = offset[4 * j + k], w = image[4 * j + k];
            double c[2][4];
#pragma unroll
            for (int h = 0; h < 2; h++) c[h][0] = c[h][2] = o.x, c[h][1] = c[h][3] = o.y;
#pragma unroll
            for (int s = 0; s < LAST_TILE(j); s++) {
                const double2 f = shared[(j * DEPTH + s) * 32 + lane];
#pragma unroll
                for (int h = 0; h < 2; h++)
                    multiply_add(c[h], a[h][s][0], b[h][s][0], a[h][s][1], b[h][s][1], f.x, f.y);
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                sum[h][0] += c[h][0] * c[h][0] + c[h][1] * c[h][1];
                sum[h][1] += c[h][2] * c[h][2] + c[h][3] * c[h][3];
                sum[h][2] += c[h][0] * w.x + c[h][1] * w.y;
                sum[h][3] += c[h][2] * w.x + c[h][3] * w.y;
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum[h][i] += __shfl_xor_sync(0xffffffffu, sum[h][i], 1);
                sum[h][i] += __shfl_xor_sync(0xffffffffu, sum[h][i], 2);
            }
        // lane 4 g + k writes row g of the k-th eight
        if (row < n) {
            leverage[row] = k == 0 ? sum[0][0] : k == 1 ? sum[0][1] : k == 2 ? sum[1][0] : sum[1][1];
            prediction[row] = k == 0 ? sum[0][2] : k == 1 ? sum[0][3] : k == 2 ? sum[1][2] : sum[1][3];
        }
        __syncwarp();
    }
    copies_done();
}

// The same of q = x W that a library made, for many columns. A warp takes four rows at a time, whole lines of memory.
extern "C" __global__ void image_products(const double* q, whole n, int width, const double* image, double* leverage,
                                          double* prediction) {
    const int lane = threadIdx.x & 31;
    const whole base = 4 * ((whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5));
    double square[4] = {0.0, 0.0, 0.0, 0.0}, product[4] = {0.0, 0.0, 0.0, 0.0};
    for (int j = lane; j < width; j += 32) {
        const double weight = __ldg(image + j);
#pragma unroll
        for (int h = 0; h < 4; h++) {
            const double value = base + h < n ? q[(base + h) * width + j] : 0.0;
            square[h] += value * value;
            product[h] += value * weight;
        }
    }
#pragma unroll
    for (int h = 0; h < 4; h++) {
#pragma unroll
        for (int across = 1; across < 32; across *= 2) {
            square[h] += __shfl_xor_sync(0xffffffffu, square[h], across);
            product[h] += __shfl_xor_sync(0xffffffffu, product[h], across);
        }
        if (lane == h && base + h < n) leverage[base + h] = square[h], prediction[base + h] = product[h];
    }
}

// What follows from leverage and prediction, which stand in the places of mu and r.
extern "C" __global__ void __launch_bounds__(128)
    finish_rows(const double* y, whole n, const double* table, whole first_row, whole rows, double delta,
                double log_goal, double away, double residual, double floor, double root, int inside, double* mu,
                double* r, double* epsilon, unsigned char* code) {
    const Delta known = {table, first_row, rows, delta, log_goal};
    const Limits limits = {away, residual, floor, root, inside};
    const whole row = (whole)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    const Row found = finished(mu[row], r[row], y[row], limits);
    mu[row] = found.mu;
    r[row] = found.r;
    code[row] = found.code;
    epsilon[row] = posterior_epsilon(found.mu, limits.root * fabs(found.r), known);
}
