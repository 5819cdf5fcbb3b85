/*
 * test_guard.c: redistribution that nobody asked for, and plain tensors beside distributed ones.
 * IDs are those of the acceptance cases.
 */
/* mpi: 2 4 */
#include "support/worlds.h"

static weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* ---- the guard ---- */

/* EXPL-01: at its size and at others, even and uneven. */
WT_TEST_TIMES_IN_WORLD(guard__refuses_a_product_that_gathers, w, i, 3)
{
    const int64_t sizes[][2] = {{8, 128}, {5, 7}, {1, 9}};
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, sizes[i][0], sizes[i][1]), "S(0)");
    weft_tensor *weight = wt_spread(w, wt_whole(WEFT_F32, 1, sizes[i][1], sizes[i][1]), "S(0)");
    weft_tensor *y = weft_matmul(x, weight);

    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), wt_ranks() > 1);
    WT_EQ(weft_guard_current(), WEFT_GUARD_OFF);
    WT_EQ(weft_guard_open(WEFT_GUARD_ERROR), WEFT_OK);
    if (wt_ranks() > 1) { /* the plan is cached: the guard still sees it */
        WT_ALL(!weft_matmul(x, weight));
        WT_FAILED(WEFT_ERR_LAYOUT, "Implicit redistribution: matmul, input ");
        WT_FAILS(weft_matmul(x, weight), WEFT_ERR_LAYOUT, "bytes");
        WT_STILL(w);
    }
    weight = wt_to(weight, "R");
    WT_ALL(wt_near_tensors(weft_matmul(x, weight), y, WT_WITHIN(1e-5)));
    weft_guard_close();
}

/* Cutting a replicated operand costs nothing: only the strict guard objects. */
WT_TEST_IN_WORLD(guard__strict_refuses_what_is_free_too, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 6), "S(0)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 1, 8, 6), "R");

    weft_guard_open(WEFT_GUARD_ERROR);
    WT_ALL(weft_add(a, b) != NULL);
    WT_ALL(weft_guard_close() == WEFT_OK);
    weft_guard_open(WEFT_GUARD_ERROR | WEFT_GUARD_STRICT);
    if (wt_ranks() > 1) WT_FAILS(weft_add(a, b), WEFT_ERR_LAYOUT, "add, input 1, f32[8,6] [R]");
    WT_ALL(weft_add(a, wt_to(b, "S(0)")) != NULL);
    weft_guard_close();
    WT_STILL(w);
}

WT_TEST_IN_WORLD(guard__warning_lets_the_call_pass, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 6), "S(0)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 1, 8, 6), "S(1)");
    weft_guard_open(WEFT_GUARD_WARN);

    WT_ALL(weft_add(a, b) != NULL);
    WT_ALL(weft_add(a, b) != NULL);
    weft_guard_close();
    WT_EQ(wt_moved(w, WEFT_COLL_COUNT), wt_ranks() > 1 ? 2 : 0);
}

/* A block whose redistributions are all asked for: nothing else moves, forward or backward. */
WT_TEST_TIMES_IN_WORLD(guard__lets_a_tensor_parallel_block_pass, w, k, 2)
{
    const int64_t hidden[] = {8, 5};
    weft_tensor *x = leaf(wt_spread(w, wt_whole(WEFT_F32, 0, 6, 4), "R"));
    weft_tensor *up = leaf(wt_spread(w, wt_whole(WEFT_F32, 1, hidden[k], 4), "S(0)"));
    weft_tensor *down = leaf(wt_spread(w, wt_whole(WEFT_F32, 2, 4, hidden[k]), "S(1)"));
    weft_tensor *head = leaf(wt_spread(w, wt_whole(WEFT_F32, 3, 7, 4), "S(0)"));
    weft_tensor *target =
        weft_from_data(WEFT_I64, (int64_t[]){6}, 1, (int64_t[]){0, 3, 6, 1, 5, 2});
    weft_tensor *y;

    weft_guard_open(WEFT_GUARD_ERROR);
    y = weft_linear(weft_gelu(weft_linear(x, up, NULL, 1)), down, NULL, 1);
    y = weft_linear(wt_to(y, "R"), head, NULL, 1);
    y = weft_cross_entropy(y, wt_spread(w, target, "R"), -100);
    WT_ALL(y && weft_backward(y) == WEFT_OK);
    WT_ALL(weft_grad(x) && weft_grad(up) && weft_grad(down) && weft_grad(head));
    weft_guard_close();
}

