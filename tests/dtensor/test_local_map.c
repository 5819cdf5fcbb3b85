/*
 * test_local_map.c: functions on local shards: what they see, what their results become, what is
 * sent, and what typed calls refuse.
 */
/* mpi: 4 */
#include <stdio.h>
#include <string.h>

#include "support/worlds.h"
#include "tensor/tensor.h"

static const weft_placement whole[] = {{.kind = WEFT_KIND_REPLICATE}};
static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}};
static const weft_placement columns[] = {{.kind = WEFT_KIND_SHARD, .dim = 1}};
static const weft_placement summed[] = {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM}};
static const weft_placement strided[] = {{.kind = WEFT_KIND_STRIDED, .factor = 2}};

static const int64_t sizes[][3] = {{16, 8, 12}, {5, 7, 3}, {2, 1, 4}};

static weft_status product(weft_tensor *const *in, weft_tensor **out, void *context)
{
    (void)context;
    out[0] = weft_matmul(in[0], in[1]);
    return WEFT_OK;
}

/* The parts' product added up: what the context is for is the mesh. */
static weft_status summed_product(weft_tensor *const *in, weft_tensor **out, void *context)
{
    out[0] = weft_mesh_all_reduce(weft_matmul(in[0], in[1]), WEFT_SUM, context, 0);
    return WEFT_OK;
}

static weft_local_map summed_product_on(weft_mesh *mesh, const weft_placement *const *in,
                                        const weft_placement *const *out)
{
    return (weft_local_map){
        .function = summed_product, .context = mesh, .n_in = 2, .n_out = 1, .in = in, .out = out};
}

static weft_tensor *call(const weft_local_map *map, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *y = NULL;

    return weft_local_map_call(map, (weft_tensor *[]){a, b}, &y) == WEFT_OK ? y : NULL;
}

/* LMAP-01: the struct is the decorated function: it is called twice. */
WT_TEST_TIMES_IN_WORLD(local_map__wraps_what_the_function_made_whole, w, i, 3)
{
    const weft_placement *in[] = {columns, rows}, *out[] = {whole};
    weft_local_map map = summed_product_on(w->mesh, in, out);
    weft_tensor *x = wt_whole(WEFT_F64, 0, sizes[i][0], sizes[i][1]),
                *k = wt_whole(WEFT_F64, 1, sizes[i][1], sizes[i][2]);
    weft_tensor *sx = wt_spread(w, x, "S(1)"), *sk = wt_spread(w, k, "S(0)"), *y;

    for (int again = 0; again < 2; again++) {
        y = call(&map, sx, sk);
        WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL), 1);
        WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1);
        WT_ALL(wt_is_placed(y, "R") &&
               wt_near_full(y, weft_data(weft_matmul(x, k)), WT_WITHIN(1e-12)));
    }
    map.function = product;
    out[0] = summed;
    y = call(&map, sx, sk);
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "P") && wt_near_tensors(y, weft_matmul(x, k), WT_WITHIN(1e-12)));
}

struct answer {
    weft_mesh *mesh;
    bool equal;
    double factor;
};

/* A plain answer through the context: is the whole equal to the second argument? */
static weft_status compare_whole(weft_tensor *const *in, weft_tensor **out, void *context)
{
    struct answer *answer = context;
    weft_tensor *all = weft_mesh_all_gather(in[0], 0, NULL, answer->mesh, 0);
    int64_t bytes = weft_numel(in[1]) * (int64_t)sizeof(float);

    answer->equal = all && weft_numel(all) == weft_numel(in[1]) &&
                    memcmp(weft_data(all), weft_data(in[1]), (size_t)bytes) == 0;
    out[0] = all;
    return all ? WEFT_OK : weft_error_status();
}

/* LMAP-02 */
WT_TEST_TIMES_IN_WORLD(local_map__hands_on_what_has_no_placements, w, i, 3)
{
    int64_t n = 2 + i;
    struct answer answer = {.mesh = w->mesh};
    const weft_placement *in[] = {rows, NULL}, *none[] = {NULL}, *out[] = {rows};
    weft_local_map map = {.function = compare_whole,
                          .context = &answer,
                          .n_in = 2,
                          .n_out = 1,
                          .in = in,
                          .out = none};
    weft_tensor *plain = wt_whole(WEFT_F32, 0, n * wt_ranks(), 3), *y;

    y = call(&map, wt_spread(w, plain, "S(0)"), plain);
    WT_ALL(answer.equal && weft_tensor_mesh(y) == NULL);
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL), 1);
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1);
    map.out = out; /* no argument is distributed: so is no result, whatever is declared */
    y = call(&map, wt_constant(n, 3, wt_rank()), plain);
    WT_ALL(!answer.equal && weft_tensor_mesh(y) == NULL);
    WT_ALL(wt_has_shape(y, 2, n * wt_ranks(), (int64_t)3));
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_GATHER, WEFT_DIRECTION_ANY, NULL), 1);
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 1);
}

