// X'X with X'y, and a posterior sample's losses, each in one reading of X. fused_kernels.py compiles this and says what
// the macros are; models/linear/row_statistics.py and pairs/closed_form/many_posteriors.py have the same formulas.
//
// D columns of X; ONES 1 with an intercept; TILES of eight columns of [X 1 y]; OUT_TILES of eight columns of W, of which
// each reaches down to its own last row where TRIANGULAR. Rows in shared memory are GRAM_STRIDE or WALK_STRIDE numbers
// apart, so that the lanes of a load read different banks; STAGES of them are there or on their way. MILLS_LIST are the coefficients of the Mills ratio.

#ifdef __CUDACC__
#define FUNCTION __device__ __forceinline__
#else  // a test compiles the functions of one person with a C++ compiler
#include <cmath>
#include <cstring>
#define FUNCTION static inline
using std::fabs; using std::fmax; using std::fmin; using std::sqrt; using std::exp; using std::log1p; using std::copysign;
#endif

typedef long long whole;

// --------------------------------------------------------------------------------------------------------------------
// One person

FUNCTION double mills_at(double i) {  // R(x) given i = 1/(x + 6); four chains instead of one
    constexpr double C[28] = {MILLS_LIST};
    const double y = 1.0 - 9.0 * i, y2 = y * y, y4 = y2 * y2;
    double a = C[24], b = C[25], c = C[26], d = C[27];
#pragma unroll
    for (int k = 20; k >= 0; k -= 4) {
        a = a * y4 + C[k];
        b = b * y4 + C[k + 1];
        c = c * y4 + C[k + 2];
        d = d * y4 + C[k + 3];
    }
    return i * ((a + y * b) + y2 * (c + y * d));
}

FUNCTION double drop(double R, double after, double x, double h) {  // R(x) - R(x + h)
    const double c1 = x * R - 1.0, c2 = 0.5 * (x * c1 + R), c3 = (x * c2 + c1) * (1.0 / 3.0);
    const double c4 = 0.25 * (x * c3 + c2), c5 = 0.2 * (x * c4 + c3);
    const double series = -h * (c1 + h * (c2 + h * (c3 + h * (c4 + h * c5))));
    return h < 0.01 ? series : R - after;
}

// Returns the step of the inverse Taylor series to the goal; third is the size of its last term.
FUNCTION double inverse_series(double X, double T, double W, double V, double u, double g, double mu, double log_goal,
                               double* third) {
    const double x = X * exp(-0.5 * u * u - log_goal) - 1.0;
    const double F =
        x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * (0.2 - x * (1.0 / 6.0 - x * (1.0 / 7.0)))))));
    const double gT = g * T, inverse = 1.0 / (X * gT), over_X = inverse * gT, over_F1 = -inverse * X * X;
    const double T1 = gT - W, bend = mu * T + g * T1;
    const double q1 = -gT * over_X, q2 = -bend * over_X, q3 = -(2.0 * mu * T1 + g * (bend + V)) * over_X;
    const double a = (q2 - q1 * q1) * over_F1, b = (q3 - q1 * (3.0 * q2 - 2.0 * q1 * q1)) * over_F1;
    const double r = -F * over_F1, last = r * r * r * (0.5 * a * a - b * (1.0 / 6.0));
    *third = fabs(x) < 0.03 ? fabs(last) : HUGE_STEP;
    return r - 0.5 * a * r * r + last;
}

// One step from the threshold u; far: E = exp(-2 c rho/mu) is below the last digit, and only one tail counts.
FUNCTION double one_step(double mu, double rho, double s, double u, double log_goal, bool far, double* third,
                         double* q_out) {
    const double t = sqrt(1.0 + mu), both = 1.0 / (t * (1.0 + t)), over_t = both * (1.0 + t), over_1t = both * t;
    const double q = rho * over_t, c = rho + s * u, h1 = s * (c + q) * over_1t;
    const double x1 = u + 6.0, x2 = u + h1 + 6.0, i12 = 1.0 / (x1 * x2);
    const double R = mills_at(i12 * x2), R_next = mills_at(i12 * x1);
    double T = R_next * over_t, X = drop(R, R_next, u, h1), W = 1.0, V = u;
    *q_out = q;
    if (!far) {
        const double r = rho / s, a = u + 2.0 * r, h2 = fmax(0.0, s * (c - q) * over_1t);
        const double E = exp(fmax(-600.0, -2.0 * r * (r + u)));
        const double x3 = a + 6.0, x4 = a + h2 + 6.0, i34 = 1.0 / (x3 * x4);
        const double S = mills_at(i34 * x4), S_next = mills_at(i34 * x3);
        T = (R_next + E * S_next) * over_t;
        X += E * drop(S, S_next, a, h2);
        W += E;
        V += E * a;
    }
    X += T * (mu * over_1t);
    return u + inverse_series(X, T, W, V, u, s * c, mu, log_goal, third);
}