/* The inner region ends; the outer one's rule holds again. */
WT_TEST_IN_WORLD(guard__regions_nest, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 6), "S(0)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 1, 8, 6), "S(1)");

    WT_ALL(weft_guard_open(WEFT_GUARD_ERROR) == WEFT_OK);
    WT_ALL(weft_guard_open(WEFT_GUARD_OFF) == WEFT_OK && weft_guard_current() == WEFT_GUARD_OFF);
    WT_ALL(weft_add(a, b) != NULL);
    weft_guard_close();
    if (wt_ranks() > 1) WT_FAILS(weft_add(a, b), WEFT_ERR_LAYOUT, "Implicit redistribution");
    weft_guard_close();
    WT_ALL(weft_add(a, b) != NULL);
}

/* What is cut by rows in one is cut so in both gradients: nothing is redistributed, so even the
 * strict guard lets it pass (docs/decisions/0048). */
/* trial 4.10 */
WT_TEST_TIMES_IN_WORLD(guard__strict_lets_a_backward_pass_that_moves_nothing, w, i, 3)
{
    const int64_t rows[] = {8, 5, 1};
    weft_tensor *x = leaf(wt_spread(w, wt_whole(WEFT_F32, 0, rows[i], 12), "S(0)"));
    weft_tensor *weight = leaf(wt_spread(w, wt_whole(WEFT_F32, 1, 12, 7), "R"));
    weft_guard_open(WEFT_GUARD_ERROR | WEFT_GUARD_STRICT);
    weft_tensor *loss = weft_sum_all(weft_matmul(x, weight));

    WT_EQ(weft_backward(loss), WEFT_OK);
    WT_STILL(w);
    weft_guard_close();
    WT_ALL(weft_grad(x) && weft_grad(weight));
}

/* The second is gathered once, and nothing waits to be added up (docs/decisions/0048). */
/* trial 4.10 */
WT_TEST_IN_WORLD(product__of_two_cut_by_rows_gathers_the_second, w)
{
    weft_tensor *x = wt_whole(WEFT_F32, 0, 4 * wt_ranks(), 4 * wt_ranks());
    weft_tensor *y = wt_whole(WEFT_F32, 1, 4 * wt_ranks(), 32), *out;

    out = weft_matmul(wt_spread(w, x, "S(0)"), wt_spread(w, y, "S(0)"));
    WT_MOVED(w, WEFT_COLL_ALL_GATHER, 1);
    WT_ALL(wt_is_placed(out, "S(0)"));
    WT_ALL(wt_near_tensors(out, weft_matmul(x, y), WT_WITHIN(1e-4)));
}

/* from_local has to bring the gradient to its placements: refused in backward, nobody hangs. */
WT_TEST_IN_WORLD(guard__watches_backward, w)
{
    weft_placement whole = weft_replicate();
    weft_tensor *x = leaf(wt_constant(4, 6, 1)), *g;
    weft_tensor *y = weft_mul_scalar(weft_from_local(x, w->mesh, &whole, NULL), 2);

    g = wt_spread(w, wt_constant(4, 6, 1), "S(0)");
    weft_guard_open(WEFT_GUARD_ERROR);
    if (wt_ranks() > 1) {
        WT_ALL(weft_backward_from(y, g) != WEFT_OK);
        WT_FAILED(WEFT_ERR_LAYOUT, "Implicit redistribution: from_local's gradient");
        WT_ALL(!weft_grad(x));
        WT_STILL(w);
        y = weft_mul_scalar(weft_from_local(x, w->mesh, &whole, NULL), 2);
    }
    weft_guard_close();
    WT_ALL(weft_backward_from(y, g) == WEFT_OK);
    WT_ALL(wt_local_is_all(weft_grad(x), 2));
    weft_zero_grad(x);
}

static weft_tensor *add_inputs(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return weft_add(inputs[0], inputs[1]);
}

/* The module that the call came from is named. */
WT_TEST_IN_WORLD(guard__names_the_module, w)
{
    static const weft_module_class adder = {.type = "adder", .forward = add_inputs, .inputs = 2};
    weft_module *parent = weft_module_new(&adder, NULL), *child = weft_module_new(&adder, NULL);
    weft_tensor *in[] = {wt_spread(w, wt_whole(WEFT_F32, 0, 8, 6), "S(0)"),
                         wt_spread(w, wt_whole(WEFT_F32, 1, 8, 6), "S(1)")};

    WT_ALL(weft_module_add_child(parent, "residual", child) == WEFT_OK);
    weft_guard_open(WEFT_GUARD_ERROR);
    if (wt_ranks() > 1) {
        WT_ALL(!weft_call_n(child, in, 2));
        WT_FAILED(WEFT_ERR_LAYOUT, "Implicit redistribution: residual: add");
    }
    weft_guard_close();
    weft_module_release(parent);
}

/* ---- plain beside distributed ---- */

