/*
 * muon.c: Muon's row: the momentum of a matrix, made nearly orthogonal.
 *
 * Newton and Schulz's iteration needs X XT of the whole matrix X, with the shorter of its two dims
 * outside. Sharded along the longer dim that is a product of what each rank has and one sum over
 * the ranks; all else is local. So a matrix that is sharded in another way is redistributed to that
 * first and the result back, and every number of ranks computes the same.
 */
#include <math.h>

#include <weft/autograd.h>
#include <weft/dtensor.h>
#include <weft/ops.h>

#include "base/error.h"
#include "kernels/device_kernels.h"
#include "optim/optim.h"
#include "tensor/tensor.h"

#define CONFIG weft_muon_config
static const struct wf_optim_setting settings[] = {
    WF_REAL(momentum, 0.95, 1),
    WF_REAL(weight_decay, 0, 0),
    {"a", offsetof(CONFIG, a), WF_SETTING_REAL, 3.4445, 0, true},
    {"b", offsetof(CONFIG, b), WF_SETTING_REAL, -4.775, 0, true},
    {"c", offsetof(CONFIG, c), WF_SETTING_REAL, 2.0315, 0, true},
    WF_REAL(eps, 1e-7, 0),
    WF_INT(ns_steps, 5, 100),
    WF_INT(rate, 0, WEFT_MUON_SPECTRAL + 1),
    WF_FLAG(no_nesterov),
    WF_FLAG(maximize),
    WF_REAL(beta1, 0.9, 1),
    WF_REAL(beta2, 0.999, 1),
    WF_REAL(adamw_eps, 1e-8, 0),
    WF_FLAG(adamw),
    WF_INT(row_dims, 0, WEFT_MAX_DIMS),
    WF_SETTINGS_END};
#undef CONFIG

enum { MOMENTUM = 1, MOMENTS = 6 }; /* bits of the states */

/* How many of a parameter's first dims are rows; 0: it is no matrix. */
static int muon_row_dims(const union wf_optim_config *c, const weft_tensor *parameter)
{
    int ndim = weft_ndim(parameter);

    if (c->muon.adamw) return 0;
    return ndim == 2 ? 1 : c->muon.row_dims < ndim ? c->muon.row_dims : 0;
}

static unsigned muon_state_mask(const union wf_optim_config *c, const weft_tensor *parameter)
{
    return muon_row_dims(c, parameter) ? MOMENTUM : MOMENTS;
}

/* ---- many dims as two ---- */

/* x with every axis that cuts a dim cutting `dim` instead, or none when dim is -1. */
static weft_tensor *shard_along_dim(weft_tensor *x, int dim)
{
    weft_placement to[WEFT_MAX_AXES];
    weft_mesh *mesh = weft_tensor_mesh(x);

    if (!mesh) return x;
    for (int a = 0; a < weft_mesh_ndim(mesh); a++) {
        to[a] = weft_tensor_placement(x, a);
        if (weft_shards(to[a], to[a].dim)) to[a] = dim >= 0 ? weft_shard(dim) : weft_replicate();
    }
    return weft_redistribute(x, to);
}

/* The dim that alone has all rows or all columns; -1: there is none. */
static int find_single_side_dim(const weft_tensor *x, int rows)
{
    return rows == 1 ? 0 : rows == weft_ndim(x) - 1 ? rows : -1;
}

/* The first `rows` dims as one and the others as one. Dims that are merged may not be sharded: the
 * rank's shard of the result would have other elements. */
static weft_tensor *reshape_to_matrix(weft_tensor *x, int rows)
{
    int lone = find_single_side_dim(x, rows);
    int64_t shape[] = {1, 1};

    if (weft_ndim(x) == 2) return x;
    for (int d = 0; d < weft_ndim(x); d++) shape[d >= rows] *= weft_size(x, d);
    return weft_reshape(shard_along_dim(x, lone), shape, 2);
}