struct Delta {  // what is known of one delta
    const double* table;
    whole first_row, rows;
    double delta, log_goal;
};

FUNCTION whole bits_of(double x) {
#ifdef __CUDACC__
    return __double_as_longlong(x);
#else
    whole bits;
    std::memcpy(&bits, &x, 8);
    return bits;
#endif
}

// Epsilon of one posterior sample, P over Q, raised by the solver's error; NaN where somebody else must answer.
FUNCTION double posterior_epsilon(double mu, double rho, const Delta& known) {
    const double s = sqrt(mu), drift = s * rho, y = drift + mu;
    if (y < 2.0 * known.delta) return 0.0;  // the total variation distance is at most y/2
    const double missing = NOT_A_NUMBER;
    const whole bits = bits_of(y), row = (bits >> ROW_BITS) - known.first_row;
    if (!(y == y) || row < 0 || row >= known.rows) return missing;
    const double across = (double)(bits & ((1LL << ROW_BITS) - 1)) * (1.0 / (double)(1LL << ROW_BITS));
    const double place = COLUMNS * (mu / y);
    const int column = place < COLUMNS - 1 ? (int)place : COLUMNS - 1;
    const double along = place - column;
    const double* cell = known.table + row * (COLUMNS + 1) + column;
    const double low = cell[0] + along * (cell[1] - cell[0]);
    const double high = cell[COLUMNS + 1] + along * (cell[COLUMNS + 2] - cell[COLUMNS + 1]);
    const double start = low + across * (high - low);
    double third = HUGE_STEP, q = 0.0, u = start;
    bool far = 2.0 * rho * (rho + start * s) > 36.0 * mu;
#pragma unroll 1
    for (int step = 0; step < STEPS; step++) {  // one is enough for nearly everybody
        u = one_step(mu, rho, s, u, known.log_goal, far, &third, &q);
        if (!(u > -1.5) || !(u < 40.0)) return missing;
        if (third < THIRD_TERM) break;
        far = false;
    }
    if (!(third < THIRD_TERM)) return missing;
    const double epsilon = u * drift + 0.5 * (mu * (u * u + q * q) - log1p(mu));
    const double more = SOLVER_RELATIVE * fabs(epsilon) + SOLVER_ABSOLUTE * fmin(1.0, y);
    return fmax(0.0, epsilon + more);
}

struct Limits {  // what rounding can have taken; see RowRounding
    double away, residual, floor, root;
    int inside;
};

struct Person {
    double mu, r;
    unsigned char code;
};

FUNCTION Person finished(double m, double predicted, double y, const Limits& limits) {
    const double e = y - predicted;
    const double root = sqrt(m) * (1.0 + limits.away), up = root * root;
    const double lost = root * limits.residual + UNIT * fabs(e);
    const bool near = limits.inside && !(m <= HARD_LEVERAGE);
    const double left = limits.inside && !near ? 1.0 - up : 1.0;
    const double rest = left > 0.0 ? 1.0 / left : INFINITE;
    Person found;
    found.mu = up >= 0.0 ? up * rest : INFINITE;
    const double along = limits.inside ? 1.0 : 1.0 + 2.5 * limits.away * fmin(1.0, up);
    found.r = copysign((fabs(e) + lost) * rest * along, e);
    const bool rough = !(4.0 * limits.away * rest <= EXACT_PARAMETER) || !(m > UNDERFLOWN && m < LARGEST_SQUARE);
    const double size = fmax(fabs(e), limits.floor * fmin(sqrt(found.mu), 1.0));
    const bool rough_residual = !(lost <= EXACT_PARAMETER * size);
    found.code = near || rough ? 2 : rough_residual ? 1 : 0;
    return found;
}

