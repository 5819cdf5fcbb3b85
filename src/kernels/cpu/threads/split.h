/*
 * split.h: large calls of a kernel divided among the threads of a rank (WEFT_THREADS).
 *
 * The result is cut along one dim into a part per thread, and each part is a call of the same
 * kernel on boxes of the operands. Only kernels are divided whose elements do not depend on where
 * the cut is, so the bits are those of one thread.
 */
#pragma once

#include "kernels/kernels.h"

/** prepare(k), or where that is worth it a call that divides it. As prepare otherwise. */
weft_status wf_prepare_on_threads(enum wf_kernel kernel, wf_kernel_prepare *prepare,
                                  struct wf_kernel_call *k);
