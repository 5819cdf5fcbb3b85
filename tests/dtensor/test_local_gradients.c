/* test_local_gradients.c: gradients of local functions in which ranks do different things: other
 * orders, arguments and exchanges that some leave alone, arguments on several meshes. */
/* mpi: 3 4 */
#include "support/worlds.h"

static const weft_placement whole[] = {{.kind = WEFT_KIND_REPLICATE}};
static const weft_placement rows[] = {{.kind = WEFT_KIND_SHARD}};
static const weft_placement summed[] = {{.kind = WEFT_KIND_PARTIAL, .reduce = WEFT_SUM}};

/* 3 a + 5 b, as rank `me` puts it; NULL: 0. */
typedef weft_tensor *formula(weft_tensor *const *in, int me);

/* y = (3 a + 5 b) x, x this rank's rows. */
static weft_status run_formula(weft_tensor *const *in, weft_tensor **out, void *context)
{
    weft_tensor *sum = (*(formula **)context)(in, wt_rank());

    out[0] = sum ? weft_mul(sum, in[2]) : weft_mul_scalar(in[2], 0);
    return WEFT_OK;
}

static weft_tensor *term(weft_tensor *t, double factor) { return weft_mul_scalar(t, factor); }

/* Odd ranks write the terms the other way round. */
static weft_tensor *in_another_order(weft_tensor *const *in, int me)
{
    if (me % 2) {
        weft_tensor *b = term(in[1], 5);

        return weft_add(b, term(in[0], 3));
    }
    weft_tensor *a = term(in[0], 3);

    return weft_add(a, term(in[1], 5));
}

/* Chains of different lengths that end in the arguments, which odd ranks use twice. */
static weft_tensor *by_another_graph(weft_tensor *const *in, int me)
{
    weft_tensor *a = term(in[0], me % 2 ? 1 : 3);

    for (int i = 0; i < me; i++) a = term(term(a, 2), 0.5);
    if (me % 2) a = weft_add(term(in[0], 2), a);
    return weft_add(term(in[1], 5), a);
}

static weft_tensor *first_alone_on_odd(weft_tensor *const *in, int me)
{
    return me % 2 ? term(in[0], 3) : weft_add(term(in[0], 3), term(in[1], 5));
}

static weft_tensor *nothing_on_odd(weft_tensor *const *in, int me)
{
    return me % 2 ? NULL : weft_add(term(in[0], 3), term(in[1], 5));
}

struct expectation {
    formula *formula;
    bool a_on_odd, b_on_odd; /* odd ranks' y depends on them */
};

static const struct expectation expectations[] = {
    {in_another_order, true, true},
    {by_another_graph, true, true},
    {first_alone_on_odd, true, false},
    {nothing_on_odd, false, false},
};

/* Ranks on which y depends on an argument. */
static double users(bool on_odd) { return on_odd ? wt_ranks() : (wt_ranks() + 1) / 2; }

/* Arguments come whole and have terms of gradients; `moved`: they are gathered first, so that the
 * way back is a reduce-scatter each; else it is an all-reduce. */
static void sums_what_ranks_give(const struct expectation *e, weft_dtype dtype, bool typed,
                                 bool moved)
{
    struct wt_world w = wt_world_open();
    formula *f = e->formula;
    const weft_placement *in[] = {whole, whole, rows}, *grad[] = {summed, summed, NULL};
    const weft_placement *out[] = {rows};
    weft_local_map map = {.function = run_formula,
                          .context = &f,
                          .n_in = 3,
                          .n_out = 1,
                          .in = in,
                          .in_grad = grad,
                          .out = out,
                          .redistribute_inputs = true,
                          .typed = typed};
    int64_t some = wt_ranks() + 1, many = some * wt_ranks(); /* a and b: uneven shards */
    weft_tensor *a = weft_full(dtype, (int64_t[]){some, 2}, 2, 1), *y = NULL;
    weft_tensor *b = weft_full(dtype, (int64_t[]){some, 2}, 2, 2);
    weft_tensor *x = weft_full(dtype, (int64_t[]){many, 2}, 2, 1);

    a = weft_set_requires_grad(wt_spread(&w, a, moved ? "S(0)" : "R"), true);
    b = weft_set_requires_grad(wt_spread(&w, b, moved ? "S(0)" : "R"), true);
    x = wt_spread(&w, x, "S(0)");
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){a, b, x}, &y) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_is_all(weft_grad(a), 3 * users(e->a_on_odd)));
    WT_ALL(wt_is_all(weft_grad(b), 5 * users(e->b_on_odd)));
    wt_world_close(&w);
}

