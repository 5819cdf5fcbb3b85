/*
 * test_clip.c: norms and clipping count every element once, however gradients are spread or still
 * partial, and cost what the docs say.
 */
/* mpi: 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/models.h"
#include "tensor/host_copy.h"

static const int64_t matrix[] = {7, 3}, stack[] = {4, 7, 3};

/* Gradients that are sharded, replicated, partial, plain, and, over two axes, both. */
static void fill(struct wt_bag *bag, weft_dtype dtype, weft_mesh *mesh)
{
    static const struct {
        const char *name;
        const char *placements[2]; /* over one axis, and over two; NULL: plain */
        const char *factor[2];     /* of the factor; NULL: the same */
    } rows[] = {
        {"rows", {"S(0)", "S(0),S(1)"}, {NULL}},
        {"columns", {"S(1)", "S(1),R"}, {NULL}},
        {"whole", {"R", "R,R"}, {NULL}},
        {"plain", {NULL}, {NULL}},
        {"partial", {"R", "R,R"}, {"S(0)", "S(0),R"}},
        {"both", {"R", "R,S(0)"}, {"S(0)", "S(0),S(1)"}},
        {"nested", {NULL, "S(0),S(0)"}, {NULL}},
    };
    bool two = weft_mesh_ndim(mesh) == 2;

    wt_bag_open(bag);
    for (int i = 0; i < 6 + two; i++) {
        const char *placements = rows[i].placements[two], *factor = rows[i].factor[two];

        wt_bag_add(bag, rows[i].name, wt_numbers(dtype, 1, 2, matrix),
                   wt_numbers(dtype, i + 2, factor ? 3 : 2, factor ? stack : matrix),
                   placements ? mesh : NULL, placements, factor);
    }
}

/* All gradients' elements one after another, as they are now. */
static int64_t gradients(struct wt_bag *bag, double *out)
{
    int64_t n = 0;

    for (int i = 0; i < bag->n; i++) {
        weft_tensor *p = wt_bag_parameter(bag, i);
        double *values = wt_values(weft_grad(p));

        WT_ALL(values != NULL);
        memcpy(out + n, values, (size_t)weft_numel(p) * sizeof *out);
        n += weft_numel(p);
        free(values);
    }
    return n;
}

enum { ROOM = 8 * 21 };

static double norm_of(const double *x, int64_t n, double p)
{
    double total = 0;

    for (int64_t i = 0; i < n; i++)
        total = isinf(p) ? fmax(total, fabs(x[i])) : total + pow(fabs(x[i]), p);
    return isinf(p) ? total : pow(total, 1 / p);
}

static struct wt_world open_world(bool two_axes)
{
    return two_axes ? wt_world_open_two_axes() : wt_world_open();
}

/* Measured before the gradients are looked at, so that partial ones are partial. */
static void check_norm(weft_dtype dtype, bool two_axes, double p)
{
    double rounding = weft_dtype_size(dtype) == 2 ? 0.01 : dtype == WEFT_F32 ? 1e-6 : 1e-12;
    double before[ROOM], after[ROOM], norm, want;
    struct wt_world world;
    struct wt_bag bag;
    int64_t n;

    wt_row("%s, %d axes, norm %g", weft_dtype_name(dtype), 1 + two_axes, p);
    world = open_world(two_axes);
    fill(&bag, dtype, world.mesh);
    WT_EQ(wt_bag_backward(&bag), WEFT_OK);
    WT_EQ(p == 2 ? weft_clip_grad_norm(bag.module, 0, &norm)
                 : weft_clip_grad_pnorm(bag.module, 0, p, &norm),
          WEFT_OK);
    n = gradients(&bag, before);
    want = norm_of(before, n, p);
    wt_note("%g, not %g", norm, want);
    WT_ALL(fabs(norm - want) <= 1e-12 * want);
    WT_EQ(weft_clip_grad_pnorm(bag.module, want / 4, p, &norm), WEFT_OK);
    WT_ALL(fabs(norm - want) <= 1e-12 * want);
    gradients(&bag, after);
    for (int64_t i = 0; i < n; i++) before[i] *= want / 4 / (want + 1e-6);
    WT_ALL(wt_near(after, before, n, WT_WITHIN(rounding)));
    WT_EQ(weft_clip_grad_pnorm(bag.module, 2 * want, p, &norm), WEFT_OK); /* nothing to do */
    gradients(&bag, before);
    WT_ALL(wt_near(after, before, n, WT_EXACT));
}

