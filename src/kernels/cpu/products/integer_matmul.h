/* integer_matmul.h: products of matrices of integers, which wrap. */
#pragma once

#include "kernels/kernels.h"

/** Chooses k->run for a matmul of i32 or i64 (matmul.c). */
weft_status wf_integer_matmul_prepare(struct wf_kernel_call *k);
