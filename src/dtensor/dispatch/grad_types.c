/* grad_types.c: reads grad_types.def for conversions, and derives the types of what plain ops make.
 */
#include "dtensor/dispatch/grad_types.h"

#include <stdio.h>
#include <string.h>

#include "base/call_context.h"
#include "base/error.h"
#include "dtensor/dispatch/slow_path.h"
#include "ops/op_functions.h"
#include <weft/autograd.h>

enum verdict { UNKNOWN, FINE, NO_GRADIENT, WRONG };

/* ---- the table ---- */

enum { KINDS = WEFT_KIND_STRIDED + 1 };

static const uint8_t leaves[KINDS][KINDS] = {
#define WF_LEAVES(placement, gradient, type)                                                       \
    [WEFT_KIND_##placement][WEFT_KIND_##gradient] = WF_TYPE_##type,
#define WF_ENTERS(...)
#define WF_BESIDE(...)
#include "dtensor/dispatch/grad_types.def"
#undef WF_LEAVES
#undef WF_ENTERS
};

static const struct {
    enum verdict verdict;
    const char *reason;
} enters[WF_TYPE_KINDS][KINDS] = {
#define WF_LEAVES(...)
#define WF_ENTERS(type, placement, verdict, reason)                                                \
    [WF_TYPE_##type][WEFT_KIND_##placement] = {verdict, reason},
#include "dtensor/dispatch/grad_types.def"
#undef WF_ENTERS
#undef WF_BESIDE
};

static const uint8_t beside[WF_TYPE_KINDS][WF_TYPE_KINDS] = {
#define WF_ENTERS(...)
#define WF_BESIDE(type, other, verdict) [WF_TYPE_##type][WF_TYPE_##other] = verdict,
#include "dtensor/dispatch/grad_types.def"
#undef WF_LEAVES
#undef WF_ENTERS
#undef WF_BESIDE
};

static const char counted_per_rank[] =
    "it would be added to the term of every rank, and so be counted once per rank";
static const char not_linear[] =
    "ranks hold terms of a reduction, which this op cannot pass through; reduce them first";
static const char share_only[] = "its gradient would be this rank's share only";

/* ---- what a plan refuses ---- */

static void record_wrong_input(struct wf_op_plan *plan, int input, int axis, const char *reason)
{
    if (plan->grad_type_problem.wrong) return;
    plan->grad_type_problem.wrong = reason;
    plan->grad_type_problem.wrong_input = (uint8_t)input;
    plan->grad_type_problem.wrong_axis = (uint8_t)axis;
    plan->slow_path |= WF_SLOW_GRAD_TYPES;
}

static void record_gradient_not_allowed(struct wf_op_plan *plan, int input, int axis,
                                        const char *reason)
{
    plan->grad_type_problem.share = reason;
    plan->grad_type_problem.share_axis = (uint8_t)axis;
    plan->grad_type_problem.no_gradient |= (uint8_t)(1u << input);
    plan->slow_path |= WF_SLOW_GRAD_TYPES;
}

/* ---- conversions ---- */

/* What is known along an axis of a mesh: of the tensor's own, or of one cut from the same mesh. */
static struct wf_grad_type type_along_axis(const struct wf_grad_types *types, weft_mesh *mesh,
                                           int axis)
{
    int own = axis;

    if (!types->mesh) return (struct wf_grad_type){0};
    if (types->mesh != mesh) {
        if (weft_mesh_root(types->mesh) != weft_mesh_root(mesh)) return (struct wf_grad_type){0};
        own = weft_mesh_axis(types->mesh, weft_mesh_axis_name(mesh, axis));
    }
    return own >= 0 ? types->axis[own] : (struct wf_grad_type){0};
}

/* Shards of a dim differ in size: no rank can tell from its own what the whole is. However a dim is
 * cut, the first rank's shard is the largest. */
static bool are_shards_uneven(const struct wf_layout *in, int dim)
{
    static const int first[WEFT_MAX_AXES];
    int64_t shape[WEFT_MAX_DIMS], offset[WEFT_MAX_DIMS], n_shards = 1;
    int sizes[WEFT_MAX_AXES];

    for (int a = 0; a < in->n_axes; a++) {
        sizes[a] = weft_mesh_axis_size(in->mesh, a);
        if (weft_shards(in->placements[a], dim)) n_shards *= sizes[a];
    }
    wf_local_box(shape, offset, in->desc.global, in->desc.ndim, sizes, first, in->placements,
                 in->n_axes);
    return shape[dim] * n_shards != in->desc.global[dim];
}

weft_status wf_grad_types_of_to_local(struct wf_grad_types *types, const struct wf_layout *in,
                                      const weft_placement *gradient)
{
    memset(types, 0, sizeof *types);
    for (int a = 0; a < in->n_axes; a++) {
        weft_placement p = in->placements[a];
        char text[2][WF_PLACEMENT_TEXT];
        uint8_t kind = leaves[p.kind][gradient[a].kind];

        if (weft_mesh_axis_size(in->mesh, a) == 1) continue;
        if (kind == WF_TYPE_S && !weft_placement_equal(p, gradient[a])) kind = WF_TYPE_NONE;
        weft_placements_format(&p, 1, text[0], sizeof text[0]);
        weft_placements_format(&gradient[a], 1, text[1], sizeof text[1]);
        WF_NEED(kind != WF_TYPE_NONE, WEFT_ERR_LAYOUT,
                "to_local: on axis %s the tensor is %s, and its gradient cannot come back as %s",
                weft_mesh_axis_name(in->mesh, a), text[0], text[1]);
        types->mesh = in->mesh;
        types->axis[a].kind = kind;
        if (kind == WF_TYPE_S) {
            types->axis[a].dim = p.dim;
            types->axis[a].uneven = are_shards_uneven(in, p.dim);
        }
        if (kind == WF_TYPE_P) types->axis[a].reduce = p.reduce;
    }
    return WEFT_OK;
}

static void check_entry_along_axis(struct wf_op_plan *plan, int axis, struct wf_grad_type type,
                                   weft_placement p, const weft_placement *gradient, bool sized)
{
    int kind = p.kind == WEFT_KIND_STRIDED ? WEFT_KIND_SHARD : p.kind;
    enum verdict verdict = enters[type.kind][kind].verdict;
    const char *reason = enters[type.kind][kind].reason;

    if (type.kind == WF_TYPE_S && verdict == FINE && type.dim != p.dim)
        record_wrong_input(plan, 0, axis, "ranks hold shards of another dim");
    else if (type.uneven && kind == WEFT_KIND_SHARD && verdict == FINE && !sized)
        record_wrong_input(plan, 0, axis,
                           "ranks hold shards of different sizes, of which none tells the "
                           "global shape; give it, or hand the tensor on distributed");
    else if (type.kind == WF_TYPE_P && verdict == FINE && type.reduce != p.reduce &&
             !(wf_reduce_is_sum((weft_reduce)type.reduce) &&
               wf_reduce_is_sum((weft_reduce)p.reduce)))
        record_wrong_input(plan, 0, axis, "ranks hold terms of another reduction");
    else if (verdict == WRONG)
        record_wrong_input(plan, 0, axis, reason);
    else if (verdict == NO_GRADIENT && !(gradient && gradient->kind == WEFT_KIND_PARTIAL))
        record_gradient_not_allowed(plan, 0, axis, reason);
}

void wf_grad_types_check_from_local(struct wf_op_plan *plan, const weft_placement *placements,
                                    const weft_placement *gradient, bool sized)
{
    const struct wf_grad_types *types = &plan->in[0]->grad_types;

    plan->grad_type_problem.entering = true;
    for (int a = 0; a < plan->out[0]->n_axes; a++)
        check_entry_along_axis(plan, a, type_along_axis(types, plan->out[0]->mesh, a),
                               placements[a], gradient ? &gradient[a] : NULL, sized);
}

void wf_grad_types_check_scalars(struct wf_op_plan *plan, weft_mesh *mesh)
{
    for (int i = 0; i < plan->n_in; i++)
        for (int a = 0; plan->in[i] && a < weft_mesh_ndim(mesh); a++) {
            uint8_t kind = type_along_axis(&plan->in[i]->grad_types, mesh, a).kind;

            if (enters[kind][WEFT_KIND_REPLICATE].verdict == WRONG)
                record_wrong_input(plan, i, a, enters[kind][WEFT_KIND_REPLICATE].reason);
        }
}

weft_status wf_grad_types_check_replicated(const struct wf_layout *plain, weft_mesh *mesh,
                                           const char *who)
{
    char text[384];

    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        uint8_t kind = type_along_axis(&plain->grad_types, mesh, a).kind;

        if (enters[kind][WEFT_KIND_REPLICATE].verdict != WRONG) continue;
        wf_layout_print(plain, text, sizeof text);
        return WF_FAIL(WEFT_ERR_LAYOUT, "%s: %s: on axis %s %s", who, text,
                       weft_mesh_axis_name(mesh, a), enters[kind][WEFT_KIND_REPLICATE].reason);
    }
    return WEFT_OK;
}

/* ---- plain ops ---- */

/* One mesh axis of a call on plain tensors. */
struct axis_inference {
    struct wf_op_plan *plan;
    const struct wf_infer *call;
    const struct wf_dim_labels *labels;
    int axis;
    bool known; /* the op has a rule */
    struct wf_grad_type in[WF_MAX_IN];
    uint32_t seen; /* bits of kinds */
    bool uneven;   /* some input is */
};

static bool is_type_seen(const struct axis_inference *l, enum wf_grad_type_kind kind)
{
    return l->seen >> kind & 1;
}

static void check_pairs_of_inputs(struct axis_inference *l)
{
    for (int i = 0; i < l->call->n_in; i++)
        for (int j = 0; l->call->in[i] && j < l->call->n_in; j++)
            if (l->call->in[j] && i != j && beside[l->in[i].kind][l->in[j].kind] == NO_GRADIENT)
                record_gradient_not_allowed(l->plan, i, l->axis, share_only);
}

/* The first input of `set` that is no term, -1 when all are and nothing else differs from rank to
 * rank; -2 when the set is not the one that this call needs. */
static int find_non_partial_input(const struct axis_inference *l, uint32_t set)
{
    int missing = -1;

    for (int i = 0; i < l->call->n_in; i++) {
        bool term = l->in[i].kind == WF_TYPE_P;

        if (!l->call->in[i]) continue;
        if (set >> i & 1 && !term) missing = missing < 0 ? i : missing;
        if (!(set >> i & 1) && (term || l->in[i].kind == WF_TYPE_S || l->in[i].kind == WF_TYPE_V))
            return -2;
    }
    return missing;
}

/* The term that stands where none can pass. */
static int find_misplaced_partial(const struct axis_inference *l, uint32_t set)
{
    int first = -1;

    for (int i = l->call->n_in - 1; i >= 0; i--)
        if (l->in[i].kind == WF_TYPE_P && (first < 0 || !(set >> i & 1) || set >> first & 1))
            first = i;
    return first;
}

static void infer_partial_outputs(struct axis_inference *l, struct wf_grad_types *out)
{
    const uint32_t linear = l->call->row->linear, sets[] = {linear & 0xff, linear >> 8 & 0xff};
    int first = 0, missing = -2;

    while (l->in[first].kind != WF_TYPE_P) first++;
    for (int k = 0;
         k < 2 && missing == -2 && wf_op_passes_partial(l->call, (weft_reduce)l->in[first].reduce);
         k++)
        if (sets[k] >> first & 1) missing = find_non_partial_input(l, sets[k]);
    if (missing >= 0) record_wrong_input(l->plan, missing, l->axis, counted_per_rank);
    if (missing == -2)
        record_wrong_input(l->plan, find_misplaced_partial(l, sets[0]), l->axis, not_linear);
    for (int j = 0; j < l->call->n_out; j++)
        out[j].axis[l->axis] = (struct wf_grad_type){WF_TYPE_P, 0, l->in[first].reduce, false};
}

/* Every sharded input is cut along the dim with this label, and the others lack that dim. */
static bool shards_match_label(const struct axis_inference *l, int label)
{
    for (int i = 0; i < l->call->n_in; i++) {
        int d = wf_dim_of_label(l->labels->in[i], label);
        struct wf_grad_type type = l->in[i];

        if (!l->call->in[i]) continue;
        if (type.kind == WF_TYPE_S ? d != type.dim : type.kind != WF_TYPE_NONE && d >= 0)
            return false;
    }
    return true;
}

static void set_sharded_outputs(struct axis_inference *l, int label, struct wf_grad_types *out)
{
    uint32_t addends = l->call->row->linear >> WF_ADDEND_SHIFT & WF_MAX_ADDEND;
    /* the partial result of a mean is an average of the ranks' means */
    uint8_t reduce = l->call->averages ? WEFT_AVG
                     : l->call->row->reduce == WEFT_NORM
                         ? weft_norm_partial(l->call->norm_power).reduce
                         : (uint8_t)l->call->row->reduce;

    for (int j = 0; j < l->call->n_out; j++) {
        int d = wf_dim_of_label(l->labels->out[j], label);

        out[j].axis[l->axis] = d >= 0 ? (struct wf_grad_type){WF_TYPE_S, (int8_t)d, 0, l->uneven}
                                      : (struct wf_grad_type){WF_TYPE_P, 0, reduce, false};
    }
    for (int i = 0; i < l->call->n_in && wf_dim_of_label(l->labels->out[0], label) < 0; i++)
        if (addends >> i & 1 && l->call->in[i])
            record_wrong_input(l->plan, i, l->axis, counted_per_rank);
}

static void infer_varying_outputs(struct axis_inference *l, struct wf_grad_types *out)
{
    int label = 1;

    while (label < 64 && (is_type_seen(l, WF_TYPE_V) || !l->known || !shards_match_label(l, label)))
        label++;
    if (label < 64) {
        set_sharded_outputs(l, label, out);
        return;
    }
    for (int j = 0; j < l->call->n_out; j++)
        out[j].axis[l->axis] = (struct wf_grad_type){WF_TYPE_V, 0, 0, l->uneven};
}

/* A plain tensor of the program's own may be another one on each rank, and so may be what is made
 * with it; a number is taken to be the same. */
static bool has_untyped_plain_input(const struct axis_inference *l)
{
    for (int i = 0; i < l->call->n_in; i++)
        if (l->call->in[i] && l->in[i].kind == WF_TYPE_NONE && l->call->in[i]->numel > 1)
            return true;
    return false;
}

/* What comes of inputs none of which is known to differ. A constant of the program's own hides
 * whether the value is the same, not whose gradient is a term. */
static uint8_t type_of_same_values(const struct axis_inference *l)
{
    if (is_type_seen(l, WF_TYPE_G) || (is_type_seen(l, WF_TYPE_R) && has_untyped_plain_input(l)))
        return WF_TYPE_G;
    if (has_untyped_plain_input(l)) return WF_TYPE_NONE;
    return is_type_seen(l, WF_TYPE_R)   ? WF_TYPE_R
           : is_type_seen(l, WF_TYPE_I) ? WF_TYPE_I
                                        : WF_TYPE_NONE;
}

static void infer_types_along_axis(struct axis_inference *l, struct wf_grad_types *out)
{
    check_pairs_of_inputs(l);
    if (is_type_seen(l, WF_TYPE_P) && l->known) {
        infer_partial_outputs(l, out);
    } else if (l->seen & (1u << WF_TYPE_S | 1u << WF_TYPE_V | 1u << WF_TYPE_P)) {
        infer_varying_outputs(l, out);
    } else {
        struct wf_grad_type type = {type_of_same_values(l), 0, 0, false};

        for (int j = 0; j < l->call->n_out; j++) out[j].axis[l->axis] = type;
    }
}

/* The one mesh that typed inputs come from; NULL where there is none, or more than one. */
static weft_mesh *mesh_of_typed_inputs(const struct wf_infer *call)
{
    weft_mesh *mesh = NULL;

    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i] || !call->in[i]->grad_types.mesh) continue;
        if (mesh && mesh != call->in[i]->grad_types.mesh) return NULL;
        mesh = call->in[i]->grad_types.mesh;
    }
    return mesh;
}

