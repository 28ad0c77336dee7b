// Logits and gradients in memory, by LOGIT_TYPE. No header of CUDA's is needed for the two short types.

#pragma once

#include "numbers.cuh"

#if LOGIT_TYPE == 3  // float64
typedef double logit;
DEVICE real to_real(logit x) { return x; }
DEVICE logit to_logit(real x) { return x; }
#elif LOGIT_TYPE == 2  // float16
typedef unsigned short logit;
#ifdef EMULATED
DEVICE real to_real(logit x) { return emulated::half_to_float(x); }
DEVICE logit to_logit(real x) { return emulated::float_to_half(x); }
#else
DEVICE real to_real(logit x) {
    real y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
DEVICE logit to_logit(real x) {
    logit y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#endif
#elif LOGIT_TYPE == 1  // bfloat16
typedef unsigned short logit;
DEVICE real to_real(logit x) { return from_bits(static_cast<int>(static_cast<unsigned>(x) << 16)); }
DEVICE logit to_logit(real x) {  // to the nearest, ties to even
    const unsigned bits = static_cast<unsigned>(to_bits(x));
    if (x != x) return static_cast<logit>((bits >> 16) | 0x40);
    return static_cast<logit>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#else  // float32
typedef float logit;
DEVICE real to_real(logit x) { return x; }
DEVICE logit to_logit(real x) { return x; }
#endif
