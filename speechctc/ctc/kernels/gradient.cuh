// From posteriors to the gradient, by the helper warps, a chunk behind the last panel: softmax minus posterior.
// The states of one label are added in the order of their positions, which are sorted once; the blank's apart.
// Posteriors are divided by their own sum over the frame rather than by Z: what rounding does to all states of a
// frame alike drops out.

#pragma once

#include "emissions.cuh"

// The sample's, at the beginning of shared memory: no register is kept for it. Nothing here is `__shared__` of a fixed
// size, since a launch may ask for all that a block can have.
DEVICE real& weight() { return *reinterpret_cast<real*>(shared_memory()); }

// The same gradient throughout some of the sample's rows: 0 in padding, and where there is no path. All threads.
DEVICE void fill_rows(const Block& b, long long begin, long long end, real value) {
    if (!GRADIENT) return;
    const Strides& strides = b.args.gradient_strides;
    for (long long t = begin + threadIdx.x / 32; t < end; t += blockDim.x / 32)
        for (int k = lane_id(); k < b.args.classes; k += 32)
            b.args.gradient[b.s.out + t * strides.frame + k * strides.label] = to_logit(value);
}

// The end of the rows that `fill_rows` must see to: the rows kernel has been in the padding.
DEVICE long long rows_to_fill(const Sample& s) { return FUSED ? s.capacity : s.frames; }

// Where the posterior of each position goes, so that those of one label lie together, in the order of positions: its
// rank is the number of positions that come before it. All threads.
DEVICE void sort_labels(const Block& b) {
    const int labels = b.s.labels;
    for (int i = threadIdx.x; i < labels; i += blockDim.x) {
        const int label = b.labels[i];
        int rank = 0;
        for (int j = 0; j < labels; ++j) rank += b.labels[j] < label || (b.labels[j] == label && j < i);
        b.rank[i] = rank;
        b.sorted[rank] = label;
        b.columns[rank] = BY_CLASS ? label : i;
    }
#if FUSED
    for (int k = threadIdx.x; k <= b.args.classes; k += blockDim.x) {
        int before = 0;
        for (int j = 0; j < labels; ++j) before += b.labels[j] < k;
        b.first[k] = before;
    }
#endif
}

#if FUSED

// Labels of each class whose posteriors are loaded side by side.
constexpr int AT_ONCE = CLASSES_PER_LANE <= 4 ? 4 : 2;

// Adds the posteriors of each class of the lane, the blank's apart. The lane's classes go side by side, since each waits for its loads.
DEVICE void add_by_class(const Block& b, int lane, const real* posteriors, real (&posterior)[CLASSES_PER_LANE]) {
    int next[CLASSES_PER_LANE], end[CLASSES_PER_LANE];
    bool more = true;
#pragma unroll
    for (int i = 0; i < CLASSES_PER_LANE; ++i) {
        const int in = min(lane + i * ROW_LANES, b.args.classes - 1);
        next[i] = b.first[in];
        end[i] = b.first[in + 1];
    }
    while (more) {
        real loaded[CLASSES_PER_LANE][AT_ONCE];
#pragma unroll
        for (int i = 0; i < CLASSES_PER_LANE; ++i)
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) loaded[i][j] = next[i] + j < end[i] ? posteriors[next[i] + j] : real(0);
        more = false;
#pragma unroll
        for (int i = 0; i < CLASSES_PER_LANE; ++i) {
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j) posterior[i] += loaded[i][j];
            next[i] += AT_ONCE;
            more |= next[i] < end[i];
        }
    }
}

// One frame, the whole row of the gradient, by the ROW_LANES lanes of a row; `job` is -1 where there is none.
DEVICE void leave_gradient(const Block& b, const Helper& h, int job) {
    const bool mine = job >= 0 && frame_of(b, h, job) < b.s.frames;
    const int parts = mine ? 32 * b.s.panels : 0;
    const real* posteriors = posteriors_of(b, h.direction, mine ? job : 0) + h.frame * b.posterior_width;
    const real* blanks = posteriors + b.args.longest + 1;
    real posterior[CLASSES_PER_LANE] = {}, blank = 0, all = 0;
#pragma unroll 4  // four loads under way at a time
    for (int i = h.lane; i < parts; i += ROW_LANES) blank += blanks[i];
    if (mine) add_by_class(b, h.lane, posteriors, posterior);
#pragma unroll
    for (int i = 0; i < CLASSES_PER_LANE; ++i) all += h.lane + i * ROW_LANES < b.args.classes ? posterior[i] : real(0);
    row_sums(blank, all);
    if (!mine) return;
    const real w = weight(), share = w / (all + blank);
    const Number* emissions = helper_row(b, h, job);
    logit* row = b.args.gradient + b.s.out + static_cast<long long>(frame_of(b, h, job)) * b.args.gradient_strides.frame;
#pragma unroll
    for (int i = 0; i < CLASSES_PER_LANE; ++i) {
        const int k = h.lane + i * ROW_LANES;
        const real of_class = k == b.args.blank ? blank : posterior[i];
        if (k < b.args.classes) row[k * b.args.gradient_strides.label] = to_logit(value(emissions[k]) * w - of_class * share);
    }
}

#else

// One frame, the columns of the target's labels and of the blank, by the ROW_LANES lanes of a row; the others are as the
// rows kernel left them. `job` is -1 where there is none.
DEVICE void leave_gradient(const Block& b, const Helper& h, int job) {
    const bool mine = job >= 0 && frame_of(b, h, job) < b.s.frames;
    const int labels = mine ? b.s.labels : 0, parts = mine ? 32 * b.s.panels : 0;
    const real* posteriors = posteriors_of(b, h.direction, mine ? job : 0) + h.frame * b.posterior_width;
    const real* blanks = posteriors + b.args.longest + 1;
    real all = 0, blank = 0;
#pragma unroll 4  // four loads under way at a time
    for (int i = h.lane; i < labels; i += ROW_LANES) all += posteriors[i];
#pragma unroll 4
    for (int i = h.lane; i < parts; i += ROW_LANES) blank += blanks[i];
    row_sums(blank, all);
    if (!mine) return;
    const real w = weight(), share = w / (all + blank);
    const Number* emissions = helper_row(b, h, job);
    logit* row = b.args.gradient + b.s.out + static_cast<long long>(frame_of(b, h, job)) * b.args.gradient_strides.frame;
    const long long stride = b.args.gradient_strides.label;
    for (int r = h.lane; r < labels; r += ROW_LANES) {
        const int label = b.sorted[r];
        if (r > 0 && b.sorted[r - 1] == label) continue;
        real posterior = 0;
        for (int q = r; q < labels && b.sorted[q] == label; ++q) posterior += posteriors[q];
        row[label * stride] = to_logit(value(emissions[b.columns[r]]) * w - posterior * share);
    }
    if (h.lane == 0) row[b.args.blank * stride] = to_logit(value(emissions[b.blank_column]) * w - blank * share);
}

#endif
