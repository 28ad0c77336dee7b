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

// The whole row of the gradient: CLASSES_PER_LANE classes to a lane, side by side, since each waits for its loads.
DEVICE void leave_row(const Block& b, int lane, const real* posteriors, real blank, real share,
                      const Number* emissions, logit* row) {
    real posterior[CLASSES_PER_LANE];
    int next[CLASSES_PER_LANE], end[CLASSES_PER_LANE];
    bool more = true;
#pragma unroll
    for (int i = 0; i < CLASSES_PER_LANE; ++i) {
        const int k = lane + i * ROW_LANES, in = min(k, b.args.classes - 1);
        posterior[i] = k == b.args.blank ? blank : 0;
        next[i] = b.first[in];
        end[i] = b.first[in + 1];
    }
    while (more) {
        more = false;
#pragma unroll
        for (int i = 0; i < CLASSES_PER_LANE; ++i) {
            if (next[i] < end[i]) posterior[i] += posteriors[next[i]];
            more |= ++next[i] < end[i];
        }
    }
    const real w = weight();
#pragma unroll
    for (int i = 0; i < CLASSES_PER_LANE; ++i) {
        const int k = lane + i * ROW_LANES;
        if (k < b.args.classes)
            row[k * b.args.gradient_strides.label] = to_logit(value(emissions[k]) * w - posterior[i] * share);
    }
}

#else

// The columns of the target's labels and of the blank; the others are as the rows kernel left them.
DEVICE void leave_row(const Block& b, int lane, const real* posteriors, real blank, real share,
                      const Number* emissions, logit* row) {
    const long long stride = b.args.gradient_strides.label;
    const real w = weight();
    for (int r = lane; r < b.s.labels; r += ROW_LANES) {
        const int label = b.sorted[r];
        if (r > 0 && b.sorted[r - 1] == label) continue;
        real posterior = 0;
        for (int q = r; q < b.s.labels && b.sorted[q] == label; ++q) posterior += posteriors[q];
        row[label * stride] = to_logit(value(emissions[b.columns[r]]) * w - posterior * share);
    }
    if (lane == 0) row[b.args.blank * stride] = to_logit(value(emissions[b.blank_column]) * w - blank * share);
}

#endif

// One frame, by the ROW_LANES lanes of a row; `job` is -1 where there is none.
DEVICE void leave_gradient(const Block& b, const Helper& h, int job) {
    const bool mine = job >= 0 && frame_of(b, h, job) < b.s.frames;
    const int labels = mine ? b.s.labels : 0, parts = mine ? 32 * b.s.panels : 0;
    const real* posteriors = posteriors_of(b, h.direction, mine ? job : 0) + h.frame * b.posterior_width;
    const real* blanks = posteriors + b.args.longest + 1;
    real sum_of_labels = 0, blank = 0;
#pragma unroll 4  // four loads under way at a time
    for (int i = h.lane; i < labels; i += ROW_LANES) sum_of_labels += posteriors[i];
#pragma unroll 4
    for (int i = h.lane; i < parts; i += ROW_LANES) blank += blanks[i];
    blank = row_sum(blank);
    const real share = weight() / (row_sum(sum_of_labels) + blank);
    if (!mine) return;
    const long long t = frame_of(b, h, job);
    leave_row(b, h.lane, posteriors, blank, share, helper_row(b, h, job),
              b.args.gradient + b.s.out + t * b.args.gradient_strides.frame);
}
