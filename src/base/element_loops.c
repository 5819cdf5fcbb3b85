/* element_loops.c: f32 has loops of its own, other dtypes go through f64. */
#include "base/element_loops.h"

#include <math.h>

#include "base/elements/dtype.h"

static void divide_f32(float *x, size_t count, float divisor)
{
    for (size_t i = 0; i < count; i++) x[i] /= divisor;
}

void wf_elements_divide(weft_dtype dtype, size_t count, void *x, int divisor)
{
    const struct wf_dtype_info *info = &wf_dtypes[dtype];
    char *at = x;

    if (dtype == WEFT_F32) {
        divide_f32(x, count, (float)divisor);
        return;
    }
    for (size_t i = 0; i < count; i++, at += info->size) info->store(at, info->load(at) / divisor);
}

static void power_f32(float *x, size_t count, double p)
{
    if (p == 0.5)
        for (size_t i = 0; i < count; i++) x[i] = sqrtf(x[i]);
    else if (p == 2)
        for (size_t i = 0; i < count; i++) x[i] *= x[i];
    else
        for (size_t i = 0; i < count; i++) x[i] = (float)pow(fabs((double)x[i]), p);
}

void wf_elements_power(weft_dtype dtype, size_t count, void *x, double p)
{
    const struct wf_dtype_info *info = &wf_dtypes[dtype];
    char *at = x;

    if (dtype == WEFT_F32) {
        power_f32(x, count, p);
        return;
    }
    for (size_t i = 0; i < count; i++, at += info->size)
        info->store(at, pow(fabs(info->load(at)), p));
}
