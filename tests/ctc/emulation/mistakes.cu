// Kernels right and wrong, to see that the emulation tells them apart.

struct Args {
    int* result;
};

// The sum of all thread numbers, by lanes, then by warps.
extern "C" __global__ void ctc_mistakes(Args args) {
    __shared__ int parts[32];
    int x = threadIdx.x;
#if MISTAKE == 1  // half of each warp stays away from the shuffles
    if (threadIdx.x % 32 < 16)
#endif
        for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
#if MISTAKE == 2  // one warp stays away from the barrier
    if (threadIdx.x >= 32)
#endif
#if MISTAKE != 3  // no barrier: what warps left before is read
        __syncthreads();
#endif
    if (threadIdx.x == 0) {
        int sum = 0;
        for (unsigned i = 0; i < blockDim.x / 32; ++i) sum += parts[i];
        args.result[blockIdx.x] = sum;
    }
#if MISTAKE == 4  // past the end, in the page behind it
    args.result[gridDim.x + 16] = 1;
#endif
}
