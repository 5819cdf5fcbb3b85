/*
 * kernels.h: the contract between dispatch and the kernels (docs/concepts/kernels.md).
 *
 * A kernel sees descriptors and pointers, never a tensor. When a plan is made, the op's `prepare`
 * picks a run function for exactly these operands (dtype, strides, instruction set) and may leave
 * precomputed loops in `prep`; on every later call only `run` is called.
 * Outputs are row-major; inputs may be strided, broadcast (stride 0) or empty. run writes every
 * element of every output, also when a contracted or reduced extent is zero.
 * Plain C: a device backend includes this header too.
 */
#pragma once

#include "base/elements/tensor_desc.h"
#include "base/mem.h"
#include "kernels/op_attrs.h"
#include <weft/error.h>

enum { WF_MAX_IN = 8, WF_MAX_OUT = 4, WF_MAX_SCALAR = 4, WF_MAX_VALUE = 4 };

/** Numbers that change from call to call without changing the plan. */
struct wf_scalars {
    double s[WF_MAX_SCALAR];
    int64_t v[WF_MAX_VALUE];
};

struct wf_kernel_call;
typedef void wf_kernel_run(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                           const struct wf_scalars *scalars);

/** What a plan knows of one kernel call; constant over all its hits. */
struct wf_kernel_call {
    wf_kernel_run *run;
    void *prep;               /* from wf_malloc; freed with the plan */
    void (*drop)(void *prep); /* NULL: wf_free */
    const char *op;           /* for messages */
    int n_in, n_out;
    const struct wf_tensor_desc *in[WF_MAX_IN];   /* NULL: optional input left out */
    const struct wf_tensor_desc *out[WF_MAX_OUT]; /* NULL: output not wanted */
    const union wf_op_attrs *attrs;               /* the plan's */
};

/**
 * What a product computes of each element before it writes it. The ops of the table have none:
 * lists of compiled functions get them from the pass `epilogue`.
 *
 * GELU_TANH: of linear, out[0] is the activation of x w^T + bias; out[1], where it is wanted, that
 * sum itself. ADD: out[0] is the sum and in[3]. GELU_TANH_GRAD: of linear_dx, its result times
 * the derivative of gelu_tanh at in[2]. SCALE: of linear, linear_dx and matmul, the result times
 * the call's scalar.
 */
enum wf_epilogue {
    WF_EPILOGUE_NONE,
    WF_EPILOGUE_GELU_TANH,
    WF_EPILOGUE_ADD,
    WF_EPILOGUE_GELU_TANH_GRAD,
    WF_EPILOGUE_SCALE
};

/** Which operand's sum over the rows is the second result of linear_dw: the gradient of a bias. */
enum wf_summed_operand { WF_SUMMED_NONE, WF_SUMMED_LEFT, WF_SUMMED_RIGHT };

/** Free what was prepared; a call of which nothing was is allowed. */
static inline void wf_kernel_call_drop(struct wf_kernel_call *k)
{
    if (k->prep && k->drop)
        k->drop(k->prep);
    else
        wf_free(k->prep);
    k->prep = NULL;
}

/** Choose k->run. fails: WEFT_ERR_DTYPE when the op has no kernel for these dtypes. */
typedef weft_status wf_kernel_prepare(struct wf_kernel_call *k);

/** The kernels by number, whatever the device. */
enum wf_kernel {
#define WF_KERNEL(name, devices) WF_KERNEL_##name,
#include "kernels/kernels.def"
#undef WF_KERNEL
    WF_KERNEL_COUNT
};

/* Every CPU kernel's prepare function: wf_cpu_NAME. Semantics in src/kernels/cpu/README.md. */
#define WF_KERNEL(name, devices) wf_kernel_prepare wf_cpu_##name;
#include "kernels/kernels.def"
#undef WF_KERNEL

/**
 * Choose the instruction set once per process (knob WEFT_ISA caps it): 2 SSE, 3 AVX2, 4 AVX-512,
 * 5 AVX-512 with products of bf16, 6 with AMX tiles for them too.
 */
void wf_kernels_choose_isa(void);
/** The same when the library starts: other libraries' kernels are kept to the knob as well, which
 *  can be done once in a process. */
void wf_kernels_init_with_dnnl(void);
int wf_kernels_isa_level(void);
