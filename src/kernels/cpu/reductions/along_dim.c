/* along_dim.c: the engine of along_dim.h. */
#include "kernels/cpu/reductions/along_dim.h"

#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/reductions/row_plan.h"
#include "kernels/operands/operand_checks.h"

struct along_dim {
    struct wf_along_dim_loops loops;
    struct wf_row_plan rows;
};

static void free_along_dim(void *prep)
{
    wf_free(((struct along_dim *)prep)->rows.scratch);
    wf_free(prep);
}

static void run_rows(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct along_dim *p = k->prep;
    const void *x[2] = {in[0], k->n_in > 1 ? in[1] : NULL};

    (void)scalars;
    p->loops.rows(p->rows.count, p->rows.n, out[0], x);
}

static void run_columns(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct along_dim *p = k->prep;
    int64_t columns = p->rows.stride, slab = p->rows.n * columns * p->rows.bytes;
    const char *x[2] = {in[0], k->n_in > 1 ? in[1] : in[0]};
    char *y = out[0];

    (void)scalars;
    for (int64_t i = 0; i < p->rows.count / columns; i++) {
        p->loops.columns(p->rows.n, columns, columns, y, (const void *const *)x);
        x[0] += slab;
        x[1] += slab;
        y += slab;
    }
}

static void run_strided(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                        const struct wf_scalars *scalars)
{
    const struct along_dim *p = k->prep;
    struct wf_loop_walk walk = {.at = {out[0], in[0], k->n_in > 1 ? in[1] : NULL}};

    (void)scalars;
    do {
        char *y = (char *)out[0] + (walk.at[0] - (char *)out[0]);
        const void *x[2] = {NULL, NULL};

        for (int i = 0; i < k->n_in; i++) x[i] = wf_row_load(&p->rows, i + 1, walk.at[i + 1]);
        p->loops.rows(1, p->rows.n, wf_row_output_buffer(&p->rows, y), x);
        wf_row_store(&p->rows, y);
    } while (wf_loop_walk_next(&p->rows.outer, &walk));
}

weft_status wf_prepare_along_dim(struct wf_kernel_call *k, const struct wf_along_dim_loops *loops)
{
    uint8_t dtype = k->out[0]->dtype;
    struct along_dim *p;

    if (!loops[dtype].rows) return wf_fail_no_kernel(k, dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, dtype));
    k->prep = p = WF_NEW(struct along_dim);
    k->drop = free_along_dim;
    p->loops = loops[dtype];
    wf_row_plan_make(&p->rows, k, k->n_in, (int)k->attrs->dim.dim);
    k->run = k->out[0]->numel == 0 ? wf_kernel_run_noop
             : !p->rows.dense      ? run_strided
             : p->rows.stride == 1 ? run_rows
                                   : run_columns;
    return WEFT_OK;
}