/* The matrix with the dims and placements of `like`. */
static weft_tensor *matrix_to_parameter_layout(weft_tensor *x, const weft_tensor *like, int rows)
{
    weft_placement to[WEFT_MAX_AXES];
    weft_mesh *mesh = weft_tensor_mesh(like);
    int lone = find_single_side_dim(like, rows);
    int64_t shape[WEFT_MAX_DIMS];

    if (weft_ndim(like) > 2) {
        for (int d = 0; d < weft_ndim(like); d++) shape[d] = weft_size(like, d);
        x = x ? weft_reshape(shard_along_dim(x, lone > 0 ? 1 : lone), shape, weft_ndim(like))
              : NULL;
    }
    for (int a = 0; mesh && a < weft_mesh_ndim(mesh); a++) to[a] = weft_tensor_placement(like, a);
    return mesh ? weft_redistribute(x, to) : x;
}

/* ---- the iteration ---- */

static int longer_dim_of_matrix(const weft_tensor *x)
{
    return weft_size(x, 0) > weft_size(x, 1) ? 0 : 1;
}

/* Sharded along the longer dim only. */
static weft_tensor *shard_along_longer_dim(weft_tensor *x)
{
    weft_mesh *mesh = weft_tensor_mesh(x);
    int dim = longer_dim_of_matrix(x);
    bool moves = false;

    for (int a = 0; mesh && a < weft_mesh_ndim(mesh); a++)
        moves |= weft_shards(weft_tensor_placement(x, a), 1 - dim);
    return moves ? shard_along_dim(x, dim) : x;
}

static weft_tensor *to_replicated(weft_tensor *t)
{
    return t && weft_tensor_mesh(t) ? weft_redistribute(t, NULL) : t;
}

/* x / max(its norm, eps): no singular value is above 1. */
static weft_tensor *divide_by_norm(weft_tensor *x, double eps)
{
    weft_tensor *norm = weft_sqrt(to_replicated(weft_sum_all(weft_square(x))));
    weft_tensor *least = wf_number_like(norm, eps);

    return weft_div(x, weft_maximum(norm, least));
}

/* a x + (b g + c g g) x with g = x xT, or from the right with g = xT x where x is tall. */
static weft_tensor *newton_schulz_iteration(weft_tensor *x, const weft_muon_config *c)
{
    bool tall = longer_dim_of_matrix(x) == 0;
    weft_tensor *g = to_replicated(weft_matmul_t(x, x, tall, !tall));
    weft_tensor *p = weft_add(weft_mul_scalar(g, c->b), weft_mul_scalar(weft_matmul(g, g), c->c));

    return weft_add(weft_mul_scalar(x, c->a), tall ? weft_matmul(x, p) : weft_matmul(p, x));
}

/* The matrix with the dims and placements of `direction`. */
static weft_tensor *orthogonalize(weft_tensor *direction, const weft_muon_config *c, int rows)
{
    weft_tensor *x = direction ? reshape_to_matrix(direction, rows) : NULL;

    x = x ? divide_by_norm(shard_along_longer_dim(x), c->eps) : NULL;
    for (int i = 0; i < c->ns_steps && x; i++) {
        weft_scope *scope = weft_scope_open();

        x = weft_scope_return(scope, newton_schulz_iteration(x, c));
    }
    return x ? matrix_to_parameter_layout(x, direction, rows) : NULL;
}

/* ---- a step ---- */

static void prepare_adamw_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                               double lr)
{
    const weft_muon_config *c = &slot->config.muon;

    step->sign = c->maximize ? -1 : 1;
    step->keep = 1 - lr * c->weight_decay;
    wf_adam_prepare_step(step,
                         &(struct wf_adam_constants){
                             .lr = lr, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->adamw_eps},
                         slot->step);
}

static void muon_adamw_step(weft_optim *optim, struct wf_optim_slot *slot,
                            struct wf_optimizer_step_arrays *arrays)
{
    for (int s = 0; s < WF_STEP_STATES; s++)
        arrays->state[s] = s + 1 < WF_STEP_STATES ? arrays->state[s + 1] : NULL;
    wf_optim_run_step_kernels(optim, slot, WF_STEP_ADAM, arrays, prepare_adamw_step);
}

