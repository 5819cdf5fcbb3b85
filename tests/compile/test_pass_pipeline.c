/* test_pass_pipeline.c: the finder of collectives beside products, and the pass that cuts both into
 * pieces of rows. */
#include "passes.h"

#include "compile/passes/passes.h"
#include "compile/passes/patterns.h"
#include "compile/record/recorder.h"
#include "mesh/mesh.h"

#define FUNCTION(name)                                                                             \
    static weft_status name(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,                  \
                            weft_tensor **out, int n_out CK_ATTRIBUTE_UNUSED,                      \
                            void *state CK_ATTRIBUTE_UNUSED)

/* ---- the finder ---- */

static weft_tensor *input_of(struct wt_world *w, weft_dtype dtype, int64_t rows, const char *where)
{
    return wt_spread(w, wt_whole(dtype, 1, rows, 32), where);
}

/* MP-01 */
WT_TEST_IN_IF(gathers__are_found, w, weft_world_size() > 1, wt_world_open())
{
    static const struct {
        weft_dtype dtype;
        const char *where;
        int dim;
    } cases[] = {
        {WEFT_F32, "S(0)", 0}, {WEFT_F32, "S(1)", 1}, {WEFT_U8, "S(0)", 0}, {WEFT_U8, "S(1)", 1}};
    struct wf_list_recorder recorder;
    weft_tensor *in[4];
    int n = 0;

    for (int i = 0; i < 4; i++) in[i] = input_of(w, cases[i].dtype, 64, cases[i].where);
    wf_recording_begin(&recorder);
    for (int i = 0; i < 4; i++) wt_to(in[i], "R");
    wf_recording_end(&recorder);
    for (int i = 0; i < recorder.list->n_nodes; i++) {
        struct wf_found_gather g;

        if (!wf_find_gather(recorder.list, i, &g)) continue;
        WT_EQ(g.dim, cases[n].dim);
        WT_EQ(g.axis, 0);
        WT_EQ(g.ranks, weft_world_size());
        n++;
    }
    WT_EQ(n, 4);
    wf_recording_free(&recorder);
}

/* MP-02 */
WT_TEST_IN_IF(scatters__are_found, w, weft_world_size() > 1, wt_world_open())
{
    weft_tensor *whole = wt_whole(WEFT_F32, 1, 64, 32);
    weft_tensor *sum = wt_partial(w, whole, WEFT_SUM), *avg = wt_partial(w, whole, WEFT_AVG);
    struct wf_list_recorder recorder;
    int n = 0;

    wf_recording_begin(&recorder);
    wt_to(sum, "S(0)");
    wt_to(avg, "S(1)");
    wf_recording_end(&recorder);
    for (int i = 0; i < recorder.list->n_nodes; i++) {
        struct wf_found_scatter f;

        if (!wf_find_scatter(recorder.list, i, &f)) continue;
        WT_EQ(f.dim, n);
        WT_EQ(f.reduce, n ? WEFT_AVG : WEFT_SUM);
        WT_EQ(f.ranks, weft_world_size());
        n++;
    }
    WT_EQ(n, 2);
    wf_recording_free(&recorder);
}

/* ---- a product before a scatter ---- */

struct shape_case {
    int64_t a, b, c; /* c 0: two dims */
    int dim;         /* that the scatter cuts */
};

static weft_tensor *whole_numbers(int which, const struct shape_case *s)
{
    weft_tensor *t =
        s->c ? wt_whole3(WEFT_F32, which, s->a, s->b, s->c) : wt_whole(WEFT_F32, which, s->a, s->b);

    return weft_round(weft_mul_scalar(t, 4));
}

static const char *const shards[] = {"S(0)", "S(1)", "S(2)"};

/* Columns of in[0] meet rows of in[1]; terms of all ranks are averaged. */
FUNCTION(product_and_scatter)
{
    const struct shape_case *s = state;
    weft_tensor *y = weft_matmul(in[0], in[1]);

    if (!y) return weft_error_status();
    out[0] = wt_to(y, shards[s->dim]);
    return out[0] ? WEFT_OK : weft_error_status();
}

