/*
 * test_styles.c: column-wise and row-wise layers equal one device, forward and backward, and issue
 * exactly the collectives that their rows promise. The table below has a row per case;
 * STYLE-nn are the behaviours of PyTorch's own suite that a case restates.
 */
/* mpi: 1 2 3 4 */
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"
#include "support/style_rows.h"

struct row {
    const char *name;
    weft_style style;
    bool embedding;
    int64_t in, out; /* linear: features; embedding: rows of the table, width */
    bool no_bias, input_grad;
    const char *given; /* placement of the plain input handed in: "R" or "S(..)" */
    /* collectives when there are several ranks */
    int forward, backward;
    weft_coll forward_kind, backward_kind;
};

enum { BATCH = 8, SEED = 11 };

#define AR WEFT_COLL_ALL_REDUCE
#define AG WEFT_COLL_ALL_GATHER
#define RS WEFT_COLL_REDUCE_SCATTER
#define A2A WEFT_COLL_ALL_TO_ALL
#define NO WEFT_COLL_COUNT

static const struct row rows[] = {
    {"STYLE-01 colwise", COL(0), false, 16, 16, false, true, "R", 0, 1, NO, AR},
    {"colwise, no input gradient", COL(0), false, 16, 16, false, false, "R", 0, 0, NO, NO},
    {"colwise uneven", COL(0), false, 16, 5, false, true, "R", 0, 1, NO, AR},
    {"colwise with empty shards", COL(0), false, 16, 2, false, true, "R", 0, 1, NO, AR},
    {"colwise without bias", COL(0), false, 7, 5, true, true, "R", 0, 1, NO, AR},
    {"STYLE-25 colwise to R", COL(.output_layouts = "R"), false, 16, 10, false, true, "R", 1, 1, AG,
     AR},
    {"STYLE-25 colwise to S(0)", COL(.output_layouts = "S(0)"), false, 16, 16, false, false, "R", 1,
     1, A2A, A2A},
    {"colwise from S(0)", COL(.input_layouts = "S(0)"), false, 16, 16, false, true, "S(0)", 1, 1,
     AG, RS},
    {"STYLE-05 rowwise", ROW(0), false, 16, 16, false, true, "S(-1)", 1, 0, AR, NO},
    {"rowwise uneven", ROW(0), false, 5, 16, false, true, "S(-1)", 1, 0, AR, NO},
    {"rowwise with empty shards", ROW(0), false, 2, 3, false, true, "S(-1)", 1, 0, AR, NO},
    {"rowwise without bias", ROW(0), false, 5, 3, true, true, "S(-1)", 1, 0, AR, NO},
    {"STYLE-06 rowwise to S(0)", ROW(.output_layouts = "S(0)"), false, 16, 16, false, true, "S(-1)",
     1, 1, RS, AG},
    {"rowwise from R", ROW(.input_layouts = "R"), false, 16, 16, false, false, "R", 1, 0, AR, NO},
    {"STYLE-03 colwise embedding", COL(0), true, 16, 16, true, false, "R", 0, 0, NO, NO},
    {"colwise embedding uneven", COL(0), true, 16, 5, true, false, "R", 0, 0, NO, NO},
    {"colwise embedding to R", COL(.output_layouts = "R"), true, 16, 5, true, false, "R", 1, 0, AG,
     NO},
    {"STYLE-07 rowwise embedding", ROW(0), true, 16, 16, true, false, "R", 1, 0, AR, NO},
    {"rowwise embedding uneven", ROW(0), true, 5, 3, true, false, "R", 1, 0, AR, NO},
    {"rowwise embedding with empty shards", ROW(0), true, 2, 3, true, false, "R", 1, 0, AR, NO},
};

static weft_module *new_layer(const struct row *row)
{
    weft_manual_seed(SEED);
    if (row->embedding)
        return weft_embedding_new(
            (weft_embedding_config){.rows = row->in, .width = row->out, .dtype = WEFT_F64});
    return weft_linear_new((weft_linear_config){
        .in = {row->in}, .out = {row->out}, .no_bias = row->no_bias, .dtype = WEFT_F64});
}

static weft_tensor *whole_input(const struct row *row)
{
    int64_t shape[] = {BATCH, row->embedding ? 3 : row->in}, n = shape[0] * shape[1];
    double *values = malloc((size_t)n * sizeof *values);
    int64_t *index = malloc((size_t)n * sizeof *index);
    weft_tensor *x;

    for (int64_t i = 0; i < n; i++) {
        values[i] = (double)((i * 37 + 11) % 101) / 50 - 1;
        index[i] = (i * 7 + 3) % row->in;
    }
    x = row->embedding ? weft_from_data(WEFT_I64, 2, shape, index)
                       : weft_from_data(WEFT_F64, 2, shape, values);
    free(values);
    free(index);
    return x;
}