/* trial 1.1 */
WT_TEST(local_gradients__follow_the_arguments_whatever_ranks_compute)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_F16};

    for (int e = 0; e < 4; e++)
        for (int d = 0; d < 4; d++)
            for (int way = 0; way < 4; way++)
                sums_what_ranks_give(&expectations[e], dtypes[d], way & 1, way & 2);
}

/* Without a local function: what backward comes to is in the order of the forward's conversions. */
WT_TEST_IN_WORLD(local_gradients__go_back_in_the_reverse_order_of_recording, w)
{
    int64_t n = wt_ranks();
    weft_tensor *leaf[3], *local[3], *y = NULL;

    for (int i = 0; i < 3; i++) {
        leaf[i] = weft_set_requires_grad(wt_spread(w, wt_constant(n, 2, 1), "S(0)"), true);
        local[i] = weft_drop_grad_types(weft_to_local(wt_to(leaf[i], "R"), summed));
    }
    for (int i = 0; i < 3; i++) {
        int k = (int)((i + wt_rank()) % 3);
        weft_tensor *t = term(local[k], k + 2);

        y = y ? weft_add(y, t) : t;
    }
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    for (int i = 0; i < 3; i++) WT_ALL(wt_is_all(weft_grad(leaf[i]), (i + 2) * (double)n));
}

/* ---- exchanges inside ---- */

struct exchange {
    weft_mesh *mesh;
    int idle;    /* the rank that drops what comes; -1: none */
    bool nested; /* the exchange is in a local function of its own */
};

/* A row to every rank, times the argument. */
static weft_status swap_rows(weft_tensor *const *in, weft_tensor **out, void *context)
{
    const struct exchange *e = context;
    int64_t splits[8];

    for (int r = 0; r < 8; r++) splits[r] = 1;
    out[0] = weft_mesh_all_to_all_single(in[0], splits, NULL, e->mesh, 0);
    return out[0] ? WEFT_OK : weft_error_status();
}

static weft_status use_what_comes(weft_tensor *const *in, weft_tensor **out, void *context)
{
    const struct exchange *e = context;
    weft_local_map inner = {
        .function = swap_rows, .context = context, .mesh = e->mesh, .n_in = 1, .n_out = 1};
    weft_tensor *came;
    weft_status status =
        e->nested ? weft_local_map_call(&inner, in, &came) : swap_rows(in, &came, context);

    if (status != WEFT_OK) return status;
    out[0] = wt_rank() == e->idle ? weft_mul_scalar(in[1], 2)
                                  : weft_add(weft_mul(came, in[1]), weft_mul_scalar(in[1], 2));
    return WEFT_OK;
}

/* trial 1.1 */
WT_TEST_TIMES_IN_WORLD(local_gradients__come_back_from_exchanges_that_a_rank_does_not_use, w, way,
                       4)
{
    struct exchange e = {w->mesh, way & 1 ? wt_ranks() - 1 : -1, way & 2};
    const weft_placement *in[] = {rows, rows}, *out[] = {rows};
    weft_local_map map = {
        .function = use_what_comes, .context = &e, .n_in = 2, .n_out = 1, .in = in, .out = out};
    int64_t n = wt_ranks() * wt_ranks();
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(n, 2, 3), "S(0)"), true);
    weft_tensor *f = weft_set_requires_grad(wt_spread(w, wt_constant(n, 2, 5), "S(0)"), true);
    weft_tensor *y = NULL, *mine;

    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, f}, &y) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(f), wt_rank() == e.idle ? 2 : 5));
    mine = weft_to_local(weft_grad(x), NULL); /* row r went to rank r */
    for (int r = 0; r < wt_ranks(); r++)
        WT_ALL(wt_local_is_all(weft_slice(mine, 0, r, r + 1), r == e.idle ? 0 : 5));
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_BACKWARD, NULL), 1);
}