bool wf_grad_types_infer(struct wf_op_plan *plan, const struct wf_infer *call,
                         struct wf_grad_types *out)
{
    struct axis_inference l = {.plan = plan, .call = call};
    weft_mesh *mesh = mesh_of_typed_inputs(call);
    struct wf_dim_labels labels;

    if (!mesh) return false;
    l.known = call->row->rule || call->row->rule_text;
    memset(&labels, 0, sizeof labels);
    if (l.known) wf_label_dims(call, &labels);
    l.labels = &labels;
    for (int j = 0; j < call->n_out; j++) out[j] = (struct wf_grad_types){.mesh = mesh};
    for (l.axis = 0; l.axis < weft_mesh_ndim(mesh); l.axis++) {
        l.seen = 0;
        l.uneven = false;
        for (int i = 0; i < call->n_in; i++) {
            l.in[i] = call->in[i] ? call->in[i]->grad_types.axis[l.axis] : (struct wf_grad_type){0};
            l.seen |= 1u << l.in[i].kind;
            l.uneven |= l.in[i].uneven;
        }
        infer_types_along_axis(&l, out);
    }
    return true;
}

/* ---- giving up what is known ---- */

weft_status wf_plan_untyped(struct wf_op_plan *plan, const struct wf_infer *call)
{
    (void)call;
    plan->used[0] = wf_layout_retain(plan->in[0]);
    wf_op_plan_set_output(plan, 0, wf_layout_with_grad_types(wf_layout_retain(plan->in[0]), NULL));
    return WEFT_OK;
}

