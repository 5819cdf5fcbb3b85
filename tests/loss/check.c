/* check.c: runs cross-entropies and holds them against the oracle. */
#include "loss/check.h"

#include <stdlib.h>

static const char *const reductions[] = {"mean", "sum", "none"};

struct wt_tolerance check_tolerance(weft_dtype dtype)
{
    return WT_WITHIN(dtype == WEFT_F64 ? 1e-12 : dtype == WEFT_F32 ? 1e-5 : 1.6e-2);
}

weft_tensor *check_logits(struct wt_world *w, const struct check *c)
{
    const struct oracle *o = &c->oracle;
    weft_tensor *z = weft_cast(weft_from_data(WEFT_F64, o->shape, o->ndim, o->z), c->dtype);

    return weft_set_requires_grad(c->logits ? wt_spread(w, z, c->logits) : z, true);
}

weft_tensor *check_target(struct wt_world *w, const struct check *c)
{
    const struct oracle *o = &c->oracle;
    int64_t shape[ORACLE_DIMS];
    weft_tensor *t;
    int n = 0;

    if (o->probability) {
        t = weft_cast(weft_from_data(WEFT_F64, o->shape, o->ndim, o->probability), c->dtype);
        return c->target ? wt_spread(w, t, c->target) : t;
    }
    for (int d = 0; d < o->ndim; d++)
        if (d != o->class_dim) shape[n++] = o->shape[d];
    t = weft_from_data(WEFT_I64, shape, n, o->target);
    return c->target ? wt_spread(w, t, c->target) : t;
}

weft_tensor *check_weight(struct wt_world *w, const struct check *c)
{
    weft_tensor *t;

    if (!c->weighted) return NULL;
    t = weft_from_data(WEFT_F64, &c->oracle.classes, 1, c->oracle.weight);
    t = weft_cast(t, c->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32);
    return c->logits && c->target ? weft_distribute_tensor(t, w->mesh, NULL, -1) : t;
}

weft_cross_entropy_options check_options(const struct check *c, weft_loss_reduction reduction)
{
    return (weft_cross_entropy_options){.ignore_index = c->oracle.ignored,
                                        .smoothing = c->oracle.smoothing,
                                        .z_loss = c->oracle.z_loss,
                                        .reduction = reduction,
                                        .class_dim = c->oracle.class_dim -
                                                     (c->oracle.class_dim ? 0 : c->oracle.ndim)};
}

/* Axes of more than one rank that shard the class dim / another one. */
static int axes(const struct wt_world *w, const struct check *c, bool of_classes)
{
    weft_placement p[WEFT_MAX_AXES];
    int n = c->logits ? weft_placements_parse(p, WEFT_MAX_AXES, c->logits) : 0, count = 0;

    for (int a = 0; a < n; a++)
        count += weft_is_shard(p[a]) && (p[a].dim == c->oracle.class_dim) == of_classes &&
                 weft_mesh_axis_size(w->mesh, a) > 1;
    return count;
}

/* Tokens of which this rank has some classes, or would have. */
static int64_t local_tokens(const weft_tensor *z, int class_dim)
{
    int64_t n = 1;

    for (int d = 0; d < weft_ndim(z); d++) n *= d == class_dim ? 1 : weft_local_size(z, d);
    return n;
}

/* Two all-reduces, 12 bytes per token of this rank's shard; a mean over sharded tokens one more of
 * three numbers. For one axis that shards the classes and one that does not, or fewer. */
static void check_moves(struct wt_world *w, const struct check *c, const weft_tensor *z,
                        weft_loss_reduction reduction)
{
    int over_classes = c->oracle.tokens ? axes(w, c, true) : 0;
    int over_tokens = reduction == WEFT_LOSS_MEAN ? axes(w, c, false) : 0;
    int64_t number = c->dtype == WEFT_F64 ? 8 : 4;
    int64_t per_token = (c->sums ? c->sums : 2) * number + (int64_t)weft_dtype_size(c->dtype);
    int64_t per_mean = (c->totals ? c->totals : 3) * number;
    int64_t bytes = over_classes * per_token * local_tokens(z, c->oracle.class_dim);

    WT_EQ(weft_ledger_bytes(w->ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL),
          bytes + over_tokens * per_mean);
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL),
          2 * over_classes + over_tokens);
    weft_ledger_reset(w->ledger);
}

/* A mean is replicated, a sum partial where tokens are sharded, single losses are placed as they.
 */
