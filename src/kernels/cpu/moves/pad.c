/*
 * pad.c: a tensor's elements among others that all have one value.
 *
 *   y[before + step i] = x[i], the value elsewhere
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/stream_copy.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/operands/operand_checks.h"

/* x's runs of LEAST_RUN bytes and more are copied one by one, and only what is between them is
 * filled; gaps of up to PATTERN bytes from elements of the value that lie ready. */
enum { LEAST_RUN = 64, PATTERN = 128 };

struct pad {
    struct wf_strided_copy copy;
    wf_elementwise_loop *fill;
    void (*store)(void *element, double value);
    int64_t n, bytes; /* of the output */
    int64_t first;    /* bytes to the place of x's first element */
};

struct filling {
    const struct pad *pad;
    const struct wf_scalars *scalars;
    const void *value; /* an element */
    char pattern[PATTERN];
    char *written; /* the output is complete up to here */
};

/* With the value, up to `end`. */
static inline void fill_gap_up_to(struct filling *f, char *end)
{
    size_t bytes = (size_t)(end - f->written);

    if (bytes <= PATTERN)
        memcpy(f->written, f->pattern, bytes);
    else
        f->pad->fill((int64_t)bytes / f->pad->bytes, f->written, &f->value, f->scalars);
}

/* x's runs from the first to the last, as the output has them, each behind what comes before it. */
static void copy_runs_and_fill_gaps(struct filling *f, int loop, char *to, const char *from)
{
    const struct wf_strided_copy *copy = &f->pad->copy;

    if (loop < copy->loops) {
        for (int64_t i = 0; i < copy->count[loop]; i++)
            copy_runs_and_fill_gaps(f, loop + 1, to + i * copy->dst_step[loop],
                                    from + i * copy->src_step[loop]);
        return;
    }
    fill_gap_up_to(f, to);
    if (copy->streamed)
        wf_stream_row(to, from, copy->run, copy->dst_step[copy->loops - 1]);
    else
        wf_copy_row(to, from, copy->run);
    f->written = to + copy->run;
}

static void run_pad(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct pad *p = k->prep;
    const void *x = in[0];
    char *y = out[0];
    uint64_t element = 0;
    struct filling f = {.pad = p, .scalars = scalars, .value = &element, .written = y};

    if (scalars->s[0] != 0) p->store(&element, scalars->s[0]);
    if (p->copy.run < LEAST_RUN || p->copy.tiled || p->copy.transposed) {
        p->fill(p->n, y, &f.value, scalars);
        wf_strided_copy_run(&p->copy, y + p->first, x);
        return;
    }
    p->fill(PATTERN / p->bytes, f.pattern, &f.value, scalars);
    copy_runs_and_fill_gaps(&f, 0, y + p->first, x);
    fill_gap_up_to(&f, y + p->n * p->bytes);
    if (p->copy.streamed) wf_stream_end();
}

weft_status wf_cpu_pad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    const struct wf_pad_attrs *attrs = &k->attrs->pad;
    const struct wf_dtype_info *info = &wf_dtypes[y->dtype];
    struct wf_operand_strides to = wf_strides_row_major(info->size, y->shape, y->ndim);
    struct wf_operand_strides from = wf_strides_broadcast(x, x->shape, x->ndim);
    struct pad *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct pad);
    p->n = y->numel;
    p->bytes = info->size;
    p->store = info->store;
    p->fill = WF_ISA_PICK(wf_cast_where_fill_loops)->fill[info->size];
    for (int d = 0; d < y->ndim; d++) {
        p->first += attrs->before[d] * to.stride[d] * info->size;
        to.stride[d] *= attrs->step[d];
    }
    wf_strided_copy_init(&p->copy, x->shape, from.stride, to.stride, y->ndim, (size_t)info->size);
    k->run = y->numel ? run_pad : wf_kernel_run_noop;
    return WEFT_OK;
}
