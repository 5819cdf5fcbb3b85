/*
 * cross_entropy.c: cross-entropy with logits, sharded in any way.
 *
 * Three ops: the maximum over the classes, the sum of exponentials beside the picked logits, and
 * the loss. With logits sharded over the classes the first two are partial results of one and
 * two numbers per token; the backward recomputes each rank's shard of the softmax from its own
 * logits and sends nothing (Megatron-LM, Shoeybi et al. 2019). Class weights and label smoothing
 * add to the picked number and cost no further one. What is computed is in
 * kernels/cpu/reductions/cross_entropy_kernel.c.
 */
#include "ops/losses/cross_entropy.h"

#include <math.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/recorder.h"
#include "base/settings/knob.h"
#include "ops/op_functions.h"
#include "ops/op_plan.h"
#include "tensor/scope.h"

/* ---- shapes ---- */

static const char needs_target[] = "needs logits [*,V] and an i32 or i64 target [*]";
static const char needs_weight[] = "class weights are [V], one per class";

static bool target_shape_matches(const struct wf_tensor_desc *z, const struct wf_tensor_desc *t)
{
    return z->ndim >= 1 && z->ndim == t->ndim + 1 && weft_dtype_is_float((weft_dtype)z->dtype) &&
           (t->dtype == WEFT_I32 || t->dtype == WEFT_I64) &&
           memcmp(z->global, t->global, (size_t)t->ndim * sizeof(int64_t)) == 0;
}

static bool weight_shape_matches(const struct wf_tensor_desc *z, const struct wf_tensor_desc *w)
{
    return w->ndim == 1 && w->global[0] == z->global[z->ndim - 1];
}

/* z [*,V], m [*], target [*], w [V] or none -> [2,*] */
weft_status wf_shape_xent_sum(struct wf_infer *call)
{
    const struct wf_tensor_desc *z = &call->in[0]->desc, *m = &call->in[1]->desc;

    WF_NEED(target_shape_matches(z, &call->in[2]->desc), WEFT_ERR_SHAPE, "cross_entropy: %s: %s",
            needs_target, wf_infer_inputs_text(call));
    WF_NEED(!call->in[3] || weight_shape_matches(z, &call->in[3]->desc), WEFT_ERR_SHAPE,
            "cross_entropy: %s: %s", needs_weight, wf_infer_inputs_text(call));
    WF_NEED(m->ndim + 1 <= WEFT_MAX_DIMS, WEFT_ERR_SHAPE, "cross_entropy: too many dims: %s",
            wf_infer_inputs_text(call));
    call->out[0].dtype = m->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    call->out[0].ndim = m->ndim + 1;
    call->out[0].shape[0] = 2;
    memcpy(call->out[0].shape + 1, m->global, (size_t)m->ndim * sizeof(int64_t));
    return WEFT_OK;
}

/* sp [2,*], m [*], target [*], w [V] or none -> [*], totals [3] */
weft_status wf_shape_xent_loss(struct wf_infer *call)
{
    wf_infer_output_like(call, 0, call->in[1]);
    call->out[1].dtype = call->out[0].dtype;
    call->out[1].ndim = 1;
    call->out[1].shape[0] = 3;
    return WEFT_OK;
}

/* ---- the arguments ---- */

/* What the loss is made of beside the logits, and backward needs. */
struct loss_tensors {
    weft_tensor *target, *weight; /* weight: NULL where all are 1 */
    weft_tensor *m, *sums;        /* the largest logits, and what xent_sum gives, whole */
    weft_tensor *count;           /* what a mean divides by, or NULL */
};

weft_status wf_cross_entropy_shape_error(const char *needs, const weft_tensor *z,
                                         const weft_tensor *other)
{
    char text[2][200];

    weft_tensor_format(z, text[0], sizeof text[0]);
    weft_tensor_format(other, text[1], sizeof text[1]);
    return WF_FAIL(WEFT_ERR_SHAPE, "cross_entropy: %s: %s, %s", needs, text[0], text[1]);
}

