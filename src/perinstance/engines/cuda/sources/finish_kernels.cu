// What is done with leverages and predictions, or with the image of rows that a library made.

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
