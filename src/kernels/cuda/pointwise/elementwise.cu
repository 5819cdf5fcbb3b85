/* elementwise.cu: which form of an elementwise kernel fits a call. */
#include "kernels/cuda/pointwise/elementwise.h"

/* Elements of a pack: those that make 16 bytes of the widest operand (wf_pack_length). */
static int64_t pack_length(int n_operands, const struct wf_operand_strides *operands)
{
    int64_t widest = 1;

    for (int i = 0; i < n_operands; i++)
        if (operands[i].bytes > widest) widest = operands[i].bytes;
    return 16 / widest;
}

/* Whether operand i, of elements of `bytes`, can be read in packs of `length`: if its innermost
 * dim has no gaps, other dims must not break the alignment. */
static bool operand_has_packs(const struct wf_loop_nest *nest, int i, int64_t bytes, int64_t length)
{
    const struct wf_loop_dim *inner = &nest->dim[nest->n_dims - 1];

    if (inner->step[i] == 0) return i > 0;
    if (inner->step[i] != bytes) return false;
    for (int d = 0; d < nest->n_dims - 1; d++)
        if (nest->dim[d].step[i] % (length * bytes)) return false;
    return true;
}

/* The nest of packs in place of elements, and what is left over. */
static void make_packs(struct wf_elementwise_plan *plan, int64_t length,
                       const struct wf_operand_strides *operands)
{
    struct wf_elementwise_form *form = &plan->packs;
    struct wf_loop_dim *inner = &form->nest.dim[form->nest.n_dims - 1];

    form->tail = (int)(inner->size % length);
    inner->size /= length;
    form->nest.count /= length;
    for (int i = 0; i < form->nest.n_operands; i++) {
        form->one[i] = inner->step[i] == 0;
        form->tail_step[i] = inner->step[i];
        inner->step[i] *= length;
        form->tail_at[i] = inner->size * inner->step[i];
        plan->align[i] = form->one[i] ? 1 : length * operands[i].bytes;
    }
}

/* The first dim for all of whose indices one of two inputs is the same, but not within a pack; the
 * innermost: there is none. */
static int dim_of_repeats(const struct wf_loop_nest *nest)
{
    const struct wf_loop_dim *inner = &nest->dim[nest->n_dims - 1];
    int d = 0;

    for (; d < nest->n_dims - 1; d++)
        for (int i = 1; i < 3; i++)
            if (nest->dim[d].step[i] == 0 && inner->step[i] != 0) return d;
    return d;
}

/* Take such a dim out of a nest of packs where enough of them are left to fill a device. */
static void make_repeats(struct wf_elementwise_form *form)
{
    const int64_t enough = 1 << 19, most = 65535 * (int64_t)WF_REPEATS_PER_THREAD;
    struct wf_loop_nest *nest = &form->nest;
    struct wf_loop_dim taken;
    int d;

    if (nest->n_operands != 3 || nest->count < enough) return;
    d = dim_of_repeats(nest);
    if (d == nest->n_dims - 1 || nest->dim[d].size > most) return;
    taken = wf_loop_nest_remove_dim(nest, d);
    form->repeats = (uint32_t)taken.size;
    for (int i = 0; i < 3; i++) form->repeat_step[i] = taken.step[i];
}

void wf_elementwise_plan_make(struct wf_elementwise_plan *plan, int ndim, const int64_t *shape,
                              int n_operands, const struct wf_operand_strides *operands)
{
    struct wf_loop_nest *nest = &plan->singles.nest;
    int64_t length = pack_length(n_operands, operands);
    const struct wf_loop_dim *inner;
    bool fits;

    plan->singles.repeats = plan->packs.repeats = 1;
    wf_loop_nest_make(nest, shape, ndim, operands, n_operands);
    if (nest->count <= wf_cuda_index_limit) index_map_make(&plan->singles.map, nest);
    if (nest->n_dims == 0 || nest->count == 0) return;
    inner = &nest->dim[nest->n_dims - 1];
    fits = nest->n_dims == 1 ? inner->size >= length : inner->size % length == 0;
    for (int i = 0; i < n_operands && fits; i++)
        fits = operand_has_packs(nest, i, operands[i].bytes, length);
    if (!fits) return;
    plan->packs.nest = *nest;
    make_packs(plan, length, operands);
    make_repeats(&plan->packs);
    if (plan->packs.nest.count <= wf_cuda_index_limit)
        index_map_make(&plan->packs.map, &plan->packs.nest);
}

weft_status wf_elementwise_prepare(struct wf_kernel_call *k, wf_kernel_run *run)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides operands[WF_ELEMENTWISE_OPERANDS];
    struct wf_elementwise_plan *plan = WF_NEW(struct wf_elementwise_plan);

    operands[0] = wf_strides_row_major(wf_dtypes[y->dtype].size, y->shape, y->ndim);
    for (int i = 0; i < k->n_in; i++)
        operands[i + 1] = wf_strides_broadcast(k->in[i], y->shape, y->ndim);
    wf_elementwise_plan_make(plan, y->ndim, y->shape, k->n_in + 1, operands);
    k->prep = plan;
    k->run = y->numel ? run : wf_cuda_run_nothing;
    return WEFT_OK;
}