/* The norm as a tensor: measured, scaled by, and what is below the limit stays. */
static void check_norm_tensor(weft_dtype dtype, bool two_axes, double p)
{
    double rounding = weft_dtype_size(dtype) == 2 ? 0.01 : dtype == WEFT_F32 ? 2e-6 : 1e-12;
    double before[ROOM], after[ROOM], want, bound = dtype == WEFT_F64 ? 1e-12 : 1e-6;
    weft_tensor *norm;
    struct wt_world world;
    struct wt_bag bag;
    int64_t n;

    wt_row("%s, %d axes, norm %g", weft_dtype_name(dtype), 1 + two_axes, p);
    world = open_world(two_axes);
    fill(&bag, dtype, world.mesh);
    WT_EQ(wt_bag_backward(&bag), WEFT_OK);
    norm = weft_clip_grad_norm_tensor(bag.module, 0, p);
    WT_ALL(norm && !weft_tensor_mesh(norm) && weft_ndim(norm) == 0 && !weft_requires_grad(norm));
    WT_EQ(weft_tensor_dtype(norm), dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32);
    n = gradients(&bag, before);
    want = norm_of(before, n, p);
    wt_note("%g, not %g", weft_item(norm), want);
    WT_ALL(fabs(weft_item(norm) - want) <= bound * want);
    norm = weft_clip_grad_norm_tensor(bag.module, want / 4, p);
    WT_ALL(fabs(weft_item(norm) - want) <= bound * want);
    gradients(&bag, after);
    for (int64_t i = 0; i < n; i++) before[i] *= want / 4 / (want + 1e-6);
    WT_ALL(wt_near(after, before, n, WT_WITHIN(rounding)));
    WT_ALL(weft_clip_grad_norm_tensor(bag.module, 2 * want, p) != NULL); /* nothing to do */
    gradients(&bag, before);
    WT_ALL(wt_near(after, before, n, WT_EXACT));
}

WT_TEST(norm_tensor__counts_every_element_once)
{
    static const double ps[] = {2, 1, 3.5, INFINITY};
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16};

    for (int i = 0; i < 4 * 4 * 2; i++) check_norm_tensor(dtypes[i / 4 % 4], i / 16, ps[i % 4]);
}

WT_TEST(norm__counts_every_element_once)
{
    static const double ps[] = {2, 1, 3.5, INFINITY};
    static const weft_dtype dtypes[] = {WEFT_F64, WEFT_F32, WEFT_BF16, WEFT_F16};

    for (int i = 0; i < 4 * 4 * 2; i++) check_norm(dtypes[i / 4 % 4], i / 16, ps[i % 4]);
}

WT_TEST(value__is_limited_everywhere)
{
    for (int i = 0; i < 4; i++) {
        struct wt_world world = open_world(i % 2);
        struct wt_bag bags[2];
        double want[ROOM], got[ROOM];
        int64_t n;

        for (int k = 0; k < 2; k++) {
            fill(&bags[k], i < 2 ? WEFT_F32 : WEFT_BF16, world.mesh);
            WT_EQ(wt_bag_backward(&bags[k]), WEFT_OK);
        }
        n = gradients(&bags[0], want);
        WT_EQ(weft_clip_grad_value(bags[1].module, 0.25), WEFT_OK);
        gradients(&bags[1], got);
        for (int64_t k = 0; k < n; k++) want[k] = fmin(0.25, fmax(-0.25, want[k]));
        WT_ALL(wt_near(got, want, n, WT_EXACT));
    }
}

/* One element of one rank's shard is no number: all ranks hear of it, and nothing is scaled. */
WT_TEST(norm__that_is_no_number_is_told_and_scales_nothing)
{
    struct wt_world world = wt_world_open();

    for (int i = 0; i < 2; i++) {
        struct wt_bag bag;
        weft_tensor *g, *host;
        double norm;

        fill(&bag, WEFT_F32, world.mesh);
        WT_EQ(wt_bag_backward(&bag), WEFT_OK);
        g = weft_grad(weft_module_parameter(bag.module, "rows"));
        host = wf_tensor_on_host(g, "test");
        if (weft_local_offset(g, 0) == 0 && weft_local_numel(g)) *(float *)weft_data(host) = NAN;
        WT_EQ(wf_tensor_write_back_from_host(g, host), WEFT_OK);
        WT_EQ(weft_clip_grad_pnorm(bag.module, 1e-3, i ? INFINITY : 2, &norm), WEFT_OK);
        WT_ALL(isnan(norm));
        WT_ALL(isnan(weft_item(weft_clip_grad_norm_tensor(bag.module, 1e-3, i ? INFINITY : 2))));
        WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(bag.module, "whole")),
                               wt_numbers(WEFT_F32, 4, 2, matrix), WT_WITHIN(1e-7)));
    }
}

/* The maximum over a parameter without elements is none of its gradient's. */
WT_TEST(norm__leaves_out_parameters_without_elements)
{
    struct wt_world world = wt_world_open();
    weft_tensor *none = weft_full(WEFT_F32, (int64_t[]){0}, 1, 0);
    struct wt_bag bag;
    double norm;

    wt_bag_open(&bag);
    wt_bag_add(&bag, "some", wt_numbers(WEFT_F32, 1, 2, matrix), wt_numbers(WEFT_F32, 2, 2, matrix),
               world.mesh, "S(0)", NULL);
    wt_bag_add(&bag, "none", none, none, NULL, NULL, NULL);
    WT_EQ(wt_bag_backward(&bag), WEFT_OK);
    WT_EQ(weft_clip_grad_pnorm(bag.module, 0, INFINITY, &norm), WEFT_OK);
    WT_ALL(norm > 0);
    WT_ALL(fabs(weft_item(weft_clip_grad_norm_tensor(bag.module, 0, INFINITY)) - norm) <= 1e-6);
}

