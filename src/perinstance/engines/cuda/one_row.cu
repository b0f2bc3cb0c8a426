// What follows from the leverage and the prediction of one row, and the epsilon of a posterior sample.
// models/linear/row_statistics.py and pairs/closed_form/epsilon.py have these formulas; kernels.py compiles this
// and writes the macros. MILLS_LIST are the coefficients of the Mills ratio.

#ifdef __CUDACC__
#define FUNCTION __device__ __forceinline__
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#else  // a test compiles the functions with a C++ compiler
#include <cmath>
#include <cstring>
#define FUNCTION static inline
#define INFINITE HUGE_VAL
using std::fabs; using std::fmax; using std::fmin; using std::sqrt; using std::exp; using std::log1p; using std::copysign;
#endif

typedef long long whole;

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
    *third = fabs(x) < 0.03 ? fabs(last) : INFINITE;
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
    const double missing = INFINITE - INFINITE;
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
    double third = INFINITE, q = 0.0, u = start;
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
    const double more = SOLVER_RELATIVE * fabs(epsilon) + SOLVER_ABSOLUTE * fmin(0.1, y);
    return fmax(0.0, epsilon + more);
}

struct Limits {  // what rounding can have taken; see RowRounding
    double away, residual, floor, root;
    int inside;
};

struct Row {
    double mu, r;
    unsigned char code;
};

FUNCTION Row finished(double m, double predicted, double y, const Limits& limits) {
    const double e = y - predicted;
    const double root = sqrt(m) * (1.0 + limits.away), up = root * root;
    const double lost = root * limits.residual + UNIT * fabs(e);
    const bool near = limits.inside && !(m <= HARD_LEVERAGE);
    const double left = limits.inside && !near ? 1.0 - up : 1.0;
    const double rest = left > 0.0 ? 1.0 / left : INFINITE;
    Row found;
    found.mu = up >= 0.0 ? up * rest : INFINITE;
    const double along = limits.inside ? 1.0 : 1.0 + 2.5 * limits.away * fmin(1.0, up);
    found.r = copysign((fabs(e) + lost) * rest * along, e);
    const bool rough = !(4.0 * limits.away * rest <= EXACT_PARAMETER) || !(m > UNDERFLOWN && m < LARGEST_SQUARE);
    const double size = fmax(fabs(e), limits.floor * fmin(sqrt(found.mu), 1.0));
    const bool rough_residual = !(lost <= EXACT_PARAMETER * size);
    found.code = near || rough ? 2 : rough_residual ? 1 : 0;
    return found;
}