/* The last rank sends what nothing depends on. */
static weft_status send_constants(weft_tensor *const *in, weft_tensor **out, void *context)
{
    const struct exchange *e = context;
    int64_t splits[8];
    weft_tensor *x = wt_rank() == e->idle ? weft_detach(in[0]) : in[0];

    for (int r = 0; r < 8; r++) splits[r] = 1;
    out[0] = weft_mesh_all_to_all_known(x, splits, splits, e->mesh, 0);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* trial 1.1 */
WT_TEST_IN_WORLD(local_gradients__come_back_to_ranks_that_sent_constants, w)
{
    struct exchange e = {w->mesh, wt_ranks() - 1, false};
    const weft_placement *in[] = {rows}, *out[] = {rows};
    weft_local_map map = {
        .function = send_constants, .context = &e, .n_in = 1, .n_out = 1, .in = in, .out = out};
    int64_t n = wt_ranks() * wt_ranks();
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(n, 2, 3), "S(0)"), true), *y;

    WT_ALL(weft_local_map_call(&map, &x, &y) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(x), wt_rank() == e.idle ? 0 : 1));
}

/* ---- exchanges in what is computed again ---- */

static weft_tensor *swap_again(weft_tensor *const *in, int n, void *context)
{
    weft_tensor *out;
    const struct exchange *e = context;

    (void)n;
    return (e->nested ? swap_rows : send_constants)(in, &out, context) == WEFT_OK ? out : NULL;
}

/* One rank hands a constant to the piece, drops what the first one brought and uses what comes of
 * the second. */
static weft_status swap_twice(weft_tensor *const *in, weft_tensor **out, void *context)
{
    const struct exchange *e = context;
    bool idle = wt_rank() == e->idle;
    weft_tensor *x = idle ? weft_detach(in[0]) : in[0];
    weft_tensor *one = weft_recomputed(swap_again, &x, 1, context, NULL);
    weft_tensor *two = weft_recomputed(swap_again, in, 1, context, NULL);

    out[0] = idle ? weft_mul_scalar(two, 2) : weft_add(one, weft_mul_scalar(two, 2));
    return out[0] ? WEFT_OK : weft_error_status();
}

/* What comes back of x to this rank: 1 from each rank but the idle one, 2 from all. */
static void comes_back(const struct exchange *e, weft_tensor *x)
{
    weft_tensor *mine = weft_to_local(weft_grad(x), NULL);

    for (int r = 0; r < wt_ranks(); r++) {
        double first = wt_rank() == e->idle || r == e->idle ? 0 : 1;
        double second = wt_rank() == e->idle && !e->nested ? 0 : 2;

        WT_ALL(wt_local_is_all(weft_slice(mine, 0, r, r + 1), first + second));
    }
}

WT_TEST_TIMES_IN_WORLD(local_gradients__come_back_from_exchanges_that_are_computed_again, w, nested,
                       2)
{
    struct exchange e = {w->mesh, wt_ranks() > 1 ? wt_ranks() - 1 : -1, nested};
    const weft_placement *in[] = {rows}, *out[] = {rows};
    weft_local_map map = {
        .function = swap_twice, .context = &e, .n_in = 1, .n_out = 1, .in = in, .out = out};
    int64_t n = wt_ranks() * wt_ranks();
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(n, 2, 3), "S(0)"), true);
    weft_tensor *y;

    WT_ALL(weft_local_map_call(&map, &x, &y) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    comes_back(&e, x);
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_BACKWARD, NULL), 4);
}

