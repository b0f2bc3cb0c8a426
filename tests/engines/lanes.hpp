// CUDA's lanes on a processor: each is a context that runs until the next operation of its whole warp.

#include <ucontext.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __shared__
#define __launch_bounds__(...)
#define INLINE static inline

struct double2 { double x, y; };
struct Index { unsigned x; };
static Index threadIdx, blockIdx, gridDim, blockDim;
alignas(16) double2 shared[1 << 14];

struct Lane { ucontext_t context; std::vector<char> stack; bool done; double given[6]; };
static std::vector<Lane> lanes;
static ucontext_t scheduler;
static unsigned running;
static std::function<void()> body;

static void together() {  // let all others come here
    const unsigned me = running;
    swapcontext(&lanes[me].context, &scheduler);
    threadIdx.x = running = me;
}
static void begin() {
    body();
    lanes[running].done = true;
    swapcontext(&lanes[running].context, &scheduler);
}
static double* of_lane(int lane) { return lanes[(running & ~31u) + lane].given; }

static void launch(int blocks, int threads, std::function<void()> work) {
    body = work, gridDim.x = blocks, blockDim.x = threads;
    if (lanes.size() < (size_t)threads) lanes.resize(threads);
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
        std::memset(shared, 0xff, sizeof shared);  // NaN
        for (int i = 0; i < threads; i++) {
            lanes[i].stack.resize(1 << 16), lanes[i].done = false;
            getcontext(&lanes[i].context);
            lanes[i].context.uc_stack.ss_sp = lanes[i].stack.data();
            lanes[i].context.uc_stack.ss_size = lanes[i].stack.size();
            makecontext(&lanes[i].context, begin, 0);
        }
        for (bool more = true; more;) {
            more = false;
            for (int i = 0; i < threads; i++) {
                if (lanes[i].done) continue;
                threadIdx.x = running = i;
                swapcontext(&scheduler, &lanes[i].context);
                more |= !lanes[i].done;
            }
        }
    }
}

static void __syncwarp() { together(); }
static void __syncthreads() { together(); }
static double __ldg(const double* at) { return *at; }
static double __shfl_xor_sync(unsigned, double value, int across) {
    of_lane(running & 31)[0] = value;
    together();
    const double other = of_lane((running & 31) ^ across)[0];
    together();
    return other;
}
static void multiply_add(double (&c)[4], double a0, double a1, double a2, double a3, double b0, double b1) {
    const double mine[6] = {a0, a1, a2, a3, b0, b1};
    std::memcpy(of_lane(running & 31), mine, sizeof mine);
    together();
    const int g = (running & 31) >> 2, k = running & 3;
    for (int e = 0; e < 4; e++)
        for (int i = 0; i < 8; i++)  // of A row g or g + 8, of B column 2 k or 2 k + 1
            c[e] = std::fma(of_lane(4 * g + i % 4)[(e >> 1) + 2 * (i / 4)],
                            of_lane(4 * (2 * k + (e & 1)) + i % 4)[4 + i / 4], c[e]);
    together();
}
static void copy_bytes(double* to, const double* from, int bytes, int all) {
    std::memset(to, 0, all);
    std::memcpy(to, from, bytes);
}
static void copy_16(double* to, const double* from, int bytes) { copy_bytes(to, from, bytes, 16); }
static void copies_begun() {}
static void copies_done() {}
