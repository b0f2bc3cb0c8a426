// Epsilon of objective perturbation, one person. operations/objective_epsilons.py has the same formulas and says why no
// answer is below the truth; operations/objective_kernel.py compiles this and says what the macros are. Nodes are made
// twice instead of being kept: a thread has no room for them.

#ifdef __CUDACC__
#define SINE_AND_COSINE(x, s, c) sincos(x, s, c)
#else
#define SINE_AND_COSINE(x, s, c) (*(s) = std::sin(x), *(c) = std::cos(x))
using std::atan; using std::expm1; using std::log;
#endif

struct Plane {  // two coordinates, of P over Q or of Q over P
    double nu[2], v[2], m2[2], half_log, square, largest, lost;
};

struct Goal {  // what is known of one delta; the table has the epsilon of shifts
    const double* polynomials;
    whole first_cell, cells;
    double delta, log_delta;
    int nodes;
};

struct Slopes {  // K' and K''
    double first, second;
};

struct Line {
    double t, h, drift, G[2], C[2];
};

struct Node {
    double s, phase, size;
};

struct Sums {  // sum Re f, sum Re t f, sum Re t^2 f
    double zero, one, two;
};

FUNCTION Plane plane_of(double mu, double r, double x_squared, double v_squared) {
    const double xv = sqrt(x_squared) * sqrt(v_squared);
    const bool flat = !(xv > mu * (1.0 + ONE_DIMENSION));
    const double w2 = flat ? 0.0 : (xv - mu) * (xv + mu), trace = mu * (2.0 + mu) + w2;
    const double high = 0.5 * (trace + sqrt(trace * trace + 4.0 * w2));
    const double share = high > 0.0 ? w2 / high : 0.0, across = high > 0.0 ? share / high : 0.0;
    const double square = r * r * x_squared, top = 1.0 + high;
    return {{high, -share},
            {top, (1.0 + mu) * (1.0 + mu) / top},
            {square / (1.0 + across), square * (across / (1.0 + across))},
            log1p(mu),
            square * NORM_UP,
            4.0 * high + LEAST_PAIR,
            flat ? 3.0 * ONE_DIMENSION : 10.0 * HALF_UNIT};
}

FUNCTION Plane exchanged(const Plane& p) {
    return {{-p.nu[0] / p.v[0], -p.nu[1] / p.v[1]},
            {1.0 / p.v[0], 1.0 / p.v[1]},
            {p.m2[0] / p.v[0], p.m2[1] / p.v[1]},
            -p.half_log,
            2.0 * p.square,
            p.largest,
            p.lost};
}

FUNCTION double cumulant(const Plane& p, double t) {  // K
    double sum = -t * p.half_log;
#pragma unroll
    for (int j = 0; j < 2; j++)
        sum += 0.5 * (t + t * t) * (p.m2[j] / (1.0 - t * p.nu[j])) - 0.5 * log1p(-t * p.nu[j]);
    return sum;
}

FUNCTION Slopes slopes_at(const Plane& p, double t) {
    Slopes at = {-p.half_log, 0.0};
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const double a = 1.0 - t * p.nu[j], shift = p.m2[j] / a, slope = p.nu[j] / a;
        at.first += 0.5 * shift * ((1.0 + 2.0 * t) + (t + t * t) * slope) + 0.5 * slope;
        at.second += shift * p.v[j] / (a * a) + 0.5 * slope * slope;
    }
    return at;
}

FUNCTION double placed(const Plane& p, double epsilon, double top) {  // t0
    const double most = 0.5 / top;
    const Slopes none = slopes_at(p, 0.0);
    const double away = none.first - epsilon, root = sqrt(away * away + 6.0 * none.second);
    double t = fmin(away < 0.0 ? (root - away) / (2.0 * none.second) : 3.0 / (away + root), most);
#pragma unroll 1
    for (int turn = 0; turn < 3; turn++) {
        const Slopes at = slopes_at(p, t);
        const double one = 1.0 / t, two = 1.0 / (1.0 + t);
        const double step = (at.first - epsilon - one - two) / (at.second + one * one + two * two);
        t = fmin(fmax(t - step, 0.25 * t), most);
    }
    return fmin(fmax(t, RIGHT / sqrt(slopes_at(p, t).second)), most);
}

