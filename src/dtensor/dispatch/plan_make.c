/*
 * plan_make.c: what follows from a call's key: shapes, placements, moves, output layouts, kernel.
 *
 * Runs on a miss only. Everything is decided from global metadata, so a refusal is the same on
 * every rank and comes before any message.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "dtensor/dispatch/choose_placements.h"
#include "dtensor/dispatch/grad_types.h"
#include "dtensor/dispatch/plan_cache.h"
#include "dtensor/dispatch/slow_path.h"
#include "kernels/device_kernels.h"
#include "ops/op_functions.h"
#include "redistribute/program.h"
#include "redistribute/redistribute.h"
#include "tensor/shape.h"

static void release_layout(struct wf_layout *layout)
{
    if (layout) wf_layout_release(layout);
}

void wf_op_plan_free(struct wf_op_plan *plan)
{
    for (int i = 0; i < WF_MAX_IN; i++) {
        release_layout(plan->in[i]);
        release_layout(plan->used[i]);
        if (plan->move[i]) wf_redist_plan_free(plan->move[i]);
    }
    for (int j = 0; j < WF_MAX_OUT; j++) release_layout(plan->out[j]);
    release_layout(plan->want);
    wf_kernel_call_drop(&plan->kernel);
    wf_free(plan);
}

void wf_op_plan_set_output(struct wf_op_plan *plan, int j, struct wf_layout *layout)
{
    if (layout->desc.device != plan->device)
        layout = wf_layout_on_device(layout, (weft_device)plan->device);
    plan->out[j] = layout;
    plan->out_bytes[j] = (size_t)layout->desc.numel * wf_dtypes[layout->desc.dtype].size;
    plan->out_category[j] = layout->partial ? WF_MEM_COMM : WF_MEM_ACTIVATIONS;
    if (plan->n_out <= j) plan->n_out = (uint8_t)(j + 1);
}

/* The device that the inputs are on: one of them without elements makes a call without elements,
 * and single numbers of the CPU go with a device. */
static weft_device device_of_call(const struct wf_op_plan *plan)
{
    weft_device device =
        plan->n_in == 0 && plan->want ? (weft_device)plan->want->desc.device : WEFT_CPU;

    for (int i = 0; i < plan->n_in; i++) {
        weft_device own = plan->in[i] ? (weft_device)plan->in[i]->desc.device : WEFT_CPU;

        if (own == WEFT_META) return WEFT_META;
        if (own == WEFT_CUDA) device = WEFT_CUDA;
    }
    return device;
}

static bool has_distributed_input(const struct wf_op_plan *plan)
{
    bool any = false;

    for (int i = 0; i < plan->n_in; i++) any |= plan->in[i] && plan->in[i]->mesh;
    return any;
}

/* Beside tensors of another device only single numbers of the CPU may stand; on a GPU they are
 * copied in each call. Plain tensors beside distributed ones are brought to the mesh's device. */
static weft_status check_input_device(struct wf_op_plan *plan, const struct wf_infer *call, int i)
{
    const struct wf_layout *in = plan->in[i];

    if (!in || in->desc.device == plan->device) return WEFT_OK;
    if (!plan->meta && !in->mesh && in->numel > 1 && has_distributed_input(plan)) return WEFT_OK;
    WF_NEED(!plan->meta || in->numel == 1, WEFT_ERR_ARG,
            "%s: input %d has elements while others are on the meta device: %s", call->name, i,
            wf_infer_inputs_text(call));
    WF_NEED(plan->meta || in->numel == 1, WEFT_ERR_ARG,
            "%s: input %d is on the CPU while others are on a GPU; weft_to_device copies it: %s",
            call->name, i, wf_infer_inputs_text(call));
    if (!plan->meta) plan->slow_path |= WF_SLOW_OTHER_DEVICE;
    return WEFT_OK;
}

static weft_status check_input_devices(struct wf_op_plan *plan, const struct wf_infer *call)
{
    plan->device = (uint8_t)device_of_call(plan);
    plan->meta = plan->device == WEFT_META;
    for (int i = 0; i < plan->n_in; i++) WF_TRY(check_input_device(plan, call, i));
    return WEFT_OK;
}

/* The mesh of the distributed inputs; an op with none runs plain. */
static weft_status find_mesh_of_inputs(const struct wf_infer *call, weft_mesh **mesh)
{
    *mesh = NULL;
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i] || !call->in[i]->mesh) continue;
        WF_NEED(!*mesh || *mesh == call->in[i]->mesh, WEFT_ERR_LAYOUT,
                "%s: inputs are on different meshes: %s", call->name, wf_infer_inputs_text(call));
        *mesh = call->in[i]->mesh;
    }
    return WEFT_OK;
}

