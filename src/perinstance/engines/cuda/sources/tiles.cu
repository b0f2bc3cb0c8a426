// Products of tiles, and copies into shared memory, for the kernels of many people.
//
// A warp works on tiles of 16 x 8 with fused multiply-adds of float64 (mma m16n8k8): lane l = 4 g + k holds
// of A the entries (g, k), (g + 8, k), (g, k + 4), (g + 8, k + 4), of B (k, g), (k + 4, g), and of the sum
// (g, 2 k), (g, 2 k + 1), (g + 8, 2 k), (g + 8, 2 k + 1).

__device__ __forceinline__ void multiply_add(double (&c)[4], double a0, double a1, double a2, double a3, double b0,
                                             double b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b0), "d"(b1));
}

// Bytes from the device's memory straight into shared memory; those beyond the first are zeros.
__device__ __forceinline__ void copy_16(double* to, const double* from, int bytes) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(there), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy_8(double* to, const double* from, int bytes) {
    const unsigned there = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(there), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copies_begun() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int LEFT>
__device__ __forceinline__ void copies_done() {  // all but the last LEFT groups
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
