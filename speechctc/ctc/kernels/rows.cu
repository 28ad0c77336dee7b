// What can be done for every frame by itself, where classes are too many for the lattice's own block: logits to
// probabilities. A block of ROW_THREADS threads takes a row, and reads it once: it is kept in registers if ROW_VECTORS
// vectors a thread hold it, and else read again, from the L2 cache. Written are the emissions of the sample's own
// labels, and softmax as the gradient, in which the sweep replaces what belongs to labels.

#include "samples.cuh"

// Elements that are moved at once: 16 bytes where classes are contiguous, in logits and in the gradient.
constexpr int VECTOR = CONTIGUOUS ? 16 / sizeof(logit) : 1;
#if !defined(EMULATED) && __CUDA_ARCH__ < 900  // whose compilers spill where they are left 64 registers
constexpr int BLOCKS = ROW_THREADS == 32 ? 16 : ROW_THREADS > 512 ? 1 : 896 / ROW_THREADS;  // on a multiprocessor
#else
constexpr int BLOCKS = ROW_THREADS == 32 ? 16 : 1024 / ROW_THREADS;
#endif
constexpr int REACH = ROW_THREADS * ROW_VECTORS * VECTOR;

struct alignas(VECTOR * sizeof(logit)) Vector {
    logit x[VECTOR];
};

// What a thread holds of a row.
typedef real Held[ROW_VECTORS][VECTOR];

// A row of classes, dealt out to the threads by vectors. Vectors are aligned in memory, so the row may begin up to
// `lead` elements into the first one; what is read beside the row lies in the same 16 bytes as a class of it.
struct Row {
    const logit* in;
    long long stride;
    int classes, lead;

    DEVICE Row(const logit* from, long long step, int n) : in(from), stride(step), classes(n) {
        lead = lead_of(from);
    }
    static DEVICE int lead_of(const logit* p) {
        return static_cast<int>(reinterpret_cast<unsigned long long>(p) / sizeof(logit) % VECTOR);
    }
    // The class of the first element of the thread's v-th vector, in pass `pass` over the row.
    DEVICE int begin(int pass, int v) const {
        return pass * REACH + (v * ROW_THREADS + static_cast<int>(threadIdx.x)) * VECTOR - lead;
    }
    DEVICE bool has(long long k) const { return 0 <= k && k < classes; }

    DEVICE void read(int pass, Held& x) const {
        Vector raw[ROW_VECTORS];
        const Vector* from = reinterpret_cast<const Vector*>(in - lead) + pass * (REACH / VECTOR) + threadIdx.x;
#pragma unroll
        for (int v = 0; v < ROW_VECTORS; ++v)  // all loads before the first use
            if (begin(pass, v) < classes) raw[v] = CONTIGUOUS ? from[v * ROW_THREADS] : at(begin(pass, v));
#pragma unroll
        for (int v = 0; v < ROW_VECTORS; ++v)
#pragma unroll
            for (int j = 0; j < VECTOR; ++j)
                x[v][j] = has(begin(pass, v) + j) ? to_real(raw[v].x[j]) : -infinity();
    }
    DEVICE Vector at(long long k) const { return *reinterpret_cast<const Vector*>(in + k * stride); }

    DEVICE void write(int pass, const Held& x, logit* out, long long step) const {
        const bool aligned = CONTIGUOUS && lead_of(out) == lead;
        Vector* to = reinterpret_cast<Vector*>(out - lead) + pass * (REACH / VECTOR) + threadIdx.x;
#pragma unroll
        for (int v = 0; v < ROW_VECTORS; ++v) {
            const int first = begin(pass, v);
            Vector raw;
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) raw.x[j] = to_logit(x[v][j]);
            if (aligned && first >= 0 && first + VECTOR <= classes) {
                to[v * ROW_THREADS] = raw;
                continue;
            }
#pragma unroll
            for (int j = 0; j < VECTOR; ++j)
                if (has(first + j)) out[(first + j) * (CONTIGUOUS ? 1 : step)] = raw.x[j];
        }
    }
};

struct Largest {
    DEVICE real operator()(real a, real b) const { return fmax(a, b); }
};
struct Sum {
    DEVICE real operator()(real a, real b) const { return a + b; }
};

// Over the block, in the same order whatever the thread.
template <class Operation>
DEVICE real over_block(real x, Operation with) {
    __shared__ real parts[32];
    for (int step = 16; step > 0; step /= 2) x = with(x, __shfl_xor_sync(ALL_LANES, x, step));
    if (ROW_THREADS == 32) return x;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < ROW_THREADS / 32; ++i) x = with(x, parts[i]);
    __syncthreads();
    return x;
}