struct Answers {  // one entry per row
    double *mu, *r, *epsilon;
    unsigned char* code;
};

#ifndef __CUDACC__

extern "C" void one_by_one(const double* m, const double* predicted, const double* y, whole n, const double* limits,
                           const double* table, const whole* place, const double* delta, double* mu, double* r,
                           double* epsilon, unsigned char* code) {
    const Limits given = {limits[0], limits[1], limits[2], limits[3], (int)place[2]};
    const Delta known = {table, place[0], place[1], delta[0], delta[1]};
    for (whole i = 0; i < n; i++) {
        const Person found = finished(m[i], predicted[i], y[i], given);
        mu[i] = found.mu;
        r[i] = found.r;
        code[i] = found.code;
        epsilon[i] = posterior_epsilon(found.mu, given.root * fabs(found.r), known);
    }
}

#else

// --------------------------------------------------------------------------------------------------------------------
// Many people. A warp works on tiles of 16 x 8 with fused multiply-adds of float64 (mma m16n8k8): lane l = 4 g + k holds
// of A the entries (g, k), (g + 8, k), (g, k + 4), (g + 8, k + 4), of B (k, g), (k + 4, g), and of the sum
// (g, 2 k), (g, 2 k + 1), (g + 8, 2 k), (g + 8, 2 k + 1).

__device__ __forceinline__ void multiply_add(double (&c)[4], double a0, double a1, double a2, double a3, double b0,
                                             double b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b0), "d"(b1));
}

// Rows come to shared memory as they lie, without passing through registers: every warp has STAGES buffers of its own,
// and the next rows are on their way while these are multiplied. Rows beyond n are zeros.
__device__ __forceinline__ void copy_cells(double* to, const double* from, bool there, int bytes) {
    const unsigned int at = (unsigned int)__cvta_generic_to_shared(to);
    const int size = there ? bytes : 0;
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(size));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(size));
}

template <int ROWS, int STRIDE>
__device__ __forceinline__ void copy_rows(double* to, const double* X, whole base, whole n, int lane) {
    constexpr int CELLS = D % 2 == 0 ? 2 : 1, PIECES = D / CELLS;
#pragma unroll
    for (int i = 0; i < (ROWS * PIECES + 31) / 32; i++) {
        const int piece = 32 * i + lane, row = piece / PIECES, column = CELLS * (piece % PIECES);
        const bool there = base + row < n;
        if (piece < ROWS * PIECES)
            copy_cells(to + row * STRIDE + column, there ? X + (base + row) * D + column : X, there, 8 * CELLS);
    }
}

__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;"); }

template <int LEFT>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
    __syncwarp();
}

#define PAIRS ((TILES + 1) / 2)
#define GRAM_ROWS 8

