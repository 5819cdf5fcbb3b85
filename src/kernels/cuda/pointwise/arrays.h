/*
 * arrays.h: elementwise kernels over arrays without gaps, for callers that have addresses and a
 * count in place of descriptions.
 */
#pragma once

#include "kernels/cuda/pointwise/elementwise.h"

/** Run functor f over `count` elements of at[0], the output, and the inputs behind it. */
template <class F>
static void wf_arrays_run(const char *op, const F &f, int64_t count,
                          char *const (&at)[WF_ELEMENTWISE_OPERANDS])
{
    const size_t bytes[] = {sizeof(typename F::Y), sizeof(typename F::A), sizeof(typename F::B),
                            sizeof(typename F::C)};
    struct wf_operand_strides arrays[WF_ELEMENTWISE_OPERANDS] = {};
    struct wf_elementwise_plan plan = {};
    struct wf_kernel_call call = {};

    if (count == 0) return;
    call.op = op;
    for (int i = 0; i < F::operands; i++) {
        arrays[i].bytes = (int64_t)bytes[i];
        arrays[i].stride[0] = 1;
    }
    wf_elementwise_plan_make(&plan, 1, &count, F::operands, arrays);
    wf_elementwise_run_plan(&call, f, &plan, at);
}

/** The same with the output in place of the only input. */
template <class F>
static void wf_arrays_run_in_place(const char *op, const F &f, int64_t count, void *x)
{
    char *const at[WF_ELEMENTWISE_OPERANDS] = {(char *)x, (char *)x};

    wf_arrays_run(op, f, count, at);
}
