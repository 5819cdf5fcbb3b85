/*
 * fiber.h: stacks, and giving the CPU from one to the other. What runs on them, and when, is
 * decided in block.cc.
 */
#pragma once

#include <stddef.h>

namespace engine
{

struct fiber {
    void *stack_pointer = nullptr; /* while it does not run */
    char *stack = nullptr;         /* lowest byte; NULL: the OS thread's own */
    size_t stack_bytes = 0;
    void *context = nullptr; /* ucontext_t, where there is no switch in assembly */
    void *asan_fake_stack = nullptr;
    void *tsan = nullptr;
};

/** With a stack of its own, below which lies a page that nobody may touch. */
fiber *fiber_new();
void fiber_free(fiber *f);

/** Make `f` begin with `entry`, which must call fiber_entered first and never return. */
void fiber_prepare(fiber *f, void (*entry)());
void fiber_entered();

/** Go on with `to`. Returns when somebody switches to `from`. */
void fiber_switch(fiber *from, fiber *to);
/** The same from a fiber that nobody will switch to before it is prepared again. */
[[noreturn]] void fiber_leave(fiber *from, fiber *to);

/** The fiber that stands for the calling OS thread. */
void fiber_of_os_thread(fiber *f);

} // namespace engine