/* Which expert a row goes to is known beside it, in integers. */
static weft_status swap_numbers(weft_tensor *const *in, weft_tensor **out, void *context)
{
    weft_tensor *numbers = weft_cast(in[0], WEFT_I64), *came;

    if (swap_rows(&numbers, &came, context) != WEFT_OK) return weft_error_status();
    WT_ALL(!weft_requires_grad(came));
    if (send_constants(&numbers, &came, context) != WEFT_OK) return weft_error_status();
    WT_ALL(!weft_requires_grad(came));
    out[0] = weft_mul(in[0], weft_cast(came, WEFT_F32));
    return WEFT_OK;
}

WT_TEST_IN_WORLD(local_gradients__integers_that_are_exchanged_want_none, w)
{
    struct exchange e = {w->mesh, -1, false};
    const weft_placement *in[] = {rows}, *out[] = {rows};
    weft_local_map map = {
        .function = swap_numbers, .context = &e, .n_in = 1, .n_out = 1, .in = in, .out = out};
    int64_t n = wt_ranks() * wt_ranks();
    weft_tensor *x = weft_set_requires_grad(wt_spread(w, wt_constant(n, 2, 3), "S(0)"), true), *y;

    WT_ALL(weft_local_map_call(&map, &x, &y) == WEFT_OK);
    WT_ALL(weft_backward(weft_sum_all(y)) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(x), 3));
    WT_EQ(weft_ledger_count(w->ledger, WEFT_COLL_ALL_TO_ALL, WEFT_DIRECTION_BACKWARD, NULL), 0);
}

/* ---- several meshes ---- */

/* The term of x w: rows of x over one axis, w by rows of its experts' axis. */
static weft_status product(weft_tensor *const *in, weft_tensor **out, void *context)
{
    (void)context;
    out[0] = weft_matmul(in[0], in[1]);
    out[1] = weft_mul_scalar(in[1], 2);
    return WEFT_OK;
}

/* trial 4.3 */
WT_TEST_IN_WORLD(local_gradients__go_to_arguments_on_several_meshes, w)
{
    weft_mesh *other = weft_mesh_new(WEFT_CPU, "ep=%d", wt_ranks());
    weft_mesh *meshes[] = {NULL, other};
    const weft_placement *in[] = {rows, whole}, *grad[] = {NULL, summed}, *out[] = {rows, whole};
    weft_local_map map = {.function = product,
                          .n_in = 2,
                          .n_out = 2,
                          .in = in,
                          .out = out,
                          .in_grad = grad,
                          .in_meshes = meshes,
                          .out_meshes = meshes,
                          .redistribute_inputs = true};
    weft_tensor *x = wt_spread(w, wt_constant(2 * wt_ranks(), 3, 1), "S(0)"), *y[2];
    weft_tensor *k = weft_distribute_tensor(wt_constant(3, 4, 1), other, rows, -1);

    weft_set_requires_grad(k, true);
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, k}, y) == WEFT_OK);
    WT_ALL(weft_tensor_mesh(y[0]) == w->mesh && weft_tensor_mesh(y[1]) == other);
    WT_ALL(wt_is_placed(y[0], "S(0)") && wt_is_all(y[0], 3));
    WT_ALL(wt_is_placed(y[1], "R") && wt_is_all(y[1], 2));
    WT_ALL(weft_backward(weft_sum_all(y[0])) == WEFT_OK);
    WT_ALL(wt_is_placed(weft_grad(k), "S(0)") && wt_is_all(weft_grad(k), 2 * wt_ranks()));

    map.typed = true;
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, k}, y) != WEFT_OK);
    WT_FAILED(WEFT_ERR_LAYOUT, "typed result 1 is on another mesh");
    map.out_meshes = NULL;
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, k}, y) != WEFT_OK);
    WT_FAILED(WEFT_ERR_LAYOUT, "typed argument 1 is on another mesh");
    map.typed = false;
    map.in_meshes = NULL;
    WT_ALL(weft_local_map_call(&map, (weft_tensor *[]){x, k}, y) != WEFT_OK);
    WT_FAILED(WEFT_ERR_LAYOUT, "argument 1 is on another mesh than the call; in_meshes says");
    weft_mesh_release(other);
}