/* This rank's shard of a plain tensor that all ranks hold, as a plain leaf. */
static weft_tensor *part(weft_tensor *whole, weft_mesh *mesh, const char *placement)
{
    weft_placement p;

    WT_ALL(weft_placements_parse(&p, 1, placement) == 1);
    return weft_to_local(weft_distribute_tensor(whole, mesh, &p, -1), NULL);
}

/* Weights of the sum that is differentiated: no two elements alike. */
static weft_tensor *weights_like(weft_tensor *y)
{
    int64_t shape[WEFT_MAX_DIMS], n = weft_numel(y);
    double *values = malloc((size_t)n * sizeof *values + 1);
    weft_tensor *w;

    for (int64_t i = 0; i < n; i++) values[i] = (double)((i * 53 + 7) % 97) / 48 - 1;
    for (int d = 0; d < weft_ndim(y); d++) shape[d] = weft_size(y, d);
    w = weft_from_data(WEFT_F64, weft_ndim(y), shape, values);
    free(values);
    return w;
}

struct reference {
    weft_module *layer;
    weft_tensor *x, *y, *weights;
};

static struct reference one_device(const struct row *row)
{
    struct reference r = {new_layer(row), whole_input(row), NULL, NULL};

    WT_ALL(r.layer != NULL);
    if (!row->embedding) weft_set_requires_grad(r.x, row->input_grad);
    r.y = weft_call(r.layer, r.x);
    WT_ALL(r.y != NULL);
    r.weights = weights_like(r.y);
    WT_ALL(weft_backward(weft_sum_all(weft_mul(r.y, r.weights))) == WEFT_OK);
    return r;
}

static const char *output_placement(const struct row *row)
{
    if (row->style.options.output_layouts) return row->style.options.output_layouts;
    return row->style.kind == WEFT_STYLE_ROWWISE ? "R" : "S(-1)";
}

static weft_status gradient_matches(weft_module *m, const char *name, weft_tensor *parameter,
                                    void *payload)
{
    weft_tensor *plain = weft_module_parameter(payload, name), *grad = weft_grad(parameter);

    (void)m;
    WT_ALL(grad != NULL);
    WT_ALL(
        weft_placement_equal(weft_tensor_placement(grad, 0), weft_tensor_placement(parameter, 0)));
    WT_ALL(wt_near_tensors(grad, weft_grad(plain), WT_WITHIN(1e-12)));
    return WEFT_OK;
}

static void expect(const weft_ledger *ledger, weft_direction direction, int count, weft_coll kind)
{
    if (wt_ranks() == 1) count = 0;
    WT_EQ(weft_ledger_count(ledger, WEFT_COLL_COUNT, direction, NULL), count);
    if (count) WT_EQ(weft_ledger_count(ledger, kind, direction, NULL), count);
}

static void check_row(const struct row *row)
{
    struct reference r = one_device(row);
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
    weft_module *layer = new_layer(row);
    weft_plan plan[] = {{"", row->style}, {0}};
    weft_tensor *x = part(weft_detach(r.x), mesh, row->given), *y;
    weft_ledger *ledger;

    if (row->input_grad) weft_set_requires_grad(x, true);
    WT_ALL(weft_parallelize_module(layer, mesh, plan) == WEFT_OK);
    ledger = weft_ledger_open();
    y = weft_call(layer, x);
    WT_ALL(y != NULL && !weft_tensor_mesh(y));
    WT_ALL(
        wt_near_tensors(y, part(weft_detach(r.y), mesh, output_placement(row)), WT_WITHIN(1e-12)));
    expect(ledger, WEFT_DIRECTION_FORWARD, row->forward, row->forward_kind);
    WT_ALL(weft_backward(weft_sum_all(weft_mul(y, part(r.weights, mesh, output_placement(row))))) ==
           WEFT_OK);
    expect(ledger, WEFT_DIRECTION_BACKWARD, row->backward, row->backward_kind);
    weft_ledger_close(ledger);
    WT_ALL(weft_module_each_parameter(layer, gradient_matches, r.layer) == WEFT_OK);
    if (row->input_grad)
        WT_ALL(wt_near_tensors(weft_grad(x), part(weft_grad(r.x), mesh, row->given),
                               WT_WITHIN(1e-12)));
    weft_module_release(layer);
    weft_module_release(r.layer);
    weft_mesh_release(mesh);
}

