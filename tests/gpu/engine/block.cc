/*
 * block.cc: runs the blocks of a grid one after the other: which thread goes on when one waits or
 * returns, barriers, and the report when threads wait for each other in vain.
 */
#include <algorithm>
#include <atomic>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "multiprocessor.h"
#include "sanitizers.h"

namespace engine
{

thread_local const position *here;
static thread_local std::unique_ptr<multiprocessor> this_one;
static std::atomic<uint64_t> blocks;
static std::atomic<int> order_chosen{-1}; /* -1: ask the environment */
static std::atomic<int> most_blocks{0};   /* 0: no limit */

multiprocessor::multiprocessor()
{
    for (auto &p : memory) p = shared_memory_new();
}

multiprocessor::~multiprocessor()
{
    for (auto &set_of_fibers : fibers)
        for (auto f : set_of_fibers) fiber_free(f);
    for (auto &t : threads) async_copies_free(t.copies);
    for (auto p : memory) shared_memory_free(p);
}

multiprocessor &this_multiprocessor() { return *this_one; }

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? slash + 1 : file;
}

/* Which threads wait where, a line per place. */
static void print_waiting(const multiprocessor &m)
{
    for (int i = 0; i < m.thread_count; i++) {
        const thread &t = m.threads[i];
        int same = 0;

        if (!t.waits || t.returned) continue;
        for (int j = 0; j < m.thread_count; j++) {
            const thread &other = m.threads[j];
            bool alike = other.waits && !other.returned &&
                         other.waits->at.line == t.waits->at.line &&
                         other.waits->mask == t.waits->mask && other.waits->name == t.waits->name;

            if (alike && j < i) same = -most_threads;
            same += alike;
        }
        if (same > 0)
            fprintf(stderr, "  %d threads, thread %d first, wait in %s at %s:%d, mask %08x\n", same,
                    i, t.waits->name, base_name(t.waits->at.file), t.waits->at.line, t.waits->mask);
    }
}

void fail(const char *format, ...)
{
    va_list list;

    fputs("engine: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    if (this_one && this_one->running) {
        const multiprocessor &m = *this_one;
        const position &p = m.running->at;
        int returned = 0;

        for (int i = 0; i < m.thread_count; i++) returned += m.threads[i].returned;
        fprintf(stderr, "  in thread %d of block (%u,%u,%u); %d of %d threads have returned\n",
                m.running->index, p.block.x, p.block.y, p.block.z, returned, m.thread_count);
        print_waiting(m);
    }
    fflush(stderr);
    _Exit(1);
}

static void put_last(ready_threads &ready, thread *t)
{
    ready.of[(ready.first + ready.count++) % most_threads] = t;
}

static thread *take_next(multiprocessor &m)
{
    ready_threads &ready = m.ready;
    thread *t;

    if (!ready.count) return nullptr;
    ready.count--;
    if (m.thread_order == ahead) return ready.of[(ready.first + ready.count) % most_threads];
    t = ready.of[ready.first];
    ready.first = (ready.first + 1) % most_threads;
    return t;
}

void make_ready(multiprocessor &m, thread **threads, int count)
{
    if (m.thread_order == reverse) std::reverse(threads, threads + count);
    if (m.thread_order == random_order) std::shuffle(threads, threads + count, m.chance);
    for (int i = 0; i < count; i++) {
        threads[i]->waits = nullptr;
        put_last(m.ready, threads[i]);
    }
}

static void run_threads();

/* A fiber for a thread that has none. Under ThreadSanitizer each thread has its own, since what two
 * threads put on one stack would look like a race. */
static void give_fiber(multiprocessor &m, thread *t)
{
    std::vector<fiber *> &fibers = m.fibers[m.set];

    if (under_tsan) {
        while (fibers.size() <= static_cast<size_t>(t->index)) fibers.push_back(fiber_new());
        t->on = fibers[static_cast<size_t>(t->index)];
    } else if (fibers.empty()) {
        t->on = fiber_new();
    } else {
        t->on = fibers.back();
        fibers.pop_back();
    }
    fiber_prepare(t->on, run_threads);
}