/* LMAP-03: the uneven product says its global shape. */
WT_TEST_TIMES_IN_WORLD(local_map__takes_arguments_as_declared_or_as_they_come, w, i, 6)
{
    const int64_t *size = sizes[i / 2], shape[] = {size[0], size[2]}, *shapes[] = {shape};
    const weft_placement *in[] = {rows, whole}, *out[] = {rows};
    weft_local_map map = {.function = product,
                          .n_in = 2,
                          .n_out = 1,
                          .in = i % 2 ? in : NULL,
                          .out = out,
                          .out_shapes = shapes};
    weft_tensor *x = wt_whole(WEFT_F64, 0, size[0], size[1]),
                *k = wt_whole(WEFT_F64, 1, size[1], size[2]), *y;

    y = call(&map, wt_spread(w, x, "S(0)"), wt_spread(w, k, "R"));
    WT_STILL(w);
    WT_ALL(wt_is_placed(y, "S(0)") && wt_near_tensors(y, weft_matmul(x, k), WT_WITHIN(1e-12)));
}

static weft_status scaled(weft_tensor *const *in, weft_tensor **out, void *context)
{
    out[0] = weft_mul_scalar(in[0], *(double *)context);
    out[1] = in[1];
    return WEFT_OK;
}

/* LMAP-04: a number goes through the context. */
WT_TEST_TIMES_IN_WORLD(local_map__leaves_what_is_plain_alone, w, i, 4)
{
    double two = 2;
    const weft_placement *in[] = {rows, i % 2 ? rows : NULL}, *out[] = {rows, NULL};
    weft_local_map map = {
        .function = scaled, .context = &two, .n_in = 2, .n_out = 2, .in = in, .out = out};
    weft_tensor *x = wt_constant(i < 2 ? 8 : 3 * wt_ranks(), 3, 1.5), *results[2];
    weft_tensor *plain = wt_constant(2, 2, wt_rank());

    if (i < 2 && 8 % wt_ranks()) x = wt_constant(wt_ranks(), 1, 1.5);
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){wt_spread(w, x, "S(0)"), plain}, results) ==
           WEFT_OK);
    WT_ALL(wt_is_placed(results[0], "S(0)") && results[1] == plain);
    WT_STILL(w);
    WT_ALL(wt_is_all(results[0], 3));
    wt_moved(w, WEFT_COLL_COUNT);
    in[0] = NULL;
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){wt_spread(w, x, "S(0)"), plain}, results) !=
           WEFT_OK);
    WT_FAILED(WEFT_ERR_ARG, "expects placements");
    WT_STILL(w);
}

/* LMAP-05 */
WT_TEST_TIMES_IN_WORLD(local_map__moves_arguments_only_when_told, w, i, 2)
{
    const weft_placement *in[] = {columns, rows}, *out[] = {whole};
    weft_local_map map = summed_product_on(w->mesh, in, out);
    weft_tensor *x = wt_whole(WEFT_F64, 0, sizes[i][0], sizes[i][1]),
                *k = wt_whole(WEFT_F64, 1, sizes[i][1], sizes[i][2]);
    weft_tensor *sx = wt_spread(w, x, "S(0)"), *sk = wt_spread(w, k, "S(1)"), *y;

    map.redistribute_inputs = true;
    y = call(&map, sx, sk);
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), wt_ranks() > 1 ? 3 : 1);
    WT_ALL(wt_near_full(y, weft_data(weft_matmul(x, k)), WT_WITHIN(1e-12)));
    map.redistribute_inputs = false;
    WT_ALL(call(&map, sx, sk) == NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "set .redistribute_inputs = true");
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), 0);
}