// Warp w adds rows 8 w .. 8 w + 7 of every 8 W rows to sums of its own; out is (W, 8 TILES, 8 TILES), tiles on and above
// the diagonal. Columns beyond [X 1 y] hold whatever lies there, and so do their sums, which nobody reads.
extern "C" __global__ void __launch_bounds__(GRAM_THREADS, 1)
    gram_sums(const double* X, const double* y, whole n, double* out) {
    extern __shared__ double2 shared[];
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    double* stage = reinterpret_cast<double*>(shared) + (threadIdx.x >> 5) * (STAGES * GRAM_ROWS * GRAM_STRIDE + 64);
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const whole step = GRAM_ROWS * (whole)gridDim.x * (blockDim.x >> 5);
    double sum[PAIRS * (PAIRS + 1)][4];
#pragma unroll
    for (int i = 0; i < PAIRS * (PAIRS + 1); i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0;
    for (int i = lane; i < STAGES * GRAM_ROWS * GRAM_STRIDE + 64; i += 32) stage[i] = 0.0;
    __syncwarp();
    const auto fetch = [&](whole base, int place) {
        double* to = stage + place * (GRAM_ROWS * GRAM_STRIDE);
        copy_rows<GRAM_ROWS, GRAM_STRIDE>(to, X, base, n, lane);
        if (lane < GRAM_ROWS) {
            const bool there = base + lane < n;
            if (ONES) to[lane * GRAM_STRIDE + D] = there ? 1.0 : 0.0;
            copy_cells(to + lane * GRAM_STRIDE + D + ONES, there ? y + base + lane : y, there, 8);
        }
        end_of_copies();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) fetch(GRAM_ROWS * warp + i * step, i);
    int place = 0;
#pragma unroll 1
    for (whole base = GRAM_ROWS * warp; base < n; base += step) {
        fetch(base + (STAGES - 1) * step, place == 0 ? STAGES - 1 : place - 1);
        wait_for_copies<STAGES - 1>();
        const double* rows = stage + place * (GRAM_ROWS * GRAM_STRIDE) + k * GRAM_STRIDE + g;
        double v[2 * PAIRS][2];
#pragma unroll
        for (int t = 0; t < 2 * PAIRS; t++) {
            v[t][0] = t < TILES ? rows[8 * t] : 0.0;
            v[t][1] = t < TILES ? rows[4 * GRAM_STRIDE + 8 * t] : 0.0;
        }
        int at = 0;
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
#pragma unroll
            for (int t = 2 * p; t < 2 * PAIRS; t++, at++)
                if (t < TILES)
                    multiply_add(sum[at], v[2 * p][0], v[2 * p + 1][0], v[2 * p][1], v[2 * p + 1][1], v[t][0], v[t][1]);
        }
        __syncwarp();
        place = place == STAGES - 1 ? 0 : place + 1;
    }
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

__device__ __forceinline__ void finish_row(whole row, double m, double predicted, double y, const Limits& limits,
                                           const Delta& known, const Answers& out) {
    const Person found = finished(m, predicted, y, limits);
    const double epsilon = posterior_epsilon(found.mu, limits.root * fabs(found.r), known);
    out.mu[row] = found.mu;
    out.r[row] = found.r;
    out.code[row] = found.code;
    out.epsilon[row] = epsilon;
}

#define DEPTH ((D + 7) / 8)
#define WALK_ROWS 16

// factor: (OUT_TILES, DEPTH, 32 lanes, 2), then offset and image (OUT_TILES, 4, 2) each. Lane 4 g + k takes columns
// 8 s + 2 k and 8 s + 2 k + 1 of rows g and g + 8 as entries k and k + 4 of the product.
extern "C" __global__ void __launch_bounds__(WALK_THREADS, 1)
    walk_rows(const double* X, const double* y, whole n, const double* factor, const double* table, whole first_row,
              whole rows, double delta, double log_goal, double away, double residual, double floor, double root,
              int inside, double* mu, double* r, double* epsilon, unsigned char* code) {
    extern __shared__ double2 shared[];
    const int entries = OUT_TILES * DEPTH * 32, lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    for (int i = threadIdx.x; i < entries + 8 * OUT_TILES; i += blockDim.x)
        shared[i] = reinterpret_cast<const double2*>(factor)[i];
    const double2 *offset = shared + entries, *image = offset + 4 * OUT_TILES;
    double* stage = reinterpret_cast<double*>(shared + entries + 8 * OUT_TILES) +
                    (threadIdx.x >> 5) * (STAGES * WALK_ROWS * WALK_STRIDE);
    for (int i = lane; i < STAGES * WALK_ROWS * WALK_STRIDE; i += 32) stage[i] = 0.0;  // beyond D they stay zero
    __syncthreads();
    const Delta known = {table, first_row, rows, delta, log_goal};
    const Limits limits = {away, residual, floor, root, inside};
    const Answers out = {mu, r, epsilon, code};
    const whole warps = (whole)gridDim.x * (blockDim.x >> 5);
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    // sixteen rows at a time, then those below them, then those of the next 32; lane l finishes the l-th of 32
    const auto after = [&](whole base) { return (base & 16) ? base - 16 + 32 * warps : base + 16; };
    whole ahead = 32 * warp;
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++, ahead = after(ahead)) {
        copy_rows<WALK_ROWS, WALK_STRIDE>(stage + i * (WALK_ROWS * WALK_STRIDE), X, ahead, n, lane);
        end_of_copies();
    }
    double m = 0.0, predicted = 0.0;
    int place = 0;
#pragma unroll 1
    for (whole base = 32 * warp; base < n; base = after(base), ahead = after(ahead)) {
        const int half = (base >> 4) & 1, last = place == 0 ? STAGES - 1 : place - 1;
        copy_rows<WALK_ROWS, WALK_STRIDE>(stage + last * (WALK_ROWS * WALK_STRIDE), X, ahead, n, lane);
        end_of_copies();
        double c[OUT_TILES][4];
#pragma unroll
        for (int j = 0; j < OUT_TILES; j++) {
            const double2 o = offset[4 * j + k];
            c[j][0] = c[j][2] = o.x;
            c[j][1] = c[j][3] = o.y;
        }
        wait_for_copies<STAGES - 1>();
        const double* upper = stage + place * (WALK_ROWS * WALK_STRIDE) + g * WALK_STRIDE + 2 * k;
#pragma unroll
        for (int s = 0; s < DEPTH; s++) {
            const double2 a = *reinterpret_cast<const double2*>(upper + 8 * s);
            const double2 b = *reinterpret_cast<const double2*>(upper + 8 * WALK_STRIDE + 8 * s);
#pragma unroll
            for (int j = TRIANGULAR ? s : 0; j < OUT_TILES; j++) {
                const double2 f = shared[(j * DEPTH + s) * 32 + lane];
                multiply_add(c[j], a.x, b.x, a.y, b.y, f.x, f.y);
            }
        }
        __syncwarp();
        double m0 = 0.0, m1 = 0.0, t0 = 0.0, t1 = 0.0;
#pragma unroll
        for (int j = 0; j < OUT_TILES; j++) {
            const double2 w = image[4 * j + k];
            m0 += c[j][0] * c[j][0] + c[j][1] * c[j][1];
            m1 += c[j][2] * c[j][2] + c[j][3] * c[j][3];
            t0 += c[j][0] * w.x + c[j][1] * w.y;
            t1 += c[j][2] * w.x + c[j][3] * w.y;
        }
#pragma unroll
        for (int across = 1; across < 4; across *= 2) {
            m0 += __shfl_xor_sync(0xffffffffu, m0, across);
            m1 += __shfl_xor_sync(0xffffffffu, m1, across);
            t0 += __shfl_xor_sync(0xffffffffu, t0, across);
            t1 += __shfl_xor_sync(0xffffffffu, t1, across);
        }
        const int from = 4 * (lane & 7);
        m0 = __shfl_sync(0xffffffffu, m0, from);
        m1 = __shfl_sync(0xffffffffu, m1, from);
        t0 = __shfl_sync(0xffffffffu, t0, from);
        t1 = __shfl_sync(0xffffffffu, t1, from);
        if ((lane >> 4) == half) {
            m = lane & 8 ? m1 : m0;
            predicted = lane & 8 ? t1 : t0;
        }
        const whole row = base - 16 * half + lane;
        if ((half || base + 16 >= n) && row < n)
            finish_row(row, m, predicted, __ldg(y + row), limits, known, out);
        place = place == STAGES - 1 ? 0 : place + 1;
    }
}