/* As the ops' shapes are checked, but before the maximum is sent. */
static weft_status check_shapes(const weft_tensor *z, const struct loss_tensors *tensors)
{
    const struct wf_tensor_desc *desc = &z->layout->desc;

    if (!target_shape_matches(desc, &tensors->target->layout->desc))
        return wf_cross_entropy_shape_error(needs_target, z, tensors->target);
    if (tensors->weight && !weight_shape_matches(desc, &tensors->weight->layout->desc))
        return wf_cross_entropy_shape_error(needs_weight, z, tensors->weight);
    return WEFT_OK;
}

/* A plain tensor is the same on every rank, as far as the block is concerned. */
static weft_tensor *as_replicated(weft_tensor *t, weft_mesh *mesh)
{
    return wf_is_plain(t) ? weft_from_local(t, mesh, NULL, NULL) : t;
}

static weft_status loss_parallel_error(const char *who, const weft_tensor *z, const char *before,
                                       const char *after)
{
    char text[128] = "plain";

    if (!wf_is_plain(z))
        weft_placements_format(z->layout->placements, z->layout->n_axes, text, sizeof text);
    return WF_FAIL(WEFT_ERR_LAYOUT, "%s in loss_parallel: %s %s%s", who, before, text, after);
}

/* The classes are last, so tokens have the same dims in logits and target. */
static weft_status check_target_in_loss_parallel(const char *who, const weft_tensor *z,
                                                 const weft_tensor *target)
{
    bool plain = wf_is_plain(target), has = true;

    for (int a = 0; a < z->layout->n_axes; a++) {
        weft_placement p = z->layout->placements[a];

        if (plain)
            has &= weft_is_replicate(p) || weft_shards(p, weft_ndim(z) - 1);
        else if (target->layout->mesh == z->layout->mesh)
            has &= weft_is_replicate(target->layout->placements[a]) ||
                   weft_placement_equal(target->layout->placements[a], p);
    }
    if (has) return WEFT_OK;
    return loss_parallel_error(
        who, z, "with logits",
        plain ? " a plain target would say nothing of its shard; it requires a "
                "DTensor (weft_distribute_tensor)"
              : " expected a target that is replicated or sharded as they are");
}

weft_status wf_prepare_loss_parallel_operands(const char *who, const weft_tensor *z,
                                              weft_tensor **target, weft_tensor **weight)
{
    if (z->layout->partial)
        return loss_parallel_error(who, z, "logits must be Shard or Replicate on every axis, not",
                                   "");
    if (!wf_is_sharded_along(z, weft_ndim(z) - 1))
        return loss_parallel_error(who, z, "logits must be sharded over their classes, not",
                                   " (classes last)");
    WF_TRY(check_target_in_loss_parallel(who, z, *target));
    *target = as_replicated(*target, z->layout->mesh);
    if (!*target) return weft_error_status();
    if (!*weight) return WEFT_OK;
    for (int a = 0; a < (*weight)->layout->n_axes; a++)
        if (!weft_is_replicate((*weight)->layout->placements[a]))
            return loss_parallel_error(who, z, "with logits",
                                       " expected class weights that are replicated");
    *weight = as_replicated(*weight, z->layout->mesh);
    return *weight ? WEFT_OK : weft_error_status();
}

static weft_status check_options(const weft_cross_entropy_options *o)
{
    WF_NEED(o->smoothing >= 0 && o->smoothing <= 1, WEFT_ERR_ARG,
            "cross_entropy: smoothing is %g, outside 0 .. 1", o->smoothing);
    WF_NEED(o->z_loss >= 0 && isfinite(o->z_loss), WEFT_ERR_ARG, "cross_entropy: z_loss is %g",
            o->z_loss);
    WF_NEED((unsigned)o->reduction <= WEFT_LOSS_NONE, WEFT_ERR_ARG,
            "cross_entropy: there is no reduction %d", (int)o->reduction);
    WF_NEED(!o->weight || !weft_requires_grad(o->weight), WEFT_ERR_ARG,
            "cross_entropy: class weights have no gradient");
    return WEFT_OK;
}