WT_TEST(clip__refuses_what_it_cannot_do)
{
    struct wt_world world = wt_world_open();
    struct wt_bag bag;

    fill(&bag, WEFT_F32, world.mesh);
    WT_FAILS(weft_clip_grad_norm(bag.module, -1, NULL), WEFT_ERR_ARG, "max_norm is -1");
    WT_FAILS(weft_clip_grad_pnorm(bag.module, 1, 0, NULL), WEFT_ERR_ARG, "p > 0");
    WT_FAILS(weft_clip_grad_pnorm(bag.module, 1, NAN, NULL), WEFT_ERR_ARG, "p > 0");
    WT_FAILS(weft_clip_grad_norm_tensor(bag.module, -1, 2), WEFT_ERR_ARG, "max_norm is -1");
    WT_FAILS(weft_clip_grad_norm_tensor(bag.module, 1, 0), WEFT_ERR_ARG, "p > 0");
    WT_FAILS(weft_clip_grad_norm_tensor(NULL, 1, 2), WEFT_ERR_ARG, "NULL");
    WT_FAILS(weft_clip_grad_value(bag.module, -0.5), WEFT_ERR_ARG, "limit is -0.5");
    WT_FAILS(weft_clip_grad_norm(NULL, 1, NULL), WEFT_ERR_ARG, "NULL");
}

/* ---- what PyTorch 2.15 spends three all-reduces per norm on ---- */

struct sizes {
    int64_t norms; /* bytes, each gradient on cache lines of its own */
    bool placed;   /* all gradients lie as their parameters */
};

static weft_status look_at(weft_module *m, const char *name, weft_tensor *p, void *payload)
{
    struct sizes *sizes = payload;
    weft_tensor *g = weft_grad(p);

    (void)name;
    sizes->placed &=
        g && weft_placement_equal(weft_tensor_placement(g, 0), weft_tensor_placement(p, 0));
    if (strcmp(weft_module_type(m), "layer norm") == 0)
        sizes->norms += (weft_numel(p) * 8 + 63) / 64 * 64;
    return WEFT_OK;
}

/* Under sequence parallelism all gradients that each rank has a term of are reduced in one
 * collective, the embedding's is the rank's rows only, clipping adds 8 bytes and the step nothing.
 */
WT_TEST(gradients__of_all_norms_cost_one_collective)
{
    struct wt_world world = wt_world_open();
    bool many = wt_ranks() > 1;
    weft_ledger *l = world.ledger;
    struct sizes sizes = {.placed = true};
    int64_t size[] = {2, 6}, tokens[12];
    weft_module *gpt = wt_own(weft_gpt((weft_gpt_config){
        .vocab = 19, .context = 6, .width = 24, .heads = 6, .layers = 3, .dtype = WEFT_F64}));
    weft_tensor *text, *table;
    weft_optim *optim;
    double norm;

    for (int i = 0; i < 12; i++) tokens[i] = 5 * i % 19;
    text = weft_from_data(WEFT_I64, size, 2, tokens);
    WT_EQ(weft_parallelize_module(gpt, world.mesh, weft_gpt_plan_sequence()), WEFT_OK);
    optim = wt_own(weft_adamw(gpt, (weft_adamw_config){.lr = 1e-3}));
    for (int step = 0; step < 2; step++) {
        WT_EQ(weft_backward(weft_gpt_loss(gpt, text, text)), WEFT_OK);
        weft_ledger_reset(l);
        WT_EQ(weft_clip_grad_norm(gpt, 1, &norm), WEFT_OK);
        WT_EQ(weft_ledger_count(l, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL), 2 * many);
        WT_EQ(weft_ledger_count(l, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 2 * many);
        sizes = (struct sizes){.placed = true};
        WT_EQ(weft_module_each_parameter(gpt, look_at, &sizes), WEFT_OK);
        WT_ALL(sizes.placed);
        WT_EQ(weft_ledger_bytes(l, WEFT_COLL_ALL_REDUCE, WEFT_DIRECTION_ANY, NULL),
              many * (sizes.norms + 8));
        table = weft_module_parameter(gpt, "wte.weight");
        WT_EQ(weft_local_numel(weft_grad(table)), weft_local_numel(table));
        weft_ledger_reset(l);
        WT_ALL(weft_clip_grad_norm_tensor(gpt, 1, 2) != NULL); /* all that are sharded at once */
        WT_EQ(weft_ledger_count(l, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), many);
        weft_ledger_reset(l);
        WT_EQ(weft_step(optim), WEFT_OK);
        WT_EQ(weft_ledger_count(l, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL), 0);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "clip"); }
