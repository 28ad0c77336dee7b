// Extended-range numbers: m * 2**e, m a float of about 1, e an int. Nothing in the lattice underflows, and no exp or
// log is taken inside the recursion.
//
// Mantissas are brought back to [1, 2) once in a chunk of CHUNK frames. In between they only grow, by a factor of at
// most 3 (states that meet) times 2 (the emission) a frame: 2 * 6**8 = 2**21.7, far from overflow, and an addition
// aligned on the larger exponent loses only terms below 2**(22 - 126) of the sum.

#pragma once

#define DEVICE __device__ __forceinline__

#ifndef EMULATED  // the emulation in the tests brings its own
#define SHARED_MEMORY(name) extern __shared__ __align__(32) char name[]
#endif

DEVICE char* shared_memory() {  // of the size that a launch asks for
    SHARED_MEMORY(shared);
    return shared;
}

#if LOGIT_TYPE == 3  // float64
typedef double real;
typedef long long real_bits;
constexpr int MANTISSA_BITS = 52, BIAS = 1023;
constexpr real LOG2_E = 1.4426950408889634, LOG2_E_REST = 2.0355273740931033e-17;
DEVICE real from_bits(real_bits bits) { return __longlong_as_double(bits); }
DEVICE real_bits to_bits(real x) { return __double_as_longlong(x); }
DEVICE real power_of_two(real x) { return exp2(x); }
DEVICE int to_int(real x) { return __double2int_rn(x); }
DEVICE real rounded_product(real a, real b) { return __dmul_rn(a, b); }
#else
typedef float real;
typedef int real_bits;
constexpr int MANTISSA_BITS = 23, BIAS = 127;
constexpr real LOG2_E = 1.44269502f, LOG2_E_REST = 1.92596299e-8f;
DEVICE real from_bits(real_bits bits) { return __int_as_float(bits); }
DEVICE real_bits to_bits(real x) { return __float_as_int(x); }
#ifdef EMULATED
DEVICE real power_of_two(real x) { return exp2f(x); }
#else
DEVICE real power_of_two(real x) {
    real y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
DEVICE int to_int(real x) { return __float2int_rn(x); }
DEVICE real rounded_product(real a, real b) { return __fmul_rn(a, b); }
#endif

// Zero is 1 * 2**NOTHING: no mantissa is ever 0, so no step needs a branch. The three bounds leave room in an int
// for a chunk of emissions on top of a state, and for alpha * beta / Z. A log2-probability below LOST counts as
// impossible, a class whose log2-probability is below IMPOSSIBLE as one that cannot be.
constexpr int NOTHING = -(1 << 28), IMPOSSIBLE = -(1 << 26), LOST = -(1 << 25);

DEVICE real infinity() { return from_bits(static_cast<real_bits>(2 * BIAS + 1) << MANTISSA_BITS); }

struct alignas(2 * sizeof(real)) Number {
    real m;
    int e;
};

DEVICE Number nothing() { return {1, NOTHING}; }
DEVICE Number one() { return {1, 0}; }

DEVICE real value(Number a) {
    return a.m * from_bits(static_cast<real_bits>(max(a.e + BIAS, 0)) << MANTISSA_BITS);
}

DEVICE Number product(Number a, Number b) { return {a.m * b.m, a.e + b.e}; }

// m * 2**(e - base), by an addition to the bits of the float. Where that is too small for one, the smallest power of
// two comes in its stead: beside the 1 or more that it is added to, neither counts.
DEVICE real aligned(real m, int e, int base) {
    return from_bits(to_bits(m) + __viaddmax_s32(e, -base, 1 - BIAS) * (static_cast<real_bits>(1) << MANTISSA_BITS));
}

DEVICE Number sum(Number a, Number b) {
    const int e = max(a.e, b.e);
    return {aligned(a.m, a.e, e) + aligned(b.m, b.e, e), e};
}

// a + b + c * 2**bar
DEVICE Number sum(Number a, Number b, Number c, int bar) {
    const int e = __viaddmax_s32(c.e, bar, max(a.e, b.e));
    return {aligned(a.m, a.e, e) + aligned(b.m, b.e, e) + aligned(c.m, c.e, e - bar), e};
}

// The same number with m in [1, 2), and e at least so much; NaN stays NaN. Without a branch: a lane normalises several
// numbers side by side.
DEVICE Number normalised(Number a, int least = NOTHING) {
    const real_bits bits = to_bits(a.m);
    const int field = static_cast<int>(bits >> MANTISSA_BITS) & (2 * BIAS + 1);
    const real_bits fraction = bits & ((static_cast<real_bits>(1) << MANTISSA_BITS) - 1);
    const real m = from_bits(fraction | (static_cast<real_bits>(BIAS) << MANTISSA_BITS));
    return {field == 2 * BIAS + 1 ? a.m : m, max(a.e + field - BIAS, least)};
}

// exp(x - top) / total, of a class with logit x; without a branch, since classes are computed side by side. The
// difference of two floats, and its product with log2(e), are carried in two floats each: at x - top = -300 one alone
// would be off by 3e-5 of the probability. `low` holds the rounding error of `high`, which must therefore be rounded: no
// compiler may fuse that product with the difference that takes it. A class that cannot be takes its mantissa from `inverse_total`, which is NaN
// where the frame has no softmax.
DEVICE Number probability(real x, real top, real inverse_total) {
    const real difference = x - top, back = difference - x;
    const real rest = (x - (difference - back)) - (top + back);
    const real high = rounded_product(difference, LOG2_E);
    const real low = fma(difference, LOG2_E, -high) + fma(difference, LOG2_E_REST, rest * LOG2_E);
    const real whole = rint(high);
    const bool possible = !(high < IMPOSSIBLE);
    const real power = possible ? power_of_two((high - whole) + low) : real(1);
    const Number p = normalised({power * inverse_total, to_int(whole)}, IMPOSSIBLE);
    return {p.m, possible ? p.e : IMPOSSIBLE};
}

constexpr unsigned ALL_LANES = 0xffffffffu;

DEVICE Number from_lane_below(Number a) {
    return {__shfl_up_sync(ALL_LANES, a.m, 1), __shfl_up_sync(ALL_LANES, a.e, 1)};
}

DEVICE Number from_lane_above(Number a) {
    return {__shfl_down_sync(ALL_LANES, a.m, 1), __shfl_down_sync(ALL_LANES, a.e, 1)};
}

DEVICE Number from_lane(Number a, int lane) {
    return {__shfl_sync(ALL_LANES, a.m, lane), __shfl_sync(ALL_LANES, a.e, lane)};
}

// The sum over a warp, in all its lanes, in the same order whatever the lane.
DEVICE Number warp_sum(Number a) {
    for (int step = 16; step > 0; step /= 2) {
        a = normalised(a);
        const Number b = {__shfl_xor_sync(ALL_LANES, a.m, step), __shfl_xor_sync(ALL_LANES, a.e, step)};
        a = sum(a, b);
    }
    return normalised(a);
}
