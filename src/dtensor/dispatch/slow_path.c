/*
 * slow_path.c: calls that dispatch does not simply carry out: operands that are moved without being
 * asked for, plain tensors beside distributed ones, numbers of another device. Off the hot path: a
 * plan that needs none of it never comes here. What a plan needs is decided in plan_make.c.
 */
#include "dtensor/dispatch/slow_path.h"

#include "base/call_context.h"
#include "base/error.h"
#include "base/log.h"
#include "dtensor/convert/replica_check.h"
#include "dtensor/dispatch/grad_types.h"
#include "dtensor/dispatch/redistribute_op.h"
#include "ops/op_functions.h"
#include "redistribute/redistribute.h"
#include <weft/dtensor.h>
#include <weft/extend/guard.h>
#include <weft/pointwise.h>

enum { REGIONS = 64 };

/* What holds now, and what held when each open region began. */
static _Thread_local struct {
    weft_guard guard, guards[REGIONS];
    weft_implicit_replication replication, replications[REGIONS];
    int n_guards, n_replications;
} rules;

weft_guard weft_guard_current(void) { return rules.guard; }

weft_status weft_guard_open(weft_guard guard)
{
    WF_NEED(rules.n_guards < REGIONS, WEFT_ERR_STATE, "guard_open: %d regions are open", REGIONS);
    rules.guards[rules.n_guards++] = rules.guard;
    rules.guard = guard;
    return WEFT_OK;
}

weft_status weft_guard_close(void)
{
    WF_NEED(rules.n_guards > 0, WEFT_ERR_STATE, "guard_close: no region is open");
    rules.guard = rules.guards[--rules.n_guards];
    return WEFT_OK;
}

weft_implicit_replication weft_implicit_replication_current(void) { return rules.replication; }

weft_status weft_implicit_replication_open(weft_implicit_replication mode)
{
    WF_NEED(rules.n_replications < REGIONS, WEFT_ERR_STATE,
            "implicit_replication_open: %d regions are open", REGIONS);
    rules.replications[rules.n_replications++] = rules.replication;
    rules.replication = mode;
    return WEFT_OK;
}

weft_status weft_implicit_replication_close(void)
{
    WF_NEED(rules.n_replications > 0, WEFT_ERR_STATE,
            "implicit_replication_close: no region is open");
    rules.replication = rules.replications[--rules.n_replications];
    return WEFT_OK;
}

/* ---- implicit redistribution ---- */

/* True when the guard objects. The same on every rank: it looks at steps, not at this rank's bytes.
 */
static bool guard_objects_to_move(const struct wf_redist_plan *move)
{
    if (!move || move->n_steps == 0) return false;
    if (rules.guard & WEFT_GUARD_STRICT) return true;
    for (int s = 0; s < move->n_steps; s++)
        if (wf_redist_kinds[move->steps[s].kind].passes) return true;
    return false;
}

static void describe_implicit_move(char *text, size_t bytes, const char *who, int input,
                                   const struct wf_redist_plan *move)
{
    char from[256], to[128];

    wf_layout_print(move->from, from, sizeof from);
    weft_placements_format(move->to->placements, move->to->n_axes, to, sizeof to);
    snprintf(text, bytes,
             "Implicit redistribution: %s%s%s, input %d, %s to [%s], %lld bytes sent by this rank; "
             "ask for it with weft_redistribute",
             wf_current_module_path(), wf_current_context.module ? ": " : "", who, input, from, to,
             (long long)wf_redist_bytes_sent(move));
}

/* Refuses or logs what the guard objects to. gives: WEFT_OK when the move may go on */
static weft_status check_guard_for_move(const char *who, int input,
                                        const struct wf_redist_plan *move, bool quiet)
{
    char text[640];

    if (!guard_objects_to_move(move)) return WEFT_OK;
    if (!(rules.guard & WEFT_GUARD_ERROR) && quiet) return WEFT_OK;
    describe_implicit_move(text, sizeof text, who, input, move);
    if (rules.guard & WEFT_GUARD_ERROR) return WF_FAIL(WEFT_ERR_LAYOUT, "%s", text);
    WF_LOG(WF_LOG_WARN, "guard", "%s", text);
    return WEFT_OK;
}