static void call_twice(struct wt_world *w, weft_compiled *compiled, weft_compiled_function *f,
                       weft_tensor **in, int n, void *state)
{
    for (int k = 0; k < 3; k++) {
        weft_tensor *out, *want;

        WT_ALL(weft_compiled_call(compiled, in, n, &out, 1) == WEFT_OK);
        WT_ALL(f(in, n, &want, 1, state) == WEFT_OK);
        WT_ALL(wt_near_tensors(out, want, WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    (void)w;
}

static weft_compiled *compile(weft_compiled_function *f, void *state, const char *passes)
{
    return wt_own(weft_compile(
        f, state,
        (weft_compile_config){.name = "tested", .fullgraph = true, .passes_off = passes}));
}

static const struct shape_case scatters[] = {{64, 32, 0, 0}, {7, 12, 0, 0}, {2, 64, 32, 0},
                                             {2, 64, 32, 1}, {3, 7, 12, 1}, {3, 1, 12, 0}};

/* MP-06, MP-09: over dims that rows go along; uneven rows and ranks without rows too. */
WT_TEST_TIMES_IN_WORLD(product_and_scatter__go_by_turns, w, i, 6)
{
    struct shape_case s = scatters[i], weight = {s.c ? s.c : s.b, 16, 0, 0};
    weft_tensor *in[] = {wt_spread(w, whole_numbers(1, &s), s.c ? "S(2)" : "S(1)"),
                         wt_spread(w, whole_numbers(2, &weight), "S(0)")};
    weft_compiled *forced = compile(product_and_scatter, &s, "+pipeline!"),
                  *usual = compile(product_and_scatter, &s, NULL);
    int64_t rows = s.dim ? s.b : s.a, ranks = weft_world_size();

    call_twice(w, forced, product_and_scatter, in, 2, &s);
    call_twice(w, usual, product_and_scatter, in, 2, &s);
    if (ranks == 1) return;
    WT_EQ(given_lines(usual, false, true, "matmul("), 1);
    WT_EQ(given_lines(forced, false, true, "matmul("), rows < ranks ? rows : ranks);
    WT_EQ(given_lines(forced, false, true, "start reduce-scatter"), rows < ranks ? rows : ranks);
}

/* The last dim is no dim of rows: the collective stays whole. */
WT_TEST_IN_IF(scatter_of_columns__stays_whole, w, weft_world_size() > 1, wt_world_open())
{
    struct shape_case s = {2, 64, 32, 2}, weight = {32, 16, 0, 0};
    weft_tensor *in[] = {wt_spread(w, whole_numbers(1, &s), "S(2)"),
                         wt_spread(w, whole_numbers(2, &weight), "S(0)")};
    weft_compiled *forced = compile(product_and_scatter, &s, "+pipeline!");

    call_twice(w, forced, product_and_scatter, in, 2, &s);
    WT_EQ(given_lines(forced, false, true, "matmul("), 1);
}

/* ---- an MLP ---- */

/* in: x of S(d), the weight of net1 (columns), of net2 (rows) */
FUNCTION(mlp)
{
    const struct shape_case *s = state;
    weft_tensor *x = wt_to(in[0], "R");
    weft_tensor *y = weft_relu(weft_linear(x, in[1], NULL, 1));

    out[0] = wt_to(weft_linear(y, in[2], NULL, 1), shards[s->dim]);
    return out[0] ? WEFT_OK : weft_error_status();
}

static const struct shape_case mlps[] = {{8, 10, 0, 0}, {2, 8, 10, 1}, {7, 10, 0, 0},
                                         {3, 7, 10, 1}, {1, 10, 0, 0}, {2, 8, 10, 0}};

static void make_mlp(struct wt_world *w, const struct shape_case *s, weft_tensor **in)
{
    struct shape_case up = {16, 10, 0, 0}, down = {10, 16, 0, 0};

    in[0] = wt_spread(w, whole_numbers(1, s), shards[s->dim]);
    in[1] = wt_spread(w, whole_numbers(2, &up), "S(0)");
    in[2] = wt_spread(w, whole_numbers(3, &down), "S(1)");
}

/* MP-07, MP-09 */
WT_TEST_TIMES_IN_WORLD(both_ends_of_an_mlp__go_by_turns, w, i, 6)
{
    struct shape_case s = mlps[i];
    weft_tensor *in[3];
    weft_compiled *forced = compile(mlp, &s, "+pipeline!");

    make_mlp(w, &s, in);
    call_twice(w, forced, mlp, in, 3, &s);
    if (weft_world_size() == 1) return;
    WT_EQ(given_lines(forced, false, true, "all-gather"), 0);
    WT_EQ(given_lines(forced, false, true, "redistribute"), 0);
    WT_ALL(given_lines(forced, false, true, "start broadcast") > 0);
    WT_ALL(given_lines(forced, false, true, "start reduce-scatter") ==
           given_lines(forced, false, true, "start broadcast"));
}

/* With gradients the gathered rows are kept for backward: they are put together too. */
WT_TEST_TIMES_IN_WORLD(gathered_rows__are_there_for_backward, w, i, 6)
{
    struct shape_case s = mlps[i];
    weft_compiled *forced = compile(mlp, &s, "+pipeline!");

    for (int k = 0; k < 3; k++) {
        weft_tensor *in[3], *plain[3], *out, *want;

        make_mlp(w, &s, in);
        make_mlp(w, &s, plain);
        for (int j = 0; j < 3; j++) {
            in[j] = weft_set_requires_grad(weft_detach(in[j]), true);
            plain[j] = weft_set_requires_grad(weft_detach(plain[j]), true);
        }
        WT_ALL(weft_compiled_call(forced, in, 3, &out, 1) == WEFT_OK);
        WT_ALL(mlp(plain, 3, &want, 1, &s) == WEFT_OK);
        WT_ALL(wt_near_tensors(out, want, WT_EXACT));
        WT_ALL(weft_backward(weft_sum(weft_mul(out, out), NULL, 0, false)) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum(weft_mul(want, want), NULL, 0, false)) == WEFT_OK);
        for (int j = 0; j < 3; j++)
            WT_ALL(wt_near_tensors(weft_grad(in[j]), weft_grad(plain[j]), WT_EXACT));
    }
    WT_EQ(weft_compiled_get_counts(forced).backward_replays, 2);
}

/* ---- two axes ---- */

/* in: x of S(0) along tp, the weight cut along tp, and a batch of S(0) along the other axis */
FUNCTION(two_axes)
{
    weft_tensor *x = wt_to(in[0], "R,R");
    weft_tensor *y = weft_linear(x, in[1], NULL, 1);

    out[0] = weft_sum(y, NULL, 0, false);
    out[1] = wt_to(in[2], "R,R");
    return out[0] && out[1] ? WEFT_OK : weft_error_status();
}

/* MP-08: what other axes carry stays as it is. */
WT_TEST_IN_IF(other_axes__stay_whole, w, weft_world_size() == 4, wt_world_open_two_axes())
{
    struct shape_case s = {8, 10, 0, 0}, up = {16, 10, 0, 0};
    weft_tensor *in[] = {wt_spread(w, whole_numbers(1, &s), "R,S(0)"),
                         wt_spread(w, whole_numbers(2, &up), "R,S(0)"),
                         wt_spread(w, whole_numbers(3, &s), "S(0),R")};
    weft_compiled *forced = compile(two_axes, NULL, "+pipeline!");

    for (int k = 0; k < 3; k++) {
        weft_tensor *out[2], *want[2];

        WT_ALL(weft_compiled_call(forced, in, 3, out, 2) == WEFT_OK);
        WT_ALL(two_axes(in, 3, want, 2, NULL) == WEFT_OK);
        for (int j = 0; j < 2; j++) WT_ALL(wt_near_tensors(out[j], want[j], WT_EXACT));
    }
    WT_EQ(given_lines(forced, false, true, "start broadcast"), 2);
    WT_EQ(given_lines(forced, false, true, "start all-gather"), 1);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_pipeline"); }
