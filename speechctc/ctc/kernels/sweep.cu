// Loss and gradient of one sample to a block: 2 * WARPS warps on the lattice, HELPERS beside them.
//
// Time is cut in ticks, with a barrier after each. In a tick a lattice warp sweeps a chunk of frames, while helpers
// bring the emissions of the next one and turn the posteriors of the last one into gradients. In the first half alpha
// and beta go from the two ends to the middle and meet there: that gives Z. In the second half each goes on through
// what the other has been through, and multiplies. T steps in all, one after the other.

#include "gradient.cuh"

constexpr int THREADS = 32 * (2 * WARPS + HELPERS + (WARPS == 1 ? 2 : 0));
constexpr int IDLE_WARP = HELPERS == 4 ? 4 : 8;  // and the one after it, where the lattice has two warps
constexpr int CLERK = WARPS == 1 ? IDLE_WARP : THREADS / 32 - 1;  // sees to the loss; never a warp of the lattice

// Z from alpha before and beta after the middle; every warp computes it, and gets the same bits.
DEVICE Number meeting(const Block& b) {
    const Pair* alpha = kept_at(b, b.s.half);
    const Pair* beta = kept_at(b, b.s.half + 1);
    Number z = nothing();
#pragma unroll 1
    for (int i = lane_id(); i <= b.s.labels; i += 32) {
        const Number left = i > 0 ? alpha[i - 1].label : nothing();
        z = normalised(sum(z, product(sum(alpha[i].blank, left), beta[i].blank)));
        z = normalised(sum(z, product(sum(alpha[i].label, alpha[i].blank, left, bar(b, i)), beta[i].label)));
    }
    return warp_sum(z);
}

DEVICE char* at(const Args& args, char* shared, long long place, long long offset) {
    return place < 0 ? shared + (-1 - place) : args.workspace + place + offset;
}

DEVICE void place_buffers(Block& b, char* shared) {
    const Args& args = b.args;
    const int pairs = args.longest + 1, panels = panels_of(args.longest);
    b.width = table_width(args);
    b.blank_column = blank_column(args);
    b.dead_column = b.width - 1;
    b.posterior_width = pairs + 32 * panels;
    const long long boundary = b.s.row / CHUNK + 3LL * b.n;
    const long long edge = (b.s.row + static_cast<long long>(CHUNK) * b.n) * (panels - 1);
    b.kept = reinterpret_cast<Pair*>(at(args, shared, args.checkpoints, boundary * pairs * sizeof(Pair)));
    b.alpha_edges = reinterpret_cast<Number*>(at(args, shared, args.alpha_edges, edge * sizeof(Number)));
    b.beta_edges = reinterpret_cast<Pair*>(at(args, shared, args.beta_edges, edge * sizeof(Pair)));
    b.history = reinterpret_cast<Pair*>(shared + (-1 - args.history));
    b.first = reinterpret_cast<int*>(shared + (-1 - args.first));
#if SPACIOUS
    b.posteriors = reinterpret_cast<real*>(args.workspace + args.posteriors) +
                   b.n * (2LL * (panels + 1) * CHUNK * b.posterior_width);
    b.labels = reinterpret_cast<int*>(args.workspace + args.sorted) + b.n * 4LL * pairs;
    b.table = table_row(args, b.s, b.n);
#else
    b.posteriors = reinterpret_cast<real*>(shared + (-1 - args.posteriors));
    b.labels = reinterpret_cast<int*>(shared + (-1 - args.sorted));
    b.table = reinterpret_cast<Number*>(shared + (-1 - args.table));
#endif
    b.rank = b.labels + pairs;
    b.sorted = b.rank + pairs;
    b.columns = b.sorted + pairs;
}

// Brings in the labels, and tells whether the sample can be swept. If not, its loss and gradient are written: infinity
// and 0 where no path exists. All threads.
DEVICE bool worth_sweeping(const Block& b, Fault fault, long long found) {
    const Sample& s = b.s;
    const bool room = s.labels <= b.args.longest;
    for (int i = threadIdx.x; i < s.labels; i += blockDim.x) {
        const long long label = b.args.targets[s.start + i];
        if (room) b.labels[i] = static_cast<int>(label);
        if (is_label(b.args, label)) continue;
        fault = LABEL;
        found = label;
    }
    if (fault != SOUND) report(b.args, b.n, fault, found);
    const bool sound = !__syncthreads_or(fault != SOUND);
    if (sound && room && 0 < s.frames && s.labels <= s.frames) return true;
    const bool certain = sound && s.labels == 0, hidden = sound && b.args.zero_infinity;  // a fault is not hidden
    if (threadIdx.x < 32) leave_loss(b.args, b.n, certain || hidden ? real(0) : infinity());
    fill_rows(b, 0, rows_to_fill(s), 0);
    return false;
}

// The first state of a direction: in the lanes, at its boundary, and at the borders of its panels.
template <bool FORWARD>
DEVICE void begin(const Block& b, Lane& lane, int slot) {
    const int boundary = FORWARD ? 0 : b.s.chunks + 1;
#pragma unroll 1
    for (int panel = slot; panel < b.s.panels; panel += WARPS) {
        enter<FORWARD>(b, lane, panel);
        if (!SPARSE || boundary == b.s.half) save(b, lane, boundary);
        Edge<FORWARD>(b, panel, FORWARD ? 0 : b.s.chunks * CHUNK).give(FORWARD ? -1 : 0, lane.state);
    }
}