static void prepare_momentum_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                                  double lr)
{
    const weft_muon_config *c = &slot->config.muon;

    (void)lr;
    *step = (struct wf_optimizer_step){.sign = c->maximize ? -1 : 1,
                                       .beta1 = c->momentum,
                                       .take1 = 1 - c->momentum,
                                       .rate = c->no_nesterov ? 1 : c->momentum,
                                       .rate_d = c->no_nesterov ? 0 : 1 - c->momentum};
}

/* The update's direction from the momentum, as a tensor like the parameter. */
static weft_tensor *compute_momentum_direction(weft_optim *optim, struct wf_optim_slot *slot,
                                               const struct wf_optimizer_step_arrays *arrays)
{
    struct wf_layout *layout = wf_layout_with_dtype(slot->tensor->layout, arrays->dtype);
    weft_tensor *direction = wf_tensor_new_empty(layout, WF_MEM_OPTIMIZER, "muon");
    struct wf_optimizer_step_arrays taken = *arrays;

    wf_layout_release(layout);
    if (!direction && weft_world_size() > 1) /* other ranks go on to a collective with this one */
        WF_DIE("muon: %s", weft_error_message());
    if (!direction || wf_is_meta(direction)) return direction;
    taken.rounded = NULL; /* w is not written yet */
    taken.state[1] = direction->data;
    wf_optim_run_step_kernels(optim, slot, WF_STEP_MUON, &taken, prepare_momentum_step);
    return direction;
}

static double muon_learning_rate(const weft_muon_config *c, const weft_tensor *w, int n_rows,
                                 double lr)
{
    double rows = 1, columns = 1;

    for (int d = 0; d < weft_ndim(w); d++)
        *(d < n_rows ? &rows : &columns) *= (double)weft_size(w, d);
    if (rows == 0 || columns == 0) return lr;
    if (c->rate == WEFT_MUON_MATCH_ADAMW) return 0.2 * lr * sqrt(fmax(rows, columns));
    return lr * sqrt(c->rate == WEFT_MUON_SPECTRAL ? rows / columns : fmax(1, rows / columns));
}

static void prepare_matrix_step(struct wf_optimizer_step *step, struct wf_optim_slot *slot,
                                double lr)
{
    const weft_muon_config *c = &slot->config.muon;
    int rows = muon_row_dims(&slot->config, slot->tensor);

    *step = (struct wf_optimizer_step){.sign = 1,
                                       .keep = 1 - lr * c->weight_decay,
                                       .rate = muon_learning_rate(c, slot->tensor, rows, lr)};
}

static weft_status muon_matrix_step(weft_optim *optim, struct wf_optim_slot *slot,
                                    struct wf_optimizer_step_arrays *arrays)
{
    weft_tensor *direction = compute_momentum_direction(optim, slot, arrays);

    direction =
        orthogonalize(direction, &slot->config.muon, muon_row_dims(&slot->config, slot->tensor));
    if (!direction) return weft_error_status();
    if (wf_is_meta(direction)) return WEFT_OK;
    wf_wait_ready(direction);
    if (!wf_is_locally_contiguous(direction)) WF_DIE("muon: a redistributed matrix has gaps");
    arrays->g = direction->data;
    arrays->grad_dtype = arrays->dtype;
    arrays->state[0] = NULL;
    wf_optim_run_step_kernels(optim, slot, WF_STEP_SGD, arrays, prepare_matrix_step);
    return WEFT_OK;
}

static weft_status muon_update(weft_optim *optim, struct wf_optim_slot *slot,
                               struct wf_optimizer_step_arrays *arrays)
{
    weft_status status = WEFT_OK;
    weft_scope *scope;

    if (slot->state_mask & MOMENTUM) {
        scope = weft_scope_open();
        weft_no_grad_open();
        status = muon_matrix_step(optim, slot, arrays);
        weft_no_grad_close();
        weft_scope_close(scope);
    } else if (arrays->count && !wf_is_meta(slot->tensor)) {
        muon_adamw_step(optim, slot, arrays);
    }
    return status;
}

WF_OPTIM_ROW(muon, .states = {"momentum_buffer", "exp_avg", "exp_avg_sq"}, .settings = settings,
             .state_mask = muon_state_mask, .update = muon_update)
