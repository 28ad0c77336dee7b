// What a launch is given, and one sample of it. Nothing here trusts a length, an offset or a label.

#pragma once

#include "logits.cuh"

// CHUNK, a macro: frames between two barriers, and between two kept states.

// Two neighbouring states of the lattice: state 2i, a blank, and state 2i + 1, label i.
struct alignas(4 * sizeof(real)) Pair {
    Number blank, label;
};

struct Strides {  // in elements
    long long frame, sample, label;
};

// Packed by speechctc/ctc/cuda_plan.py, field by field. A "place" is where a buffer begins: so many bytes into the
// workspace; or, where it is below zero, -1 - place bytes into shared memory.
struct Args {
    const logit* logits;
    logit* gradient;
    real* losses;    // of the samples
    real* loss;      // or null: their sum or, with `mean`, their mean
    const real* by;  // the derivative by the loss of sample n is by[n * by_stride]; or null: ones
    const long long *input_lengths, *frame_offsets, *targets;
    const long long* target_offsets;  // or null: labels of sample n begin at n * target_stride
    const long long* target_lengths;
    unsigned long long* fault;  // in host memory, for `report`
    unsigned* ticket;           // how many samples have left their loss; 0 before a launch and after it
    char* workspace;
    Strides logit_strides, gradient_strides;
    long long rows;    // frames of the tensor: T padded, F packed
    long long labels;  // elements of targets
    long long target_stride, by_stride;
    long long emissions, checkpoints, alpha_edges, beta_edges, posteriors, sorted, table, first, history;  // places
    int samples, classes, blank;
    int longest;  // labels that the buffers have room for; a longer target has no path
    int mean, zero_infinity;
    double scale;  // of losses and gradients
};
static_assert(sizeof(Args) == ARGS_BYTES, "cuda_plan.py packs another layout");

enum Fault { SOUND, INPUT_LENGTH, TARGET_LENGTH, FRAME_OFFSET, TARGET_OFFSET, LABEL };

struct Sample {
    int frames, labels;
    int panels;           // warps' worth of states: a panel is 32 * PAIRS pairs
    int chunks, half;     // chunks [0, half) are alpha's first, [half, chunks) beta's
    long long row;        // of its first frame, counted over the whole batch
    long long capacity;   // rows of the tensor that are its own: frames and padding
    long long start;      // of its labels in targets
    long long in, out;    // elements to its first frame in logits and in gradient
};

// Two words: what is wrong (4 bits), the sample (28) and the value found (32); and the number of classes, which the host
// finds there when it finds the first.
DEVICE void report(const Args& args, int n, Fault fault, long long found) {
    if (args.fault[0] != 0) return;
    const long long limit = 0x7fffffff;
    const long long value = found < -limit ? -limit : found > limit ? limit : found;
    args.fault[1] = static_cast<unsigned long long>(args.classes);
    __threadfence_system();
    args.fault[0] = static_cast<unsigned long long>(fault) << 60 | static_cast<unsigned long long>(n) << 32 |
                    (static_cast<unsigned long long>(value) & 0xffffffffu);
}

// Sample n as far as it can be trusted; a length or offset that leads outside comes back as a fault, and the value.
DEVICE Fault read_sample(const Args& args, int n, Sample& s, long long& found) {
    const bool packed = args.frame_offsets != nullptr;
    const long long frames = args.input_lengths[n], labels = args.target_lengths[n];
    const long long first = packed ? args.frame_offsets[n] : 0;
    const long long next = packed && n + 1 < args.samples ? args.frame_offsets[n + 1] : args.rows;
    const bool inside = 0 <= first && first <= next && next <= args.rows;
    s.capacity = inside ? next - first : 0;
    s.row = packed ? (inside ? first : 0) : n * args.rows;
    s.in = packed ? s.row * args.logit_strides.frame : n * args.logit_strides.sample;
    s.out = packed ? s.row * args.gradient_strides.frame : n * args.gradient_strides.sample;
    s.start = args.target_offsets ? args.target_offsets[n] : n * args.target_stride;
    s.frames = s.labels = 0;
    found = frames;
    if (frames < 0 || frames > args.rows) return INPUT_LENGTH;
    if (!inside || frames > s.capacity) return FRAME_OFFSET;
    found = labels;
    const long long most = args.target_offsets ? args.labels : args.target_stride;
    if (labels < 0 || labels > most) return TARGET_LENGTH;
    if (s.start < 0 || s.start > args.labels - labels) return TARGET_OFFSET;
    s.frames = static_cast<int>(frames);
    s.labels = static_cast<int>(labels);
    return SOUND;
}