static void go_on_with(multiprocessor &m, thread *t)
{
    if (!t->on) give_fiber(m, t);
    m.running = t;
    here = &t->at;
}

void wait(multiprocessor &m)
{
    thread *t = m.running, *next = take_next(m);

    if (!next) fail("no thread can go on");
    if (next == t) return;
    go_on_with(m, next);
    fiber_switch(t->on, next->on);
}

/* Leave the stack of a thread that has returned. */
[[noreturn]] static void leave(multiprocessor &m, fiber *from, thread *next)
{
    if (!next && m.running_count) fail("threads have returned while others wait for them");
    if (next) go_on_with(m, next);
    if (!under_tsan) m.fibers[0].push_back(from);
    fiber_leave(from, next ? next->on : &m.os_thread);
}

/* What a fiber does: one fresh thread after the other, for as long as they do not wait. */
static void run_threads()
{
    multiprocessor &m = *this_one;
    fiber *f = m.running->on;

    fiber_entered();
    for (;;) {
        thread *next;

        tsan_acquire(m.block_order[m.set][!m.turn]); /* the block before of this set */
        m.body->run(m.body->arguments);
        tsan_release(m.block_order[m.set][m.turn]);
        m.running->returned = true;
        m.running_count--;
        next = take_next(m);
        if (under_tsan || !next || next->on) leave(m, f, next);
        next->on = f;
        go_on_with(m, next);
    }
}

void barrier(place at)
{
    multiprocessor &m = *this_one;
    thread *t = m.running, *all[most_threads];
    meeting here_now = {"__syncthreads", at};
    char *order = m.barrier_order[m.set][m.barriers & 1];

    t->waits = &here_now;
    if (m.at_barrier && (m.barrier_at.line != at.line || strcmp(m.barrier_at.file, at.file) != 0))
        fail("threads of one block wait in different __syncthreads, at %s:%d and %s:%d",
             base_name(m.barrier_at.file), m.barrier_at.line, base_name(at.file), at.line);
    m.barrier_at = at;
    tsan_release(order);
    if (++m.at_barrier == m.thread_count) {
        m.at_barrier = 0;
        m.barriers++;
        for (int i = 0; i < m.thread_count; i++) all[i] = &m.threads[i];
        make_ready(m, all, m.thread_count);
    }
    wait(m);
    tsan_acquire(order);
}

static void begin_threads(multiprocessor &m, dim3 block, uint3 number, dim3 grid)
{
    thread *all[most_threads];

    m.running_count = m.thread_count;
    m.at_barrier = 0;
    m.barriers = 0;
    m.ready.first = m.ready.count = 0;
    for (int i = 0; i < m.thread_count; i++) {
        unsigned n = static_cast<unsigned>(i);
        thread &t = m.threads[i];

        t.at = {{n % block.x, n / block.x % block.y, n / block.x / block.y}, number, block, grid};
        t.index = i;
        t.warp = i / warp_size;
        t.lane = i % warp_size;
        t.on = nullptr;
        t.returned = t.fenced = false;
        t.last_atomic = nullptr;
        if (t.copies) async_copies_forget(t.copies);
        all[i] = &t;
    }
    for (int w = 0; w * warp_size < m.thread_count; w++) m.warps[w].open_count = 0;
    make_ready(m, all, m.thread_count);
}

