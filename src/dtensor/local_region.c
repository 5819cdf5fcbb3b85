/* local_region.c: the thread that ties arguments, exchanges and results of a local function. */
#include "dtensor/local_region.h"

#include "ops/call.h"
#include "placement/layout.h"

static _Thread_local struct wf_local_region *innermost;

weft_tensor *wf_zeros(struct wf_layout *layout)
{
    struct wf_args args = {.want = layout};

    return wf_call(WF_OP_fill, 0, NULL, &args);
}

/* Another handle to the bytes, for a node of its own. */
static weft_tensor *same(const weft_tensor *t)
{
    weft_tensor *other = wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);

    other->pending = t->pending;
    return other;
}

static void drop_layout(void *layout) { wf_layout_release(layout); }

static void vjp_enter(const struct wf_node *node, weft_tensor *grad, weft_tensor **in)
{
    in[0] = grad ? grad : wf_zeros(node->context);
}

static void vjp_leave(const struct wf_node *node, weft_tensor *grad, weft_tensor **in)
{
    if (wf_node_wants(node, 0)) in[0] = grad;
}

static void extend(struct wf_local_region *region, struct wf_node *node)
{
    if (region->last) {
        wf_node_after(node, region->last);
        wf_node_release(region->last);
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

/* What a walk has to come to inside it has to come to from the results around, too. */
void wf_local_region_close(struct wf_local_region *region)
{
    struct wf_node *drop = region->last;

    innermost = region->outer;
    wf_local_functions--;
    if (innermost) {
        drop = innermost->last;
        innermost->last = region->last;
    }
    if (drop) wf_node_release(drop);
}

void wf_local_region_add(struct wf_node *node)
{
    if (innermost) extend(innermost, node);
}

bool wf_local_region_wants(void) { return innermost && innermost->last && wf_recording(); }

weft_tensor *wf_local_region_enter(struct wf_local_region *region, weft_tensor *t)
{
    struct wf_node *node;
    weft_tensor *seen;

    if (!t || !t->requires_grad || !wf_recording()) return t;
    seen = same(t);
    node = wf_node_record(seen, vjp_enter, "local_map", 1, &t);
    node->context = wf_layout_retain(t->layout);
    node->release_context = drop_layout;
    extend(region, node);
    return seen;
}

weft_tensor *wf_local_region_piece(weft_tensor *out)
{
    return wf_local_region_wants() ? wf_local_region_enter(innermost, out) : out;
}

/* A region of its own: its walk must not go on to what is around the piece. It begins with a number
 * that wants a gradient, for here perhaps no input does. */
weft_tensor *wf_local_region_run_piece(weft_recomputable *run, weft_tensor *const *in, int n,
                                       void *payload)
{
    struct wf_local_region region = {.outer = innermost};
    weft_tensor *own[WF_NODE_INPUTS], *out;

    innermost = &region;
    wf_local_region_enter(&region, weft_set_requires_grad(weft_full(WEFT_F32, 0, NULL, 0), true));
    for (int i = 0; i < n; i++) own[i] = wf_local_region_enter(&region, in[i]);
    out = wf_local_region_leave(&region, run(own, n, payload));
    innermost = region.outer;
    if (region.last) wf_node_release(region.last);
    return out;
}

weft_tensor *wf_local_region_leave(struct wf_local_region *region, weft_tensor *t)
{
    weft_tensor *seen;

    if (!t || region->last == region->before || !weft_dtype_is_float(weft_tensor_dtype(t)))
        return t;
    seen = same(t);
    wf_node_after(wf_node_record(seen, vjp_leave, "local_map", 1, &t), region->last);
    return seen;
}
