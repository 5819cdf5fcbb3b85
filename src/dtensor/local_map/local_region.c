/* local_region.c: tape nodes that order backward through arguments, exchanges and results of a
 * local function, the same on all ranks. */
#include "dtensor/local_map/local_region.h"
#include "base/elements/dtype.h"

#include "ops/dispatch_op.h"
#include "placement/layout.h"

static _Thread_local struct wf_local_region *innermost;

weft_tensor *wf_tensor_zeros(struct wf_layout *layout)
{
    struct wf_op_args args = {.want = layout};

    return wf_dispatch_op_one_output(WF_OP_fill, NULL, 0, &args);
}

/* Another handle to the bytes, for a node of its own. */
static weft_tensor *new_handle_to_same_bytes(const weft_tensor *t)
{
    weft_tensor *other = wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);

    other->in_flight = t->in_flight;
    return other;
}

static void release_layout_context(void *layout) { wf_layout_release(layout); }

static void vjp_region_argument(const struct wf_tape_node *node, weft_tensor *grad,
                                weft_tensor **in)
{
    in[0] = grad ? grad : wf_tensor_zeros(node->context);
}

static void vjp_region_result(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in)
{
    if (wf_tape_node_needs_grad(node, 0)) in[0] = grad;
}

static void append_region_node(struct wf_local_region *region, struct wf_tape_node *node)
{
    if (region->last) {
        wf_tape_node_add_order_edge(node, region->last);
        wf_tape_node_release(region->last);
    }
    region->last = node;
    node->refs++;
}

void wf_local_region_open(struct wf_local_region *region)
{
    *region = (struct wf_local_region){.outer = innermost};
    if (innermost) region->last = region->before = innermost->last;
    if (region->last) region->last->refs++;
    innermost = region;
    wf_local_functions++;
}

/* Backward from a result of the outer region has to reach the nodes of this inner region too. */
void wf_local_region_close(struct wf_local_region *region)
{
    struct wf_tape_node *drop = region->last;

    innermost = region->outer;
    wf_local_functions--;
    if (innermost) {
        drop = innermost->last;
        innermost->last = region->last;
    }
    if (drop) wf_tape_node_release(drop);
}

void wf_local_region_add_node(struct wf_tape_node *node)
{
    if (innermost) append_region_node(innermost, node);
}

bool wf_local_region_wants_grad(void)
{
    return innermost && innermost->last && wf_grad_is_enabled();
}

weft_tensor *wf_local_region_argument(struct wf_local_region *region, weft_tensor *t)
{
    struct wf_tape_node *node;
    weft_tensor *seen;

    if (!t || !t->requires_grad || !wf_grad_is_enabled()) return t;
    seen = new_handle_to_same_bytes(t);
    node = wf_tape_record(seen, vjp_region_argument, "local_map", &t, 1);
    node->context = wf_layout_retain(t->layout);
    node->release_context = release_layout_context;
    append_region_node(region, node);
    return seen;
}

weft_tensor *wf_local_region_add_recomputed(weft_tensor *out)
{
    return wf_local_region_wants_grad() ? wf_local_region_argument(innermost, out) : out;
}

/* A region of its own, so that backward through the recomputed function stops at its inputs. Its
 * first argument is a one-element tensor that wants a gradient, as perhaps no input does. */
weft_tensor *wf_local_region_recompute(weft_recomputable *run, weft_tensor *const *in, int n,
                                       void *payload)
{
    struct wf_local_region region = {.outer = innermost};
    weft_tensor *own[WF_NODE_INPUTS], *out;

    innermost = &region;
    wf_local_region_argument(&region,
                             weft_set_requires_grad(weft_full(WEFT_F32, NULL, 0, 0), true));
    for (int i = 0; i < n; i++) own[i] = wf_local_region_argument(&region, in[i]);
    out = wf_local_region_result(&region, run(own, n, payload));
    innermost = region.outer;
    if (region.last) wf_tape_node_release(region.last);
    return out;
}

weft_tensor *wf_local_region_result(struct wf_local_region *region, weft_tensor *t)
{
    weft_tensor *seen;

    if (!t || region->last == region->before || !wf_dtype_has_gradient(weft_tensor_dtype(t)))
        return t;
    seen = new_handle_to_same_bytes(t);
    wf_tape_node_add_order_edge(wf_tape_record(seen, vjp_region_result, "local_map", &t, 1),
                                region->last);
    return seen;
}
