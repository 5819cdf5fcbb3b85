/* sampled.c: operands of a sample in f64. */
#include "autograd/sampled.h"

#include <stdlib.h>

#include "base/elements/dtype.h"

void wt_sampled_open(struct wt_sampled *s, const struct wt_op_case *sample)
{
    *s = (struct wt_sampled){.sample = sample};
    s->n_in = wt_operands(s->operand, sample, WEFT_F64);
    for (int i = 0; i < s->n_in; i++) {
        const struct wt_operand *o = &s->operand[i];

        if (!o->present) continue;
        s->value[i] = malloc(((size_t)o->numel + 1) * sizeof(double));
        if (!s->value[i]) abort();
        for (int64_t e = 0; e < o->numel; e++) s->value[i][e] = wt_operand_value(sample, i, o, e);
    }
}

void wt_sampled_close(struct wt_sampled *s)
{
    for (int i = 0; i < s->n_in; i++) free(s->value[i]);
}

weft_tensor *wt_sampled_plain(const struct wt_sampled *s, int i)
{
    const struct wt_operand *o = &s->operand[i];
    weft_tensor *t;

    if (!o->present) return NULL;
    t = weft_empty(o->dtype, o->shape, o->ndim);
    for (int64_t e = 0; t && e < o->numel; e++)
        wf_dtypes[o->dtype].store((char *)weft_data(t) + (size_t)e * wf_dtypes[o->dtype].size,
                                  s->value[i][e]);
    return t;
}

bool wt_sampled_has_gradient(const struct wt_sampled *s, int i)
{
    return wf_ops[s->sample->op].vjp && s->operand[i].present && s->operand[i].domain != 'm' &&
           weft_dtype_is_float(s->operand[i].dtype);
}

weft_tensor *wt_sampled_call(const struct wt_sampled *s, weft_tensor *const *in)
{
    struct wf_op_args args = wt_op_case_args(s->sample);

    return wf_dispatch_op_one_output(s->sample->op, in, s->n_in, &args);
}

weft_tensor *wt_weights_like(const weft_tensor *y)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_tensor *weights;

    for (int d = 0; d < weft_ndim(y); d++) shape[d] = weft_size(y, d);
    weights = weft_empty(WEFT_F64, shape, weft_ndim(y));
    for (int64_t e = 0; e < weft_numel(weights); e++)
        ((double *)weft_data(weights))[e] = 0.3 + wt_noise(4, 2, (uint64_t)e);
    return weights;
}
