/*
 * in_place.c: results that are written over a tensor. Strides are a rank's own: a shard of one row
 * is row-major whatever the other ranks' strides are. So they do not decide what is refused, only
 * whether the kernel writes to the target itself or the result is made apart and copied.
 */
#include "dtensor/dispatch/in_place.h"

#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/recorder.h"
#include "dtensor/dispatch/captured_call.h"
#include "redistribute/in_flight.h"

/* Types of plain tensors say nothing about bytes. */
static bool same_elements(const struct wf_layout *a, const struct wf_layout *b)
{
    size_t sizes = (size_t)a->desc.ndim * sizeof a->desc.global[0];
    size_t placements = (size_t)a->n_axes * sizeof a->placements[0];

    return a->mesh == b->mesh && memcmp(a->placements, b->placements, placements) == 0 &&
           a->desc.dtype == b->desc.dtype && a->desc.device == b->desc.device &&
           a->desc.ndim == b->desc.ndim && memcmp(a->desc.global, b->desc.global, sizes) == 0;
}

static bool same_strides(const struct wf_tensor_desc *a, const struct wf_tensor_desc *b)
{
    return memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof a->stride[0]) == 0;
}

/* An operand that is another view of the target would be read while it changes. */
static bool reads_elsewhere(const struct wf_op_plan *plan, weft_tensor *const *used,
                            const weft_tensor *into)
{
    for (int i = 0; i < plan->n_in; i++)
        if (used[i] && used[i]->block == into->block &&
            (used[i]->data != into->data || used[i]->layout != into->layout))
            return true;
    return false;
}

/* Which of several results would stay is not said. */
static weft_status check_repeats(const struct wf_op_plan *plan, const weft_tensor *into)
{
    if (!wf_elements_overlap(&into->layout->desc)) return WEFT_OK;
    WF_NEED(wf_strides_may_differ(into), WEFT_ERR_STATE,
            "%s in place: several elements of the tensor lie at one place", plan->name);
    return WF_FAIL_LOCAL(WEFT_ERR_STATE,
                         "%s in place: several elements of this rank's shard lie at one place",
                         plan->name);
}

/* A recorder that puts ops off does not want to be waited for. */
static void before_write(const weft_tensor *into, const char *op)
{
    if (into->in_flight && (!wf_recorder || wf_redist_is_in_flight(into))) wf_tensor_wait(into);
    wf_tensor_note_write(into, op);
}

static void run(const struct wf_op_plan *plan, weft_tensor *const *used,
                const struct wf_op_args *args, struct wf_block *block, void *result, bool in_place)
{
    const void *from[WF_MAX_IN];
    void *to[WF_MAX_OUT] = {result};
    struct wf_block *blocks[WF_MAX_OUT] = {block};

    if (wf_recorder) {
        wf_recorder->kernel(wf_recorder,
                            &(struct wf_kernel_run_request){.plan = (struct wf_op_plan *)plan,
                                                            .args = args,
                                                            .in = used,
                                                            .blocks = blocks,
                                                            .to = to,
                                                            .in_place = in_place});
        if (in_place) args->into->in_flight |= wf_recorder_puts_off();
        return;
    }

    for (int i = 0; i < plan->n_in; i++)
        from[i] = used[i] && !plan->absent[i] ? used[i]->data : NULL;
    if (wf_capture_of_thread)
        wf_run_kernel_in_capture(plan, to, from, args);
    else
        plan->kernel.run(&plan->kernel, to, from, &args->scalars);
}

__attribute__((noinline)) static weft_tensor *
run_apart(const struct wf_op_plan *plan, weft_tensor *const *used, const struct wf_op_args *args)
{
    weft_tensor *into = args->into;
    const struct wf_tensor_desc *to = &into->layout->desc;
    struct wf_strided_copy copy;
    struct wf_block *block;

    WF_TRY_PTR(check_repeats(plan, into));
    block = wf_block_new_on((weft_device)plan->device, plan->out_bytes[0], WF_MEM_ACTIVATIONS);
    if (!block) return NULL;
    if (!plan->meta || (wf_recorder && wf_recorder->hears_meta))
        run(plan, used, args, block, block->data, false);
    before_write(into, plan->name);
    if (!plan->meta) {
        wf_strided_copy_init(&copy, to->shape, plan->out[0]->desc.stride, to->stride, to->ndim,
                             wf_dtypes[to->dtype].size);
        if (wf_recorder)
            wf_recorder->copy(wf_recorder, &copy, into->block, into->data, block, block->data);
        else
            wf_device_strided_copy(wf_device_of(into), &copy, into->data, block->data);
    }
    wf_block_release(block);
    return into;
}

weft_tensor *wf_run_into(const struct wf_op_plan *plan, weft_tensor *const *used,
                         const struct wf_op_args *args)
{
    const struct wf_layout *made = plan->out[0];
    weft_tensor *into = args->into;

    WF_NEED_PTR(made == into->layout || same_elements(made, into->layout), WEFT_ERR_SHAPE,
                "%s in place: the result would have another shape, dtype or layout", plan->name);
    if (made != into->layout && !same_strides(&made->desc, &into->layout->desc))
        return run_apart(plan, used, args);
    if (reads_elsewhere(plan, used, into)) return run_apart(plan, used, args);
    before_write(into, plan->name);
    if (!plan->meta || (wf_recorder && wf_recorder->hears_meta))
        run(plan, used, args, into->block, into->data, true);
    return into;
}