/* A single plain number goes with distributed inputs as it is; anything larger only where the
 * caller has said that plain tensors are replicated. */
static weft_status mark_plain_inputs(struct wf_op_plan *plan)
{
    for (int i = 0; i < plan->n_in; i++)
        if (plan->in[i] && !plan->in[i]->mesh)
            plan->slow_path |=
                plan->in[i]->numel == 1 ? WF_SLOW_PLAIN_SCALAR : WF_SLOW_PLAIN_TENSOR;
    return plan->slow_path & WF_SLOW_PLAIN_TENSOR ? wf_check_implicit_replication(plan) : WEFT_OK;
}

/* An addend that becomes partial from replicated needs no zeros: the other ranks leave it out. */
static bool count_addend_on_first_rank(struct wf_op_plan *plan, int i, const weft_placement *to)
{
    const struct wf_layout *in = plan->in[i];
    uint32_t addends = wf_ops[plan->op].linear >> WF_ADDEND_SHIFT & WF_MAX_ADDEND;
    bool absent = false;

    if (!(addends >> i & 1)) return false;
    for (int a = 0; a < in->n_axes; a++) {
        if (weft_placement_equal(in->placements[a], to[a])) continue;
        if (in->placements[a].kind != WEFT_KIND_REPLICATE || to[a].kind != WEFT_KIND_PARTIAL ||
            to[a].reduce != WEFT_SUM)
            return false;
        if (weft_mesh_coordinate(in->mesh, a) != 0) absent = true;
    }
    plan->absent[i] = absent;
    return true;
}

/* What has elements cannot move where there are no ranks. */
static weft_status check_move_has_ranks(const struct wf_op_plan *plan,
                                        const struct wf_redist_plan *move)
{
    const weft_mesh *mesh = move->from->mesh;
    bool sends = false;
    char text[128];

    if (plan->meta || move->n_steps == 0 || !weft_mesh_is_fake(mesh)) return WEFT_OK;
    for (int i = 0; i < move->program->n_actions; i++)
        sends |= move->program->actions[i].act == WF_ACT_COLL;
    if (!sends) return WEFT_OK;
    weft_mesh_format(mesh, text, sizeof text);
    return WF_FAIL(WEFT_ERR_COMM,
                   "redistribute: mesh %s: a fake mesh: there are no ranks "
                   "behind it; tensors on the meta device show what would move",
                   text);
}

static weft_status move_input(struct wf_op_plan *plan, int i, const weft_placement *to,
                              enum wf_slow_path why)
{
    struct wf_layout *in = plan->in[i], *target;

    if (memcmp(in->placements, to, (size_t)in->n_axes * sizeof *to) == 0 ||
        count_addend_on_first_rank(plan, i, to)) {
        plan->used[i] = wf_layout_retain(in);
        return WEFT_OK;
    }
    target = wf_layout_with_placements(in, to);
    plan->move[i] = wf_redist_plan_new(in, target);
    if (!plan->move[i]) {
        wf_layout_release(target);
        return weft_error_status();
    }
    plan->used[i] = target;
    WF_TRY(check_move_has_ranks(plan, plan->move[i]));
    if (plan->move[i]->n_steps == 0) { /* only labels change: same bytes, same strides */
        wf_layout_release(target);
        target = wf_layout_on_device(wf_layout_new(in->mesh, to, (weft_dtype)in->desc.dtype,
                                                   in->desc.global, in->desc.stride, in->desc.ndim),
                                     (weft_device)in->desc.device);
    }
    plan->used[i] = target;
    plan->slow_path |= (uint16_t)why;
    return WEFT_OK;
}

weft_status wf_op_plan_move_input(struct wf_op_plan *plan, int i, const weft_placement *to)
{
    return move_input(plan, i, to, WF_SLOW_EXPLICIT_MOVE);
}

static weft_status plan_input_moves(struct wf_op_plan *plan,
                                    const struct wf_placement_choice *choice, bool spread)
{
    for (int i = 0; i < plan->n_in; i++) {
        if (!plan->in[i]) continue;
        if (spread && plan->in[i]->mesh)
            WF_TRY(move_input(plan, i, choice->in[i], WF_SLOW_IMPLICIT_MOVE));
        else
            plan->used[i] = wf_layout_retain(plan->in[i]);
    }
    return WEFT_OK;
}

/* How outputs lie; `types` is NULL for distributed ones and for plain ones without types. */
struct output_placing {
    weft_mesh *mesh;
    const struct wf_placement_choice *choice;
    const struct wf_grad_types *types;
};

