/* test_gradients.c: backward of compiled calls where the tape is less plain than a chain of ops. */
#include <string.h>

#include "as_immediate.h"

enum { CALLS = 4, MANY = 12, MANY_INPUTS = 64 };

/* ---- pieces that run again, and read more than their inputs ---- */

static weft_tensor *product_with_payload(weft_tensor *const *in, int n, void *payload)
{
    (void)n;
    return weft_matmul(in[0], payload);
}

FUNCTION(recomputed_with_payload)
{
    weft_tensor *y = weft_recomputed(product_with_payload, in, 1, in[1], NULL);

    GIVE(y ? weft_add(y, in[2]) : NULL);
}

WT_TEST_IN_WORLD(inputs_of_a_piece_that_runs_again__have_their_gradients, w)
{
    static const struct wt_compiled_input in[] = {
        {"S(0)", {6, 6}, true}, {"R", {6, 6}, true}, {"S(0)", {6, 6}, true}};

    WT_BOTH_WAYS(fullgraph)
    wt_is_as_immediate(w, recomputed_with_payload, NULL, fullgraph, in, 3, 1);
}

struct compiled_piece {
    weft_compiled *compiled;
    weft_tensor *weight;
};

FUNCTION(product_with_weight)
{
    GIVE(weft_tanh(weft_matmul(in[0], ((struct compiled_piece *)state)->weight)));
}

static weft_tensor *call_piece(weft_tensor *const *in, int n, void *payload)
{
    struct compiled_piece *piece = payload;
    weft_tensor *y = NULL;

    if (weft_compiled_call(piece->compiled, in, n, &y, 1) != WEFT_OK) return NULL;
    return weft_mul_scalar(y, 2);
}

/* Its first run is a replay, which uses the weight as its ops would. */
WT_TEST_IN_WORLD(compiled_piece_that_runs_again__knows_what_it_has_read, w)
{
    struct compiled_piece piece = {
        .weight = weft_set_requires_grad(wt_spread(w, wt_whole(WEFT_F32, 3, 6, 6), "R"), true)};

    piece.compiled = wt_compile(product_with_weight, &piece, true);
    for (int k = 0; k < 6; k++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, 6, 6), "S(0)");
        weft_tensor *y = weft_recomputed(call_piece, &x, 1, &piece, NULL), *want;
        weft_status status;

        y = weft_full_tensor(weft_sum_all(y));
        weft_no_grad_open();
        want = weft_mul_scalar(weft_tanh(weft_matmul(x, piece.weight)), 2);
        WT_ALL(wt_near_tensors(y, weft_full_tensor(weft_sum_all(want)), WT_EXACT));
        if (k == 4) (void)weft_mul_(piece.weight, piece.weight);
        WT_ALL(weft_no_grad_close() == WEFT_OK);
        status = weft_backward(y);
        if (k == 4)
            WT_FAILS(status, WEFT_ERR_STATE, "in place");
        else
            WT_ALL(status == WEFT_OK);
        weft_zero_grad(piece.weight);
        weft_scope_close(scope);
    }
    WT_ALL(weft_compiled_get_counts(piece.compiled).replays >= 6);
}

/* ---- losses that differ from call to call ---- */

