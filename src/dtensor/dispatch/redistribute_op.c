/*
 * redistribute_op.c: redistribution as an op on the tape: its input, moved, is its result. Gradient
 * layouts: docs/concepts/autograd.md.
 */
#include "dtensor/dispatch/redistribute_op.h"

#include <string.h>

#include "base/error.h"
#include "base/observers.h"
#include "base/recorder.h"
#include "base/sys.h"
#include "dtensor/dispatch/placement_args.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/dispatch/redistribute_gradient.h"
#include "mesh/mesh.h"
#include "ops/op_functions.h"
#include "redistribute/in_flight.h"
#include <weft/autograd.h>
#include <weft/extend/redistribution.h>
#include <weft/ops.h>

weft_status wf_plan_redistribute(struct wf_op_plan *plan, const struct wf_infer *call)
{
    weft_placement to[WEFT_MAX_AXES], wanted[WEFT_MAX_AXES];
    struct wf_layout *in = plan->in[0];

    (void)call;
    WF_NEED(in->mesh, WEFT_ERR_ARG,
            "redistribute: the tensor is plain; weft_distribute_tensor spreads it");
    wf_placements_from_words(wanted, plan->attrs.redistribute.placements, in->n_axes);
    WF_TRY(wf_placements_normalize(to, wanted, in->n_axes, in->desc.ndim, "redistribute"));
    WF_TRY(wf_placements_check_segments(to, in->n_axes, in->desc.global, "redistribute"));
    WF_TRY(wf_op_plan_move_input(plan, 0, to));
    wf_op_plan_set_output(plan, 0, wf_layout_retain(plan->used[0]));
    if (plan->move[0] && !plan->meta) plan->way = WF_EXECUTE_REDISTRIBUTION;
    return WEFT_OK;
}

weft_tensor *wf_redistribute_gradient(weft_tensor *g, const struct wf_layout *input)
{
    weft_placement to[WEFT_MAX_AXES];

    if (!g) return NULL;
    memcpy(to, input->placements, sizeof to);
    wf_placements_drop_partial(to, input->n_axes);
    return g->layout->mesh == input->mesh ? wf_redistribute(g, to)
                                          : weft_redistribute_to_mesh(g, input->mesh, to);
}

void wf_vjp_redistribute(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    in[0] = wf_redistribute_gradient(g, wf_tape_node_input_layout(n, 0));
}

static bool has_placements(const struct wf_layout *layout, const weft_placement *placements)
{
    for (int a = 0; a < layout->n_axes; a++) {
        weft_placement p = placements[a];

        if (wf_is_shard_or_strided(p) && p.dim < 0) p.dim = (int8_t)(p.dim + layout->desc.ndim);
        if (!weft_placement_equal(layout->placements[a], p)) return false;
    }
    return true;
}

static struct wf_op_args redistribute_arguments(struct wf_redistribute_attrs *attrs,
                                                const weft_tensor *t,
                                                const weft_placement *placements)
{
    int n = t->layout->n_axes;

    attrs->flattened_axes = t->layout->mesh ? wf_mesh_flattened_count(t->layout->mesh) : 0;
    wf_placements_to_words(attrs->placements, placements, n);
    return (struct wf_op_args){.attrs = attrs,
                               .attr_words =
                                   WF_ATTR_WORDS(redistribute, placements, WF_PLACEMENT_WORDS * n)};
}

weft_tensor *wf_redistribute(weft_tensor *t, const weft_placement *placements)
{
    struct wf_redistribute_attrs attrs;
    struct wf_op_args args;

    if (!t) return NULL;
    if (t->layout->mesh && has_placements(t->layout, placements)) return t;
    args = redistribute_arguments(&attrs, t, placements);
    return wf_dispatch_op_one_output(WF_OP_redistribute, &t, 1, &args);
}

/* ---- what users may ask for ---- */

/* Partial is what an op leaves, not a way to hold a value: only shards may become a sum, which
 * takes nothing but zeros. */
static weft_status refuse_new_partial(const struct wf_layout *from, const weft_placement *to)
{
    char was[WF_PLACEMENT_TEXT], is[WF_PLACEMENT_TEXT], layout[512];

    for (int a = 0; a < from->n_axes; a++) {
        if (!weft_is_partial(to[a]) || weft_placement_equal(from->placements[a], to[a])) continue;
        if (wf_is_shard_or_strided(from->placements[a]) && to[a].reduce == WEFT_SUM) continue;
        weft_placements_format(&from->placements[a], 1, was, sizeof was);
        weft_placements_format(&to[a], 1, is, sizeof is);
        wf_layout_print(from, layout, sizeof layout);
        return WF_FAIL(WEFT_ERR_LAYOUT,
                       "redistribute: Can not redistribute from %s to %s on axis %s%s: %s", was, is,
                       wf_mesh_axes_label(from->mesh, 1u << a),
                       weft_is_partial(from->placements[a])
                           ? "; from one partial type to another is unsupported"
                           : "; only a shard may become a partial sum",
                       layout);
    }
    return WEFT_OK;
}