weft_tensor *weft_drop_grad_types(weft_tensor *t)
{
    WF_TRY_PTR(wf_tensor_need_alive(t, "untyped"));
    return t && t->layout->grad_types.mesh ? wf_dispatch_unary_op(WF_OP_untyped, t) : t;
}

/* ---- the refusal ---- */

/* The mesh whose axes the problem is of. */
static weft_mesh *mesh_of_grad_type_problem(const struct wf_op_plan *plan)
{
    if (plan->grad_type_problem.entering) return plan->out[0]->mesh;
    for (int i = 0; i < plan->n_in; i++)
        if (plan->in[i] && plan->in[i]->mesh) return plan->in[i]->mesh;
    for (int i = 0; i < plan->n_in; i++)
        if (plan->in[i] && plan->in[i]->grad_types.mesh) return plan->in[i]->grad_types.mesh;
    return NULL;
}

static weft_status refuse_grad_types(const struct wf_op_plan *plan, int input, int axis,
                                     const char *what, const char *reason)
{
    char text[384], as[WF_PLACEMENT_TEXT + 8] = "";

    wf_layout_print(plan->in[input], text, sizeof text);
    if (plan->grad_type_problem.entering) {
        memcpy(as, " as ", 4);
        weft_placements_format(&plan->out[0]->placements[axis], 1, as + 4, sizeof as - 4);
    }
    return WF_FAIL(WEFT_ERR_LAYOUT, "%s%s%s, input %d, %s%s: on axis %s %s%s%s",
                   wf_current_module_path(), wf_current_module_path()[0] ? ": " : "", plan->name,
                   input, text, as, weft_mesh_axis_name(mesh_of_grad_type_problem(plan), axis),
                   what, reason,
                   as[0] ? "; weft_drop_grad_types gives up what is known of it" : "");
}

weft_status wf_grad_types_check_call(const struct wf_op_plan *plan, weft_tensor *const *in,
                                     bool recorded)
{
    const struct wf_grad_type_problem *problem = &plan->grad_type_problem;

    if (wf_current_context.phase == WF_BACKWARD) return WEFT_OK; /* right because the forward was */
    if (problem->wrong)
        return refuse_grad_types(plan, problem->wrong_input, problem->wrong_axis, "",
                                 problem->wrong);
    for (int i = 0; i < plan->n_in && recorded; i++)
        if (problem->no_gradient >> i & 1 && in[i] && in[i]->requires_grad)
            return refuse_grad_types(plan, i, problem->share_axis, "it wants a gradient, and ",
                                     problem->share);
    return WEFT_OK;
}