static weft_status two_results(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                               void *state)
{
    (void)n, (void)n_out, (void)state;
    out[0] = weft_tanh(weft_matmul(in[0], in[1]));
    out[1] = weft_gelu(in[0]);
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

/* In the first call both results get one gradient, the same bytes. */
static weft_tensor *loss_of_call(weft_tensor *const *y, int call)
{
    weft_tensor *sum = weft_add(y[0], y[1]);

    switch (call) {
    case 0:
        return weft_sum_all(weft_mul(sum, sum));
    case 1:
        return weft_sum_all(weft_add(weft_mul(y[0], y[0]), weft_mul_scalar(y[1], 3)));
    case 2:
        return weft_sum_all(weft_mul(y[1], y[1]));
    default:
        return weft_sum_all(weft_mul(y[0], y[1]));
    }
}

static weft_tensor *square(struct wt_world *w, int which, const char *placements)
{
    return weft_set_requires_grad(
        weft_detach(wt_spread(w, wt_whole(WEFT_F32, which, 8, 8), placements)), true);
}

/* Both ways on equal inputs. */
struct both {
    weft_tensor *in[2], *out[2], *plain_in[2], *plain_out[2];
};

static struct both call_both(struct wt_world *w, weft_compiled *compiled, int call)
{
    struct both b = {.in = {square(w, call, "S(0)"), square(w, 9, "R")},
                     .plain_in = {square(w, call, "S(0)"), square(w, 9, "R")}};

    WT_ALL(weft_compiled_call(compiled, b.in, 2, b.out, 2) == WEFT_OK);
    WT_ALL(two_results(b.plain_in, 2, b.plain_out, 2, NULL) == WEFT_OK);
    return b;
}

static void same_gradients(const struct both *b)
{
    for (int i = 0; i < 2; i++) WT_ALL(wt_same_gradient(b->in[i], b->plain_in[i]));
}

WT_TEST_IN_WORLD(losses_of_two_results__may_differ, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(two_results, NULL, fullgraph);

        for (int call = 0; call < CALLS; call++) {
            weft_scope *scope = weft_scope_open();
            struct both b = call_both(w, compiled, call);

            WT_ALL(weft_backward(loss_of_call(b.out, call)) == WEFT_OK);
            WT_ALL(weft_backward(loss_of_call(b.plain_out, call)) == WEFT_OK);
            same_gradients(&b);
            weft_scope_close(scope);
        }
    }
}

/* Twice through the same tape. */
WT_TEST_IN_WORLD(a_retained_tape__is_walked_again, w)
{
    weft_compiled *compiled = wt_compile(two_results, NULL, true);

    for (int call = 0; call < CALLS; call++) {
        weft_scope *scope = weft_scope_open();
        struct both b = call_both(w, compiled, call);

        for (int time = 0; time < 2; time++) {
            weft_tensor *loss = loss_of_call(b.out, 3), *other = loss_of_call(b.plain_out, 3);

            WT_ALL((time ? weft_backward(loss) : weft_backward_retain(loss)) == WEFT_OK);
            WT_ALL((time ? weft_backward(other) : weft_backward_retain(other)) == WEFT_OK);
        }
        same_gradients(&b);
        weft_scope_close(scope);
    }
}

/* ---- the first backward ---- */

static struct both call_square(struct wt_world *w, weft_compiled *compiled,
                               weft_compiled_function *function, void *state, int call)
{
    struct both b = {.in = {square(w, call, "S(0)")}, .plain_in = {square(w, call, "S(0)")}};

    WT_ALL(weft_compiled_call(compiled, b.in, 1, b.out, 1) == WEFT_OK);
    WT_ALL(function(b.plain_in, 1, b.plain_out, 1, state) == WEFT_OK);
    return b;
}

FUNCTION(cube) { GIVE(weft_mul(weft_mul(in[0], in[0]), in[0])); }

/* A loss was dropped: the list is recorded anew some time, or by a warm-up. */
WT_TEST_TIMES_IN_WORLD(list_without_a_backward__is_made_again, w, i, 4)
{
    weft_compiled *compiled = wt_own(weft_compile(
        cube, NULL, (weft_compile_config){.fullgraph = true, .most_variants = 1 + i / 2}));
    int replays = 0;

    for (int call = 0; call < 40; call++) {
        weft_scope *scope = weft_scope_open();
        weft_tensor *x = square(w, 0, "S(0)");
        struct both b;

        if (i % 2 && call == 1) WT_ALL(weft_compiled_warm_up(compiled, &x, 1, 1) == WEFT_OK);
        b = call_square(w, compiled, cube, NULL, call);
        if (call) {
            wt_backward_of_results(b.out, 1);
            wt_backward_of_results(b.plain_out, 1);
            WT_ALL(wt_same_gradient(b.in[0], b.plain_in[0]));
        }
        weft_scope_close(scope);
    }
    replays = (int)weft_compiled_get_counts(compiled).replays;
    wt_note("%d replays: %s", replays, weft_compiled_reason(compiled));
    WT_ALL(replays >= (i % 2 ? 39 : 20));
    WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
}

