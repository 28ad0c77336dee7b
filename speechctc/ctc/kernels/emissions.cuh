// Helper warps bring the emissions of a chunk to shared memory while the lattice warps are busy with an earlier one.
// FUSED: they read logits, a chunk ahead of that, and turn them into probabilities of all classes. Else the rows
// kernel has done so, for the labels of the target only, and a copy is left to do.

#pragma once

#include "halves.cuh"

// HELPERS, a macro: warps. All together they hold a chunk of either direction.
#if !FUSED
constexpr int ROW_LANES = HELPERS * 32 / (2 * CHUNK);  // lanes to a frame
#endif
static_assert(HELPERS * 32 == 2 * CHUNK * ROW_LANES && ROW_LANES <= 32, "a row for every group of lanes");

struct Schedule {
    int alpha, beta;  // jobs (chunks) of each direction in the first half
    int jobs;         // in both halves
    int middle;       // the tick at which the second half begins

    DEVICE int first(int direction) const { return direction == 0 ? alpha : beta; }
};

// The job that a direction's first panel begins at a tick, or -1. Panel p begins it p ticks later.
DEVICE int job_at(const Schedule& s, int direction, int tick) {
    if (tick < 0) return -1;
    const int first = s.first(direction);
    if (tick < first) return tick;
    const int job = first + tick - s.middle;
    return GRADIENT && tick >= s.middle && job < s.jobs ? job : -1;
}

// The same for the emissions: the second half needs none where the first has left them all.
DEVICE int emissions_at(const Schedule& s, int direction, int tick) {
    const int job = job_at(s, direction, tick);
    return ALL_FRAMES && job >= s.first(direction) ? -1 : job;
}

// A helper's own row: one frame of a chunk, of one direction; ROW_LANES lanes share it.
struct Helper {
    int direction, frame, lane;
    real x[CLASSES_PER_LANE];
};

DEVICE int frame_of(const Block& b, const Helper& h, int job) {
    return (h.direction == 0 ? job : b.s.chunks - 1 - job) * CHUNK + h.frame;
}

DEVICE Number* helper_row(const Block& b, const Helper& h, int job) {
    if (ALL_FRAMES) return b.table + static_cast<long long>(frame_of(b, h, job)) * b.width;
    return b.table + static_cast<long long>((h.direction * RING + job % RING) * CHUNK + h.frame) * b.width;
}

DEVICE real row_max(real x) {
    for (int step = ROW_LANES / 2; step > 0; step /= 2) x = fmax(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

DEVICE real row_sum(real x) {
    for (int step = ROW_LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

// Two sums side by side, since each waits for its shuffles.
DEVICE void row_sums(real& x, real& y) {
    for (int step = ROW_LANES / 2; step > 0; step /= 2) {
        const real other_x = __shfl_xor_sync(ALL_LANES, x, step), other_y = __shfl_xor_sync(ALL_LANES, y, step);
        x += other_x;
        y += other_y;
    }
}

#if SPACIOUS

DEVICE void bring(const Block&, const Schedule&, Helper&, int) {}

#elif FUSED

// At a tick: probabilities for the job that begins at the next, then loads for the one after it.
DEVICE void bring(const Block& b, const Schedule& schedule, Helper& h, int tick) {
    int job = emissions_at(schedule, h.direction, tick + 1);
    if (__any_sync(ALL_LANES, job >= 0)) {
        real top = -infinity(), total = 0;
#pragma unroll
        for (int i = 0; i < CLASSES_PER_LANE; ++i) top = fmax(top, h.x[i]);
        top = row_max(top);
#pragma unroll
        for (int i = 0; i < CLASSES_PER_LANE; ++i) total += power_of_two((h.x[i] - top) * LOG2_E);
        const real inverse = 1 / row_sum(total);
        if (job >= 0) {
            Number* row = helper_row(b, h, job);
#pragma unroll
            for (int i = 0; i < CLASSES_PER_LANE; ++i)
                row[h.lane + i * ROW_LANES] = probability(h.x[i], top, inverse);
            if (h.lane == 0) row[b.dead_column] = at_rest(false);
        }
    }
    job = emissions_at(schedule, h.direction, tick + 2);
    const bool wanted = job >= 0 && frame_of(b, h, job) < b.s.frames;
    const logit* from = b.args.logits + b.s.in + (wanted ? frame_of(b, h, job) : 0) * b.args.logit_strides.frame;
    const int sure = wanted ? -1 : b.args.blank;  // logits of `at_rest`, in frames that fill up the last chunk
#pragma unroll
    for (int i = 0; i < CLASSES_PER_LANE; ++i) {
        const int label = h.lane + i * ROW_LANES;
        h.x[i] = label == sure ? real(0) : -infinity();
        if (wanted && label < b.args.classes) h.x[i] = to_real(from[label * b.args.logit_strides.label]);
    }
}

#else

// A copy of one number from global to shared memory that nobody waits for, until `wait_for_copies`.
DEVICE void copy_later(Number* to, const Number* from) {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(Number)) : "memory");
#else
    *to = *from;
#endif
}

// Waits for all copies but those of the last call.
DEVICE void wait_for_copies() {
#if !defined(EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// At a tick: copies for the job that begins in two ticks; those for the next one have arrived.
DEVICE void bring(const Block& b, const Schedule& schedule, Helper& h, int tick) {
    const int job = emissions_at(schedule, h.direction, tick + 2);
    if (job >= 0) {
        const Number* from = table_row(b.args, b.s, b.n) + static_cast<long long>(frame_of(b, h, job)) * b.width;
        Number* to = helper_row(b, h, job);
        for (int i = h.lane; i < b.width; i += ROW_LANES)
            if (BY_CLASS || i < b.s.labels || i >= b.blank_column) copy_later(to + i, from + i);
    }
    wait_for_copies();
}

#endif