static weft_status check_guard_for_plan(struct wf_op_plan *plan)
{
    bool seen = false;

    for (int i = 0; i < plan->n_in; i++) {
        WF_TRY(check_guard_for_move(plan->name, i, plan->move[i], plan->warned));
        seen |= guard_objects_to_move(plan->move[i]);
    }
    plan->warned |= seen;
    return WEFT_OK;
}

weft_tensor *wf_redistribute_implicitly(const char *who, weft_tensor *t,
                                        const weft_placement *placements)
{
    struct wf_redist_plan *move;
    struct wf_layout *to;
    weft_status status;

    if (!t || rules.guard == WEFT_GUARD_OFF) return wf_redistribute(t, placements);
    to = wf_layout_with_placements(t->layout, placements);
    move = wf_redist_plan_new(t->layout, to);
    wf_layout_release(to);
    if (!move) return NULL;
    status = check_guard_for_move(who, 0, move, false);
    wf_redist_plan_free(move);
    return status == WEFT_OK ? wf_redistribute(t, placements) : NULL;
}

/* ---- plain tensors beside distributed ones, numbers of the CPU beside a device's ---- */

weft_status wf_check_implicit_replication(const struct wf_op_plan *plan)
{
    struct wf_infer call = {.n_in = plan->n_in};
    int plain = 0;

    if (rules.replication != WEFT_IMPLICIT_REPLICATION_OFF) return WEFT_OK;
    for (int i = plan->n_in - 1; i >= 0; i--) {
        call.in[i] = plan->in[i];
        if (plan->in[i] && !plan->in[i]->mesh && plan->in[i]->numel != 1) plain = i;
    }
    return WF_FAIL(
        WEFT_ERR_LAYOUT,
        "%s: mixed plain and distributed tensors: input %d is plain: %s; wrap it with "
        "weft_distribute_tensor or weft_from_local, or see weft_implicit_replication_open",
        plan->name, plain, wf_infer_inputs_text(&call));
}

static weft_mesh *mesh_of_inputs(weft_tensor *const *in, int n)
{
    for (int i = 0; i < n; i++)
        if (in[i] && !wf_is_plain(in[i])) return in[i]->layout->mesh;
    return NULL;
}

static weft_tensor *promote_to_replicated(const struct wf_op_plan *plan, int i, weft_tensor *t,
                                          weft_mesh *mesh)
{
    static const weft_placement replicated[WEFT_MAX_AXES];

    if (rules.replication == WEFT_IMPLICIT_REPLICATION_CHECKED &&
        plan->slow_path & WF_SLOW_PLAIN_TENSOR)
        WF_NEED_PTR(wf_mesh_replicas_equal(t, mesh, (1u << weft_mesh_ndim(mesh)) - 1), WEFT_ERR_ARG,
                    "%s: input %d is plain and taken as replicated, but its elements differ "
                    "between ranks",
                    plan->name, i);
    return weft_from_local(t, mesh, replicated, NULL);
}

weft_tensor *wf_call_promoted(const struct wf_op_plan *plan, weft_tensor *const *in,
                              const struct wf_op_args *args, weft_tensor **more)
{
    weft_mesh *mesh = mesh_of_inputs(in, plan->n_in);
    weft_tensor *used[WF_MAX_IN];

    for (int i = 0; i < plan->n_in; i++) {
        bool plain = mesh && in[i] && wf_is_plain(in[i]);

        used[i] = plain   ? promote_to_replicated(plan, i, in[i], mesh)
                  : in[i] ? weft_to_device(in[i], (weft_device)plan->device)
                          : NULL;
        if (in[i] && !used[i]) return NULL;
    }
    return wf_dispatch_op((enum wf_op)plan->op, used, plan->n_in, args, more);
}