weft_tensor *wf_permute_classes_last(weft_tensor *z, int class_dim)
{
    int order[WEFT_MAX_DIMS], n = weft_ndim(z), at = 0, d;

    if (class_dim == 0 || n == 0) return z;
    d = wf_normalize_dim(class_dim, n, "cross_entropy");
    if (d < 0) return NULL;
    for (int i = 0; i < n; i++)
        if (i != d) order[at++] = i;
    order[at] = d;
    return d == n - 1 ? z : weft_permute(z, order);
}

/* ---- the loss ---- */

enum { LOGITS, MAXIMUM, SUMS, TARGET, COUNT, WEIGHT };
enum { TOTAL, WEIGHTS, NO_CLASS };

/* d loss / d logits, in the logits' own layout. */
static void vjp_cross_entropy(const struct wf_tape_node *n, weft_tensor *g, weft_tensor **in)
{
    struct wf_op_args args = {.scalars = {.s = {n->s[0], n->s[1]}, .v = {n->v[0]}}};
    weft_tensor *share = n->saved[COUNT] ? weft_div(g, n->saved[COUNT]) : g;
    weft_tensor *per_token = wf_expand_to_shape_of(share, n->saved[MAXIMUM]->layout);
    weft_tensor *operands[] = {n->saved[LOGITS], n->saved[MAXIMUM], n->saved[SUMS],
                               n->saved[TARGET], per_token,         n->saved[WEIGHT]};

    in[0] = wf_dispatch_op_one_output(WF_OP_xent_grad, operands, 6, &args);
}

/* True when every rank of the world has the same of it. */
static bool is_same_on_all_ranks(const weft_tensor *t)
{
    weft_mesh *mesh = t->layout->mesh;

    if ((mesh ? weft_mesh_size(mesh) : 1) < weft_world_size()) return false;
    for (int a = 0; a < t->layout->n_axes; a++)
        if (weft_is_partial(t->layout->placements[a]) && weft_mesh_axis_size(mesh, a) > 1)
            return false;
    return true;
}

/*
 * Targets that are no class, as the kernel counted them. Where all ranks have the same count, all
 * return an error; of a shard of the batch, or on some ranks of the world, some ranks alone know.
 * To read the count from a GPU is to wait for it, and a list that is run again has no such reading:
 * there, without WEFT_CHECK=2, the loss, which is NaN then, has to tell.
 */
static weft_status check_target_classes(const weft_tensor *totals, int64_t classes)
{
    const struct wf_tensor_desc *d = &totals->layout->desc;
    size_t size = wf_dtypes[d->dtype].size;
    char element[8];
    double count;

    if (wf_is_meta(totals) || d->numel == 0) return WEFT_OK;
    if ((wf_device_of(totals) != WEFT_CPU || wf_recorder) && wf_knobs.check < 2) return WEFT_OK;
    wf_recorder_leave("cross_entropy: targets are checked (WEFT_CHECK=2)");
    wf_wait_ready(totals);
    wf_device_download(wf_device_of(totals), element, (const char *)totals->data + NO_CLASS * size,
                       size, "cross_entropy");
    count = wf_dtypes[d->dtype].load(element);
    if (count == 0) return WEFT_OK;
    if (!is_same_on_all_ranks(totals))
        WF_DIE("cross_entropy: %g of this rank's targets are no class (outside the %lld classes "
               "and not ignored)",
               count, (long long)classes);
    return WF_FAIL(WEFT_ERR_ARG,
                   "cross_entropy: %g %s no class (outside the %lld classes and not ignored)",
                   count, count == 1 ? "target is" : "targets are", (long long)classes);
}

static weft_tensor *cross_entropy_forward(weft_tensor *z, const weft_cross_entropy_options *o,
                                          struct loss_tensors *tensors)
{
    int last = -1;
    int64_t classes = weft_size(z, last);
    struct wf_op_args args = {
        .scalars = {.s = {o->smoothing, o->z_loss}, .v = {o->ignore_index, classes}}};
    weft_tensor *m, *losses, *totals = NULL;

