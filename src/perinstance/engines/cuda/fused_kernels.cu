// X'X with X'y, and a posterior sample's losses, each in one reading of X. fused_kernels.py compiles this and says what
// the macros are; models/linear/row_statistics.py and pairs/closed_form/many_posteriors.py have the same formulas.
//
// D columns of X; ONES 1 with an intercept; TILES of eight columns of [X 1 y]; OUT_TILES of eight columns of W, of which
// each reaches down to its own last row where TRIANGULAR; SETS of sixteen rows that a warp takes at a time; BLOCKS of
// THREADS each are meant to run on a multiprocessor at once. MILLS_LIST are the coefficients of the Mills ratio.

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

#define PAIRS ((TILES + 1) / 2)
#define PAIRED ((D % 2 == 0) ? D / 16 : 0)  // tiles 2 p and 2 p + 1 hold the even and the odd of sixteen columns of X

__device__ __forceinline__ double column_of(const double* X, const double* y, whole row, whole n, int column) {
    if (row >= n) return 0.0;
    if (column < D) return __ldg(X + row * D + column);
    if (column < D + ONES) return 1.0;
    return column == D + ONES ? __ldg(y + row) : 0.0;
}

__device__ __forceinline__ void load_rows(const double* X, const double* y, whole base, whole n, int g, int k,
                                          double (&v)[2 * PAIRS][2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const whole row = base + 4 * h + k;
#pragma unroll
        for (int p = 0; p < PAIRED; p++) {
            double2 both = make_double2(0.0, 0.0);
            if (row < n) both = __ldg(reinterpret_cast<const double2*>(X + row * D + 16 * p + 2 * g));
            v[2 * p][h] = both.x;
            v[2 * p + 1][h] = both.y;
        }
#pragma unroll
        for (int t = 2 * PAIRED; t < 2 * PAIRS; t++)
            v[t][h] = t < TILES ? column_of(X, y, row, n, 8 * t + g) : 0.0;
    }
}

// Warp w adds rows 8 w .. 8 w + 7 of every 8 W rows to sums of its own; out is (W, 8 TILES, 8 TILES), tiles on and above
// the diagonal. In tiles below 2 PAIRED column 16 p + 2 g + i stands at 16 p + 8 i + g.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gram_sums(const double* X, const double* y, whole n, double* out) {
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const whole step = 8 * (whole)gridDim.x * (blockDim.x >> 5);
    double sum[PAIRS * (PAIRS + 1)][4];
#pragma unroll
    for (int i = 0; i < PAIRS * (PAIRS + 1); i++) sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0.0;
    double v[2 * PAIRS][2], next[2 * PAIRS][2];
    load_rows(X, y, 8 * warp, n, g, k, v);
    for (whole base = 8 * warp; base < n; base += step) {
        load_rows(X, y, base + step, n, g, k, next);
        int at = 0;
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
#pragma unroll
            for (int t = 2 * p; t < 2 * PAIRS; t++, at++)
                if (t < TILES)
                    multiply_add(sum[at], v[2 * p][0], v[2 * p + 1][0], v[2 * p][1], v[2 * p + 1][1], v[t][0], v[t][1]);
        }
#pragma unroll
        for (int t = 0; t < 2 * PAIRS; t++) v[t][0] = next[t][0], v[t][1] = next[t][1];
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

#define DEPTH ((D + 7) / 8)
#define REACH(j) (TRIANGULAR ? ((j) + 1 < DEPTH ? (j) + 1 : DEPTH) : DEPTH)

// The rows of A: lane 4 g + k holds columns 8 s + 2 k and 8 s + 2 k + 1, as entries k and k + 4 of the product.
__device__ __forceinline__ void load_half(const double* X, whole row, whole n, int k, double (&a)[DEPTH][2]) {
#pragma unroll
    for (int s = 0; s < DEPTH; s++) {
        const int column = 8 * s + 2 * k;
        a[s][0] = a[s][1] = 0.0;
        if (row >= n) continue;
        const double* from = X + row * D + column;
        if (D % 2 == 0) {
            if (column < D) {
                const double2 both = __ldg(reinterpret_cast<const double2*>(from));
                a[s][0] = both.x;
                a[s][1] = both.y;
            }
        } else {
            if (column < D) a[s][0] = __ldg(from);
            if (column + 1 < D) a[s][1] = __ldg(from + 1);
        }
    }
}