/* Computed apart, and the result cast: as PyTorch does where the target's kind holds it. */
static weft_tensor *write_cast_result(const struct wf_op_plan *plan, weft_tensor *const *used,
                                      const struct wf_op_args *args)
{
    struct wf_op_args apart = *args, copy = {.into = args->into};
    weft_tensor *result;

    apart.into = NULL;
    apart.want = args->into->layout;
    result = wf_dispatch_op(plan->op, used, plan->n_in, &apart, NULL);
    result = weft_cast(result, (weft_dtype)args->into->layout->desc.dtype);
    return wf_dispatch_op(WF_OP_copy, &result, 1, &copy, NULL);
}

weft_tensor *wf_call_in_one_dtype(const struct wf_op_plan *plan, weft_tensor *const *in,
                                  const struct wf_op_args *args, weft_tensor **more)
{
    weft_tensor *used[WF_MAX_IN];

    for (int i = 0; i < plan->n_in; i++) {
        used[i] = plan->cast >> i & 1 ? weft_cast(in[i], (weft_dtype)plan->cast_to) : in[i];
        if (in[i] && !used[i]) return NULL;
    }
    if (args->into && plan->want->desc.dtype != plan->cast_to)
        return write_cast_result(plan, used, args);
    return wf_dispatch_op(plan->op, used, plan->n_in, args, more);
}

weft_tensor *wf_plain_gradient_as_replicated(weft_tensor *grad, const weft_tensor *of)
{
    static const weft_placement replicated[WEFT_MAX_AXES];
    weft_mesh *mesh = of->layout->mesh;
    bool number = grad->layout->numel == 1;
    char text[256];

    if (!mesh || !wf_is_plain(grad)) return grad;
    wf_layout_print(of->layout, text, sizeof text);
    WF_NEED_PTR(
        number || rules.replication != WEFT_IMPLICIT_REPLICATION_OFF, WEFT_ERR_LAYOUT,
        "backward_from: a plain gradient for a distributed tensor: %s; wrap it with "
        "weft_distribute_tensor (every rank has all of it) or weft_from_local (each has its "
        "part), or see weft_implicit_replication_open",
        text);
    if (rules.replication == WEFT_IMPLICIT_REPLICATION_CHECKED && !number)
        WF_NEED_PTR(
            wf_mesh_replicas_equal(grad, mesh, (1u << weft_mesh_ndim(mesh)) - 1), WEFT_ERR_ARG,
            "backward_from: the gradient is plain and taken as replicated, but its elements "
            "differ between ranks");
    return weft_from_local(grad, mesh, replicated, NULL);
}

static bool plain_input_wants_gradient(const struct wf_op_plan *plan, weft_tensor *const *in)
{
    bool wanted = false;

    for (int i = 0; i < plan->n_in; i++)
        wanted |= in[i] && wf_is_plain(in[i]) && in[i]->requires_grad;
    return wanted;
}

/* ---- the verdict ---- */

enum wf_dispatch_verdict wf_dispatch_slow(struct wf_op_plan *plan, weft_tensor *const *in,
                                          bool recorded)
{
    if (plan->slow_path & WF_SLOW_GRAD_TYPES &&
        wf_grad_types_check_call(plan, in, recorded) != WEFT_OK)
        return WF_DISPATCH_REFUSE;
    if (plan->slow_path & WF_SLOW_PLAIN_TENSOR)
        return wf_check_implicit_replication(plan) ? WF_DISPATCH_REFUSE : WF_DISPATCH_PROMOTE;
    if (plan->slow_path & WF_SLOW_OTHER_DEVICE) return WF_DISPATCH_PROMOTE;
    if (plan->slow_path & WF_SLOW_DTYPES) return WF_DISPATCH_CAST;
    if (plan->slow_path & WF_SLOW_COMPLEX) return WF_DISPATCH_COMPLEX;
    if (plan->slow_path & WF_SLOW_IMPLICIT_MOVE && rules.guard &&
        check_guard_for_plan(plan) != WEFT_OK)
        return WF_DISPATCH_REFUSE;
    if (plan->slow_path & WF_SLOW_PLAIN_SCALAR && recorded && plain_input_wants_gradient(plan, in))
        return WF_DISPATCH_PROMOTE;
    return WF_DISPATCH_CONTINUE;
}
