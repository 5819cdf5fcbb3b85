/*
 * elementwise.h: running elementwise kernels of any strides on inner loops that know stride 1 only.
 *
 * A line function computes n elements from operands that lie without gaps. A strided operand is
 * gathered into a small buffer first; an operand that repeats along the line may instead be read
 * as one element by another variant of the line function. Types without loops of their own are
 * computed by those of f32 or i32, a block at a time.
 */
#pragma once

#include "kernels/kernels.h"
#include "kernels/operands/loop_nest.h"

typedef void wf_elementwise_loop(int64_t n, void *out, const void *const *in,
                                 const struct wf_scalars *scalars);

/** The ways a line function may read its inputs: all as arrays, or the last or the first as one
 *  element that repeats. */
enum wf_elementwise_form { WF_LINE_FULL, WF_LINE_LAST_ONE, WF_LINE_FIRST_ONE, WF_LINE_FORMS };

/** Choose k->run for inputs that broadcast to out; `line` reads them as arrays. */
weft_status wf_elementwise_prepare(struct wf_kernel_call *k, wf_elementwise_loop *line);

/** Lines for another type than the operands', of four bytes: `load` makes such elements, `store`
 *  takes them back, NULL where the result of the lines is the output's as it is (bool). */
struct wf_computed_in {
    wf_elementwise_loop *load, *store;
};

/** The same with a line function per form (NULL: none; FULL has to be there), computed in another
 *  type where `wide` says so. */
weft_status wf_elementwise_prepare_broadcast(struct wf_kernel_call *k,
                                             wf_elementwise_loop *const forms[WF_LINE_FORMS],
                                             struct wf_computed_in wide);

/** "op: no CPU kernel for f32" */
weft_status wf_fail_no_kernel(const struct wf_kernel_call *k, uint8_t dtype);

/** Copy n elements that lie `stride` apart. */
void wf_gather_strided(void *to, const void *from, int64_t n, int64_t stride, int64_t bytes);

/** A run function for calls without elements. */
wf_kernel_run wf_kernel_run_noop;