WT_TEST_IN_WORLD(local_map__refuses_another_mesh_and_a_missing_result, w)
{
    weft_mesh *other = weft_mesh_new(WEFT_CPU, "other=%d", wt_ranks());
    const weft_placement *out[] = {rows, rows};
    double one = 1;
    weft_local_map map = {.function = scaled, .context = &one, .n_in = 2, .n_out = 2, .out = out};
    weft_tensor *x = wt_spread(w, wt_constant(wt_ranks(), 3, 1), "S(0)"), *results[2];

    map.mesh = other;
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, NULL}, results) != WEFT_OK);
    WT_FAILED(WEFT_ERR_LAYOUT, "another mesh");
    map.mesh = NULL;
    if (wt_ranks() == 1) { /* beside others, whose function gave one, it ends the job */
        WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, NULL}, results) != WEFT_OK);
        WT_FAILED(WEFT_ERR_ARG, "result 1 has placements");
    }
    WT_STILL(w);
    weft_mesh_release(other);
}

/* ---- gradients and types ---- */

/* x S(0) [2n,3] times w R [3,4]: each rank's gradient of w is its rows' share. */
static weft_tensor *weight_gradient(struct wt_world *w, bool typed, const weft_placement *declared)
{
    const weft_placement *in[] = {rows, whole}, *out[] = {rows}, *grad[] = {NULL, declared};
    weft_local_map map = {.function = product,
                          .n_in = 2,
                          .n_out = 1,
                          .in = in,
                          .out = out,
                          .in_grad = declared ? grad : NULL,
                          .typed = typed};
    weft_tensor *x = wt_spread(w, wt_constant(2 * wt_ranks(), 3, 1), "S(0)"),
                *k = wt_spread(w, wt_constant(3, 4, 1), "R"), *y;

    weft_set_requires_grad(k, true);
    y = call(&map, x, k);
    if (!y || weft_backward(weft_sum_all(y)) != WEFT_OK) return NULL;
    return weft_grad(k);
}

/* LMAP-08: untyped, a forgotten P is one rank's share; typed, it has to be said. */
WT_TEST_IN_WORLD(local_map__typed_gradients_are_declared, w)
{
    WT_ALL(wt_local_is_all(weight_gradient(w, false, NULL), 2));
    WT_ALL(wt_is_all(weight_gradient(w, false, summed), 2 * wt_ranks()));
    WT_ALL(wt_is_all(weight_gradient(w, true, summed), 2 * wt_ranks()));
    WT_ALL((weight_gradient(w, true, whole) == NULL) == (wt_ranks() > 1)); /* it is not whole */
    if (wt_ranks() > 1) WT_FAILED(WEFT_ERR_LAYOUT, "its gradient would be this rank's share only");
    WT_ALL(weight_gradient(w, true, NULL) == NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "in_grad must say");
    WT_ALL(weight_gradient(w, true, rows) == NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "is R on axis tp, so its gradient cannot be S(0)");
    WT_ALL(weight_gradient(w, true, columns) == NULL);
    WT_FAILED(WEFT_ERR_LAYOUT, "is R on axis tp, so its gradient cannot be S(1)");
}

static weft_status nonlinear(weft_tensor *const *in, weft_tensor **out, void *context)
{
    (void)context;
    out[0] = weft_add(weft_exp(weft_mul_scalar(in[0], 2)), in[0]);
    return WEFT_OK;
}

static weft_status linear(weft_tensor *const *in, weft_tensor **out, void *context)
{
    (void)context;
    out[0] = weft_transpose(weft_add(weft_mul_scalar(in[0], 2), in[0]), 0, 1);
    return WEFT_OK;
}

/* The whole of the argument, by way of a distributed tensor. */
static weft_status gathered(weft_tensor *const *in, weft_tensor **out, void *context)
{
    const weft_placement *declared = context;
    weft_tensor *t = weft_from_local(weft_mul_scalar(in[0], 3), NULL, declared, NULL);

    out[0] = weft_full_tensor(t);
    return WEFT_OK;
}

static weft_status with_constant(weft_tensor *const *in, weft_tensor **out, void *context)
{
    (void)context;
    out[0] = weft_add(in[0], weft_full(WEFT_F32, NULL, 0, 1));
    return WEFT_OK;
}

struct typed_case {
    weft_local_function *function;
    const weft_placement *in, *out;
    const char *refused; /* part of the message; NULL: goes through */
};

