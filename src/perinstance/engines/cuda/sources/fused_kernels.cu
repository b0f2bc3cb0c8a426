// X'X with X'y, and a posterior sample's losses, each in one reading of X, for few columns.
//
// D columns of X; ONES 1 with an intercept; TILES of eight columns of [X 1 y]; OUT_TILES of eight columns of W, of which
// each reaches down to its own last row where TRIANGULAR; STAGES of sixteen rows that a warp has in shared memory; FUSED
// 1 where a warp also finishes the rows that it multiplied; BLOCKS of THREADS each are meant to run on a multiprocessor
// at once.

#define PAIRS ((TILES + 1) / 2)
#define PAIRED ((D % 2 == 0) ? D / 16 : 0)  // tiles 2 p and 2 p + 1 hold the even and the odd of sixteen columns of X

// A warp brings ROWS consecutive rows from base on, zeros beyond n; base is even, so that they begin at 16 bytes.
template <int ROWS>
__device__ __forceinline__ void bring_rows(double* to, const double* X, whole base, whole n, int lane) {
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

#define STAGE (16 * D + 16)  // doubles of sixteen rows of X, and of y behind them
// rows SPREAD k + ... of a stage meet in a product: chosen by D such that four of them lie in different banks
#define SPREAD (D % 2 ? 4 : D / 2 % 2 ? 2 : 1)

__device__ __forceinline__ void bring_stage(double* to, const double* X, const double* y, whole base, whole n,
                                            int lane) {
    bring_rows<16>(to, X, base, n, lane);
    if (lane < 16) copy_8(to + 16 * D + lane, base + lane < n ? y + base + lane : y, base + lane < n ? 8 : 0);
    copies_begun();
}

// Eight rows of a stage: u is 0 or 1.
__device__ __forceinline__ void load_rows(const double* stage, int u, whole left, int g, int k,
                                          double (&v)[2 * PAIRS][2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = SPREAD * k + (SPREAD == 1 ? 8 * u + 4 * h : SPREAD == 2 ? 8 * u + h : 2 * u + h);
        const double* x = stage + row * D;
#pragma unroll
        for (int p = 0; p < PAIRED; p++) {
            const double2 both = *reinterpret_cast<const double2*>(x + 16 * p + 2 * g);
            v[2 * p][h] = both.x;
            v[2 * p + 1][h] = both.y;
        }
#pragma unroll
        for (int t = 2 * PAIRED; t < 2 * PAIRS; t++) {
            const int column = 8 * t + g;
            v[t][h] = 0.0;
            if (t >= TILES) continue;
            if (column < D) v[t][h] = x[column];
            else if (column < D + ONES) v[t][h] = row < left ? 1.0 : 0.0;
            else if (column == D + ONES) v[t][h] = stage[16 * D + row];
        }
    }
}

// Warp w adds rows 16 w .. 16 w + 15 of every 16 W rows to sums of its own; out is (W, 8 TILES, 8 TILES), tiles on and
// above the diagonal. In tiles below 2 PAIRED column 16 p + 2 g + i stands at 16 p + 8 i + g. Each warp has STAGES of
// rows in shared memory: one that it works on, the others under way.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gram_sums(const double* X, const double* y, whole n, double* out) {
    extern __shared__ double2 shared[];
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const whole step = 16 * (whole)gridDim.x * (blockDim.x >> 5);
    double* ring = reinterpret_cast<double*>(shared) + (threadIdx.x >> 5) * (STAGES * STAGE);
    double sum[PAIRS * (PAIRS + 1)][4];
#pragma unroll
    for (int i = 0; i < PAIRS * (PAIRS + 1); i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0;
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) bring_stage(ring + i * STAGE, X, y, 16 * warp + i * step, n, lane);
    int here = 0, next = STAGES - 1;
#pragma unroll 1
    for (whole base = 16 * warp; base < n; base += step) {
        copies_done<STAGES - 2>();
        __syncwarp();  // what every lane copied is there, and every lane is done with the stage before
        bring_stage(ring + next * STAGE, X, y, base + (STAGES - 1) * step, n, lane);
        const double* stage = ring + here * STAGE;
#pragma unroll
        for (int u = 0; u < 2; u++) {
            double v[2 * PAIRS][2];
            load_rows(stage, u, n - base, g, k, v);
            int at = 0;
#pragma unroll
            for (int p = 0; p < PAIRS; p++) {
#pragma unroll
                for (int t = 2 * p; t < 2 * PAIRS; t++, at++)
                    if (t < TILES)
                        multiply_add(sum[at], v[2 * p][0], v[2 * p + 1][0], v[2 * p][1], v[2 * p + 1][1], v[t][0],
                                     v[t][1]);
            }
        }
        next = here;
        here = here + 1 < STAGES ? here + 1 : 0;
    }
    copies_done<0>();
    double* mine = out + warp * (64 * TILES * TILES);
    int at = 0;
#pragma unroll
    for (int p = 0; p < PAIRS; p++) {
#pragma unroll
        for (int t = 2 * p; t < 2 * PAIRS; t++, at++) {
            if (t >= TILES) continue;
            const int row = 16 * p + g, column = 8 * t + 2 * k;
            mine[row * 8 * TILES + column] = sum[at][0];
            mine[row * 8 * TILES + column + 1] = sum[at][1];
            if (2 * p + 1 < TILES) {
                mine[(row + 8) * 8 * TILES + column] = sum[at][2];
                mine[(row + 8) * 8 * TILES + column + 1] = sum[at][3];
            }
        }
    }
}