static const weft_placement replicated[WEFT_MAX_AXES]; /* what NULL stands for */

weft_tensor *weft_redistribute(weft_tensor *t, const weft_placement *placements)
{
    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "redistribute"));
    if (!placements) placements = replicated;
    if (t->layout->mesh) WF_TRY_PTR(refuse_new_partial(t->layout, placements));
    return wf_redistribute(t, placements);
}

static weft_status need_distributed(const weft_tensor *t, const char *who)
{
    WF_NEED_GIVEN(t, "%s: the tensor is NULL", who);
    WF_TRY(wf_tensor_need_alive(t, who));
    WF_NEED(t->layout->mesh, WEFT_ERR_ARG, "%s: the tensor is plain", who);
    return WEFT_OK;
}

/* The plan of a redistribution that nobody runs; NULL with an error as weft_redistribute's. */
static struct wf_redist_plan *
plan_without_running(const weft_tensor *t, const weft_placement *placements, const char *who)
{
    weft_placement to[WEFT_MAX_AXES];
    struct wf_redist_plan *plan;
    struct wf_layout *target;

    WF_TRY_PTR(need_distributed(t, who));
    if (!placements) placements = replicated;
    WF_TRY_PTR(refuse_new_partial(t->layout, placements));
    WF_TRY_PTR(
        wf_placements_normalize(to, placements, t->layout->n_axes, weft_ndim(t), "redistribute"));
    WF_TRY_PTR(wf_placements_check_segments(to, t->layout->n_axes, t->layout->desc.global,
                                            "redistribute"));
    target = wf_layout_with_placements(t->layout, to);
    plan = wf_redist_plan_new(t->layout, target);
    wf_layout_release(target);
    return plan;
}

int weft_redistribution_format(const weft_tensor *t, const weft_placement *placements, char *text,
                               size_t bytes)
{
    struct wf_redist_plan *plan = plan_without_running(t, placements, "redistribution_format");
    int length = plan ? wf_redist_print(plan, text, bytes) : -1;

    wf_redist_plan_free(plan);
    return length;
}

weft_status weft_redistribute_cost(weft_redistribution_cost *out, const weft_tensor *t,
                                   const weft_placement *placements)
{
    struct wf_redist_plan *plan;
    double bytes = 0;

    WF_NEED_GIVEN(out, "redistribute_cost: nowhere to write to");
    plan = plan_without_running(t, placements, "redistribute_cost");
    if (!plan) return weft_error_status();
    *out = (weft_redistribution_cost){.microseconds = plan->cost};
    for (int s = 0; s < plan->n_steps; s++) {
        double sent = wf_redist_step_bytes(plan->from, &plan->steps[s]);

        out->collectives += sent > 0;
        bytes += sent;
    }
    out->bytes = (int64_t)(bytes + 0.5);
    wf_redist_plan_free(plan);
    return WEFT_OK;
}

/* ---- with options: cast, move, cast back ---- */

/* The node's context is the layout of what was given; v[0] the dtype that gradients move in. */
static void release_layout_context(void *layout) { wf_layout_release(layout); }

static weft_tensor *cast_if_needed(weft_tensor *t, weft_dtype dtype)
{
    return t && weft_tensor_dtype(t) != dtype ? weft_cast(t, dtype) : t;
}

static bool has_float_terms(const struct wf_layout *layout)
{
    bool terms = false;

    for (int a = 0; a < layout->n_axes; a++) {
        weft_placement p = layout->placements[a];

        if (p.kind != WEFT_KIND_PARTIAL) continue;
        if (p.reduce == WEFT_MASKED || p.reduce == WEFT_NORM) return false;
        terms = true;
    }
    return terms && weft_dtype_is_float((weft_dtype)layout->desc.dtype);
}

/* Terms of floats that become other floats are cast where they are: the op would have to reduce
 * them first. Whole numbers are cut from the value, not from terms. */
