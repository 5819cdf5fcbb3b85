/* steps.c: kernels/optim.h; a parameter's dtype was checked when its optimizer was made. */
#include "kernels/cpu/steps.h"

#include "base/error.h"

static const struct wf_steps_of *steps_of(weft_dtype dtype)
{
    if (dtype > WEFT_BF16) WF_DIE("optimizer: no CPU kernel for %s", weft_dtype_name(dtype));
    return &WF_ISA_PICK(wf_steps)->of[dtype];
}

void wf_cpu_adamw(weft_dtype dtype, int64_t count, void *w, const void *g, void *m, void *v,
                  const struct wf_adamw_step *step)
{
    steps_of(dtype)->adamw(count, w, g, m, v, step);
}

void wf_cpu_sgd(weft_dtype dtype, int64_t count, void *w, const void *g, void *buffer,
                const struct wf_sgd_step *step)
{
    steps_of(dtype)->sgd(count, w, g, buffer, step);
}

double wf_cpu_sum_squares(weft_dtype dtype, int64_t count, const void *x)
{
    return steps_of(dtype)->sum_squares(count, x);
}

void wf_cpu_scale(weft_dtype dtype, int64_t count, void *x, double s)
{
    steps_of(dtype)->scale(count, x, s);
}

void wf_cpu_axpy(weft_dtype dtype, int64_t count, void *y, double a, const void *x)
{
    steps_of(dtype)->axpy(count, y, a, x);
}