// The sample that a row of packed frames belongs to: the last one that begins at or before it.
DEVICE int sample_of(const Args& args, long long row) {
    int low = 0, high = args.samples;  // the answer lies in [low, high)
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (args.frame_offsets[middle] <= row) low = middle;
        else high = middle;
    }
    return low;
}

// The emissions of frame t of a sample; after the last frame also the rows that fill up its chunk.
DEVICE void leave_emissions(const Args& args, const Sample& s, int n, const Row& from, int t, real top, real inverse) {
    if (s.labels > args.longest) return;
    const int width = table_width(args), blank = blank_column(args);
    Number* to = table_row(args, s, n) + static_cast<long long>(t) * width;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) {
        if (!BY_CLASS && s.labels <= i && i < blank) continue;
        const long long k = i + 1 == width ? -1 : BY_CLASS ? i : i == blank ? args.blank : args.targets[s.start + i];
        to[i] = from.has(k) ? probability(to_real(from.in[k * from.stride]), top, inverse) : at_rest(false);
        for (int f = 1; t + 1 == s.frames && (t + f) % CHUNK; ++f) to[f * width + i] = at_rest(i == blank);
    }
}

// The greatest logit, and the sum of exp(logit - greatest). In one pass those terms are left in x.
DEVICE void normalise(const Row& from, int passes, Held& x, real& top, real& total) {
    top = -infinity();
    for (int pass = 0; pass < passes; ++pass) {
        from.read(pass, x);
#pragma unroll
        for (int i = 0; i < ROW_VECTORS * VECTOR; ++i) top = fmax(top, x[i / VECTOR][i % VECTOR]);
    }
    top = over_block(top, Largest());
    total = 0;
    for (int pass = 0; pass < passes; ++pass) {
        if (!ONCE) from.read(pass, x);
#pragma unroll
        for (int i = 0; i < ROW_VECTORS * VECTOR; ++i) {
            real& term = x[i / VECTOR][i % VECTOR];
            term = power_of_two((term - top) * LOG2_E);
            total += term;
        }
    }
    total = over_block(total, Sum());
}

// Softmax times the sample's weight, where the gradient is to be; the sweep sees to the columns of labels.
DEVICE void leave_softmax(const Row& from, int passes, Held& x, real top, real share, logit* out, long long step) {
    for (int pass = 0; pass < passes; ++pass) {
        if (!ONCE) from.read(pass, x);
#pragma unroll
        for (int i = 0; i < ROW_VECTORS * VECTOR; ++i) {
            real& term = x[i / VECTOR][i % VECTOR];
            term = (ONCE ? term : power_of_two((term - top) * LOG2_E)) * share;
        }
        from.write(pass, x, out, step);
    }
}

DEVICE void leave_zeros(const Row& from, int passes, Held& x, logit* out, long long step) {
#pragma unroll
    for (int i = 0; i < ROW_VECTORS * VECTOR; ++i) x[i / VECTOR][i % VECTOR] = 0;
    for (int pass = 0; pass < passes; ++pass) from.write(pass, x, out, step);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, BLOCKS) ctc_rows(const __grid_constant__ Args args) {
    const bool packed = args.frame_offsets != nullptr;
    const unsigned block = blockIdx.x, samples = args.samples;  // in the order of memory, frame after frame
    const int n = packed ? sample_of(args, block) : static_cast<int>(block % samples);
    const long long row = packed ? block : block / samples;
    Sample s;
    long long found;
    const Fault fault = read_sample(args, n, s, found);
    const long long t = packed ? row - args.frame_offsets[n] : row;
    const logit* in = args.logits + (packed ? 0 : s.in) + row * args.logit_strides.frame;
    const Row from(in, args.logit_strides.label, args.classes);
    logit* out = args.gradient + (packed ? 0 : s.out) + row * args.gradient_strides.frame;
    const int passes = ONCE ? 1 : (args.classes + from.lead + REACH - 1) / REACH;
    Held x;
    if (fault != SOUND || t < 0 || t >= s.frames) {
        if (GRADIENT) leave_zeros(from, passes, x, out, args.gradient_strides.label);
        return;
    }
    real top, total;
    normalise(from, passes, x, top, total);
    if (GRADIENT) leave_softmax(from, passes, x, top, weight_of(args, s, n) / total, out, args.gradient_strides.label);
    leave_emissions(args, s, n, from, static_cast<int>(t), top, 1 / total);
}