    tensors->m = m = wf_reduce_if_partial(weft_amax(z, &last, 1, false));
    if (m && wf_dtype_is_16_bit_float(weft_tensor_dtype(m)))
        tensors->m = m = weft_cast(m, WEFT_F32);
    if (m && tensors->weight && weft_tensor_dtype(tensors->weight) != weft_tensor_dtype(m))
        tensors->weight = weft_cast(tensors->weight, weft_tensor_dtype(m));
    tensors->sums = wf_reduce_if_partial(wf_dispatch_op_one_output(
        WF_OP_xent_sum, (weft_tensor *[]){z, m, tensors->target, tensors->weight}, 4, &args));
    losses = wf_dispatch_op(WF_OP_xent_loss,
                            (weft_tensor *[]){tensors->sums, m, tensors->target, tensors->weight},
                            4, &args, &totals);
    if (!losses) return NULL;
    if (o->reduction == WEFT_LOSS_MEAN) totals = wf_reduce_if_partial(totals);
    if (!totals || check_target_classes(totals, classes) != WEFT_OK) return NULL;
    if (o->reduction == WEFT_LOSS_NONE) return losses;
    if (o->reduction == WEFT_LOSS_SUM) return weft_select(totals, 0, TOTAL);
    tensors->count = weft_select(totals, 0, WEIGHTS);
    return weft_div(weft_select(totals, 0, TOTAL), tensors->count);
}

static weft_tensor *cross_entropy(weft_tensor *logits, weft_tensor *target,
                                  const weft_cross_entropy_options *o)
{
    weft_tensor *z = wf_permute_classes_last(logits, o->class_dim), *loss;
    struct loss_tensors tensors = {.target = target, .weight = o->weight};

    if (weft_dtype_is_float(weft_tensor_dtype(target)))
        tensors.target = wf_permute_classes_last(target, o->class_dim);
    if (!z || !tensors.target || check_options(o) != WEFT_OK) return NULL;
    if (wf_scope_modes() & WF_MODE_LOSS_PARALLEL)
        WF_TRY_PTR(wf_prepare_loss_parallel_operands("cross_entropy", z, &tensors.target,
                                                     &tensors.weight));
    if (weft_dtype_is_float(weft_tensor_dtype(target)))
        return wf_soft_cross_entropy(z, tensors.target, tensors.weight, o);
    WF_TRY_PTR(check_shapes(z, &tensors));
    weft_no_grad_open();
    loss = cross_entropy_forward(z, o, &tensors);
    weft_no_grad_close();
    if (loss && z->requires_grad && wf_grad_is_enabled()) {
        struct wf_tape_node *n = wf_tape_record(loss, vjp_cross_entropy, "cross_entropy", &z, 1);

        n->s[0] = o->smoothing;
        n->s[1] = o->z_loss;
        n->v[0] = o->ignore_index;
        wf_tape_node_save(n, LOGITS, z);
        wf_tape_node_save(n, MAXIMUM, tensors.m);
        wf_tape_node_save(n, SUMS, tensors.sums);
        wf_tape_node_save(n, TARGET, tensors.target);
        wf_tape_node_save(n, COUNT, tensors.count);
        wf_tape_node_save(n, WEIGHT, tensors.weight);
        wf_tape_node_shard_saved(n);
    }
    return loss;
}

weft_tensor *weft_cross_entropy_with(weft_tensor *logits, weft_tensor *target,
                                     weft_cross_entropy_options options)
{
    weft_scope *scope;

    if (!logits || !target) return NULL;
    WF_TRY_PTR(wf_tensor_need_alive(logits, "cross_entropy"));
    WF_TRY_PTR(wf_tensor_need_alive(target, "cross_entropy"));
    if (options.ignore_index == 0) options.ignore_index = -100;
    if (options.ignore_index == WEFT_IGNORE_ZERO) options.ignore_index = 0;
    scope = weft_scope_open();
    return weft_scope_return(scope, cross_entropy(logits, target, &options));
}

weft_tensor *weft_cross_entropy(weft_tensor *logits, weft_tensor *target, int64_t ignore_index)
{
    weft_cross_entropy_options options = {.ignore_index =
                                              ignore_index ? ignore_index : WEFT_IGNORE_ZERO};

    return weft_cross_entropy_with(logits, target, options);
}

weft_scope *weft_loss_parallel_open(void)
{
    weft_scope *scope = weft_scope_open();

    wf_scope_set_modes(wf_scope_modes() | WF_MODE_LOSS_PARALLEL);
    return scope;
}
