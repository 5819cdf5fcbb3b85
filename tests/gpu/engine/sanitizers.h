/*
 * sanitizers.h: what the engine tells AddressSanitizer and ThreadSanitizer of its fibers and of
 * memory. The engine itself is compiled without them (it would be seen scheduling); GPU_ENGINE_ASAN
 * or GPU_ENGINE_TSAN says which of them the kernels are compiled with. In fibers the engine calls
 * no libc function that a sanitizer watches, but for its last words.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef GPU_ENGINE_ASAN
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *bytes);
void __asan_poison_memory_region(const volatile void *p, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *p, size_t bytes);
void *__asan_region_is_poisoned(void *p, size_t bytes);
}
#endif
#ifdef GPU_ENGINE_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *p);
void __tsan_release(void *p);
void __tsan_read_range(void *p, size_t bytes);
void __tsan_write_range(void *p, size_t bytes);
}
#endif

namespace engine
{

#ifdef GPU_ENGINE_TSAN
const bool under_tsan = true;
enum { no_order = 1 }; /* a switch of fibers orders no memory */
inline void tsan_acquire(void *p) { __tsan_acquire(p); }
inline void tsan_release(void *p) { __tsan_release(p); }
inline void tsan_read(const void *p, size_t bytes)
{
    __tsan_read_range(const_cast<void *>(p), bytes);
}
inline void tsan_write(void *p, size_t bytes) { __tsan_write_range(p, bytes); }
inline void *tsan_fiber_new() { return __tsan_create_fiber(0); }
inline void tsan_fiber_free(void *fiber) { __tsan_destroy_fiber(fiber); }
inline void *tsan_this_fiber() { return __tsan_get_current_fiber(); }
inline void tsan_switch(void *fiber) { __tsan_switch_to_fiber(fiber, no_order); }
#else
const bool under_tsan = false;
inline void tsan_acquire(void *) {}
inline void tsan_release(void *) {}
inline void tsan_read(const void *, size_t) {}
inline void tsan_write(void *, size_t) {}
inline void *tsan_fiber_new() { return nullptr; }
inline void tsan_fiber_free(void *) {}
inline void *tsan_this_fiber() { return nullptr; }
inline void tsan_switch(void *) {}
#endif

#ifdef GPU_ENGINE_ASAN
inline void asan_poison(const void *p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void asan_unpoison(const void *p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
inline bool asan_poisoned(const void *p, size_t bytes)
{
    return __asan_region_is_poisoned(const_cast<void *>(p), bytes);
}
#else
inline void asan_poison(const void *, size_t) {}
inline void asan_unpoison(const void *, size_t) {}
inline bool asan_poisoned(const void *, size_t) { return false; }
#endif

} // namespace engine
