// X'X with X'y, and leverages and predictions of a triangular factor, for columns that do not fit a warp's registers.
//
// D columns of X; ONES 1 with an intercept; PAIRS of sixteen columns of [X 1 y]; GROUPS of warps, each with its share of
// the rows, whose warps have EACH blocks of 16 x 16 sums; ROWS of a stage; STAGES of them in shared memory; OUT_TILES of
// eight columns of W; THREADS of a block, of which one runs on a multiprocessor.

#define ALL_BLOCKS (PAIRS * (PAIRS + 1) / 2)
#define MEMBERS (THREADS / 32 / GROUPS)
#define LINE (16 * PAIRS + 4)  // doubles from row to row: four rows lie in different banks

// Everybody of a block brings ROWS rows of [X 1 y]; zeros beyond n.
__device__ __forceinline__ void bring_wide(double* to, const double* X, const double* y, whole base, whole n) {
    const int pieces = D % 2 == 0 ? D / 2 : D;
    for (int i = threadIdx.x; i < ROWS * pieces; i += THREADS) {
        const int row = i / pieces, piece = i % pieces;
        const bool there = base + row < n;
        if (D % 2 == 0) copy_16(to + row * LINE + 2 * piece, there ? X + base * D + 2 * i : X, there ? 16 : 0);
        else copy_8(to + row * LINE + piece, there ? X + base * D + i : X, there ? 8 : 0);
    }
    if (threadIdx.x < ROWS) {
        const int row = threadIdx.x;
        const bool there = base + row < n;
        copy_8(to + row * LINE + D + ONES, there ? y + base + row : y, there ? 8 : 0);
        if (ONES) to[row * LINE + D] = there ? 1.0 : 0.0;
    }
    copies_begun();
}

// Block (p, q) after another, row by row of the upper half; the last one again behind it.
__device__ __forceinline__ void next_block(int& p, int& q) {
    q++;
    if (q == PAIRS) {
        p = p + 1 < PAIRS ? p + 1 : p;
        q = p;
    }
}

// Each group of warps adds its share of every gridDim ROWS rows to its part of out, (gridDim GROUPS, ALL_BLOCKS, 2, 4, 32)
// which is zero before: sums of run rows in registers are added there. Columns 16 p + 2 g + i stand in tile i of pair p.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gram_wide(const double* X, const double* y, whole n, int run, double* out) {
    extern __shared__ double2 shared[];
    for (int i = threadIdx.x; i < STAGES * ROWS * LINE / 2; i += THREADS) shared[i] = make_double2(0.0, 0.0);
    __syncthreads();
    double* ring = reinterpret_cast<double*>(shared);
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x >> 5, 0), group = warp / MEMBERS, first = warp % MEMBERS * EACH;
    const whole step = (whole)gridDim.x * ROWS;
    double* mine = out + ((whole)blockIdx.x * GROUPS + group) * (ALL_BLOCKS * 256) + first * 256 + lane;
    int p_first = 0, q_first = 0, added = 0, here = 0, next = STAGES - 1;
    for (int i = 0; i < first; i++) next_block(p_first, q_first);
    double sum[EACH][2][4];
#pragma unroll
    for (int b = 0; b < EACH; b++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[b][0][e] = sum[b][1][e] = 0.0;
    const whole start = (whole)blockIdx.x * ROWS;
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) bring_wide(ring + i * (ROWS * LINE), X, y, start + i * step, n);
#pragma unroll 1
    for (whole base = start; base < n; base += step) {
        copies_done<STAGES - 2>();
        __syncthreads();  // what everybody copied is there, and everybody is done with the stage before
        bring_wide(ring + next * (ROWS * LINE), X, y, base + (STAGES - 1) * step, n);
        const double* stage = ring + here * (ROWS * LINE) + k * LINE + 2 * g;
#pragma unroll 1
        for (int u = 0; u < ROWS / 16 / GROUPS; u++) {
            const double* z = stage + 16 * (group + u * GROUPS) * LINE;
            int p = p_first, q = q_first;
            double2 a[4], b[4];
#pragma unroll
            for (int h = 0; h < 4; h++) a[h] = *reinterpret_cast<const double2*>(z + 4 * h * LINE + 16 * p);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
#pragma unroll
                for (int h = 0; h < 4; h++) {
                    b[h] = *reinterpret_cast<const double2*>(z + 4 * h * LINE + 16 * q);
                    if (p == q) a[h] = b[h];
                }
#pragma unroll
                for (int h = 0; h < 4; h += 2) {
                    multiply_add(sum[i][0], a[h].x, a[h].y, a[h + 1].x, a[h + 1].y, b[h].x, b[h + 1].x);
                    multiply_add(sum[i][1], a[h].x, a[h].y, a[h + 1].x, a[h + 1].y, b[h].y, b[h + 1].y);
                }
                next_block(p, q);
            }
        }
        next = here;
        here = here + 1 < STAGES ? here + 1 : 0;
        added += ROWS / GROUPS;
        if (added < run && base + step < n) continue;
        added = 0;
