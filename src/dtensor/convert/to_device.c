/*
 * to_device.c: copies between devices as an op on the tape: the gradient goes back to where the
 * tensor came from. To WEFT_META there is nothing to copy, and no gradient.
 */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "device/device.h"
#include "dtensor/dispatch/plan_cache.h"
#include "ops/op_functions.h"
#include <weft/ops.h>

/* Row-major, with the types that a plain tensor has. */
static struct wf_layout *layout_of_copy(const struct wf_layout *in)
{
    struct wf_layout *out = wf_layout_with_placements(in, in->placements);

    return in->grad_types.mesh ? wf_layout_with_grad_types(out, &in->grad_types) : out;
}

weft_status wf_plan_to_device(struct wf_op_plan *plan, const struct wf_infer *call)
{
    struct wf_kernel_call *k = &plan->kernel;

    plan->device = (uint8_t)plan->attrs.to_device.device;
    plan->way = wf_op_plan_way_on_device((weft_device)plan->device, call->row);
    plan->used[0] = wf_layout_retain(plan->in[0]);
    wf_op_plan_set_output(plan, 0, layout_of_copy(plan->in[0]));
    k->op = call->name;
    k->n_in = k->n_out = 1;
    k->in[0] = &plan->used[0]->desc;
    k->out[0] = &plan->out[0]->desc;
    return call->row->prepare(k);
}

/* One of the two is host memory. */
static void run_to_device(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                          const struct wf_scalars *scalars)
{
    size_t bytes = (size_t)k->out[0]->numel * wf_dtypes[k->out[0]->dtype].size;

    (void)scalars;
    if (k->out[0]->device == WEFT_CPU)
        wf_device_download((weft_device)k->in[0]->device, out[0], in[0], bytes, k->op);
    else
        wf_device_upload((weft_device)k->out[0]->device, out[0], in[0], bytes);
}

weft_status wf_to_device_kernel(struct wf_kernel_call *k)
{
    k->run = run_to_device;
    return WEFT_OK;
}

void wf_vjp_to_device(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = weft_to_device(g, (weft_device)wf_tape_node_input_layout(n, 0)->desc.device);
}

/* Shape without elements; strides stay. */
static weft_tensor *to_meta(weft_tensor *t)
{
    struct wf_layout *layout = wf_layout_on_device(wf_layout_retain(t->layout), WEFT_META);
    weft_tensor *meta =
        wf_tensor_new_empty(layout, (enum wf_category)t->block->category, "to_device");

    wf_layout_release(layout);
    return meta;
}

static weft_status check_copy_to_device(const weft_tensor *t, weft_device device)
{
    char text[256];

    if ((unsigned)device < WEFT_DEVICES && !wf_is_meta(t)) return wf_device_ensure_open(device);
    weft_tensor_format(t, text, sizeof text);
    WF_NEED((unsigned)device < WEFT_DEVICES, WEFT_ERR_ARG, "to: there is no device %d for %s",
            (int)device, text);
    return WF_FAIL(WEFT_ERR_STATE,
                   "to: %s is on the meta device and has no elements to copy; weft_empty_like "
                   "makes room for them",
                   text);
}

weft_tensor *weft_to_device(weft_tensor *t, weft_device device)
{
    struct wf_to_device_attrs attrs = {.device = device};
    struct wf_op_args args = {.attrs = &attrs,
                              .attr_words = (int)(sizeof attrs / sizeof(uint64_t))};
    weft_tensor *copy;

    WF_TRY_PTR(wf_tensor_need_alive(t, "to"));
    if (!t || wf_device_of(t) == device) return t;
    WF_TRY_PTR(check_copy_to_device(t, device));
    if (device == WEFT_META) return to_meta(t);
    t = weft_contiguous(t);
    if (!t) return NULL;
    copy = wf_dispatch_op_one_output(WF_OP_to_device, &t, 1, &args);
    if (copy) wf_block_recategorize(copy->block, (enum wf_category)t->block->category);
    return copy;
}
