// A kernel and the door to it.

#include "cuda_on_cpu.h"
#include KERNEL_FILE

extern "C" void entry(const void* bytes) {
    Args args;
    memcpy(&args, bytes, sizeof(args));
    KERNEL(args);
}
