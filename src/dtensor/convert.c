/*
 * convert.c: between plain and distributed tensors, and redistribution as an op on the tape.
 *
 * All three are views: from_local and to_local only change labels, and redistribute is a view of an
 * input that its plan moves first. Gradient layouts: docs/concepts/autograd.md.
 */
#include <weft/dtensor.h>

#include <string.h>

#include "base/error.h"
#include "dtensor/plan.h"
#include "ops/families.h"

/* Placements as attributes: three bytes each, two axes per word. */
enum { PLACEMENT_WORDS = WEFT_MAX_AXES / 2 };

static void pack(int64_t *words, const weft_placement *placements, int n)
{
    for (int w = 0; w < PLACEMENT_WORDS; w++) words[w] = 0;
    for (int a = 0; a < n; a++) {
        int64_t p = placements[a].kind | placements[a].reduce << 8 |
                    (int64_t)(uint8_t)placements[a].dim << 16;

        words[a / 2] |= p << (a % 2 * 24);
    }
}

static void unpack(weft_placement *placements, const int64_t *words, int n)
{
    for (int a = 0; a < n; a++) {
        int64_t p = words[a / 2] >> (a % 2 * 24);

        placements[a].kind = (uint8_t)(p & 0xff);
        placements[a].reduce = (uint8_t)(p >> 8 & 0xff);
        placements[a].dim = (int8_t)(p >> 16 & 0xff);
    }
}

static void without_partial(weft_placement *placements, int n)
{
    for (int a = 0; a < n; a++)
        if (placements[a].kind == WEFT_KIND_PARTIAL) placements[a] = weft_replicate();
}

/* ---- redistribute: attributes are the target placements ---- */

weft_status wf_plan_redistribute(struct wf_plan *plan, const struct wf_infer *call)
{
    weft_placement to[WEFT_MAX_AXES], wanted[WEFT_MAX_AXES];
    struct wf_layout *in = plan->in[0];

    (void)call;
    WF_NEED(in->mesh, WEFT_ERR_ARG,
            "redistribute: the tensor is plain; weft_distribute_tensor spreads it");
    unpack(wanted, plan->attr, in->n_axes);
    WF_TRY(wf_placements_normalize(to, wanted, in->n_axes, in->desc.ndim, "redistribute"));
    WF_TRY(wf_plan_move_input(plan, 0, to));
    wf_plan_set_output(plan, 0, wf_layout_retain(plan->used[0]));
    return WEFT_OK;
}

/* Back to where it came from; what was a pending sum gets its gradient replicated. */
void wf_vjp_redistribute(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_layout *from = wf_node_in(n, 0);
    weft_placement to[WEFT_MAX_AXES];

    memcpy(to, from->placements, sizeof to);
    without_partial(to, from->n_axes);
    in[0] = weft_redistribute(g, to);
}

static bool same_placements(const struct wf_layout *layout, const weft_placement *placements)
{
    for (int a = 0; a < layout->n_axes; a++) {
        weft_placement p = placements[a];

        if (p.kind == WEFT_KIND_SHARD && p.dim < 0) p.dim = (int8_t)(p.dim + layout->desc.ndim);
        if (!weft_placement_equal(layout->placements[a], p)) return false;
    }
    return true;
}

weft_tensor *weft_redistribute(weft_tensor *t, const weft_placement *placements)
{
    int64_t words[PLACEMENT_WORDS];
    struct wf_args args = {.n_attr = PLACEMENT_WORDS, .attr = words};

    if (!t) return NULL;
    if (t->layout->mesh && same_placements(t->layout, placements)) return t;
    pack(words, placements, t->layout->n_axes);
    return wf_call(WF_OP_redistribute, 1, &t, &args);
}

/* ---- from_local: attributes are mesh, placements, whether the shape is given, and it ---- */

enum { AT_MESH, AT_PLACEMENTS, AT_GIVEN = AT_PLACEMENTS + PLACEMENT_WORDS, AT_SHAPE };

static void global_shape(int64_t *global, const struct wf_plan *plan, const weft_mesh *mesh,
                         const weft_placement *placements)
{
    const struct wf_desc *local = &plan->in[0]->desc;

    for (int d = 0; d < local->ndim; d++)
        global[d] = plan->attr[AT_GIVEN] ? plan->attr[AT_SHAPE + d] : local->shape[d];
    for (int a = 0; !plan->attr[AT_GIVEN] && a < weft_mesh_ndim(mesh); a++)
        if (placements[a].kind == WEFT_KIND_SHARD)
            global[placements[a].dim] *= weft_mesh_axis_size(mesh, a);
}