/* STYLE-01, STYLE-03, STYLE-05, STYLE-06, STYLE-07, STYLE-25: the rows above say which is which. */
WT_TEST(styles__every_row_equals_one_device)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_scope *s = weft_scope_open();

        /* S(0) inputs and outputs of a plain tensor must be even. */
        if (BATCH % wt_ranks() == 0 || !(strcmp(rows[i].given, "S(0)") == 0)) {
            wt_note("%s", rows[i].name);
            check_row(&rows[i]);
        }
        weft_scope_close(s);
    }
}

/* STYLE-04, STYLE-09: frozen parameters stay frozen. */
WT_TEST(styles__keep_requires_grad)
{
    const weft_style styles[] = {COL(0), ROW(0)};

    for (int i = 0; i < 2; i++) {
        weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
        weft_module *m = weft_linear_new((weft_linear_config){.in = {8}, .out = {8}});
        weft_plan plan[] = {{"", styles[i]}, {0}};

        weft_set_requires_grad(weft_module_parameter(m, "weight"), false);
        WT_ALL(weft_parallelize_module(m, mesh, plan) == WEFT_OK);
        WT_ALL(!weft_requires_grad(weft_module_parameter(m, "weight")));
        WT_ALL(weft_requires_grad(weft_module_parameter(m, "bias")));
        weft_module_release(m);
        weft_mesh_release(mesh);
    }
}

/* The pair of an MLP: one all-reduce forward, one backward, whatever the hidden width. */
static void check_mlp(int64_t hidden)
{
    weft_mlp_config config = {
        .in = 6, .hidden = hidden, .out = 5, .act = WEFT_GELU, .dtype = WEFT_F64};
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};
    int64_t shape[] = {4, 6};
    weft_module *mlp, *plain;
    weft_tensor *x, *px, *loss, *ploss;
    weft_ledger *ledger;

    weft_manual_seed(SEED);
    mlp = weft_mlp(config);
    weft_manual_seed(SEED);
    plain = weft_mlp(config);
    WT_ALL(weft_parallelize_module(mlp, mesh, plan) == WEFT_OK);
    x = weft_empty(WEFT_F64, 2, shape);
    px = weft_empty(WEFT_F64, 2, shape);
    weft_manual_seed(3);
    WT_ALL(weft_normal_(x, 0, 1, NULL) == WEFT_OK);
    weft_manual_seed(3);
    WT_ALL(weft_normal_(px, 0, 1, NULL) == WEFT_OK);
    weft_set_requires_grad(x, true);
    weft_set_requires_grad(px, true);
    ledger = weft_ledger_open();
    loss = weft_mean_all(weft_square(weft_call(mlp, x)));
    ploss = weft_mean_all(weft_square(weft_call(plain, px)));
    expect(ledger, WEFT_DIRECTION_FORWARD, 1, AR);
    WT_ALL(weft_backward(loss) == WEFT_OK && weft_backward(ploss) == WEFT_OK);
    expect(ledger, WEFT_DIRECTION_BACKWARD, 1, AR);
    if (wt_ranks() > 1) {
        WT_EQ(weft_ledger_count(ledger, AR, WEFT_DIRECTION_FORWARD, "down"), 1);
        WT_EQ(weft_ledger_count(ledger, AR, WEFT_DIRECTION_BACKWARD, "up"), 1); /* COMM-11 */
    }
    weft_ledger_close(ledger);
    WT_ALL(wt_near_tensors(loss, ploss, WT_WITHIN(1e-13)));
    WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(px), WT_WITHIN(1e-12)));
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"up.weight", "up.bias", "down.weight", "down.bias"};

        WT_ALL(wt_near_tensors(weft_grad(weft_module_parameter(mlp, names[i])),
                               weft_grad(weft_module_parameter(plain, names[i])),
                               WT_WITHIN(1e-12)));
    }
    weft_module_release(mlp);
    weft_module_release(plain);
    weft_mesh_release(mesh);
}

WT_TEST(styles__an_mlp_pair_needs_one_all_reduce_each_way)
{
    check_mlp(8);
    check_mlp(5);
    check_mlp(2);
}

struct fed {
    const char *name;
    weft_style style;
    weft_coll first, second; /* what a forward issues; NO: nothing more */
};