static struct wf_layout *make_output_layout(const struct wf_infer *call, int j,
                                            const struct output_placing *o, const int64_t *strides)
{
    struct wf_layout *layout = wf_layout_new(o->mesh, o->choice->out[j], call->out[j].dtype,
                                             call->out[j].shape, strides, call->out[j].ndim);

    return o->types ? wf_layout_with_grad_types(layout, &o->types[j]) : layout;
}

/* A view's strides follow from its input's; where none would do, the input is made row-major. */
static void plan_view_output(struct wf_op_plan *plan, const struct wf_infer *call,
                             const struct output_placing *o)
{
    struct wf_layout *box = make_output_layout(call, 0, o, NULL);
    struct wf_view view = {0};
    int64_t size = (int64_t)wf_dtypes[box->desc.dtype].size;

    if (!call->row->view(call, &plan->used[0]->desc, box->desc.shape, &view)) {
        struct wf_layout *row_major =
            wf_layout_with_placements(plan->used[0], plan->used[0]->placements);

        memset(&view, 0, sizeof view);
        call->row->view(call, &row_major->desc, box->desc.shape, &view);
        wf_layout_release(row_major);
        plan->slow_path |= WF_SLOW_ROW_MAJOR_COPY;
    }
    wf_layout_release(box);
    wf_op_plan_set_output(plan, 0, make_output_layout(call, 0, o, view.stride));
    plan->view_offset = view.offset * size;
    plan->view_step = view.step * size;
}

static void empty_kernel(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                         const struct wf_scalars *scalars)
{
    (void)k;
    (void)out;
    (void)in;
    (void)scalars;
}

static weft_status plan_kernel_outputs(struct wf_op_plan *plan, const struct wf_infer *call,
                                       const struct output_placing *o)
{
    struct wf_kernel_call *k = &plan->kernel;

    plan->n_out = (uint8_t)call->n_out;
    for (int j = 0; j < call->n_out; j++) {
        if (call->out[j].ndim < 0) continue;
        if (call->n_in == 0 && plan->want)
            wf_op_plan_set_output(plan, j, wf_layout_retain(plan->want));
        else
            wf_op_plan_set_output(plan, j, make_output_layout(call, j, o, NULL));
    }
    if (plan->meta) return WEFT_OK;
    k->op = call->name;
    k->n_in = call->row->n_in < plan->n_in ? call->row->n_in : plan->n_in;
    k->n_out = call->n_out;
    for (int i = 0; i < plan->n_in; i++) k->in[i] = plan->used[i] ? &plan->used[i]->desc : NULL;
    for (int j = 0; j < call->n_out; j++) k->out[j] = plan->out[j] ? &plan->out[j]->desc : NULL;
    k->attrs = &plan->attrs;
    if (call->row->prepare)
        WF_TRY(call->row->prepare(k));
    else
        WF_TRY(wf_prepare_kernel_on((weft_device)plan->device, call->row->kernel, k));
    /* A rank outside the mesh has no elements, not even that of a number: a kernel that takes rows
     * from a shape without dims would see one. */
    if (plan->out[0]->mesh && !weft_mesh_is_member(plan->out[0]->mesh)) k->run = empty_kernel;
    return WEFT_OK;
}

/* Operands of several dtypes are cast by dispatch. In place the target keeps its dtype, which must
 * be of a kind that holds the result. */
static weft_status plan_promotion(struct wf_op_plan *plan, const struct wf_infer *call)
{
    weft_dtype dtype, into = plan->in_place ? (weft_dtype)plan->want->desc.dtype : WEFT_F32;
    uint32_t cast;

    if (!wf_promotion(call, &dtype, &cast)) return WEFT_OK;
    plan->slow_path |= WF_SLOW_DTYPES;
    plan->cast = (uint8_t)cast;
    plan->cast_to = (uint8_t)dtype;
    WF_NEED(weft_dtype_is_float(into) || (!weft_dtype_is_float(dtype) && into != WEFT_BOOL),
            WEFT_ERR_DTYPE, "%s in place: a result of dtype %s does not go into %s: %s", call->name,
            weft_dtype_name(dtype), weft_dtype_name(into), wf_infer_inputs_text(call));
    return WEFT_OK;
}

