/*
 * slice.c: a run of a dim's elements taken out of a shard of the whole, and put back into one.
 *
 * Where the dim is cut, a rank has some of the run's elements, or none: it gives those, and zeros
 * for the rest, so that the ranks' results add up to the whole.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/operands/operand_checks.h"

struct slice {
    struct wf_strided_copy copy;      /* of the whole slice, or of one index of the dim */
    int64_t outer;                    /* products of the dims before the sliced one */
    int64_t slab, used, index;        /* bytes of the sliced dim in y, of the slice, of one index */
    const struct wf_tensor_desc *cut; /* the operand that may be sharded along the dim */
    int dim;
    int64_t bytes;                  /* of the output */
    int64_t length;                 /* of the slice */
    int64_t to_local, to_slice;     /* bytes per local index of the cut dim, per index of the */
    int64_t from_local, from_slice; /* slice: one of them is 0 on each side */
};

/* Copy those of the slice's indices that the run has; its first is the rank's local index `at`. */
static void copy_range(const struct slice *p, struct wf_index_range run, int64_t at, int64_t start,
                       char *to, const char *from)
{
    struct wf_index_range both =
        wf_index_range_intersect(run, (struct wf_index_range){start, p->length});

    for (int64_t g = both.offset; g < both.offset + both.size; g++) {
        int64_t local = at + g - run.offset, i = g - start;

        wf_strided_copy_run(&p->copy, to + local * p->to_local + i * p->to_slice,
                            from + local * p->from_local + i * p->from_slice);
    }
}

static void run_sharded(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct slice *p = k->prep;
    const struct wf_index_ranges *runs = p->cut->runs;
    struct wf_index_range whole = {p->cut->offset[p->dim], p->cut->shape[p->dim]};
    int64_t count = runs ? runs->count[p->dim] : 1, at = 0;
    const struct wf_index_range *of = runs ? runs->of[p->dim] : &whole;

    memset(out[0], 0, (size_t)p->bytes);
    for (int64_t r = 0; r < count; at += of[r++].size)
        copy_range(p, of[r], at, scalars->v[0], out[0], in[0]);
}

/* Copies of one index, where the cut operand's indices are found among those of the slice. */
static void prepare_sharded(struct wf_kernel_call *k, struct slice *p,
                            const struct wf_tensor_desc *cut, struct wf_operand_strides to,
                            struct wf_operand_strides from)
{
    const struct wf_tensor_desc *y = k->out[0];
    int64_t one[WEFT_MAX_DIMS], to_step, from_step;
    int dim = (int)k->attrs->slice.dim;

    memcpy(one, y->shape, sizeof one);
    one[dim] = 1;
    to_step = to.stride[dim] * to.bytes;
    from_step = from.stride[dim] * from.bytes;
    wf_strided_copy_init(&p->copy, one, from.stride, to.stride, y->ndim, (size_t)to.bytes);
    p->cut = cut;
    p->dim = dim;
    p->bytes = y->numel * to.bytes;
    if (cut == y)
        p->to_local = to_step, p->from_slice = from_step, p->length = k->in[0]->shape[dim];
    else
        p->to_slice = to_step, p->from_local = from_step, p->length = y->shape[dim];
    k->run = y->numel ? run_sharded : wf_kernel_run_noop;
}

weft_status wf_cpu_slice_masked(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct slice *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct slice);
    prepare_sharded(k, p, x, wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim),
                    wf_strides_broadcast(x, x->shape, x->ndim));
    return WEFT_OK;
}

static void run_unsharded(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct slice *p = k->prep;
    int64_t head = scalars->v[0] * p->index;
    char *y = out[0];

    for (int64_t i = 0; i < p->outer; i++, y += p->slab) {
        memset(y, 0, (size_t)head);
        memset(y + head + p->used, 0, (size_t)(p->slab - head - p->used));
    }
    wf_strided_copy_run(&p->copy, (char *)out[0] + head, in[0]);
}

weft_status wf_cpu_slice_grad(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *d = k->in[0], *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    struct wf_operand_strides from = wf_strides_broadcast(d, d->shape, d->ndim);
    int64_t dim = k->attrs->slice.dim;
    struct slice *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct slice);
    if (y->shape[dim] != y->global[dim]) {
        prepare_sharded(k, p, y, to, from);
        return WEFT_OK;
    }
    wf_strided_copy_init(&p->copy, d->shape, from.stride, to.stride, d->ndim, (size_t)to.bytes);
    p->index = to.stride[dim] * to.bytes;
    p->slab = y->shape[dim] * p->index;
    p->used = d->shape[dim] * p->index;
    p->outer = 1;
    for (int i = 0; i < dim; i++) p->outer *= y->shape[i];
    k->run = y->numel ? run_unsharded : wf_kernel_run_noop;
    return WEFT_OK;
}
