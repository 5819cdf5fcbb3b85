/* translated.h: how kernels that were translated from PTX (tests/gpu/ptx) say what they are. A
 * shared object of them is loaded by kernels.cc (WT_CUDA_KERNELS). */
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace stand_in
{

struct translated_kernel {
    const char *name; /* mangled */
    int parameters;
    const uint16_t *bytes; /* of each parameter */
    void (*run)(void *const *arguments);
    unsigned most_threads;       /* of a block; 0: no limit */
    const char *const *accesses; /* instructions that reach memory, by number */
    translated_kernel *next;
};

void add_kernel(translated_kernel *kernel);

/** From a constructor: add a kernel. */
struct add_at_load {
    explicit add_at_load(translated_kernel *kernel) { add_kernel(kernel); }
};

} // namespace stand_in