/* What is known before anything is sent; strides are compared when it runs. */
static weft_status check_result_fits_in_place(const struct wf_infer *call, const weft_mesh *mesh)
{
    const struct wf_tensor_desc *into = &call->want->desc;
    bool fits = call->out[0].dtype == (weft_dtype)into->dtype && call->out[0].ndim == into->ndim;

    fits &= call->n_in == 0 || call->want->mesh == mesh;
    for (int d = 0; d < into->ndim && fits; d++) fits = call->out[0].shape[d] == into->global[d];
    WF_NEED(fits, WEFT_ERR_SHAPE,
            "%s in place: the result would have another shape, dtype or layout", call->name);
    return WEFT_OK;
}

/* Complex numbers: views take them as they are, ops that say so as pairs of real ones. */
static bool has_complex_operand(const struct wf_infer *call)
{
    bool any = false;

    for (int i = 0; i < call->n_in; i++) any |= call->in[i] && call->in[i]->desc.dtype == WEFT_C64;
    return any && wf_op_has_kernel(call->row);
}

static weft_status check_takes_complex(const struct wf_infer *call)
{
    WF_NEED(call->row->linear & WF_TAKES_COMPLEX, WEFT_ERR_DTYPE,
            "%s: no kernel for c64 (complex numbers): %s", call->name, wf_infer_inputs_text(call));
    return WEFT_OK;
}

weft_status wf_op_plan_by_rule(struct wf_op_plan *plan, struct wf_infer *call)
{
    struct wf_placement_choice choice = {0};
    struct wf_grad_types types[WF_MAX_OUT];
    struct output_placing output_placing = {.choice = &choice};
    weft_mesh *mesh;
    bool complex;

    WF_TRY(find_mesh_of_inputs(call, &mesh));
    if (mesh) WF_TRY(mark_plain_inputs(plan));
    if (mesh) wf_grad_types_check_scalars(plan, mesh);
    if (plan->slow_path & (WF_SLOW_PLAIN_TENSOR | WF_SLOW_OTHER_DEVICE))
        return WEFT_OK; /* dispatch makes them replicated, or copies them, first */
    complex = has_complex_operand(call);
    if (complex) WF_TRY(check_takes_complex(call));
    WF_TRY(plan_promotion(plan, call));
    if (plan->slow_path & WF_SLOW_DTYPES) return WEFT_OK;
    if (!complex) {
        WF_TRY(call->row->shape(call));
        complex = call->out[0].dtype == WEFT_C64 && wf_op_has_kernel(call->row);
        if (complex) WF_TRY(check_takes_complex(call));
    }
    if (complex && call->n_in > 0) {
        plan->slow_path |= WF_SLOW_COMPLEX;
        return WEFT_OK;
    }
    for (int j = 0; j < call->n_out; j++) /* of a broadcast or an expansion */
        WF_NEED(call->out[j].ndim < 0 || wf_shape_numel(call->out[j].shape, call->out[j].ndim) >= 0,
                WEFT_ERR_SHAPE, "%s: a result of more elements than can be counted: %s", call->name,
                wf_infer_inputs_text(call));
    if (call->in_place) WF_TRY(check_result_fits_in_place(call, mesh));
    output_placing.mesh = mesh;
    if (mesh)
        WF_TRY(wf_choose_placements(call, mesh, &choice));
    else if (wf_grad_types_infer(plan, call, types))
        output_placing.types = types;
    plan->depends_on_requires_grad = choice.depends_on_requires_grad;
    WF_TRY(plan_input_moves(plan, &choice, mesh != NULL));
    if (wf_op_has_kernel(call->row)) return plan_kernel_outputs(plan, call, &output_placing);
    plan_view_output(plan, call, &output_placing);
    return WEFT_OK;
}

uint8_t wf_op_plan_way_on_device(weft_device device, const struct wf_op_row *row)
{
    if (device == WEFT_META) return WF_EXECUTE_META;
    if (!wf_op_has_kernel(row)) return WF_EXECUTE_VIEW;
    return device == WEFT_CPU ? WF_EXECUTE_KERNEL : WF_EXECUTE_ON_DEVICE;
}

weft_status wf_op_plan_build(struct wf_op_plan *plan)
{
    const struct wf_op_row *row = &wf_ops[plan->op];
    struct wf_infer call = {.row = row,
                            .name = plan->name,
                            .n_in = plan->n_in,
                            .n_out = row->n_out,
                            .attrs = &plan->attrs,
                            .attr_words = plan->attr_words,
                            .want = plan->want,
                            .in_place = plan->in_place,
                            .requires_grad = plan->requires_grad};

    for (int i = 0; i < plan->n_in; i++) call.in[i] = plan->in[i];
    WF_TRY(check_input_devices(plan, &call));
    plan->way = wf_op_plan_way_on_device((weft_device)plan->device, row);
    return row->planner ? row->planner(plan, &call) : wf_op_plan_by_rule(plan, &call);
}