// Leverage and prediction of each row, in the places of mu and r. factor: (OUT_TILES, DEPTH, 32 lanes, 2), then offset
// and image (OUT_TILES, 4, 2) each.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    sum_rows(const double* X, whole n, const double* factor, double* m, double* predicted) {
    extern __shared__ double2 shared[];
    const int entries = OUT_TILES * DEPTH * 32;
    for (int i = threadIdx.x; i < entries + 8 * OUT_TILES; i += blockDim.x)
        shared[i] = reinterpret_cast<const double2*>(factor)[i];
    __syncthreads();
    const double2 *offset = shared + entries, *image = offset + 4 * OUT_TILES;
    const int lane = threadIdx.x & 31, g = lane >> 2, k = lane & 3;
    const whole warps = (whole)gridDim.x * (blockDim.x >> 5);
    const whole warp = (whole)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
#pragma unroll 1
    for (whole base = 16 * SETS * warp; base < n; base += 16 * SETS * warps) {
        double a[SETS][DEPTH][2], b[SETS][DEPTH][2];
        double sum[SETS][4];  // of rows g and g + 8: leverages, then predictions
#pragma unroll
        for (int h = 0; h < SETS; h++) {
            load_half(X, base + 16 * h + g, n, k, a[h]);
            load_half(X, base + 16 * h + 8 + g, n, k, b[h]);
            sum[h][0] = sum[h][1] = sum[h][2] = sum[h][3] = 0.0;
        }
#pragma unroll
        for (int j = 0; j < OUT_TILES; j++) {
            const double2 o = offset[4 * j + k], w = image[4 * j + k];
            double c[SETS][4];
#pragma unroll
            for (int h = 0; h < SETS; h++) c[h][0] = c[h][2] = o.x, c[h][1] = c[h][3] = o.y;
#pragma unroll
            for (int s = 0; s < REACH(j); s++) {
                const double2 f = shared[(j * DEPTH + s) * 32 + lane];
#pragma unroll
                for (int h = 0; h < SETS; h++)
                    multiply_add(c[h], a[h][s][0], b[h][s][0], a[h][s][1], b[h][s][1], f.x, f.y);
            }
#pragma unroll
            for (int h = 0; h < SETS; h++) {
                sum[h][0] += c[h][0] * c[h][0] + c[h][1] * c[h][1];
                sum[h][1] += c[h][2] * c[h][2] + c[h][3] * c[h][3];
                sum[h][2] += c[h][0] * w.x + c[h][1] * w.y;
                sum[h][3] += c[h][2] * w.x + c[h][3] * w.y;
            }
        }
#pragma unroll
        for (int h = 0; h < SETS; h++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sum[h][i] += __shfl_xor_sync(0xffffffffu, sum[h][i], 1);
                sum[h][i] += __shfl_xor_sync(0xffffffffu, sum[h][i], 2);
            }
            // lane 4 g + k writes the k-th: leverage and prediction of rows g and g + 8
            const double value = k == 0 ? sum[h][0] : k == 1 ? sum[h][1] : k == 2 ? sum[h][2] : sum[h][3];
            const whole row = base + 16 * h + 8 * (k & 1) + g;
            if (row < n) (k < 2 ? m : predicted)[row] = value;
        }
    }
}

__device__ __forceinline__ void finish_row(whole row, double m, double predicted, double y, const Limits& limits,
                                           const Delta& known, const Answers& out) {
    const Person found = finished(m, predicted, y, limits);
    out.mu[row] = found.mu;
    out.r[row] = found.r;
    out.code[row] = found.code;
    out.epsilon[row] = posterior_epsilon(found.mu, limits.root * fabs(found.r), known);
}

// What follows from leverage and prediction, which stand in the places of mu and r.
extern "C" __global__ void __launch_bounds__(128)
    finish_rows(const double* y, whole n, const double* table, whole first_row, whole rows, double delta,
                double log_goal, double away, double residual, double floor, double root, int inside, double* mu,
                double* r, double* epsilon, unsigned char* code) {
    const Delta known = {table, first_row, rows, delta, log_goal};
    const Limits limits = {away, residual, floor, root, inside};
    const Answers out = {mu, r, epsilon, code};
    const whole row = (whole)blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n) finish_row(row, mu[row], r[row], y[row], limits, known, out);
}

// The same where a library made q = x W, for many columns. A warp takes four rows at a time, whole lines of memory.
extern "C" __global__ void sum_image(const double* q, whole n, int width, const double* image, double* m,
                                     double* predicted) {
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
        if (lane == h && base + h < n) m[base + h] = square[h], predicted[base + h] = product[h];
    }
}
#endif