FUNCTION Node node_at(const Line& line, int k) {
    const double s = line.h * (double)k, q0 = line.G[0] * s, q1 = line.G[1] * s;
    const double one0 = 1.0 + q0 * q0, one1 = 1.0 + q1 * q1;
    const double fall0 = line.C[0] * (s * s) / one0, fall1 = line.C[1] * (s * s) / one1;
    const double zero = s / line.t, after = s / (1.0 + line.t);
    const double arcs = 0.5 * atan(q0) - fall0 * q0 + (0.5 * atan(q1) - fall1 * q1);
    const double over = (1.0 + zero * zero) * (1.0 + after * after) * sqrt(one0 * one1);
    return {s, line.drift * s + arcs - atan(zero) - atan(after), exp(-(fall0 + fall1)) / sqrt(over)};
}

struct Summed {  // sums of size cos, s size sin and s^2 size cos, and of sizes
    double real, odd, curved, mass, last;
};

FUNCTION void add_nodes(const Line& line, double d, int from, int to, Summed& sum) {
#pragma unroll 1
    for (int k = from + 1; k <= to; k++) {
        const Node node = node_at(line, k);
        double sine, cosine;
        SINE_AND_COSINE(node.phase - node.s * d, &sine, &cosine);
        const double real = node.size * cosine;
        sum.real += real;
        sum.odd += node.size * sine * node.s;
        sum.curved += node.s * node.s * real;
        sum.mass += sum.last = node.size;
    }
}

FUNCTION Sums sums_of(const Summed& sum, double t) {
    return {sum.real, t * sum.real - sum.odd, t * (t * sum.real - 2.0 * sum.odd) - sum.curved};
}

// Adds up a line, and returns what the sum has lost: rounding, and the nodes that are left out.
FUNCTION double first_sum(const Plane& p, const Line& line, double epsilon, double a, const Goal& goal, int more,
                          Summed& sum) {
    const double t = line.t, logs = 2.0 * (fabs(log(t)) + log1p(t)) + (8.0 - goal.log_delta);
    const int nodes = more * goal.nodes;
    double charge = ROUNDINGS * HALF_UNIT * nodes, before = 0.0;
    int from = 0;
#pragma unroll 1
    for (int share = 1; share <= more; share *= 2) {  // far out, where terms are large, sizes are small
        const int end = goal.nodes * share;
        add_nodes(line, 0.0, from, end, sum);
        const double tau = t + end * line.h, ratio = tau * p.largest / a, M = 0.5 * tau * (1.0 + tau) * p.square / a;
        const double terms = (M + ratio + tau * epsilon + logs) * (1.0 + ratio);
        const double lost = p.lost * (ratio + p.largest / a), part = sum.mass - before;
        charge += ROUNDINGS * (HALF_UNIT * terms + lost * (1.0 + M)) * part;
        charge += ROUNDINGS * (HALF_UNIT * ratio + lost) * (end - from);
        from = end, before = sum.mass;
    }
    const double Y = nodes * line.h, far = 2.0 * node_at(line, 2 * nodes).size + NOT_ZERO;
    const double beyond = (sum.last * Y + far * ((1.0 + t) * (1.0 + t) + 4.0 * Y * Y) / (2.0 * Y)) / line.h;
    return 1.01 * (charge + HALF_UNIT * nodes * sum.mass + beyond);
}