weft_status wf_plan_from_local(struct wf_plan *plan, const struct wf_infer *call)
{
    weft_mesh *mesh = (weft_mesh *)(intptr_t)plan->attr[AT_MESH];
    const struct wf_desc *local = &plan->in[0]->desc;
    weft_placement given[WEFT_MAX_AXES], placements[WEFT_MAX_AXES];
    int64_t global[WEFT_MAX_DIMS];
    struct wf_layout *layout;

    (void)call;
    WF_NEED(!plan->in[0]->mesh, WEFT_ERR_ARG, "from_local: the tensor is distributed already: %s",
            wf_infer_text(call));
    unpack(given, plan->attr + AT_PLACEMENTS, weft_mesh_ndim(mesh));
    WF_TRY(wf_placements_normalize(placements, given, weft_mesh_ndim(mesh), local->ndim,
                                   "from_local"));
    global_shape(global, plan, mesh, placements);
    layout = wf_layout_new(mesh, placements, (weft_dtype)local->dtype, local->ndim, global,
                           local->stride);
    wf_plan_set_output(plan, 0, layout);
    plan->used[0] = wf_layout_retain(plan->in[0]);
    for (int d = 0; d < local->ndim; d++)
        WF_NEED(layout->desc.shape[d] == local->shape[d], WEFT_ERR_SHAPE,
                "from_local: this rank's part should have %lld elements in dim %d and has %lld "
                "(give the global shape "
                "where shards are uneven): %s",
                (long long)layout->desc.shape[d], d, (long long)local->shape[d],
                wf_infer_text(call));
    return WEFT_OK;
}

void wf_vjp_from_local(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_layout *out = wf_node_plan(n)->out[0];
    weft_placement to[WEFT_MAX_AXES];

    memcpy(to, out->placements, sizeof to);
    without_partial(to, out->n_axes);
    in[0] = weft_to_local(weft_redistribute(g, to), NULL);
}

weft_tensor *weft_from_local(weft_tensor *local, weft_mesh *mesh, const weft_placement *placements,
                             const int64_t *shape)
{
    int64_t attr[AT_SHAPE + WEFT_MAX_DIMS];
    struct wf_args args = {.n_attr = AT_SHAPE, .attr = attr};

    if (!local || !mesh) return NULL;
    attr[AT_MESH] = (int64_t)(intptr_t)mesh;
    pack(attr + AT_PLACEMENTS, placements, weft_mesh_ndim(mesh));
    attr[AT_GIVEN] = shape != NULL;
    if (shape) {
        memcpy(attr + AT_SHAPE, shape, (size_t)weft_ndim(local) * sizeof *shape);
        args.n_attr += weft_ndim(local);
    }
    return wf_call(WF_OP_from_local, 1, &local, &args);
}

/* ---- to_local: attributes are the gradient's placements ---- */

weft_status wf_plan_to_local(struct wf_plan *plan, const struct wf_infer *call)
{
    weft_placement given[WEFT_MAX_AXES], normal[WEFT_MAX_AXES];
    struct wf_layout *in = plan->in[0];

    (void)call;
    unpack(given, plan->attr, in->n_axes);
    WF_TRY(wf_placements_normalize(normal, given, in->n_axes, in->desc.ndim, "to_local"));
    wf_plan_set_output(plan, 0, wf_layout_local(in));
    plan->used[0] = wf_layout_retain(in);
    return WEFT_OK;
}

void wf_vjp_to_local(const struct wf_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_plan *plan = wf_node_plan(n);
    weft_placement placements[WEFT_MAX_AXES];

    unpack(placements, plan->attr, plan->in[0]->n_axes);
    in[0] = weft_from_local(g, plan->in[0]->mesh, placements, plan->in[0]->desc.global);
}

weft_tensor *weft_to_local(weft_tensor *t, const weft_placement *grad_placements)
{
    int64_t words[PLACEMENT_WORDS];
    struct wf_args args = {.n_attr = PLACEMENT_WORDS, .attr = words};
    weft_placement standard[WEFT_MAX_AXES];

    if (!t || !t->layout->mesh) return t;
    if (!grad_placements) {
        memcpy(standard, t->layout->placements, sizeof standard);
        without_partial(standard, t->layout->n_axes);
        grad_placements = standard;
    }
    pack(words, grad_placements, t->layout->n_axes);
    return wf_call(WF_OP_to_local, 1, &t, &args);
}

weft_tensor *weft_full_tensor(weft_tensor *t)
{
    weft_placement replicated[WEFT_MAX_AXES] = {{0}};

    return t && t->layout->mesh ? weft_to_local(weft_redistribute(t, replicated), NULL) : t;
}
