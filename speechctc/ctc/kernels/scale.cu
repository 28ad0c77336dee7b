// The gradient times the derivative by the loss. Most often that is 1, which only the device knows: then the blocks
// find nothing to do.

#include "logits.cuh"

struct Args {
    logit* gradient;
    long long count;
    const real* by;
};

extern "C" __global__ void __launch_bounds__(256) ctc_scale(const __grid_constant__ Args s) {
    const real by = *s.by;
    if (by == 1) return;
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < s.count; i += stride)
        s.gradient[i] = to_logit(to_real(s.gradient[i]) * by);
}
