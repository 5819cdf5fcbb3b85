/*
 * reduce.c: sum and max over any dims of strided inputs.
 *
 * The dim along which the input has stride 1 is the inner loop, whether it is reduced (lines) or
 * kept (columns); all others are walked. Without such a dim, lines are gathered first.
 */
#include "kernels/cpu/reductions/reduce.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/loop_nest.h"

enum { BLOCK = 256, X = 0, Y = 1 };

struct reduce {
    struct wf_reduce_loops loops;
    struct wf_loop_nest kept, reduced; /* walked; operands X and Y, Y stands still in `reduced` */
    struct wf_loop_dim line;           /* lines: the inner reduced dim */
    struct wf_loop_dim rows, columns;  /* columns: a reduced dim, and the inner kept dim */
    int64_t bytes;                     /* of an element */
    bool empty;                        /* something reduced has size 0 */
};

static void reduce_line(const struct reduce *p, const char *x, void *acc)
{
    uint64_t buffer[BLOCK];
    int64_t stride = p->line.step[X] / p->bytes;

    if (stride == 1 || p->line.size == 1) {
        p->loops.line(p->line.size, x, acc);
        return;
    }
    for (int64_t i = 0; i < p->line.size; i += BLOCK) {
        int64_t n = p->line.size - i < BLOCK ? p->line.size - i : BLOCK;

        wf_gather_strided(buffer, x + i * p->line.step[X], n, stride, p->bytes);
        p->loops.line(n, buffer, acc);
    }
}

static void run_lines(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                      const struct wf_scalars *scalars)
{
    const struct reduce *p = k->prep;
    struct wf_loop_walk kept = {.at = {in[0], out[0]}};
    char *y = out[0];

    do {
        struct wf_loop_walk reduced = {.at = {kept.at[X]}};
        uint64_t acc;

        p->loops.start(1, &acc);
        do {
            if (!p->empty) reduce_line(p, reduced.at[X], &acc);
        } while (!p->empty && wf_loop_walk_next(&p->reduced, &reduced));
        p->loops.finish(1, &acc, y + (kept.at[Y] - (char *)out[0]), 1, scalars->s[0]);
    } while (wf_loop_walk_next(&p->kept, &kept));
}

/* One piece of at most WF_REDUCE_COLUMNS outputs. */
static void reduce_columns(const struct reduce *p, int64_t n, const char *x, char *y, double scale)
{
    struct wf_loop_walk reduced = {.at = {x}};
    uint64_t acc[WF_REDUCE_COLUMNS];

    p->loops.start(n, acc);
    do {
        if (!p->empty)
            p->loops.columns(p->rows.size, p->rows.step[X] / p->bytes, n, reduced.at[X], acc);
    } while (!p->empty && wf_loop_walk_next(&p->reduced, &reduced));
    p->loops.finish(n, acc, y, p->columns.step[Y] / p->bytes, scale);
}

static void run_columns(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct reduce *p = k->prep;
    struct wf_loop_walk kept = {.at = {in[0], out[0]}};

    do {
        char *y = (char *)out[0] + (kept.at[Y] - (char *)out[0]);

        for (int64_t j = 0; j < p->columns.size; j += WF_REDUCE_COLUMNS) {
            int64_t n = p->columns.size - j;

            reduce_columns(p, n < WF_REDUCE_COLUMNS ? n : WF_REDUCE_COLUMNS,
                           kept.at[X] + j * p->columns.step[X], y + j * p->columns.step[Y],
                           scalars->s[0]);
        }
    } while (wf_loop_walk_next(&p->kept, &kept));
}

static int unit_stride_dim(const struct wf_loop_nest *nest, int64_t bytes)
{
    for (int d = nest->n_dims - 1; d >= 0; d--)
        if (nest->dim[d].step[X] == bytes) return d;
    return -1;
}

static weft_status prepare_reduce(struct wf_kernel_call *k, const struct wf_reduce_loops *loops)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct reduce *p;
    int dense;

    if (!loops->line) return wf_fail_no_kernel(k, x->dtype);
    WF_NEED(k->out[0]->dtype == x->dtype, WEFT_ERR_DTYPE, "%s: gives %s, not %s", k->op,
            wf_dtypes[x->dtype].name, wf_dtypes[k->out[0]->dtype].name);
    k->prep = p = WF_NEW(struct reduce);
    p->loops = *loops;
    p->bytes = wf_dtypes[x->dtype].size;
    wf_loop_nest_of_dims(&p->kept, x, k->attrs->reduce.dims, false);
    wf_loop_nest_of_dims(&p->reduced, x, k->attrs->reduce.dims, true);
    p->empty = p->reduced.count == 0;
    if (k->out[0]->numel == 0) {
        k->run = wf_kernel_run_noop;
        return WEFT_OK;
    }
    dense = unit_stride_dim(&p->kept, p->bytes);
    if (dense >= 0) {
        p->columns = wf_loop_nest_remove_dim(&p->kept, dense);
        p->rows = wf_loop_nest_remove_dim(&p->reduced, p->reduced.n_dims - 1);
        k->run = run_columns;
        return WEFT_OK;
    }
    dense = unit_stride_dim(&p->reduced, p->bytes);
    p->line = wf_loop_nest_remove_dim(&p->reduced, dense >= 0 ? dense : p->reduced.n_dims - 1);
    k->run = run_lines;
    return WEFT_OK;
}

weft_status wf_cpu_sum(struct wf_kernel_call *k)
{
    return prepare_reduce(k, &WF_ISA_PICK(wf_reductions)->sum[k->in[0]->dtype]);
}

weft_status wf_cpu_max(struct wf_kernel_call *k)
{
    return prepare_reduce(k, &WF_ISA_PICK(wf_reductions)->max[k->in[0]->dtype]);
}
