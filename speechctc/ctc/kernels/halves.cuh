// A chunk of the lattice, in the first half and in the second.

#pragma once

#include "lattice.cuh"

// The rows of the table for a direction's j-th chunk.
template <bool FORWARD>
DEVICE const Number* rows_of(const Block& b, int job, int chunk) {
    if (ALL_FRAMES) return b.table + static_cast<long long>(chunk) * CHUNK * b.width;
    return b.table + static_cast<long long>((FORWARD ? 0 : RING) + job % RING) * CHUNK * b.width;
}

template <bool FORWARD>
DEVICE int chunk_of(const Sample& s, int job) {
    return FORWARD ? job : s.chunks - 1 - job;
}

// The states of the lane at the first frame of a chunk in the order of the direction. A lane beyond the last pair
// reads what is there: its own states are nothing, and so is every product with them.
template <bool FORWARD>
DEVICE Pair* history_at(const Block& b, const Lane& lane, int chunk) {
    if constexpr (!HISTORY) return nullptr;
    const int t = chunk * CHUNK + (FORWARD ? 0 : CHUNK - 1);
    return b.history + t * (b.args.longest + 1) + min(lane.pair, b.s.labels);
}

// A chunk of the first half: sweep it, and keep what the other direction will need of it.
template <bool FORWARD>
DEVICE void sweep(const Block& b, Lane& lane, int panel, int job) {
    const int chunk = chunk_of<FORWARD>(b.s, job);
    if (SPACIOUS) load(b, lane.state, lane.pair, boundary<FORWARD>(chunk));
    Pair* past = history_at<FORWARD>(b, lane, chunk);
    const Edge<FORWARD> edge(b, panel, chunk * CHUNK);
    walk<FORWARD>(
        b, lane, lane.state, edge.take(), rows_of<FORWARD>(b, job, chunk),
        [&](int) {
            if constexpr (HISTORY) {
#pragma unroll
                for (int i = 0; i < PAIRS; ++i)
                    if (lane.pair + i <= b.s.labels) past[i] = lane.state[i];
                past += FORWARD ? b.args.longest + 1 : -(b.args.longest + 1);
            }
        },
        [&](int f) { edge.give(f, lane.state); });
#pragma unroll
    for (int i = 0; i < PAIRS; ++i)
        lane.state[i] = {normalised(lane.state[i].blank), normalised(lane.state[i].label)};
    const int next = chunk + 1;  // alpha enters chunk + 1, beta chunk - 1: the same number by `boundary`
    if (!SPARSE || next == b.s.half + (FORWARD ? 0 : 1)) save(b, lane, next);
}

// The rows for the posteriors of a direction's j-th chunk: one is read while the panels write the others.
DEVICE real* posteriors_of(const Block& b, int direction, int job) {
    const int ring = b.s.panels + 1;
    return b.posteriors + static_cast<long long>(direction * ring + job % ring) * CHUNK * b.posterior_width;
}

// Posteriors of the lane's pairs at one frame, and its part of the blank's.
DEVICE void leave_posteriors(const Block& b, const Lane& lane, const Pair (&other)[PAIRS], int panel, real* row,
                             Number z) {
    real blank = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const Number x = product(lane.state[i].blank, other[i].blank);
        const Number y = product(lane.state[i].label, other[i].label);
        blank += aligned(x.m, x.e, z.e);
        if (lane.pair + i < b.s.labels) row[lane.rank[i]] = aligned(y.m, y.e, z.e);
    }
    row[b.args.longest + 1 + panel * 32 + lane_id()] = blank;
}

// What the replay of a chunk begins with and what enters it, a tick before it is needed: both may lie in global memory.
template <bool FORWARD>
DEVICE void load_met(const Block& b, Lane& lane, int panel, int chunk) {
    load(b, lane.met, lane.pair, boundary<FORWARD>(chunk));
    lane.met_border = Edge<FORWARD>(b, panel, chunk * CHUNK).take();
}

// A chunk of the second half: bring back the other direction's states of it, sweep it, multiply.
template <bool FORWARD>
DEVICE void sweep_and_meet(const Block& b, Lane& lane, int panel, int job, Number z) {
    const Sample& s = b.s;
    const int chunk = chunk_of<FORWARD>(s, job);
    const bool fresh = chunk == (FORWARD ? s.half : s.half - 1);
    const Number* rows = rows_of<FORWARD>(b, job, chunk);
    real* posteriors = posteriors_of(b, FORWARD ? 0 : 1, job);
    if (SPACIOUS) load(b, lane.state, lane.pair, fresh ? boundary<FORWARD>(chunk) : chunk + 1);
    const Edge<FORWARD> edge(b, panel, chunk * CHUNK);
    const Pair border = edge.take();
#if HISTORY
    Pair other[PAIRS];
    const Pair* past = history_at<FORWARD>(b, lane, chunk);
    const int last = max(s.labels - lane.pair, 0);
    walk<FORWARD>(
        b, lane, lane.state, border, rows,
        [&](int) {
#pragma unroll
            for (int i = 0; i < PAIRS; ++i) other[i] = past[min(i, last)];
            past += FORWARD ? b.args.longest + 1 : -(b.args.longest + 1);
        },
        [&](int f) {
            edge.give(f, lane.state);
            leave_posteriors(b, lane, other, panel, posteriors + f * b.posterior_width, z);
        });
#else
    Pair other[CHUNK][PAIRS];
    if (SPACIOUS || fresh) load_met<!FORWARD>(b, lane, panel, chunk);
    walk<!FORWARD>(
        b, lane, lane.met, lane.met_border, rows,
        [&](int f) {
#pragma unroll
            for (int i = 0; i < PAIRS; ++i) other[f][i] = lane.met[i];
        },
        [](int) {});
    if (!SPACIOUS && (FORWARD ? chunk + 1 < s.chunks : chunk > 0))
        load_met<!FORWARD>(b, lane, panel, FORWARD ? chunk + 1 : chunk - 1);
    walk<FORWARD>(
        b, lane, lane.state, border, rows, [](int) {},
        [&](int f) {
            edge.give(f, lane.state);
            leave_posteriors(b, lane, other[f], panel, posteriors + f * b.posterior_width, z);
        });
#endif
#pragma unroll
    for (int i = 0; i < PAIRS; ++i)
        lane.state[i] = {normalised(lane.state[i].blank), normalised(lane.state[i].label)};
    // The boundary just replayed from is free now: the state goes there, to be found by the next chunk.
    if (SPACIOUS) save(b, lane, boundary<!FORWARD>(chunk));
}
