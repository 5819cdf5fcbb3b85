/*
 * multiprocessor.h: what one OS thread needs to run blocks, shared by the files of the engine:
 * block.cc (threads, their order, barriers), warp.cc (meetings of lanes), matrix.cc (products and
 * loads of fragments), shared_memory.cc, async_copies.cc.
 */
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "engine.h"
#include "fiber.h"

namespace engine
{

enum {
    warp_size = 32,
    most_threads = 1024,
    most_warps = most_threads / warp_size,
    most_arrays = 64,
    fiber_sets = 2, /* see multiprocessor */
};
const size_t most_shared_bytes = 227 << 10;

struct async_copies;
void async_copies_free(async_copies *copies);
void async_copies_forget(async_copies *copies);

struct thread {
    position at;
    int index, warp, lane;
    fiber *on; /* NULL: not begun */
    meeting *waits;
    bool returned, fenced;
    void *last_atomic;
    async_copies *copies; /* made when first needed, kept for the next block */
};

/** Lanes on their way to one meeting. */
struct gathering {
    meeting *first;
    unsigned mask, arrived;
};

struct warp {
    gathering open[warp_size];
    int open_count;
    char memory_order[fiber_sets]; /* of __syncwarp, for ThreadSanitizer */
};

/** One array that has been placed in shared memory. */
struct placed_array {
    const char *name;
    size_t offset, bytes;
};

/** Threads that can run, first in first out or last in first out. */
struct ready_threads {
    thread *of[most_threads];
    int first, count;
};

/*
 * One per OS thread. Under ThreadSanitizer the blocks of a grid must look as if they ran at the
 * same time: blocks with even and with odd numbers have fibers, shared memory and everything else
 * that orders them apart, and only blocks of one set are ordered one after the other.
 */
struct multiprocessor {
    multiprocessor();
    ~multiprocessor();

    const kernel_body *body = nullptr;
    order thread_order = forward;
    std::mt19937 chance;
    int thread_count = 0, running_count = 0, at_barrier = 0;
    place barrier_at = {};
    unsigned barriers = 0;
    thread threads[most_threads] = {};
    warp warps[most_warps] = {};
    ready_threads ready = {};
    thread *running = nullptr;

    fiber os_thread;
    std::vector<fiber *> fibers[fiber_sets]; /* without ThreadSanitizer: those not in use, in [0] */
    char *memory[fiber_sets];                /* shared */
    int set = 0, turn = 0;                   /* turn: which of every two blocks of a set */
    uint64_t block = 0;                      /* a number that no other block of this process has */
    size_t dynamic_bytes = 0, used_bytes = 0;
    placed_array arrays[most_arrays] = {};
    int array_count = 0;

    char barrier_order[fiber_sets][2][8]; /* for ThreadSanitizer */
    char block_order[fiber_sets][2][8];
};

multiprocessor &this_multiprocessor();

/** Put threads into the queue, in the order of the launch. */
void make_ready(multiprocessor &m, thread **threads, int count);
/** Let others run until the calling thread has been made ready. */
void wait(multiprocessor &m);
/** Meet the lanes of m.mask. */
void meet_lanes(meeting &m);

void shared_memory_begin_block(multiprocessor &m, size_t dynamic_bytes);
/** Nobody wrote between the arrays. */
void shared_memory_end_block(multiprocessor &m);
char *shared_memory_new();
void shared_memory_free(char *memory);

/** Bytes of 0xff: NaN as a float of any size. The sanitizers do not see it. */
void fill_with_nan(void *p, size_t bytes);

} // namespace engine
