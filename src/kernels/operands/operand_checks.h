/* operand_checks.h: what prepare functions of every device ask of the dtypes of their operands. */
#pragma once

#include "kernels/kernels.h"

/** Fails unless inputs first..n_in-1 all have `dtype`. */
weft_status wf_check_input_dtypes(const struct wf_kernel_call *k, int first, uint8_t dtype);

/** Fails unless the indices of an embedding, input 1, are i32 or i64. */
weft_status wf_check_embedding_index(const struct wf_kernel_call *k);

/** Fails unless input `target` holds classes (i32 or i64), and the other inputs from number `first`
 *  on are as wide as sums over the classes of input 0: f64 for f64, else f32. */
weft_status wf_check_cross_entropy_inputs(const struct wf_kernel_call *k, int first, int target);
