// The gradient times the derivative by the loss. Most often that is 1, which only the device knows: then the blocks
// find nothing to do.

#include "logits.cuh"

struct Args {
    logit* gradient;  // aligned to 16 bytes
    long long count;
    const real* by;
};

constexpr int VECTOR = 16 / sizeof(logit);

struct alignas(16) Vector {
    logit x[VECTOR];
};

extern "C" __global__ void __launch_bounds__(256) ctc_scale(const __grid_constant__ Args s) {
    const real by = *s.by;
    if (by == 1) return;
    const long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    Vector* vectors = reinterpret_cast<Vector*>(s.gradient);
    for (long long i = thread; i < s.count / VECTOR; i += stride) {
        Vector v = vectors[i];
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) v.x[j] = to_logit(to_real(v.x[j]) * by);
        vectors[i] = v;
    }
    const long long rest = s.count / VECTOR * VECTOR + thread;
    if (rest < s.count) s.gradient[rest] = to_logit(to_real(s.gradient[rest]) * by);
}
