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