// Rows of all samples, in the order of `Sample::row`.
DEVICE long long rows_in_all(const Args& args) {
    return args.frame_offsets ? args.rows : args.samples * args.rows;
}

// The last chunk is filled up with frames in which only the blank can be, with certainty. A path then rests in the
// blank it has reached, and only the last one leads to the end: the loss is the same, and no chunk is shorter.
DEVICE Number at_rest(bool blank) { return blank ? one() : Number{1, IMPOSSIBLE}; }

// A row of the table of emissions has a column for every class, or, where those are more, for every label of the
// target and the blank; and one more, for what cannot be. FUSED, columns of no class make it as wide as the helpers'
// reach, so that every lane stores whatever it has.
#if FUSED
constexpr int ROW_LANES = HELPERS * 32 / (2 * CHUNK);  // lanes of the helpers to a frame
constexpr int TABLE_WIDTH = ROW_LANES * CLASSES_PER_LANE + 1;
#endif
DEVICE int table_width(const Args& args) {
#if FUSED
    return TABLE_WIDTH;
#else
    return BY_CLASS ? args.classes + 1 : args.longest + 2;
#endif
}
DEVICE int blank_column(const Args& args) { return BY_CLASS ? args.blank : args.longest; }

// The row of a sample's first frame, in the workspace; there is room for the last chunk to be filled up.
DEVICE Number* table_row(const Args& args, const Sample& s, int n) {
    const long long row = s.row + CHUNK * static_cast<long long>(n);
    return reinterpret_cast<Number*>(args.workspace + args.emissions) + row * table_width(args);
}

DEVICE bool is_label(const Args& args, long long label) {
    return 0 <= label && label < args.classes && label != args.blank;
}

// The share of a sample in the reduced loss: in the mean 1 / (samples * its labels), at least one label.
DEVICE real share_of(const Args& args, long long labels) {
    if (!args.mean) return 1;
    return real(1) / (static_cast<real>(labels > 1 ? labels : 1) * static_cast<real>(args.samples));
}

// What the gradient of a sample is multiplied by.
DEVICE real weight_of(const Args& args, const Sample& s, int n) {
    return share_of(args, s.labels) * static_cast<real>(args.scale) * (args.by ? args.by[n * args.by_stride] : real(1));
}

// Leaves the loss of a sample. The last sample to do so adds up all of them, in the order of samples: which one that is
// changes from run to run, the sum does not. One warp. Not inlined, which costs the lattice's warps registers.
static __device__ __noinline__ void leave_loss(const Args& args, int n, real loss) {
    const int lane = threadIdx.x & 31;
    if (lane == 0) args.losses[n] = loss * static_cast<real>(args.scale);
    if (args.loss == nullptr) return;
    unsigned before = 0;
    const unsigned others = static_cast<unsigned>(args.samples) - 1;
    if (lane == 0) {
        __threadfence();
        before = atomicInc(args.ticket, others);  // back to 0 after the last one
    }
    if (__shfl_sync(ALL_LANES, before, 0) != others) return;
    __syncwarp();  // a shuffle hands over values, but orders no memory
    __threadfence();
    const volatile real* losses = args.losses;
    double total = 0;
#pragma unroll 1
    for (int i = lane; i < args.samples; i += 32)
        total += static_cast<double>(losses[i]) * share_of(args, args.target_lengths[i]);
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(ALL_LANES, total, step);
    if (lane == 0) *args.loss = static_cast<real>(total);
}