// Two steps along one line. Returns a proved answer or NaN; next is where to lay another line. The answer is enough
// where the delta of an epsilon that is not larger is proved to be small enough.
FUNCTION double along_line(const Plane& p, double epsilon, double enough, const Goal& goal, int more, double* next) {
    const double top = fmax(fmax(p.nu[0], p.nu[1]), LEAST_PAIR);
    Line line;
    const double t = line.t = placed(p, epsilon, top);
    const Slopes at = slopes_at(p, t);
    const double spread = sqrt(at.second), room = 0.7 * (1.0 / top - t);
    constexpr double FURTHER[] = {FURTHER_LIST};
    double turns = INFINITE, further = INFINITE, log_further = INFINITE;
#pragma unroll 1
    for (double far : FURTHER) {
        const double away = fmin(far / spread, room), there = t + away;
        const double chernoff = there * (log(there) - log1p(there)) - log1p(there);
        const double bound = cumulant(p, there) - there * epsilon + chernoff - goal.log_delta;
        if ((bound + SMALL) / away < turns) turns = (bound + SMALL) / away, further = there, log_further = bound;
    }
    turns = fmax(turns, (SMALL - goal.log_delta) / t);
    line.h = 2.0 * PI / turns;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const double a = 1.0 - t * p.nu[j];
        line.G[j] = p.nu[j] / a;
        line.C[j] = 0.5 * p.m2[j] * p.v[j] / (a * a * a);
    }
    line.drift = at.first - (0.5 * line.G[0] + 0.5 * line.G[1]) - epsilon;
    const double base = cumulant(p, t) - t * epsilon - log(t) - log1p(t) + log(line.h / PI) - goal.log_delta;
    const int nodes = more * goal.nodes;
    const double least = fmin(1.0 - t * p.nu[0], 1.0 - t * p.nu[1]);
    Summed sum = {0.5, 0.0, 0.0, 0.5, 0.0};
    const double lost = first_sum(p, line, epsilon, least, goal, more, sum), mass = sum.mass;
    Sums S = sums_of(sum, t);
    if (epsilon <= enough && lost <= USABLE * mass && S.zero + lost <= fmin(exp(-base), mass)) return enough;
    const double rate = S.one / S.zero, g = base + log(S.zero);
    const double bend = fmax(0.0, rate * rate - 2.0 * g * (S.two / S.zero - rate * rate));
    const double d = fmax(2.0 * g / (rate + sqrt(bend)), -epsilon);
    sum = {0.5, 0.0, 0.0, 0.5, 0.0};
    add_nodes(line, d, 0, nodes, sum);
    S = sums_of(sum, t);
    const double tau = t + nodes * line.h, charge = lost + ROUNDINGS * HALF_UNIT * tau * fabs(d) * mass;
    const double asked = fmin(exp(t * d - base), mass), step = (S.zero + charge - asked) / S.one;
    const double moved = tau * step, curved = 1.1 * moved * moved * mass;
    double found = (epsilon + d + (step + curved / S.one)) * (1.0 + LAST_SUM);
    found += 2.0 * LAST_SUM * fmax(epsilon, fabs(found));
    *next = fmax(epsilon + d + step, 0.0);
    const bool usable = charge <= USABLE * mass;
    if (usable && d == -epsilon && S.zero + charge <= asked) return 0.0;
    const double before = 1.0 / (goal.delta * expm1(turns * t));
    const double after = exp(log_further - further * d) / expm1(turns * (further - t));
    const double slack = (2.2 * (charge + curved) + asked * (1.01 * (before + after))) / S.one;
    const bool fine = usable && S.one > 0.0 && fabs(moved) < LAST && tau * mass < STEEP * S.one;
    if (fine && (slack <= fmax(0.5 * PROMISED * found, PROMISED_ABSOLUTE) || found <= 0.0)) return fmax(found, 0.0);
    return NOT_A_NUMBER;
}

