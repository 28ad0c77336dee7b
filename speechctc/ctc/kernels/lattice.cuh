// The lattice of one sample, swept by two groups of warps at once: alpha from its first frame, beta from its last.
// Each lane keeps PAIRS pairs of states in registers; 32 lanes make a panel, and a wider lattice is cut in panels,
// each of which runs one chunk of frames behind its neighbour.
//
// alpha(t, s) and beta(t, s) here both count the emission of frame t. "Before the emission" they are the sum over
// the states that lead there, so that alpha(t, s) * (beta before the emission)(t, s) / Z is the posterior.

#pragma once

#include "samples.cuh"

constexpr int PANEL = 32 * PAIRS;  // pairs
constexpr int RING = WARPS + 3;    // chunks of emissions: being copied, ready, under WARPS panels, read last
constexpr bool SPARSE = HISTORY || !(GRADIENT || SPACIOUS);  // only the states at the middle are kept
constexpr bool ALL_FRAMES = WHOLE || SPACIOUS;               // the table holds the sample, and is no ring
constexpr bool EDGES = WARPS > 1 || SPACIOUS;                // a panel can have a neighbour

// What the threads of a block share.
struct Block {
    const Args& args;
    Sample s;
    int n;
    int width, blank_column, dead_column;  // of a row of the table of emissions
    int posterior_width;
    Number* table;        // [2][RING][CHUNK][width]; [frames][width] with ALL_FRAMES
    real* posteriors;     // [2][panels + 1][CHUNK][longest + 1 ranks, 32 * panels partial sums of the blank]
    Pair* kept;           // [chunks + 2][longest + 1]; of the two in the middle only when SPARSE
    Number* alpha_edges;  // [frames + 1][panels - 1]: last label of each panel but the last
    Pair* beta_edges;     // [frames + 1][panels - 1]: first pair of each panel but the first
    Pair* history;        // [frames][longest + 1]: before the emission
    int* labels;          // [longest + 1], as in the target
    int* rank;            // [longest + 1], of each position when labels are sorted
    int* sorted;          // [longest + 1], labels in that order
    int* columns;         // [longest + 1], where the table has their emissions
    int* first;           // [classes + 1], rank of the first of each class, when FUSED
};

// Where a lane stands in the lattice, and what it carries from chunk to chunk.
struct Lane {
    Pair state[PAIRS];
    Pair met[PAIRS];        // the other direction's state at the near end of the next chunk to replay
    Pair met_border;        // what enters the panel in that chunk: lane f has that of frame f
    int column[PAIRS];      // of each label in a row of the table
    int bars[PAIRS + 1];    // see `bar`
    int rank[PAIRS];        // of each label
    int pair;               // the first of this lane's
};

DEVICE int lane_id() { return threadIdx.x & 31; }

DEVICE int panels_of(int labels) { return labels / PANEL + 1; }

// Chunk boundaries are numbered so that both directions find room: alpha entering chunk c at c, beta at c + 2.
template <bool FORWARD>
DEVICE int boundary(int chunk) {
    return FORWARD ? chunk : chunk + 2;
}

DEVICE Pair* kept_at(const Block& b, int boundary) {
    return b.kept + static_cast<long long>(SPARSE ? boundary - b.s.half : boundary) * (b.args.longest + 1);
}

DEVICE void save(const Block& b, const Lane& lane, int boundary) {
    Pair* to = kept_at(b, boundary) + lane.pair;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i)
        if (lane.pair + i <= b.s.labels) to[i] = lane.state[i];
}

DEVICE void load(const Block& b, Pair (&state)[PAIRS], int pair, int boundary) {
    const Pair* from = kept_at(b, boundary) + pair;
#pragma unroll
    for (int i = 0; i < PAIRS; ++i)
        state[i] = pair + i <= b.s.labels ? from[i] : Pair{nothing(), nothing()};
}

// 0 where a label may be entered from the one before it, else NOTHING: between equal labels a blank must come.
DEVICE int bar(const Block& b, int pair) {
    return 0 < pair && pair < b.s.labels && b.labels[pair] == b.labels[pair - 1] ? NOTHING : 0;
}

// Alpha starts in the first blank before the first frame, beta in the last blank after the last frame.
template <bool FORWARD>
DEVICE void enter(const Block& b, Lane& lane, int panel) {
    const int labels = b.s.labels;
    lane.pair = panel * PANEL + lane_id() * PAIRS;
#pragma unroll
    for (int i = 0; i <= PAIRS; ++i)
        lane.bars[i] = bar(b, lane.pair + i);
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const int pair = lane.pair + i;
        lane.rank[i] = GRADIENT && pair < labels ? b.rank[pair] : 0;
        lane.column[i] = pair >= labels ? b.dead_column : BY_CLASS ? b.labels[pair] : pair;
        lane.state[i] = {pair == (FORWARD ? 0 : labels) ? one() : nothing(), nothing()};
    }
}

