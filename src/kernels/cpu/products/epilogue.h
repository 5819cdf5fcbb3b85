/* epilogue.h: what stands behind a product (enum wf_epilogue): the kernel of the op that it stands
 * for, with its bits. */
#pragma once

#include "kernels/kernels.h"

struct wf_cpu_epilogue {
    struct wf_kernel_call kernel; /* run NULL: there is none */
    int beside;         /* the operand of the product's call that it reads too; -1: none */
    bool takes_scalars; /* those of the call */
};

/** For the product that k describes. */
weft_status wf_cpu_epilogue_prepare(struct wf_cpu_epilogue *e, const struct wf_kernel_call *k,
                                    enum wf_epilogue which);

/** to: the epilogue of `product`, which may be `to` itself. */
void wf_cpu_epilogue_run(const struct wf_cpu_epilogue *e, void *to, const void *product,
                         const void *const *in, const struct wf_scalars *scalars);
