/*
 * parameter_view.c: the view of a replicated parameter that stands in its place during a call of
 * the module, and the view's gradient. See NOTE [replicas].
 */
#include "data_parallel/data_parallel.h"

#include "base/error.h"
#include "dtensor/dispatch/redistribute_op.h"
#include "tensor/tensor.h"

/* A tensor with the bytes of t and another layout. */
static weft_tensor *view_with_layout(weft_tensor *t, struct wf_layout *layout)
{
    weft_tensor *other = wf_tensor_new(layout, wf_block_retain(t->block), t->data, "replica");

    other->in_flight = t->in_flight;
    return other;
}

/* The layout of the leaf's gradient for a view's gradient of this layout: partial along the
 * replicas' axes, unchanged along the others. */
static struct wf_layout *partial_gradient_layout(struct wf_replica_tensor *m,
                                                 struct wf_layout *given)
{
    weft_placement placements[WEFT_MAX_AXES];

    if (m->given == given) return m->term;
    WF_TRY_PTR(wf_placements_in_joined_mesh(placements, m->whole->mesh, given));
    if (m->given) wf_layout_release(m->given);
    if (m->term) wf_layout_release(m->term);
    for (int a = 0; a < m->whole->n_axes; a++)
        if (m->replicas >> a & 1) placements[a] = weft_partial(WEFT_SUM);
    m->given = wf_layout_retain(given);
    m->term =
        wf_layout_on_device(wf_layout_new(m->whole->mesh, placements, (weft_dtype)given->desc.dtype,
                                          given->desc.global, given->desc.stride, given->desc.ndim),
                            (weft_device)given->desc.device);
    return m->term;
}

static void vjp_parameter_view(const struct wf_tape_node *node, weft_tensor *grad,
                               weft_tensor **in_grads)
{
    struct wf_replicas *r = node->context;

    struct wf_layout *term = partial_gradient_layout(&r->members[node->v[0]], grad->layout);

    if (term) in_grads[0] = view_with_layout(grad, term);
}

static void record_view_node(weft_tensor *view, struct wf_replicas *r,
                             const struct wf_replica_tensor *member)
{
    struct wf_tape_node *node =
        wf_tape_record(view, vjp_parameter_view, "replica", &member->leaf, 1);

    r->refs++;
    node->context = r;
    node->release_context = wf_replicas_release;
    node->v[0] = member - r->members;
}

weft_tensor *wf_replica_parameter_view(const weft_module *m, int index, void *payload)
{
    struct wf_replicas *r = payload;
    weft_tensor *parameter = m->parameters[index].tensor;
    const struct wf_replica_tensor *member =
        (const struct wf_replica_tensor *)parameter->grad_state;
    weft_tensor *whole, *view;

    WF_NEED_PTR(member && parameter->grad_state->hook == &r->grad_hook, WEFT_ERR_STATE,
                "%s '%s' was replaced after weft_data_parallel",
                wf_replica_tensor_kind(index >= m->n_parameters), m->parameters[index].name);
    weft_no_grad_open();
    whole = wf_redistribute(parameter, member->whole->placements);
    weft_no_grad_close();
    if (!whole) return NULL;
    view = view_with_layout(whole, member->view);
    if (wf_should_record(&parameter, 1)) record_view_node(view, r, member);
    return view;
}
