/* epilogue.c: see the header. */
#include "kernels/cpu/products/epilogue.h"

weft_status wf_cpu_epilogue_prepare(struct wf_cpu_epilogue *e, const struct wf_kernel_call *k,
                                    enum wf_epilogue which)
{
    static wf_kernel_prepare *const kernels[] = {[WF_EPILOGUE_GELU_TANH] = wf_cpu_gelu_tanh,
                                                 [WF_EPILOGUE_ADD] = wf_cpu_add,
                                                 [WF_EPILOGUE_GELU_TANH_GRAD] =
                                                     wf_cpu_gelu_tanh_grad,
                                                 [WF_EPILOGUE_SCALE] = wf_cpu_mul_scalar};
    bool two = which == WF_EPILOGUE_ADD || which == WF_EPILOGUE_GELU_TANH_GRAD;

    if (which == WF_EPILOGUE_NONE) return WEFT_OK;
    e->beside = two ? k->n_in - 1 : -1;
    e->takes_scalars = which == WF_EPILOGUE_SCALE;
    e->kernel = (struct wf_kernel_call){.op = k->op,
                                        .n_in = two ? 2 : 1,
                                        .n_out = 1,
                                        .in = {k->out[0], two ? k->in[e->beside] : NULL},
                                        .out = {k->out[0]},
                                        .attrs = k->attrs};
    return kernels[which](&e->kernel);
}

void wf_cpu_epilogue_run(const struct wf_cpu_epilogue *e, void *to, const void *product,
                         const void *const *in, const struct wf_scalars *scalars)
{
    static const struct wf_scalars factor_one = {.s = {1}}; /* of the second term of an add */
    const void *from[2] = {product, e->beside < 0 ? NULL : in[e->beside]};

    e->kernel.run(&e->kernel, (void *[]){to}, from, e->takes_scalars ? scalars : &factor_one);
}