/* DT-35 */
WT_TEST_TIMES_IN_WORLD(replication__is_off_until_it_is_asked_for, w, i, 2)
{
    const int64_t columns[] = {3, 5};
    weft_placement split = weft_shard(0);
    weft_tensor *t = weft_from_local(wt_constant(4, columns[i], 1), w->mesh, &split, NULL);
    weft_tensor *plain = weft_full(WEFT_F32, &columns[i], 1, 1), *sum;

    WT_ALL(!weft_add(plain, t));
    WT_FAILED(WEFT_ERR_LAYOUT, "add: mixed plain and distributed tensors: input 0 is plain");
    weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_ON);
    sum = weft_add(plain, t);
    WT_ALL(sum && wt_has_shape(sum, 2, 4 * wt_ranks(), columns[i]));
    WT_ALL(wt_is_placed(sum, "S(0)") && wt_local_is_all(sum, 2));
    WT_ALL(wt_local_is_all(weft_add(t, plain), 2)); /* from the cache too */
    weft_implicit_replication_close();
    WT_ALL(!weft_add(plain, t)); /* also when the plan is known */
    WT_FAILED(WEFT_ERR_LAYOUT, "mixed plain and distributed");
    WT_STILL(w);
}

/* An inner region that ends leaves the outer one on. */
WT_TEST_IN_WORLD(replication__regions_nest, w)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 3), "S(0)");
    weft_tensor *plain = wt_whole(WEFT_F32, 1, 4, 3);

    WT_ALL(weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_ON) == WEFT_OK);
    WT_ALL(weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_CHECKED) == WEFT_OK);
    WT_ALL(weft_implicit_replication_current() == WEFT_IMPLICIT_REPLICATION_CHECKED);
    weft_implicit_replication_close();
    WT_ALL(weft_add(t, plain) != NULL);
    weft_implicit_replication_close();
    WT_FAILS(weft_add(t, plain), WEFT_ERR_LAYOUT, "mixed");
}

WT_TEST_IN_WORLD(replication__checked_refuses_different_bytes_on_all_ranks, w)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 3), "S(0)");
    weft_tensor *plain = wt_whole(WEFT_F32, 1, 4, 3);

    weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_CHECKED);
    WT_ALL(weft_add(t, plain) != NULL);
    WT_ALL(weft_add(t, weft_transpose(wt_whole(WEFT_F32, 2, 3, 4), 0, 1)) != NULL);
    if (wt_rank() == wt_ranks() - 1) ((float *)weft_data(plain))[5] += 1;
    if (wt_ranks() > 1) WT_FAILS(weft_add(t, plain), WEFT_ERR_ARG, "differ between ranks");
    weft_implicit_replication_close();
}

/* The gradient of a plain operand comes back plain and whole. */
WT_TEST_IN_WORLD(replication__gradients_come_back_plain, w)
{
    weft_tensor *t = wt_spread(w, wt_constant(8, 3, 1), "S(0)");
    weft_tensor *plain = leaf(weft_full(WEFT_F32, (int64_t[]){3}, 1, 2));

    weft_implicit_replication_open(WEFT_IMPLICIT_REPLICATION_ON);
    WT_ALL(weft_backward(weft_sum_all(weft_mul(t, plain))) == WEFT_OK);
    weft_implicit_replication_close();
    WT_ALL(wt_local_is_all(weft_grad(plain), 8) && !weft_tensor_mesh(weft_grad(plain)));
    weft_zero_grad(plain);
}

/* DT-36 */
WT_TEST_TIMES_IN_WORLD(replication__single_numbers_always_mix, w, i, 2)
{
    int columns = 3 + 2 * i;
    weft_placement split = weft_shard(0);
    weft_tensor *t = weft_from_local(wt_constant(1, columns, 1), w->mesh, &split, NULL);
    weft_tensor *zero_dims = weft_full(WEFT_F32, NULL, 0, 1);
    weft_tensor *one_dim = weft_full(WEFT_F32, (int64_t[]){1}, 1, 1);

    WT_ALL(wt_local_is_all(weft_add(t, zero_dims), 2));
    WT_ALL(wt_local_is_all(weft_add(zero_dims, t), 2));
    WT_ALL(wt_local_is_all(weft_add(t, one_dim), 2));
    WT_ALL(wt_local_is_all(weft_add(one_dim, t), 2));
    WT_ALL(wt_is_placed(weft_add(one_dim, t), "S(0)"));
    WT_STILL(w);
    t = weft_add(wt_partial(w, wt_constant(4, columns, 1), WEFT_SUM), zero_dims);
    WT_ALL(wt_is_all(t, wt_ranks() + 1));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "guard"); }