static void check_fed(const struct fed *fed, int64_t height)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
    weft_module *m =
        weft_linear_new((weft_linear_config){.in = {16}, .out = {16}, .dtype = WEFT_F64});
    weft_plan plan[] = {{"", fed->style}, {0}};
    weft_placement rows_sharded = weft_shard(0);
    int64_t shape[] = {height, 16}, moves = 1 + (fed->second != NO);
    weft_tensor *x = weft_full(WEFT_F64, 2, shape, 0.5), *want, *y;
    weft_ledger *ledger;

    wt_note("%s", fed->name);
    weft_no_grad_open();
    want = weft_call(m, x);
    WT_ALL(weft_parallelize_module(m, mesh, plan) == WEFT_OK);
    ledger = weft_ledger_open();
    y = weft_call(m, weft_distribute_tensor(x, mesh, &rows_sharded, -1));
    WT_ALL(y != NULL);
    if (wt_ranks() > 1) {
        WT_EQ(weft_ledger_count(ledger, fed->first, WEFT_DIRECTION_ANY, NULL), 1);
        if (fed->second != NO)
            WT_EQ(weft_ledger_count(ledger, fed->second, WEFT_DIRECTION_ANY, NULL), 1);
        WT_EQ(weft_ledger_count(ledger, NO, WEFT_DIRECTION_ANY, NULL), moves);
    }
    weft_ledger_close(ledger);
    WT_ALL(wt_near_tensors(y,
                           part(want, mesh, output_placement(&(struct row){.style = fed->style})),
                           WT_WITHIN(1e-12)));
    weft_no_grad_close();
    weft_module_release(m);
    weft_mesh_release(mesh);
}

/* STYLE-23: a distributed input is taken with its own layout, whatever was declared. */
WT_TEST(styles__a_distributed_input_keeps_its_layout)
{
    static const struct fed cases[] = {
        {"rowwise", ROW(0), A2A, AR},
        {"rowwise, declared R", ROW(.input_layouts = "R"), A2A, AR},
        {"colwise", COL(0), AG, NO},
        {"colwise, declared S(0)", COL(.input_layouts = "S(0)"), AG, NO},
        {"colwise, declared S(1)", COL(.input_layouts = "S(1)"), AG, NO},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_scope *scope = weft_scope_open();

        check_fed(&cases[i], 8);
        check_fed(&cases[i], 13);
        weft_scope_close(scope);
    }
}

/* STYLE-26: the output stays distributed, with its layout; a dim from the end is stored from the
 * front. */
WT_TEST(styles__keep_the_output_distributed)
{
    static const struct {
        weft_style style;
        int64_t in, out;
        weft_placement output;
    } cases[] = {
        {COL(.keep_distributed = true), 16, 16, {.kind = WEFT_KIND_SHARD, .dim = 1}},
        {COL(.keep_distributed = true), 7, 5, {.kind = WEFT_KIND_SHARD, .dim = 1}},
        {COL(.output_layouts = "R", .keep_distributed = true), 7, 5, {.kind = WEFT_KIND_REPLICATE}},
        {ROW(.input_layouts = "R", .keep_distributed = true), 7, 5, {.kind = WEFT_KIND_REPLICATE}},
        {ROW(.input_layouts = "R", .output_layouts = "S(-2)", .keep_distributed = true),
         7,
         5,
         {.kind = WEFT_KIND_SHARD, .dim = 0}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
        struct row row = {.in = cases[i].in, .out = cases[i].out};
        weft_module *one = new_layer(&row), *many = new_layer(&row);
        weft_tensor *x = whole_input(&row), *y;
        weft_plan plan[] = {{"", cases[i].style}, {0}};

        WT_ALL(weft_parallelize_module(many, mesh, plan) == WEFT_OK);
        y = weft_call(many, x);
        WT_ALL(y && weft_tensor_mesh(y));
        WT_ALL(weft_placement_equal(weft_tensor_placement(y, 0), cases[i].output));
        WT_ALL(wt_near_tensors(y, weft_call(one, x), WT_WITHIN(1e-12)));
        weft_module_release(one);
        weft_module_release(many);
        weft_mesh_release(mesh);
    }
}

WT_TEST(styles__inputs_on_a_larger_mesh_are_refused)
{
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "dp=1,tp=%d", wt_ranks()),
              *tp = weft_mesh_sub(mesh, "tp");
    struct row row = {.in = 6, .out = 6};
    weft_module *m = new_layer(&row);
    weft_placement everywhere[] = {weft_replicate(), weft_replicate()};

    WT_EQ(weft_parallelize_module(m, tp, (weft_plan[]){{"", weft_colwise_parallel()}, {0}}),
          WEFT_OK);
    WT_ALL(!weft_call(m, weft_distribute_tensor(whole_input(&row), mesh, everywhere, -1)));
    WT_FAILED(WEFT_ERR_LAYOUT, "a tensor lies on mesh (dp:1, tp:");
    weft_module_release(m);
    weft_mesh_release(tp);
    weft_mesh_release(mesh);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "styles"); }
