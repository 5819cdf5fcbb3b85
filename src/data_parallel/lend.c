/*
 * lend.c: what a call of a module sees of a parameter that is kept over the replicas' axis, and how
 * its gradient gets back. See NOTE [replicas].
 */
#include "data_parallel/data_parallel.h"

#include <string.h>

#include "base/error.h"
#include "dtensor/redistribute.h"
#include "tensor/tensor.h"

/* A tensor with the bytes of t. */
static weft_tensor *relabel(weft_tensor *t, struct wf_layout *layout)
{
    weft_tensor *other = wf_tensor_new(layout, wf_block_retain(t->block), t->data, "replica");

    other->pending = t->pending;
    return other;
}

/* Each replica's gradient is a term; along the other axes it is what backward made of it. */
static void give_back(const struct wf_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    const struct wf_layout *whole = node->context, *g = grad->layout;
    weft_placement placements[WEFT_MAX_AXES] = {{0}}; /* R */
    struct wf_layout *layout;

    placements[0] = weft_partial(WEFT_SUM);
    for (int a = 0; a < g->n_axes; a++) placements[a + 1] = g->placements[a];
    layout = wf_layout_new(whole->mesh, placements, (weft_dtype)g->desc.dtype, g->desc.ndim,
                           g->desc.global, g->desc.stride);
    layout = wf_layout_onto(layout, (weft_device)g->desc.device);
    in_grads[0] = relabel(grad, layout);
    wf_layout_release(layout);
}

static void release_layout(void *layout) { wf_layout_release(layout); }

static void record(weft_tensor *lent, const struct wf_member *member)
{
    struct wf_node *node = wf_node_record(lent, give_back, "replica", 1, &member->leaf);

    node->context = wf_layout_retain(member->whole);
    node->release_context = release_layout;
}

weft_tensor *wf_replica_lend(weft_tensor *parameter, void *payload)
{
    struct wf_replicas *r = payload;
    const struct wf_member *member = (const struct wf_member *)parameter->kept;
    weft_tensor *whole, *lent;

    WF_NEED_PTR(member && parameter->kept->keeper == &r->keeper, WEFT_ERR_STATE,
                "a parameter was replaced after weft_data_parallel");
    weft_no_grad_begin();
    whole = wf_redistribute(parameter, member->whole->placements);
    weft_no_grad_end();
    if (!whole) return NULL;
    lent = relabel(whole, member->lent);
    if (parameter->requires_grad && wf_recording()) record(lent, member);
    return lent;
}