#pragma unroll
        for (int b = 0; b < EACH; b++) {
            if (first + b >= ALL_BLOCKS) continue;
#pragma unroll
            for (int e = 0; e < 8; e++) {
                mine[(8 * b + e) * 32] += sum[b][e >> 2][e & 3];
                sum[b][e >> 2][e & 3] = 0.0;
            }
        }
    }
    copies_done<0>();
}

#define DEPTH ((D + 7) / 8)
#define BEFORE(s) ((s) * OUT_TILES - (s) * ((s) - 1) / 2)  // tiles of W in the rows of eight above: (s, j) with j >= s

// Columns 8 s + 2 k and 8 s + 2 k + 1 of rows base + g and base + 8 + g.
__device__ __forceinline__ void load_tile(const double* X, whole base, whole n, int s, int g, int k, double (&a)[4]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const whole row = base + 8 * h + g;
        const int column = 8 * s + 2 * k;
        const double* from = X + row * D + column;
        a[h] = a[2 + h] = 0.0;
        if (row >= n) continue;
        if (D % 2 == 0) {
            if (column < D) {
                const double2 both = __ldg(reinterpret_cast<const double2*>(from));
                a[h] = both.x;
                a[2 + h] = both.y;
            }
        } else {
            if (column < D) a[h] = __ldg(from);
            if (column + 1 < D) a[2 + h] = __ldg(from + 1);
        }
    }
}

// factor: tiles (s, j) with j >= s of W, 32 lanes, 2; then offset and image (OUT_TILES, 4, 2) each.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sum_wide(const double* X, whole n, const double* factor, double* m, double* predicted) {
    extern __shared__ double2 shared[];
    const int entries = BEFORE(DEPTH) * 32;
    for (int i = threadIdx.x; i < entries + 8 * OUT_TILES; i += THREADS)
        shared[i] = reinterpret_cast<const double2*>(factor)[i];
    __syncthreads();
    const double2 *offset = shared + entries, *image = offset + 4 * OUT_TILES;
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const whole step = 16 * (whole)gridDim.x * (THREADS / 32);
    const whole start = 16 * ((whole)blockIdx.x * (THREADS / 32) + (threadIdx.x >> 5));
    double a[2][4];  // the next sixteen columns
#pragma unroll
    for (int h = 0; h < 2; h++) load_tile(X, start, n, h, g, k, a[h]);
#pragma unroll 1
    for (whole base = start; base < n; base += step) {
        double c[OUT_TILES][4];
        __syncwarp();  // or the compiler would keep the offset in registers that it does not have
#pragma unroll
        for (int j = 0; j < OUT_TILES; j++) {
            const double2 o = ONES ? offset[4 * j + k] : make_double2(0.0, 0.0);
            c[j][0] = c[j][2] = o.x, c[j][1] = c[j][3] = o.y;
        }
#pragma unroll
        for (int s = 0; s < DEPTH; s += 2) {
            double x[2][4];
#pragma unroll
            for (int h = 0; h < 2; h++) {
#pragma unroll
                for (int i = 0; i < 4; i++) x[h][i] = a[h][i];
                const bool more = s + 2 + h < DEPTH;  // else the first columns of the next rows
                if (s + 2 < DEPTH && !more) continue;
                load_tile(X, more ? base : base + step, n, more ? s + 2 + h : h, g, k, a[h]);
            }
#pragma unroll
            for (int j = s; j < OUT_TILES; j++) {
                const double2 f = shared[(BEFORE(s) + j - s) * 32 + lane];
                multiply_add(c[j], x[0][0], x[0][1], x[0][2], x[0][3], f.x, f.y);
                if (j == s || s + 1 == DEPTH) continue;
                const double2 e = shared[(BEFORE(s + 1) + j - s - 1) * 32 + lane];
                multiply_add(c[j], x[1][0], x[1][1], x[1][2], x[1][3], e.x, e.y);
            }
        }
        double sum[4] = {0.0, 0.0, 0.0, 0.0};  // of rows g and g + 8: leverages, then predictions
#pragma unroll
        for (int j = 0; j < OUT_TILES; j++) {
            const double2 w = image[4 * j + k];
            sum[0] += c[j][0] * c[j][0] + c[j][1] * c[j][1];
            sum[1] += c[j][2] * c[j][2] + c[j][3] * c[j][3];
            sum[2] += c[j][0] * w.x + c[j][1] * w.y;
            sum[3] += c[j][2] * w.x + c[j][3] * w.y;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 1);
            sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 2);
        }
        // lane 4 g + k writes the k-th: leverage and prediction of rows g and g + 8
        const double value = k == 0 ? sum[0] : k == 1 ? sum[1] : k == 2 ? sum[2] : sum[3];
        const whole row = base + 8 * (k & 1) + g;
        if (row < n) (k < 2 ? m : predicted)[row] = value;
    }
}
