// What kernels and scheduler share.

#pragma once

namespace emulated {

struct Index {
    unsigned x;
};

enum State { READY, AT_SHUFFLE, AT_BARRIER, DONE };

struct Warp {
    char slots[2][32][8];  // what lanes show each other; two sets, used by turns
    int arrived;
};

struct Block {
    Warp* warps;
    unsigned thread;    // the one that runs
    int* shuffle_turn;  // of that thread
    int any[2], turn;
    Index index, threads, blocks;
    char* shared;
};

extern Block block;
void wait(State);  // until the scheduler has all that must be there

}  // namespace emulated
