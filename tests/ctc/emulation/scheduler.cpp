// The threads of a block. Warps run one after the other between two barriers, and lanes between two
// shuffles, in an order drawn anew each time: what depends on the order comes out wrong. A shuffle or a barrier that
// not all threads reach is an error.

#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "block.h"

namespace emulated {

Block block;

namespace {

constexpr size_t STACK = 64 * 1024;

struct Fiber {
    State state;
    bool started;
    int shuffle_turn;
    ucontext_t first;  // where it begins
    jmp_buf place;     // where it goes on: quicker than swapcontext, which asks the kernel for signals
};

std::vector<Fiber> fibers;
jmp_buf scheduler;
ucontext_t way_back;
void (*kernel)(const void*);
const void* arguments;
const char* error;

void run_fiber() {
    kernel(arguments);
    fibers[block.thread].state = DONE;
    _longjmp(scheduler, 1);
}

void resume(unsigned thread) {
    Fiber& fiber = fibers[thread];
    block.thread = thread;
    block.shuffle_turn = &fiber.shuffle_turn;
    if (_setjmp(scheduler)) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    swapcontext(&way_back, &fiber.first);
}

// Until each lane stands at a barrier or is done.
bool run_warp(unsigned warp, std::mt19937& random) {
    unsigned lanes[32];
    for (unsigned i = 0; i < 32; ++i) lanes[i] = warp * 32 + i;
    while (true) {
        std::shuffle(lanes, lanes + 32, random);
        bool ran = false;
        for (unsigned i : lanes)
            if (fibers[i].state == READY) {
                resume(i);
                ran = true;
            }
        if (block.warps[warp].arrived == 32) {
            block.warps[warp].arrived = 0;
            for (unsigned i : lanes) fibers[i].state = READY;
        } else if (!ran) {
            if (block.warps[warp].arrived) error = "a shuffle that not all lanes of the warp reach";
            return *error == 0;
        }
    }
}

void run_block(std::mt19937& random) {
    std::vector<unsigned> order(fibers.size() / 32);
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    while (true) {
        std::shuffle(order.begin(), order.end(), random);
        for (unsigned warp : order)
            if (!run_warp(warp, random)) return;
        size_t waiting = 0, done = 0;
        for (Fiber& fiber : fibers) {
            waiting += fiber.state == AT_BARRIER;
            done += fiber.state == DONE;
        }
        if (done == fibers.size()) return;
        if (waiting != fibers.size()) {
            error = "a barrier that not all threads of the block reach";
            return;
        }
        block.turn ^= 1;
        block.any[block.turn] = 0;
        for (Fiber& fiber : fibers) fiber.state = READY;
    }
}

// Memory that ends where no more can be touched.
struct Guarded {
    char* base;
    size_t size;
    char* data;

    explicit Guarded(size_t bytes) {
        const size_t page = sysconf(_SC_PAGESIZE), room = (bytes + 31) / 32 * 32;
        size = (room + page - 1) / page * page + page;
        base = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(base + size - page, page, PROT_NONE);
        data = base + size - page - room;
    }
    ~Guarded() { munmap(base, size); }
};

}  // namespace

void wait(State why) {
    Fiber& self = fibers[block.thread];
    self.state = why;
    if (!_setjmp(self.place)) _longjmp(scheduler, 1);
}

// A grid of blocks, one after the other; returns what went wrong, or "".
extern "C" const char* run(void (*entry)(const void*), const void* bytes, unsigned blocks, unsigned threads,
                           unsigned long shared, unsigned seed) {
    std::mt19937 random(seed);
    const Guarded stacks(threads * STACK), memory(shared);
    std::vector<Warp> warps(threads / 32);
    kernel = entry;
    arguments = bytes;
    error = "";
    block.threads = {threads};
    block.blocks = {blocks};
    block.shared = memory.data;
    block.warps = warps.data();
    for (unsigned n = 0; n < blocks && *error == 0; ++n) {
        memset(memory.data, 0xff, shared);  // NaN
        block.index = {n};
        block.turn = block.any[0] = 0;
        std::fill(warps.begin(), warps.end(), Warp{});
        fibers.assign(threads, Fiber{});
        for (unsigned i = 0; i < threads; ++i) {
            getcontext(&fibers[i].first);
            fibers[i].first.uc_stack = {stacks.data + i * STACK, 0, STACK};
            makecontext(&fibers[i].first, run_fiber, 0);
        }
        run_block(random);
    }
    return error;
}

}  // namespace emulated
