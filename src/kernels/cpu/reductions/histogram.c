/* histogram.c: x, range [2] -> how many elements of x lie in each of some equal bins between. */
#include "kernels/cpu/reductions/histogram.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/loop_nest.h"
#include "kernels/operands/operand_checks.h"

struct histogram {
    struct wf_loop_nest outer;
    struct wf_loop_dim line;
    struct wf_operand range;
    int64_t bytes;
    bool empty;
};

static void free_histogram(void *prep)
{
    wf_operand_free(&((struct histogram *)prep)->range);
    wf_scratch_release();
    wf_free(prep);
}

static void run_histogram(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    const struct histogram *p = k->prep;
    const struct wf_histograms *loops = WF_ISA_PICK(wf_histograms);
    int64_t bins = k->attrs->histogram.bins, *counts = wf_scratch_buffer();
    const void *range = wf_operand_copy_if_needed(&p->range, in[1], counts + bins);
    struct wf_loop_walk outer = {.at = {in[0]}};

    (void)scalars;
    memset(counts, 0, (size_t)bins * sizeof *counts);
    do {
        if (!p->empty)
            loops->add[k->in[0]->dtype](p->line.size, p->line.step[0] / p->bytes, outer.at[0],
                                        range, bins, counts);
    } while (!p->empty && wf_loop_walk_next(&p->outer, &outer));
    loops->store[k->in[0]->dtype](bins, counts, out[0]);
}

weft_status wf_cpu_histogram(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct histogram *p;

    if (!wf_dtype_is_float(x->dtype)) return wf_fail_no_kernel(k, x->dtype);
    WF_TRY(wf_check_input_dtypes(k, 0, x->dtype));
    k->prep = p = WF_NEW(struct histogram);
    k->drop = free_histogram;
    p->bytes = wf_dtypes[x->dtype].size;
    p->empty = x->numel == 0;
    wf_loop_nest_of_dims(&p->outer, x, -1, true);
    p->line = wf_loop_nest_remove_dim(&p->outer, p->outer.n_dims - 1);
    wf_operand_prepare_dense(&p->range, k->in[1]);
    wf_scratch_reserve((size_t)k->attrs->histogram.bins * sizeof(int64_t) + p->range.scratch);
    k->run = k->out[0]->numel == 0 ? wf_kernel_run_noop : run_histogram;
    return WEFT_OK;
}