FUNCTION double shift_start(double D, const Goal& goal) {  // NaN outside of the table
    const whole bits = bits_of(D), cell = (bits >> CELL_BITS) - goal.first_cell;
    if (!(D == D) || cell < 0 || cell >= goal.cells) return 2.5 * goal.delta > D ? 0.0 : NOT_A_NUMBER;
    const double t = (double)(bits & ((1LL << CELL_BITS) - 1)) * (2.0 / (double)(1LL << CELL_BITS)) - 1.0;
    const double* c = goal.polynomials + cell * POINTS;
    double value = c[POINTS - 1];
#pragma unroll
    for (int k = POINTS - 2; k >= 0; k--) value = value * t + c[k];
    return D * value;
}

// One direction, starting from some epsilon; NaN where no line settles it.
FUNCTION double one_direction(const Plane& p, double epsilon, double enough, const Goal& goal) {
    constexpr int PASSES[] = {PASSES_LIST};
    double found = NOT_A_NUMBER;
#pragma unroll 1
    for (int more : PASSES) {
        double next = NOT_A_NUMBER;
        found = along_line(p, epsilon, enough, goal, more, &next);
        if (found == found || !(next < INFINITE)) break;
        epsilon = next;
    }
    return found;
}

FUNCTION double objective_epsilon(double mu, double r, double x_squared, double v_squared, const Goal& goal) {
    const double missing = NOT_A_NUMBER;
    Plane p = plane_of(mu, r, x_squared, v_squared);
    if (!(p.nu[0] <= MOST_EXCESS)) return missing;
    double half = p.square;
    for (int j = 0; j < 2; j++) half += 0.5 * p.nu[j] * p.nu[j] / fmin(p.v[j], 1.0);
    if (0.5 * sqrt(half) * BOUND_UP + LEAST_PAIR < goal.delta) return 0.0;  // Pinsker's inequality
    if (!(p.square >= LEAST_SQUARE) || !(p.square <= MOST_SQUARE)) return missing;
    const Slopes none = slopes_at(p, 0.0);
    const double start = shift_start(sqrt(none.second), goal) + none.first - 0.5 * none.second;
    if (!(start == start)) return missing;
    double epsilon = fmax(0.0, start), answer = -1.0;
#pragma unroll 1
    for (int direction = 0; direction < 2; direction++) {
        const double found = one_direction(p, epsilon, answer, goal);
        if (!(found == found)) return missing;
        epsilon = answer = fmax(answer, found);
        p = exchanged(p);
    }
    return answer;
}

#ifdef __CUDACC__

extern "C" __global__ void __launch_bounds__(128)
    objective_epsilons(const double* mu, const double* r, const double* x_squared, const double* v_squared, whole n,
                       const double* polynomials, whole first_cell, whole cells, double delta, double log_delta,
                       int nodes, double* epsilon) {
    const Goal goal = {polynomials, first_cell, cells, delta, log_delta, nodes};
    const whole i = (whole)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) epsilon[i] = objective_epsilon(mu[i], r[i], x_squared[i], v_squared[i], goal);
}

#else

extern "C" void objectives_one_by_one(const double* const* columns, whole n, const double* polynomials,
                                      const whole* place, const double* delta, double* epsilon) {
    const Goal goal = {polynomials, place[0], place[1], delta[0], delta[1], (int)place[2]};
    for (whole i = 0; i < n; i++)
        epsilon[i] = objective_epsilon(columns[0][i], columns[1][i], columns[2][i], columns[3][i], goal);
}

// The other direction alone, from epsilons that are given.
extern "C" void others_one_by_one(const double* const* columns, whole n, const double* polynomials, const whole* place,
                                  const double* delta, double* epsilon) {
    const Goal goal = {polynomials, place[0], place[1], delta[0], delta[1], (int)place[2]};
    for (whole i = 0; i < n; i++) {
        const Plane p = plane_of(columns[0][i], columns[1][i], columns[2][i], columns[3][i]);
        epsilon[i] = one_direction(exchanged(p), epsilon[i], epsilon[i], goal);
    }
}

#endif
