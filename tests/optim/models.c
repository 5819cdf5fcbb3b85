/* models.c: see models.h; weights and input are those of tests/golden/make_optim.py. */
#include "optim/models.h"

#include <stdlib.h>
#include <string.h>

#include "support/golden.h"

static const char *const names[] = {"net1.weight", "net1.bias", "net2.weight", "net2.bias"};
enum { NAMES = sizeof names / sizeof *names };

static weft_tensor *by_formula(const struct wt_mlp *mlp, int index, double scale, int ndim,
                               const int64_t *shape)
{
    int64_t count = 1;
    double *values;
    weft_tensor *t;

    for (int d = 0; d < ndim; d++) count *= shape[d];
    values = calloc((size_t)count + 1, sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = wt_golden_formula(i, index, scale, 0);
    t = weft_cast(weft_from_data(WEFT_F64, shape, ndim, values), mlp->dtype);
    free(values);
    return t;
}

static void set(weft_module *m, const char *name, weft_tensor *t)
{
    weft_module_set_parameter(m, name, weft_set_requires_grad(t, true));
}

static weft_module *make_module(const struct wt_mlp *mlp)
{
    const int64_t *n = mlp->sizes;
    weft_module *m = weft_sequential_new();

    for (int layer = 0; layer < 2; layer++) {
        weft_module *linear = weft_linear_new(
            (weft_linear_config){.in = {n[layer + 1]}, .out = {n[layer + 2]}, .dtype = mlp->dtype});
        int64_t shape[] = {n[layer + 2], n[layer + 1]};

        set(linear, "weight", by_formula(mlp, 2 * layer, 0.5, 2, shape));
        set(linear, "bias", by_formula(mlp, 2 * layer + 1, 0.5, 1, shape));
        weft_module_add_child(m, layer ? "net2" : "net1", linear);
        if (!layer) weft_module_add_child(m, "relu", weft_activation_new(WEFT_RELU));
    }
    return m;
}

static weft_status shard(weft_module *m, weft_mesh *mesh, void *payload)
{
    static const char *const own[] = {"weight", "bias"};
    const struct wt_mlp *mlp = payload;

    if (strcmp(weft_module_type(m), "linear") != 0) return WEFT_OK;
    for (int i = 0; i < 2; i++) {
        weft_tensor *p = weft_module_parameter(m, own[i]);
        weft_placement to[WEFT_MAX_AXES];
        weft_status status = weft_placements_on(to, mesh, mlp->placements);

        for (int a = 0; a < weft_mesh_ndim(mesh); a++)
            if (to[a].dim >= weft_ndim(p)) to[a] = weft_shard(0);
        if (status == WEFT_OK)
            status = weft_module_set_parameter(m, own[i], weft_distribute_tensor(p, mesh, to, -1));
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status input(weft_module *m, weft_tensor **inputs, int n, weft_mesh *mesh,
                         void *payload)
{
    weft_placement to[WEFT_MAX_AXES] = {weft_shard(0)};

    (void)m;
    (void)n;
    (void)payload;
    for (int a = 1; a < weft_mesh_ndim(mesh); a++) to[a] = weft_replicate();
    inputs[0] = weft_distribute_tensor(inputs[0], mesh, to, -1);
    return inputs[0] ? WEFT_OK : weft_error_status();
}

static weft_tensor *output(weft_module *m, weft_tensor *y, weft_mesh *mesh, void *payload)
{
    (void)m;
    (void)mesh;
    (void)payload;
    return weft_full_tensor(y);
}

static void release(void *tensor) { weft_release(tensor); }

static weft_tensor *own(weft_tensor *t)
{
    wt_own_with(weft_retain(t), release);
    return t;
}

void wt_mlp_open(struct wt_mlp *mlp, weft_mesh *mesh)
{
    mlp->mesh = mesh;
    mlp->module = wt_own(make_module(mlp));
    mlp->input = own(mlp->varied_input ? by_formula(mlp, 9, 1, 2, mlp->sizes)
                                       : weft_full(mlp->dtype, mlp->sizes, 2, 1));
    WT_ALL(mlp->module && mlp->input);
    if (mlp->placements)
        WT_EQ(weft_distribute_module(mlp->module, mesh, shard, input, output, mlp), WEFT_OK);
}

weft_status wt_mlp_backward(struct wt_mlp *mlp)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *loss = weft_sum_all(weft_call(mlp->module, mlp->input));
    weft_status status = loss ? weft_backward(loss) : weft_error_status();

    weft_scope_close(scope);
    return status;
}

weft_tensor *wt_mlp_weights(struct wt_mlp *mlp)
{
    double *all = NULL;
    int64_t count = 0;
    weft_tensor *t;

    for (int i = NAMES - 1; i >= 0; i--) {
        weft_tensor *p = weft_module_parameter(mlp->module, names[i]);
        double *values = wt_values(p);

        if (!values) return NULL;
        all = realloc(all, (size_t)(count + weft_numel(p) + 1) * sizeof *all);
        memcpy(all + count, values, (size_t)weft_numel(p) * sizeof *all);
        count += weft_numel(p);
        free(values);
    }
    t = weft_from_data(WEFT_F64, &count, 1, all);
    free(all);
    return t;
}

/* ---- parameters with gradients of one's own ---- */

static weft_tensor *first(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return inputs[0];
}

void wt_bag_open(struct wt_bag *bag)
{
    static const weft_module_class kind = {.type = "bag", .forward = first};

    *bag = (struct wt_bag){.module = wt_own(weft_module_new(&kind, NULL))};
}

static weft_tensor *spread(weft_tensor *t, weft_mesh *mesh, const char *placements)
{
    weft_placement to[WEFT_MAX_AXES];

    if (!placements) return t;
    WT_EQ(weft_placements_on(to, mesh, placements), WEFT_OK);
    return weft_distribute_tensor(t, mesh, to, -1);
}

void wt_bag_add(struct wt_bag *bag, const char *name, weft_tensor *parameter, weft_tensor *factor,
                weft_mesh *mesh, const char *placements, const char *factor_placements)
{
    weft_tensor *f = spread(factor, mesh, factor_placements ? factor_placements : placements);

    WT_EQ(weft_module_add_parameter(bag->module, name, spread(parameter, mesh, placements)),
          WEFT_OK);
    bag->items[bag->n++] = (struct wt_bag_item){name, own(f)};
}

weft_status wt_bag_backward(struct wt_bag *bag)
{
    weft_scope *scope = weft_scope_open();
    weft_status status = WEFT_OK;

    for (int i = 0; i < bag->n && status == WEFT_OK; i++) {
        weft_tensor *p = wt_bag_parameter(bag, i);
        weft_tensor *loss = weft_full_tensor(weft_sum_all(weft_mul(p, bag->items[i].factor)));

        status = loss ? weft_backward(loss) : weft_error_status();
    }
    weft_scope_close(scope);
    return status;
}

void wt_bag_steps(struct wt_bag *bag, weft_optim *optim, int n)
{
    for (int i = 0; i < n; i++) {
        WT_EQ(wt_bag_backward(bag), WEFT_OK);
        WT_EQ(weft_step(optim), WEFT_OK);
    }
}

weft_tensor *wt_bag_parameter(const struct wt_bag *bag, int i)
{
    return weft_module_parameter(bag->module, bag->items[i].name);
}

weft_tensor *wt_numbers(weft_dtype dtype, int which, int ndim, const int64_t *shape)
{
    struct wt_mlp formula = {.dtype = dtype};

    return by_formula(&formula, which, 1, ndim, shape);
}
