/*
 * lend.c: what a call of a module sees of a parameter that is kept over the replicas' axes, and how
 * its gradient gets back. See NOTE [replicas].
 */
#include "data_parallel/data_parallel.h"

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

/* The layout of a leaf's gradient that came back in this one: each replica's is a term; along the
 * other axes it is what backward made of it. */
static struct wf_layout *layout_of_term(struct wf_member *m, struct wf_layout *given)
{
    weft_placement placements[WEFT_MAX_AXES];

    if (m->given == given) return m->term;
    WF_TRY_PTR(wf_placements_among(placements, m->whole->mesh, given));
    if (m->given) wf_layout_release(m->given);
    if (m->term) wf_layout_release(m->term);
    for (int a = 0; a < m->whole->n_axes; a++)
        if (m->replicas >> a & 1) placements[a] = weft_partial(WEFT_SUM);
    m->given = wf_layout_retain(given);
    m->term =
        wf_layout_onto(wf_layout_new(m->whole->mesh, placements, (weft_dtype)given->desc.dtype,
                                     given->desc.ndim, given->desc.global, given->desc.stride),
                       (weft_device)given->desc.device);
    return m->term;
}

static void give_back(const struct wf_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_replicas *r = node->context;

    struct wf_layout *term = layout_of_term(&r->members[node->v[0]], grad->layout);

    if (term) in_grads[0] = relabel(grad, term);
}

static void record(weft_tensor *lent, struct wf_replicas *r, const struct wf_member *member)
{
    struct wf_node *node = wf_node_record(lent, give_back, "replica", 1, &member->leaf);

    r->refs++;
    node->context = r;
    node->release_context = wf_replicas_release;
    node->v[0] = member - r->members;
}

weft_tensor *wf_replica_lend(const weft_module *m, int index, void *payload)
{
    struct wf_replicas *r = payload;
    weft_tensor *parameter = m->parameters[index].tensor;
    const struct wf_member *member = (const struct wf_member *)parameter->kept;
    weft_tensor *whole, *lent;

    WF_NEED_PTR(member && parameter->kept->keeper == &r->keeper, WEFT_ERR_STATE,
                "%s '%s' was replaced after weft_data_parallel",
                wf_member_kind(index >= m->n_parameters), m->parameters[index].name);
    weft_no_grad_begin();
    whole = wf_redistribute(parameter, member->whole->placements);
    weft_no_grad_end();
    if (!whole) return NULL;
    lent = relabel(whole, member->lent);
    if (parameter->requires_grad && (wf_recording() || wf_unrecorded(1, &parameter)))
        record(lent, r, member);
    return lent;
}