// For many columns, where a library made q = x W of some rows. A warp takes four rows at a time, whole lines of memory.
extern "C" __global__ void row_sums(const double* q, const double* y, whole n, int width, const double* image,
                                    const double* table, whole first_row, whole rows, double delta, double log_goal,
                                    double away, double residual, double floor, double root, int inside, double* mu,
                                    double* r, double* epsilon, unsigned char* code) {
    const Delta known = {table, first_row, rows, delta, log_goal};
    const Limits limits = {away, residual, floor, root, inside};
    const Answers out = {mu, r, epsilon, code};
    const int lane = threadIdx.x & 31;
    const whole base = 32 * ((whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5));
    double m = 0.0, predicted = 0.0;
#pragma unroll 1
    for (int i = 0; i < 32; i += 4) {
        double square[4] = {0.0, 0.0, 0.0, 0.0}, product[4] = {0.0, 0.0, 0.0, 0.0};
        for (int j = lane; j < width; j += 32) {
            const double weight = __ldg(image + j);
#pragma unroll
            for (int h = 0; h < 4; h++) {
                const double value = base + i + h < n ? q[(base + i + h) * width + j] : 0.0;
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
            if (lane == i + h) m = square[h], predicted = product[h];
        }
    }
    const whole row = base + lane;
    if (row < n) finish_row(row, m, predicted, y[row], limits, known, out);
}
#endif