static void run_block(multiprocessor &m, dim3 grid, dim3 block, size_t number, size_t shared)
{
    uint3 at = {static_cast<unsigned>(number % grid.x),
                static_cast<unsigned>(number / grid.x % grid.y),
                static_cast<unsigned>(number / grid.x / grid.y)};
    thread *first;

    m.set = under_tsan ? static_cast<int>(number & 1) : 0;
    m.turn = under_tsan ? static_cast<int>(number >> 1 & 1) : 0;
    m.block = ++blocks;
    shared_memory_begin_block(m, shared);
    begin_threads(m, block, at, grid);
    first = take_next(m);
    go_on_with(m, first);
    fiber_switch(&m.os_thread, first->on);
    shared_memory_end_block(m);
    m.running = nullptr;
}

/* The threads of a launch come after what its caller did before, and before what it does then. */
static void order_with_caller(multiprocessor &m, bool before)
{
    static thread_local char begun[8], ended[8];

    if (!under_tsan) return;
    if (before) tsan_release(begun);
    for (auto &fibers : m.fibers) {
        while (fibers.size() < static_cast<size_t>(m.thread_count)) fibers.push_back(fiber_new());
        for (auto f : fibers) {
            tsan_switch(f->tsan);
            if (before)
                tsan_acquire(begun);
            else
                tsan_release(ended);
        }
    }
    tsan_switch(m.os_thread.tsan);
    if (!before) tsan_acquire(ended);
}

void order_set(order o) { order_chosen = o; }

/* The order of WT_GPU_ORDER; `orders` for each in turn. */
static order order_of_environment(unsigned *seed)
{
    static const char *const names[] = {"forward", "reverse", "random", "ahead"};
    const char *text = getenv("WT_GPU_ORDER");

    if (!text) return orders;
    for (int i = 0; i < orders; i++)
        if (strcmp(text, names[i]) == 0) return static_cast<order>(i);
    if (strncmp(text, "random:", 7) == 0) {
        *seed = static_cast<unsigned>(atoi(text + 7));
        return random_order;
    }
    fail("WT_GPU_ORDER is forward, reverse, random, random:SEED or ahead, not %s", text);
}

static order next_order(multiprocessor &m)
{
    static thread_local order from_environment;
    static thread_local unsigned launches;
    static thread_local bool asked;
    int chosen = order_chosen;

    if (!asked) {
        unsigned seed = 1;

        from_environment = order_of_environment(&seed);
        m.chance.seed(seed);
        asked = true;
    }
    if (chosen < 0) chosen = from_environment;
    return chosen < orders ? static_cast<order>(chosen) : static_cast<order>(launches++ % orders);
}

void run_few_blocks(int most) { most_blocks = most; }

static size_t blocks_to_run(size_t count)
{
    int most = most_blocks;

    return most == 0 ? count : std::min(count, static_cast<size_t>(std::max(most, 0)));
}

/* In each of `runs` equal parts of a grid another place, so that what repeats is not always met at
 * the same place. */
static size_t one_of_part(size_t part, size_t count, size_t runs)
{
    const double golden = 0.6180339887498949;
    double place = static_cast<double>(part) * golden;

    place -= static_cast<double>(static_cast<size_t>(place));
    return static_cast<size_t>((static_cast<double>(part) + place) * static_cast<double>(count) /
                               static_cast<double>(runs));
}

size_t run_grid(dim3 grid, dim3 block, size_t shared, const kernel_body &body)
{
    size_t count = static_cast<size_t>(grid.x) * grid.y * grid.z, runs = blocks_to_run(count);

    if (!this_one) this_one.reset(new multiprocessor());
    multiprocessor &m = *this_one;
    if (m.running) fail("a kernel launches a kernel");
    m.body = &body;
    m.thread_order = next_order(m);
    m.thread_count = static_cast<int>(block.x * block.y * block.z);
    fiber_of_os_thread(&m.os_thread);
    order_with_caller(m, true);
    for (size_t i = 0; i < runs; i++) {
        size_t number = runs < count ? one_of_part(i, count, runs) : i;

        run_block(m, grid, block, m.thread_order == reverse ? count - 1 - number : number, shared);
    }
    order_with_caller(m, false);
    here = nullptr;
    return runs;
}

} // namespace engine