#define DEPTH ((D + 7) / 8)
#define REACH(j) (TRIANGULAR ? ((j) + 1 < DEPTH ? (j) + 1 : DEPTH) : DEPTH)

// A row of A: lane 4 g + k holds columns 8 s + 2 k and 8 s + 2 k + 1, as entries k and k + 4 of the product.
__device__ __forceinline__ void load_half(const double* x, int k, double (&a)[DEPTH][2]) {
#pragma unroll
    for (int s = 0; s < DEPTH; s++) {
        const int column = 8 * s + 2 * k;
        a[s][0] = a[s][1] = 0.0;
        if (D % 2 == 0) {
            if (column < D) {
                const double2 both = *reinterpret_cast<const double2*>(x + column);
                a[s][0] = both.x;
                a[s][1] = both.y;
            }
        } else {
            if (column < D) a[s][0] = x[column];
            if (column + 1 < D) a[s][1] = x[column + 1];
        }
    }
}

// The rows of a warp's thirty-two that lane group g has: neighbours lie in different banks where D allows it.
__device__ __forceinline__ int row_of(int g) {
    const int half = D / 2;
    return D % 2 == 0 && half % 2 ? 4 * (g & 1) + (g >> 1) : half % 4 == 2 ? (g & 1) * 2 + (g & 4) + (g >> 1 & 1) : g;
}

// Everybody's answers in one reading of X or, where not FUSED, leverages and predictions in the places of mu and r. factor: (OUT_TILES, DEPTH, 32 lanes, 2), then offset and image
// (OUT_TILES, 4, 2) each. A warp takes 32 rows at a time, and while it works on them the next ones come.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    answer_rows(const double* X, const double* factor, const double* y, whole n, const double* table, whole first_row,
                whole rows, double delta, double log_goal, double away, double residual, double floor, double root,
                int inside, double* mu, double* r, double* epsilon, unsigned char* code) {
    extern __shared__ double2 shared[];
    const int entries = OUT_TILES * DEPTH * 32;
    for (int i = threadIdx.x; i < entries + 8 * OUT_TILES; i += blockDim.x)
        shared[i] = reinterpret_cast<const double2*>(factor)[i];
    __syncthreads();
    const double2 *offset = shared + entries, *image = offset + 4 * OUT_TILES;
    double* mine = const_cast<double*>(reinterpret_cast<const double*>(image + 4 * OUT_TILES)) +
                   (threadIdx.x >> 5) * (32 * D);
    const Delta known = {table, first_row, rows, delta, log_goal};
    const Limits limits = {away, residual, floor, root, inside};
    const Answers out = {mu, r, epsilon, code};
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const whole warps = (whole)gridDim.x * (blockDim.x >> 5);
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    bring_rows<32>(mine, X, 32 * warp, n, lane);
    copies_begun();
#pragma unroll 1
    for (whole base = 32 * warp; base < n; base += 32 * warps) {
        const whole row = base + 8 * k + row_of(g);  // the one that this lane answers for
        const double aim = FUSED && row < n ? __ldg(y + row) : 0.0;
        double a[2][DEPTH][2], b[2][DEPTH][2];
        double sum[2][4];  // of rows g and g + 8: leverages, then predictions
        copies_done<0>();
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
            for (int s = 0; s < REACH(j); s++) {
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
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum[h][i] += __shfl_xor_sync(0xffffffffu, sum[h][i], 1);
                sum[h][i] += __shfl_xor_sync(0xffffffffu, sum[h][i], 2);
            }
        }
        // lane 4 g + k takes row g of the k-th eight
        const double m = k == 0 ? sum[0][0] : k == 1 ? sum[0][1] : k == 2 ? sum[1][0] : sum[1][1];
        const double predicted = k == 0 ? sum[0][2] : k == 1 ? sum[0][3] : k == 2 ? sum[1][2] : sum[1][3];
        if (row < n) {
            if (FUSED) finish_row(row, m, predicted, aim, limits, known, out);
            else mu[row] = m, r[row] = predicted;
        }
        __syncwarp();
    }
    copies_done<0>();
}
