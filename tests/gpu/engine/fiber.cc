/* fiber.cc: see fiber.h. On x86-64 a switch is six registers and the stack pointer; elsewhere it is
 * swapcontext, which costs a system call. */
#include "fiber.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sanitizers.h"

#if defined(__x86_64__) && !defined(GPU_ENGINE_UCONTEXT)
#define SWITCH_IN_ASSEMBLY 1
extern "C" void wt_fiber_switch(void **save, void *to);
asm(R"(
.text
.globl wt_fiber_switch
.type wt_fiber_switch,@function
wt_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size wt_fiber_switch, .-wt_fiber_switch
)");
#else
#define SWITCH_IN_ASSEMBLY 0
#endif

namespace engine
{

enum : size_t { guard_bytes = 4096 };
#ifdef GPU_ENGINE_ASAN
static const size_t usable_bytes = 256 << 10; /* its frames are larger */
#else
static const size_t usable_bytes = 64 << 10;
#endif

fiber *fiber_new()
{
    void *p = mmap(nullptr, guard_bytes + usable_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fiber *f = new fiber();

    if (p == MAP_FAILED || mprotect(p, guard_bytes, PROT_NONE)) {
        perror("engine: stack of a fiber");
        abort();
    }
    f->stack = static_cast<char *>(p) + guard_bytes;
    f->stack_bytes = usable_bytes;
    f->tsan = tsan_fiber_new();
    if (!SWITCH_IN_ASSEMBLY) f->context = new ucontext_t;
    return f;
}

void fiber_free(fiber *f)
{
    if (f->tsan) tsan_fiber_free(f->tsan);
    asan_unpoison(f->stack, f->stack_bytes);
    munmap(f->stack - guard_bytes, guard_bytes + f->stack_bytes);
    delete static_cast<ucontext_t *>(f->context);
    delete f;
}

void fiber_of_os_thread(fiber *f)
{
    if (!f->stack_bytes) {
        pthread_attr_t attributes;
        void *bottom;

        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstack(&attributes, &bottom, &f->stack_bytes);
        pthread_attr_destroy(&attributes);
        f->stack = static_cast<char *>(bottom);
        if (!SWITCH_IN_ASSEMBLY) f->context = new ucontext_t;
    }
    f->tsan = tsan_this_fiber();
}

void fiber_prepare(fiber *f, void (*entry)())
{
    asan_unpoison(f->stack, f->stack_bytes); /* what ran there before never returned */
#if SWITCH_IN_ASSEMBLY
    void **top = reinterpret_cast<void **>(f->stack + f->stack_bytes);

    *--top = nullptr; /* the stack is aligned as after a call */
    *--top = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; i++) *--top = nullptr;
    f->stack_pointer = top;
#else
    ucontext_t *context = static_cast<ucontext_t *>(f->context);

    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = f->stack_bytes;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
#endif
}

static void switch_stack(fiber *from, fiber *to)
{
    tsan_switch(to->tsan);
#if SWITCH_IN_ASSEMBLY
    wt_fiber_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(static_cast<ucontext_t *>(from->context), static_cast<ucontext_t *>(to->context));
#endif
}

void fiber_entered()
{
#ifdef GPU_ENGINE_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void fiber_switch(fiber *from, fiber *to)
{
#ifdef GPU_ENGINE_ASAN
    __sanitizer_start_switch_fiber(&from->asan_fake_stack, to->stack, to->stack_bytes);
#endif
    switch_stack(from, to);
#ifdef GPU_ENGINE_ASAN
    __sanitizer_finish_switch_fiber(from->asan_fake_stack, nullptr, nullptr);
#endif
}

void fiber_leave(fiber *from, fiber *to)
{
#ifdef GPU_ENGINE_ASAN
    __sanitizer_start_switch_fiber(nullptr, to->stack, to->stack_bytes);
#endif
    switch_stack(from, to);
    abort();
}

} // namespace engine