// What a lattice warp does in a tick: its panels, each as many ticks behind the first as it is panels away from it.
template <bool FORWARD, bool SECOND_HALF>
DEVICE void work(const Block& b, const Schedule& schedule, Lane& lane, int slot, int tick, Number z) {
#pragma unroll 1
    for (int panel = slot; panel < b.s.panels; panel += WARPS) {
        const int job = job_at(schedule, FORWARD ? 0 : 1, tick - (FORWARD ? panel : b.s.panels - 1 - panel));
        if (job < 0) continue;
        if (SPACIOUS) enter<FORWARD>(b, lane, panel);
        if (SECOND_HALF)
            sweep_and_meet<FORWARD>(b, lane, panel, job, z);
        else
            sweep<FORWARD>(b, lane, panel, job);
    }
}

DEVICE void help(const Block& b, const Schedule& schedule, Helper& helper, int tick) {
    bring(b, schedule, helper, tick);
    const int job = job_at(schedule, helper.direction, tick - b.s.panels);
    leave_gradient(b, helper, job >= schedule.first(helper.direction) ? job : -1);
}

enum Role { ALPHA, BETA, HELP, IDLE };

// Warps w and w + 4 share a scheduler. Lattice warps come first, alpha's and beta's by turns; where they are two, four
// helpers are kept off their schedulers and of eight all but two, which leaves two warps idle.
DEVICE Role role_of(int warp, int& slot) {
    const bool idle = WARPS == 1 && warp / 2 == IDLE_WARP / 2;
    slot = warp < 2 * WARPS ? warp / 2 : warp - 2 * WARPS - (WARPS == 1 && warp > IDLE_WARP ? 2 : 0);
    if (warp < 2 * WARPS) return warp % 2 ? BETA : ALPHA;
    return idle ? IDLE : HELP;
}

// The same role, which the compiler must look at anew: else it copies the loop for some of the roles, and both copies want
// registers.
DEVICE Role looked_at(Role role) {
    int number = role;
#ifndef EMULATED
    asm volatile("" : "+r"(number));
#endif
    return static_cast<Role>(number);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) ctc_sweep(const __grid_constant__ Args args) {
    Block b{args};
    Sample& s = b.s;
    long long found = 0;
    b.n = blockIdx.x;
    const Fault fault = read_sample(args, b.n, s, found);
    s.panels = panels_of(s.labels);
    s.chunks = (s.frames + CHUNK - 1) / CHUNK;
    s.half = s.chunks / 2;
    place_buffers(b, shared_memory());
    if (GRADIENT && threadIdx.x == 0) weight() = weight_of(args, s, b.n);  // read after the barrier below
    if (!worth_sweeping(b, fault, found)) return;

    const Schedule schedule = {s.half, s.chunks - s.half, s.chunks, s.chunks - s.half + s.panels - 1};
    int slot;
    const Role role = role_of(__shfl_sync(ALL_LANES, static_cast<int>(threadIdx.x) / 32, 0), slot);
    const int row = (32 * slot + lane_id()) / ROW_LANES;
    Lane lane;
    Helper helper = {row / CHUNK, row % CHUNK, lane_id() % ROW_LANES, {}};
    if (role == HELP) bring(b, schedule, helper, -2);
    if (GRADIENT) sort_labels(b);
    __syncthreads();
    if (role == ALPHA) begin<true>(b, lane, slot);
    if (role == BETA) begin<false>(b, lane, slot);
    if (role == HELP) bring(b, schedule, helper, -1);
    __syncthreads();

#pragma unroll 1
    for (int tick = 0; tick < schedule.middle; ++tick) {
        const Role now = looked_at(role);
        if (now == ALPHA) work<true, false>(b, schedule, lane, slot, tick, nothing());
        if (now == BETA) work<false, false>(b, schedule, lane, slot, tick, nothing());
        if (now == HELP) bring(b, schedule, helper, tick);
        __syncthreads();
    }
    const Number z = meeting(b);
    const bool unknown = z.m != z.m, lost = z.e < LOST && !unknown;  // a NaN or an infinity among the logits; no path
    if (threadIdx.x / 32 == CLERK) {
        const real loss = real(-(z.e * 0.6931471805599453 + log(static_cast<double>(z.m))));
        leave_loss(args, b.n, !lost ? loss : args.zero_infinity ? real(0) : infinity());
    }
#if GRADIENT
    if (unknown) fill_rows(b, 0, s.frames, z.m);
    fill_rows(b, lost ? 0 : s.frames, rows_to_fill(s), 0);
    if (lost || unknown) return;
#pragma unroll 1
    for (int tick = schedule.middle; tick < schedule.middle + s.chunks - s.half + s.panels; ++tick) {
        const Role now = looked_at(role);
        if (now == ALPHA) work<true, true>(b, schedule, lane, slot, tick, z);
        if (now == BETA) work<false, true>(b, schedule, lane, slot, tick, z);
        if (now == HELP) help(b, schedule, helper, tick);
        __syncthreads();
    }
#endif
}