static void check_layout(const struct check *c, const weft_tensor *loss,
                         weft_loss_reduction reduction)
{
    weft_placement p[WEFT_MAX_AXES];
    int n = c->logits ? weft_placements_parse(p, WEFT_MAX_AXES, c->logits) : 0;

    for (int a = 0; a < n; a++) {
        bool tokens = weft_is_shard(p[a]) && p[a].dim != c->oracle.class_dim;
        weft_placement want = weft_replicate();

        if (tokens && reduction == WEFT_LOSS_SUM) want = weft_partial(WEFT_SUM);
        if (tokens && reduction == WEFT_LOSS_NONE)
            want = weft_shard(p[a].dim - (p[a].dim > c->oracle.class_dim));
        WT_ALL(weft_placement_equal(weft_tensor_placement(loss, a), want));
    }
}

/* Backward and what the oracle says of it: of single losses with gradients that are replicated. */
static void go_back(struct wt_world *w, const struct check *c, weft_tensor *loss,
                    weft_loss_reduction reduction, struct oracle *o)
{
    weft_tensor *t;

    if (reduction == WEFT_LOSS_NONE) {
        double *g = oracle_zeros(o->tokens);
        int64_t shape[ORACLE_DIMS];

        for (int64_t i = 0; i < o->tokens; i++) g[i] = wt_element(1, i);
        for (int d = 0; d < weft_ndim(loss); d++) shape[d] = weft_size(loss, d);
        t = weft_from_data(WEFT_F64, shape, weft_ndim(loss), g);
        oracle_run(o, g);
        t = weft_cast(t, weft_tensor_dtype(loss));
        if (c->logits) t = weft_distribute_tensor(t, w->mesh, NULL, -1);
        WT_ALL(weft_backward_from(loss, t) == WEFT_OK);
        return;
    }
    oracle_run(o, NULL);
    for (int64_t i = 0; reduction == WEFT_LOSS_MEAN && i < o->count; i++)
        o->grad[i] /= o->weights > 0 ? o->weights : 1;
    WT_ALL(weft_backward(loss) == WEFT_OK);
}

static void check_one(struct wt_world *w, const struct check *c, weft_loss_reduction reduction)
{
    weft_tensor *z = check_logits(w, c), *target = check_target(w, c), *loss, *grad;
    weft_cross_entropy_options options = check_options(c, reduction);
    weft_scope *block = c->block ? weft_loss_parallel_open() : NULL;
    struct oracle o = c->oracle;
    const double *want[] = {&o.total, &o.total, o.losses};

    options.weight = check_weight(w, c);
    weft_ledger_reset(w->ledger);
    loss = weft_cross_entropy_with(z, target, options);
    WT_ALL(loss != NULL);
    check_moves(w, c, z, reduction);
    check_layout(c, loss, reduction);
    go_back(w, c, loss, reduction, &o);
    grad = weft_grad(z);
    WT_STILL(w);
    WT_ALL(grad != NULL && weft_tensor_dtype(grad) == c->dtype);
    for (int a = 0; c->logits && a < weft_mesh_ndim(w->mesh); a++)
        WT_ALL(weft_placement_equal(weft_tensor_placement(grad, a), weft_tensor_placement(z, a)));
    if (reduction == WEFT_LOSS_MEAN) o.total /= o.weights;
    wt_note("%s of %s", reductions[reduction], c->logits ? c->logits : "plain");
    WT_ALL(wt_near_full(grad, o.grad, check_tolerance(c->dtype)));
    wt_note("%s of %s", reductions[reduction], c->logits ? c->logits : "plain");
    WT_ALL(wt_near_full(loss, want[reduction], check_tolerance(c->dtype)));
    weft_scope_close(block);
}

void check_round(struct check *c)
{
    struct oracle *o = &c->oracle;
    weft_tensor *z = weft_cast(weft_from_data(WEFT_F64, o->shape, o->ndim, o->z), c->dtype);

    weft_read_f64(z, o->z, o->count);
}

void check_prepare(struct check *c)
{
    oracle_new(&c->oracle, c->weighted);
    check_round(c);
}

void check_reductions(struct wt_world *w, struct check *c)
{
    check_one(w, c, WEFT_LOSS_MEAN);
    check_one(w, c, WEFT_LOSS_SUM);
    check_one(w, c, WEFT_LOSS_NONE);
}

void check_losses(struct wt_world *w, const struct check *c)
{
    struct check own = *c;

    check_prepare(&own);
    check_reductions(w, &own);
}
