/* pointwise_rows.h: the kernel of every row of pointwise.def, and of the gradients of its rows. */
#pragma once

#include "operands.h"

static const struct {
    const char *name;
    wf_kernel_prepare *kernel;
    int n_in;
} all_kernels[] = {
#define WF_UNARY(name, ...) {#name, wf_cpu_##name, 1}, {#name "_grad", wf_cpu_##name##_grad, 2},
#define WF_UNARY_BY_OPS(name, ...) {#name, wf_cpu_##name, 1},
#define WF_BINARY(name, ...) {#name, wf_cpu_##name, 2},
#define WF_TERNARY(name, ...) {#name, wf_cpu_##name, 3},
#include "kernels/pointwise.def"
};
enum { ALL_KERNELS = sizeof all_kernels / sizeof *all_kernels };