/* It keeps the tape, of which the list does without. */
WT_TEST_IN_WORLD(first_backward_that_is_retained__makes_a_list, w)
{
    weft_compiled *compiled = wt_compile(cube, NULL, true);

    for (int call = 0; call < 3; call++) {
        weft_scope *scope = weft_scope_open();
        struct both b = call_square(w, compiled, cube, NULL, call);
        weft_tensor *loss = weft_full_tensor(weft_sum_all(b.out[0])),
                    *other = weft_full_tensor(weft_sum_all(b.plain_out[0]));

        for (int time = 0; time < 2; time++) {
            WT_ALL((time ? weft_backward(loss) : weft_backward_retain(loss)) == WEFT_OK);
            WT_ALL((time ? weft_backward(other) : weft_backward_retain(other)) == WEFT_OK);
        }
        WT_ALL(wt_same_gradient(b.in[0], b.plain_in[0]));
        weft_scope_close(scope);
    }
    wt_note("%s", weft_compiled_reason(compiled));
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
}

/* What has a tape of its own is no result of the list: the tape stays. */
FUNCTION(give_outside)
{
    out[0] = state;
    out[1] = weft_mul(in[0], in[0]);
    return out[1] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(result_with_a_tape_from_outside__keeps_it, w)
{
    weft_tensor *leaf = square(w, 1, "S(0)"), *h = weft_mul(leaf, leaf);
    weft_compiled *compiled = wt_compile(give_outside, h, true);
    weft_scope *scope = weft_scope_open();
    weft_tensor *x = square(w, 2, "S(0)"), *y[2];

    WT_ALL(weft_compiled_call(compiled, &x, 1, y, 2) == WEFT_ERR_STATE);
    (void)weft_error_clear();
    weft_scope_close(scope);
    WT_ALL(weft_backward(weft_full_tensor(weft_sum_all(h))) == WEFT_OK);
    WT_ALL(wt_near_tensors(weft_grad(leaf), weft_mul_scalar(weft_detach(leaf), 2), WT_EXACT));
}

struct updated {
    weft_module *model;
    weft_optim *optim;
};

FUNCTION(call_updated) { GIVE(weft_call(((struct updated *)state)->model, in[0])); }

/* It was refused before anything had run: the step is taken, and it is recorded. */
WT_TEST_IN_WORLD(backward_that_was_refused__is_recorded_next_time, w)
{
    struct updated u = {0};
    weft_compiled *compiled = wt_compile(call_updated, &u, true);
    weft_tensor *x = wt_whole(WEFT_F32, 1, 5, 4), *y, *loss;

    (void)w;
    u.model = wt_own(weft_linear_new((weft_linear_config){.in = {4}, .out = {3}}));
    u.optim = wt_own(weft_sgd(u.model, (weft_sgd_config){.lr = 0.01}));
    WT_EQ(weft_optim_update_in_backward(u.optim, true), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(weft_call(u.model, x))), WEFT_OK);
    for (int k = 0; k < 3; k++) {
        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        loss = weft_sum_all(y);
        if (k == 0) {
            WT_FAILS(weft_backward_retain(loss), WEFT_ERR_STATE, "was updated");
            WT_EQ(weft_step(u.optim), WEFT_OK);
            weft_optim_zero_grad(u.optim);
        }
        WT_EQ(weft_backward(loss), WEFT_OK);
        WT_EQ(weft_step(u.optim), WEFT_OK);
        weft_optim_zero_grad(u.optim);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
}

struct kept_tensor {
    weft_tensor *t;
};

static weft_tensor *break_when_run_again(weft_tensor *const *in, int n CK_ATTRIBUTE_UNUSED,
                                         void *payload)
{
    int *runs = payload;

    if (++*runs > 1) weft_graph_break("backward does what no list has");
    return weft_mul(in[0], in[0]);
}

FUNCTION(break_in_backward)
{
    *(int *)state = 0;
    GIVE(weft_mul(weft_recomputed(break_when_run_again, in, 1, state, NULL), in[0]));
}

/* The list of the first backward is of no use; a tape that was retained is walked again all the
 * same.
 */
WT_TEST_IN_WORLD(retained_tape_without_a_list__is_walked_again, w)
{
    int runs[2] = {0};
    weft_compiled *compiled = wt_compile(break_in_backward, &runs[0], true);

    for (int call = 0; call < 3; call++) {
        weft_scope *scope = weft_scope_open();
        struct both b = call_square(w, compiled, break_in_backward, &runs[1], call);
        weft_tensor *loss = weft_full_tensor(weft_sum_all(b.out[0])),
                    *other = weft_full_tensor(weft_sum_all(b.plain_out[0]));

        for (int time = 0; time < 3; time++) {
            WT_ALL((time < 2 ? weft_backward_retain(loss) : weft_backward(loss)) == WEFT_OK);
            WT_ALL((time < 2 ? weft_backward_retain(other) : weft_backward(other)) == WEFT_OK);
        }
        WT_ALL(wt_same_gradient(b.in[0], b.plain_in[0]));
        weft_scope_close(scope);
    }
}

/* What it has read only is written in it too, by another handle: refused behind a replay as behind
 * the ops. */
FUNCTION(read_and_write)
{
    out[0] = weft_mul(in[0], in[1]);
    weft_no_grad_open();
    (void)weft_add_(((struct kept_tensor *)state)->t, in[1]);
    (void)weft_no_grad_close();
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(input_that_the_list_writes_elsewhere__is_refused_by_backward, w)
{
    struct kept_tensor kept = {NULL};
    weft_compiled *compiled = wt_compile(read_and_write, &kept, true);

    kept.t = weft_clone(weft_detach(square(w, 5, "S(0)")));
    for (int call = 0; call < 4; call++) {
        weft_tensor *in[] = {call == 2 ? kept.t : weft_detach(square(w, call, "S(0)")),
                             square(w, 9, "S(0)")};
        weft_tensor *y;

        WT_ALL(weft_compiled_call(compiled, in, 2, &y, 1) == WEFT_OK);
        y = weft_full_tensor(weft_sum_all(y));
        if (call == 2)
            WT_FAILS(weft_backward(y), WEFT_ERR_STATE, "in place");
        else
            WT_ALL(weft_backward(y) == WEFT_OK);
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 3);
}

/* ---- more than a node of the tape has ---- */

static weft_status many_results(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                void *state)
{
    (void)n, (void)state;
    for (int i = 0; i < n_out; i++) {
        out[i] = weft_tanh(weft_mul_scalar(in[i % 2], 0.25 * (i + 1)));
        if (!out[i]) return weft_error_status();
    }
    return WEFT_OK;
}

FUNCTION(sum_of_many)
{
    weft_tensor *sum = in[0];

    for (int i = 1; i < n_in; i++) sum = weft_add(sum, weft_tanh(in[i]));
    GIVE(sum);
}

/* Two terms come to each input, and not all results reach all of them. */
FUNCTION(products_of_neighbours)
{
    weft_tensor *sum = weft_mul(in[0], in[n_in - 1]);

    out[1] = weft_tanh(in[1]);
    if (!out[1]) return weft_error_status();
    for (int i = 1; i < n_in; i++) sum = weft_add(sum, weft_mul(in[i], weft_tanh(in[i - 1])));
    GIVE(sum);
}

WT_TEST_IN_WORLD(many_results__have_gradients, w)
{
    static const struct wt_compiled_input in[] = {{"S(0)", {6, 5}, true}, {"S(1)", {6, 5}, true}};

    WT_BOTH_WAYS(fullgraph)
    wt_is_as_immediate(w, many_results, NULL, fullgraph, in, 2, MANY);
}

/* More than a node of the tape has inputs: one more, and as many as a call has. */
WT_TEST_TIMES_IN_WORLD(many_inputs__have_gradients, w, i, 4)
{
    struct wt_compiled_input of[MANY_INPUTS];
    int n = i % 2 ? MANY_INPUTS : 9;

    for (int k = 0; k < n; k++) of[k] = (struct wt_compiled_input){"S(0)", {6, 5}, true};
    WT_BOTH_WAYS(fullgraph)
    {
        if (i < 2) wt_is_as_immediate(w, sum_of_many, NULL, fullgraph, of, n, 1);
        if (i >= 2) wt_is_as_immediate(w, products_of_neighbours, NULL, fullgraph, of, n, 2);
    }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "gradients"); }