static weft_tensor *cast_partial_locally(weft_tensor *t, weft_dtype dtype)
{
    weft_tensor *terms;

    if (!t || weft_tensor_dtype(t) == dtype || !weft_dtype_is_float(dtype) ||
        !has_float_terms(t->layout))
        return cast_if_needed(t, dtype);
    terms = weft_cast(weft_drop_grad_types(weft_to_local(t, NULL)), dtype);
    return weft_from_local(terms, t->layout->mesh, t->layout->placements, t->layout->desc.global);
}

static void vjp_redistribute_with(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    const struct wf_layout *from = n->context;

    g = wf_redistribute_gradient(cast_partial_locally(g, (weft_dtype)n->v[0]), from);
    in[0] = cast_if_needed(g, (weft_dtype)from->desc.dtype);
}

/* A handle of its own for the result, which may be the tensor that was given. */
static weft_tensor *record_redistribute_node(weft_tensor *y, weft_tensor *t, weft_dtype backward)
{
    weft_tensor *result =
        wf_tensor_new(y->layout, wf_block_retain(y->block), y->data, "redistribute");
    struct wf_tape_node *node =
        wf_tape_record(result, vjp_redistribute_with, "redistribute", &t, 1);

    result->in_flight = y->in_flight;
    node->context = wf_layout_retain(t->layout);
    node->release_context = release_layout_context;
    node->v[0] = backward;
    return result;
}

static weft_tensor *start_redistribute_async(weft_tensor *t, const struct wf_op_args *args)
{
    struct wf_op_plan *plan = wf_op_plan_lookup(WF_OP_redistribute, &t, 1, args);
    double began = wf_observed_events & WF_EVENT_OP ? wf_monotonic_seconds() : 0;
    struct wf_block *block;
    weft_tensor *result;

    if (!plan) return NULL;
    if (wf_recorder || plan->meta || !plan->move[0] || !wf_redist_can_run_async(plan->move[0]))
        return wf_dispatch_op_one_output(WF_OP_redistribute, &t, 1, args);
    wf_wait_ready(t);
    plan->refs++;
    block = wf_redist_start_async(plan->move[0], t, plan, wf_op_plan_release_context);
    result = wf_tensor_new(plan->out[0], block, block->data, "redistribute");
    result->in_flight = true;
    if (wf_observed_events & WF_EVENT_OP) wf_op_plan_observe(plan, began, result);
    return result;
}

static weft_tensor *redistribute_with_options(weft_tensor *t, const weft_placement *placements,
                                              const weft_redistribute_options *o)
{
    struct wf_redistribute_attrs attrs;
    struct wf_op_args args;

    if (!t || has_placements(t->layout, placements)) return t;
    args = redistribute_arguments(&attrs, t, placements);
    return o->async ? start_redistribute_async(t, &args)
                    : wf_dispatch_op_one_output(WF_OP_redistribute, &t, 1, &args);
}

weft_tensor *weft_redistribute_with(weft_tensor *t, const weft_placement *placements,
                                    const weft_redistribute_options *options)
{
    static const weft_redistribute_options none;
    const weft_redistribute_options *o = options ? options : &none;
    weft_dtype own, backward;
    weft_tensor *y;

    if (!t) return NULL;
    if (!placements) placements = replicated;
    WF_TRY_PTR(wf_tensor_need_alive(t, "redistribute"));
    WF_NEED_PTR(t->layout->mesh, WEFT_ERR_ARG, "redistribute: the tensor is plain");
    WF_NEED_PTR(o->forward <= WEFT_DTYPE_COUNT && o->backward <= WEFT_DTYPE_COUNT, WEFT_ERR_ARG,
                "redistribute: unknown dtypes %d and %d", o->forward, o->backward);
    WF_TRY_PTR(refuse_new_partial(t->layout, placements));
    own = weft_tensor_dtype(t);
    backward = o->backward ? (weft_dtype)(o->backward - 1) : own;
    weft_no_grad_open();
    y = redistribute_with_options(
        cast_partial_locally(t, o->forward ? (weft_dtype)(o->forward - 1) : own), placements, o);
    weft_no_grad_close();
    if (!y || !wf_should_record(&t, 1)) return y;
    return y == t && backward == own ? t : record_redistribute_node(y, t, backward);
}

/* ---- results in flight ---- */

bool weft_is_in_flight(const weft_tensor *t)
{
    return t && t->in_flight && wf_redist_is_in_flight(t);
}

weft_tensor *weft_wait(weft_tensor *t)
{
    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(t, "wait"));
    if (wf_recorder_puts_off() && !wf_redist_is_in_flight(t)) return t;
    wf_wait_ready(t);
    t->in_flight = false;
    return t;
}