/* ---- constants beside a weight whose gradient is a term on each rank ---- */

/* What becomes of the weight [3,4] before the rows meet it. */
enum use { TIMES_A_CONSTANT, INDEXED, MASKED_BY_RANK, WHOLE_ITSELF, USES };

static weft_tensor *constant_of(enum use use)
{
    return wt_constant(3, 4, use == MASKED_BY_RANK ? wt_rank() + 1 : 2);
}

static weft_tensor *indexed(weft_tensor *w)
{
    weft_tensor *index = weft_full(WEFT_I64, (int64_t[]){3}, 1, 0);

    for (int i = 0; i < 3; i++) ((int64_t *)weft_data(index))[i] = i == 0 ? 0 : 2;
    return weft_embedding(w, index);
}

static weft_status constant_beside(weft_tensor *const *in, weft_tensor **out, void *context)
{
    enum use use = *(enum use *)context;
    weft_tensor *w = use == INDEXED ? indexed(in[1]) : weft_mul(in[1], constant_of(use));

    out[0] = use == WHOLE_ITSELF ? w : weft_matmul(in[0], w);
    return WEFT_OK;
}

static weft_tensor *gradient_beside(struct wt_world *w, enum use use, const weft_placement *said,
                                    bool wanted)
{
    const weft_placement *in[] = {rows, whole}, *grad[] = {NULL, said};
    const weft_placement *out[] = {use == WHOLE_ITSELF ? whole : rows};
    weft_local_map map = {.function = constant_beside,
                          .context = &use,
                          .n_in = 2,
                          .n_out = 1,
                          .in = in,
                          .out = out,
                          .in_grad = grad,
                          .typed = true};
    weft_tensor *x = wt_spread(w, wt_constant(2 * wt_ranks(), 3, 1), "S(0)"),
                *k = wt_spread(w, wt_constant(3, 4, 1), "R"), *y;

    weft_set_requires_grad(k, wanted);
    if (weft_local_map_call(&map, (weft_tensor *[]){x, k}, &y) != WEFT_OK) return NULL;
    if (!wanted) return y;
    return weft_backward(weft_sum_all(y)) == WEFT_OK ? weft_grad(k) : NULL;
}

/* trial 1.9 */
WT_TEST_IN_WORLD(local_gradients__constants_leave_the_type_of_a_gradient_alone, w)
{
    int n = wt_ranks();
    weft_tensor *g;

    WT_ALL(wt_is_all(gradient_beside(w, TIMES_A_CONSTANT, summed, true), 4 * n));
    WT_ALL(wt_is_all(gradient_beside(w, MASKED_BY_RANK, summed, true), n * (n + 1)));
    g = gradient_beside(w, INDEXED, summed, true);
    for (int i = 0; i < 3; i++)
        WT_ALL(wt_is_all(weft_slice(g, 0, i, i + 1), i == 0 ? 2 * n : i == 1 ? 0 : 4 * n));
    for (int use = 0; use < USES; use++)
        WT_ALL(gradient_beside(w, (enum use)use, summed, false) != NULL);
}

/* What is refused beside a constant is so for a reason that holds beside none. */
WT_TEST_IN_WORLD(local_gradients__constants_make_no_gradient_right_that_is_wrong, w)
{
    if (wt_ranks() > 1) {
        WT_ALL(gradient_beside(w, WHOLE_ITSELF, summed, true) == NULL);
        WT_FAILED(WEFT_ERR_LAYOUT, "{R?} of (tp:");
        WT_ALL(gradient_beside(w, TIMES_A_CONSTANT, whole, true) == NULL);
        WT_FAILED(WEFT_ERR_LAYOUT, "{-} of (tp:");
        WT_ALL(gradient_beside(w, INDEXED, whole, true) == NULL);
        WT_FAILED(WEFT_ERR_LAYOUT, "its gradient would be this rank's share only");
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "local_gradients"); }