// Where one panel hands its border to the next. Column p is the border between panels p and p + 1, row t the time
// between frames t - 1 and t.
template <bool FORWARD>
struct Edge {
    bool taken;  // by this panel: lane f takes what enters with frame f of the chunk
    bool given;  // by this lane
    long long stride;
    Number* alpha;
    Pair* beta;

    DEVICE Edge(const Block& b, int panel, int start) {
        taken = EDGES && (FORWARD ? panel > 0 : panel < b.s.panels - 1);
        given = EDGES && (FORWARD ? lane_id() == 31 && panel < b.s.panels - 1 : lane_id() == 0 && panel > 0);
        stride = panels_of(b.args.longest) - 1;
        const long long place = start * stride + panel;  // row `start` of the panel's right border
        alpha = b.alpha_edges + place;
        beta = b.beta_edges + place;
    }
    // What enters in the chunk, all frames at once: they may lie in global memory, and a step would wait for each.
    DEVICE Pair take() const {
        if (!taken || lane_id() >= CHUNK) return {nothing(), nothing()};
        const int f = lane_id();
        return FORWARD ? Pair{nothing(), alpha[f * stride - 1]} : beta[(f + 1) * stride];
    }
    DEVICE void give(int f, const Pair (&state)[PAIRS]) const {
        if (!given) return;
        if (FORWARD) alpha[(f + 1) * stride] = state[PAIRS - 1].label;
        else beta[f * stride - 1] = state[0];
    }
};

// The border at frame f of the chunk, which lane f has.
template <bool FORWARD>
DEVICE Pair entering(const Pair& border, int f) {
    if (!EDGES) return {nothing(), nothing()};
    return {FORWARD ? nothing() : from_lane(border.blank, f), from_lane(border.label, f)};
}

// What a step reads from memory, one frame early; and where from.
template <bool FORWARD>
struct Reader {
    const Number *at_blank, *at_label[PAIRS];
    int width;
    Number blank, label[PAIRS];

    DEVICE Reader(const Block& b, const Lane& lane, const Number* rows) : width(b.width) {
        if (!FORWARD) rows += (CHUNK - 1) * width;
        at_blank = rows + b.blank_column;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) at_label[i] = rows + lane.column[i];
    }
    // The next frame in the order of the direction.
    DEVICE void read() {
        const int step = FORWARD ? width : -width;
        blank = *at_blank;
        at_blank += step;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            label[i] = *at_label[i];
            at_label[i] += step;
        }
    }
};

// One frame without its emission: every state becomes the sum of those that lead to it.
template <bool FORWARD>
DEVICE void move(Pair (&state)[PAIRS], const Lane& lane, Pair edge) {
    if (FORWARD) {
        Number entering = from_lane_below(state[PAIRS - 1].label);
        if (lane_id() == 0) entering = edge.label;
#pragma unroll
        for (int i = PAIRS - 1; i >= 0; --i) {
            const Number left = i > 0 ? state[i - 1].label : entering;
            state[i].label = sum(state[i].label, state[i].blank, left, lane.bars[i]);
            state[i].blank = sum(state[i].blank, left);
        }
    } else {
        Pair entering = {from_lane_above(state[0].blank), from_lane_above(state[0].label)};
        if (lane_id() == 31) entering = edge;
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) {
            const Pair right = i + 1 < PAIRS ? state[i + 1] : entering;
            const Number label = state[i].label;
            state[i].label = sum(label, right.blank, right.label, lane.bars[i + 1]);
            state[i].blank = sum(state[i].blank, label);
        }
    }
}

// The frames of a chunk, in the order of the direction; `border` is what enters. `before` and `after` see the state of
// frame f of the chunk before and after its emission.
template <bool FORWARD, class Before, class After>
DEVICE void walk(const Block& b, const Lane& lane, Pair (&state)[PAIRS], const Pair& border, const Number* rows,
                 Before before, After after) {
    Reader<FORWARD> next(b, lane, rows);
    next.read();
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
        const int f = FORWARD ? i : CHUNK - 1 - i;
        const Reader<FORWARD> now = next;
        if (i + 1 < CHUNK) next.read();
        move<FORWARD>(state, lane, entering<FORWARD>(border, f));
        before(f);
#pragma unroll
        for (int j = 0; j < PAIRS; ++j)
            state[j] = {product(state[j].blank, now.blank), product(state[j].label, now.label[j])};
        after(f);
    }
}