static const struct typed_case typed_cases[] = {
    {nonlinear, rows, whole, "{S(0)} of (tp:%d) as R: on axis tp ranks hold different parts"},
    {nonlinear, rows, rows, NULL},
    {nonlinear, rows, summed, "{S(0)} of (tp:%d) as P: on axis tp ranks hold shards"},
    {nonlinear, whole, rows, "{I} of (tp:%d) as S(0): on axis tp every rank holds all of it"},
    {nonlinear, whole, summed, "{I} of (tp:%d) as P: on axis tp every rank holds the value"},
    {nonlinear, whole, whole, NULL},
    {nonlinear, summed, whole,
     "exp, input 0, f32[2,2] {P} of (tp:%d): on axis tp ranks hold terms"},
    {linear, summed, summed, NULL},
    {linear, summed, whole, "{P} of (tp:%d) as R: on axis tp ranks hold terms"},
    {linear, summed, rows, "{P} of (tp:%d) as S(0): on axis tp ranks hold terms"},
    {linear, whole, whole, NULL},
    {gathered, rows, whole, NULL},
    {gathered, rows, rows, "{I} of (tp:%d) as S(0): on axis tp every rank holds all of it"},
    {with_constant, rows, whole, "{S(0)} of (tp:%d) as R: on axis tp ranks hold different parts"},
    {with_constant, whole, rows, "{I} of (tp:%d) as S(0): on axis tp every rank holds all of it"},
    {linear, rows, strided, "strided"},
    {linear, strided, rows, "strided"},
    {linear, rows, NULL, "has no placements"},
};

/* One rank alone holds everything, whatever it is called. */
static bool is_refused(const struct typed_case *c)
{
    return c->refused && (wt_ranks() > 1 || !strstr(c->refused, "tp:%d"));
}

/* LMAP-09: with a gradient, without one, and inside no_grad. */
WT_TEST(local_map__typed_results_are_what_they_are_declared)
{
    for (int i = 0; i < 3 * (int)(sizeof typed_cases / sizeof *typed_cases); i++) {
        const struct typed_case *c = &typed_cases[i / 3];
        struct wt_world w = wt_world_open();
        const weft_placement *in[] = {c->in}, *out[] = {c->out}, *grad[] = {whole};
        weft_local_map map = {.function = c->function,
                              .context = (void *)c->in,
                              .n_in = 1,
                              .n_out = 1,
                              .in = in,
                              .out = out,
                              .in_grad = c->in == whole ? grad : NULL,
                              .typed = true};
        weft_tensor *t = weft_from_local(wt_constant(2, 2, 0.5), w.mesh, c->in, NULL), *y = NULL;
        weft_status status;
        char part[128];

        if (i % 3 != 1) weft_set_requires_grad(t, true);
        if (i % 3 == 2) weft_no_grad_open();
        WT_ALL(weft_default_mesh_open(w.mesh) == WEFT_OK);
        status = weft_local_map_call(&map, &t, &y);
        WT_ALL(weft_default_mesh_close(w.mesh) == WEFT_OK);
        if (i % 3 == 2) weft_no_grad_close();
        wt_note("case %d", i / 3);
        if (is_refused(c)) {
            snprintf(part, sizeof part, c->refused, wt_ranks());
            WT_ALL(status != WEFT_OK);
            WT_FAILED(WEFT_ERR_LAYOUT, part);
        } else {
            WT_ALL(status == WEFT_OK && weft_requires_grad(y) == (i % 3 == 0));
        }
        if (!is_refused(c) && i % 3 == 0) {
            WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
            WT_ALL(weft_grad(t) != NULL);
        }
        wt_world_close(&w);
    }
}

WT_TEST_IN_WORLD(local_map__too_many_results_are_counted, w)
{
    weft_local_map map = {.function = product, .n_in = 2, .n_out = WEFT_LOCAL_MAP_TENSORS + 1};
    weft_tensor *x = wt_whole(WEFT_F32, 0, 2, 2), *results[WEFT_LOCAL_MAP_TENSORS + 1];
    char said[80];

    snprintf(said, sizeof said, "2 arguments and %d results; %d are possible",
             WEFT_LOCAL_MAP_TENSORS + 1, WEFT_LOCAL_MAP_TENSORS);
    WT_EQ(weft_local_map_call(&map, (weft_tensor *[]){x, x}, results), WEFT_ERR_ARG);
    WT_FAILED(WEFT_ERR_ARG, said);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "local_map"); }
