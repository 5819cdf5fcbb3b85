/*
 * test_cases.c: functions of distributed tensors as the peers' suites capture them: compiled in
 * both ways they give what they give in immediate execution, with one capture.
 */
/* mpi: 2 4 */
#include <stdio.h>
#include <string.h>

#include "as_immediate.h"

#define IS_AS_IMMEDIATE(w, function, state, ...)                                                   \
    WT_BOTH_WAYS(fullgraph)                                                                        \
    wt_is_as_immediate(w, function, state, fullgraph,                                              \
                       (const struct wt_compiled_input[]){__VA_ARGS__},                            \
                       (int)(sizeof((const struct wt_compiled_input[]){__VA_ARGS__}) /             \
                             sizeof(struct wt_compiled_input)),                                    \
                       1)

/* ---- placements and meshes as constants ---- */

FUNCTION(branch_on_placement)
{
    weft_placement p = weft_tensor_placement(in[0], 0);
    weft_mesh *mesh = weft_tensor_mesh(in[0]);
    double add = weft_is_shard(p) ? 1 : weft_is_partial(p) ? 2 : 3;

    add += 10 * weft_mesh_axis_size(mesh, 0) + 0.5 * weft_mesh_coordinate(mesh, 0);
    GIVE(weft_add(in[0], weft_mul_scalar(in[0], add)));
}

/* CAP-02 */
WT_TEST_IN_WORLD(placements_and_meshes__are_constants, w)
{
    IS_AS_IMMEDIATE(w, branch_on_placement, NULL, {"S(0)", {8, 4}, false});
    IS_AS_IMMEDIATE(w, branch_on_placement, NULL, {"R", {8, 4}, false});
    for (int factor = 2; factor < 5; factor++) {
        char layout[24];

        snprintf(layout, sizeof layout, "SS(0,%d)", factor);
        IS_AS_IMMEDIATE(w, branch_on_placement, NULL, {layout, {24, 4}, false});
    }
}

/* CAP-02, CAP-17: partial inputs and results */
FUNCTION(sum_of_rows) { GIVE(weft_sum(in[0], (int[]){0}, 1, false)); }

WT_TEST_IN_WORLD(partial_result__goes_on_as_one, w)
{
    static const struct wt_compiled_input of[] = {{"S(0)", {7, 6}, true}};

    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(sum_of_rows, NULL, fullgraph);

        for (int k = 0; k < 3; k++) {
            weft_tensor *x, *plain, *y, *want, *v = wt_whole(WEFT_F32, 9, 6, 5);

            wt_compiled_inputs(w, &x, of, 1, k);
            wt_compiled_inputs(w, &plain, of, 1, k);
            WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
            WT_ALL(sum_of_rows(&plain, 1, &want, 1, NULL) == WEFT_OK);
            WT_ALL(weft_is_partial(weft_tensor_placement(y, 0)));
            y = weft_matmul(weft_unsqueeze(y, 0), wt_spread(w, v, "R"));
            want = weft_matmul(weft_unsqueeze(want, 0), wt_spread(w, v, "R"));
            WT_ALL(wt_near_tensors(y, want, WT_EXACT));
            WT_ALL(weft_backward(weft_full_tensor(weft_sum(y, NULL, 0, false))) == WEFT_OK);
            WT_ALL(weft_backward(weft_full_tensor(weft_sum(want, NULL, 0, false))) == WEFT_OK);
            WT_ALL(wt_near_tensors(weft_grad(x), weft_grad(plain), WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    }
}

/* ---- from_local, redistribute, to_local ---- */

FUNCTION(wrap_and_unwrap)
{
    weft_mesh *mesh = ((struct wt_world *)state)->mesh;

    GIVE(weft_add_scalar(weft_to_local(weft_from_local(in[0], mesh, NULL, NULL), NULL), 2));
}

/* CAP-05 */
WT_TEST_IN_WORLD(from_local_to_local__is_captured_once, w)
{
    IS_AS_IMMEDIATE(w, wrap_and_unwrap, w, {NULL, {4, 4}, true});
}

FUNCTION(gather_rows)
{
    weft_mesh *mesh = ((struct wt_world *)state)->mesh;
    weft_tensor *x = weft_from_local(in[0], mesh, weft_placements(mesh, "S(0)"), NULL);

    GIVE(weft_add_scalar(weft_to_local(weft_redistribute(x, NULL), NULL), 2));
}

FUNCTION(gather_rows_async)
{
    weft_mesh *mesh = ((struct wt_world *)state)->mesh;
    weft_tensor *x = weft_from_local(in[0], mesh, weft_placements(mesh, "S(0)"), NULL);

    x = weft_wait(weft_redistribute_with(x, NULL, &(weft_redistribute_options){.async = true}));
    GIVE(weft_add_scalar(weft_to_local(x, NULL), 2));
}

/* CAP-06 */
WT_TEST_IN_WORLD(gather__is_captured_also_async, w)
{
    IS_AS_IMMEDIATE(w, gather_rows, w, {NULL, {3, 4}, true});
    IS_AS_IMMEDIATE(w, gather_rows_async, w, {NULL, {3, 4}, true});
}

FUNCTION(local_gradient_in_shards)
{
    weft_mesh *mesh = ((struct wt_world *)state)->mesh;
    weft_tensor *y = weft_matmul(in[0], in[1]);

    GIVE(weft_mul_scalar(weft_to_local(y, weft_placements(mesh, "S(0)")), 3));
}

/* CAP-14 */
WT_TEST_IN_WORLD(to_local_with_gradient_placements, w)
{
    IS_AS_IMMEDIATE(w, local_gradient_in_shards, w, {"S(0)", {8, 4}, true}, {"R", {4, 5}, true});
}

/* ---- gradients and views ---- */

/* CAP-08 */
WT_TEST_IN_WORLD(requires_grad__is_guarded, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(wrap_and_unwrap, w, fullgraph);

        for (int k = 0; k < 4; k++) {
            weft_tensor *y, *x = wt_whole(WEFT_F32, k, 4, 4);

            weft_set_requires_grad(x, k % 2);
            WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
            WT_ALL(weft_requires_grad(y) == k % 2);
            wt_note("%d, call %d: %s", fullgraph, k, weft_compiled_reason(compiled));
            if (k % 2) WT_ALL(weft_backward(weft_sum(y, NULL, 0, false)) == WEFT_OK);
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 2);
        WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    }
}

FUNCTION(permuted_linear)
{
    weft_tensor *x = weft_contiguous(weft_permute(in[0], (int[]){0, 2, 1}));

    GIVE(weft_permute(weft_linear(x, in[1], in[2], 1), (int[]){0, 2, 1}));
}

/* CAP-12: the result is a strided view */
WT_TEST_IN_WORLD(permuted_result, w)
{
    IS_AS_IMMEDIATE(w, permuted_linear, NULL, {"S(1)", {4, 16, 4}, true}, {"S(1)", {4, 16}, true},
                    {"R", {4}, true});
}

FUNCTION(norm_then_product)
{
    weft_tensor *x = weft_permute(in[0], (int[]){1, 0, 2});

    GIVE(weft_matmul(weft_layer_norm(x, in[1], in[2], 1e-5), in[3]));
}

/* CAP-15 */
WT_TEST_IN_WORLD(norm_of_permuted__has_the_gradients, w)
{
    IS_AS_IMMEDIATE(w, norm_then_product, NULL, {"S(1)", {4, 2, 4}, true}, {"R", {4}, true},
                    {"R", {4}, true}, {"R", {4, 3}, true});
}

FUNCTION(split_product) { GIVE(weft_matmul(in[0], in[1])); }

/* CAP-20: no node that another undoes, no chain of identities */
WT_TEST_IN_WORLD(product_of_shards__has_no_useless_nodes, w)
{
    static const struct wt_compiled_input of[] = {{"S(0)", {2, 4}, true}, {"S(1)", {4, 2}, true}};
    weft_compiled *compiled = wt_compile(split_product, NULL, true);
    char text[4000] = {0};
    FILE *out;

    IS_AS_IMMEDIATE(w, split_product, NULL, {"S(0)", {8, 4}, true}, {"S(1)", {4, 8}, true});
    for (int k = 0; k < 2; k++) {
        weft_tensor *in[2], *y;

        wt_compiled_inputs(w, in, of, 2, k);
        WT_ALL(weft_compiled_call(compiled, in, 2, &y, 1) == WEFT_OK);
        WT_ALL(weft_backward(weft_full_tensor(weft_sum(y, NULL, 0, false))) == WEFT_OK);
    }
    out = fmemopen(text, sizeof text - 1, "w");
    weft_compiled_print(compiled, false, out);
    fclose(out);
    wt_note("%s", text);
    WT_ALL(!strstr(text, "cat(") && !strstr(text, "split(") && !strstr(text, "detach"));
    WT_ALL(!strstr(text, "alias"));
}

/* ---- inputs in flight ---- */

FUNCTION(double_it) { GIVE(weft_add(in[0], in[0])); }

/* CAP-16 */
WT_TEST_IN_WORLD(input_in_flight__is_waited_for_once, w)
{
    WT_BOTH_WAYS(fullgraph)
    {
        weft_compiled *compiled = wt_compile(double_it, NULL, fullgraph);

        for (int k = 0; k < 3; k++) {
            weft_tensor *whole = wt_whole(WEFT_F32, k, 8, 3), *y;
            weft_tensor *x = weft_redistribute_with(wt_spread(w, whole, "S(0)"), NULL,
                                                    &(weft_redistribute_options){.async = true});

            WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
            WT_ALL(wt_near_tensors(y, weft_add(whole, whole), WT_EXACT));
        }
        WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    }
}

/* ---- modules ---- */

/* Two MLPs, each first up then down. */
static weft_module *new_mlps(struct wt_world *w, const char *plan)
{
    weft_module *m = wt_own(weft_sequential_new());
    weft_plan *styles = wt_own(weft_plan_parse(plan));

    weft_manual_seed(3);
    for (int i = 0; i < 2; i++)
        WT_ALL(weft_module_add_child(m, i ? "mlp_1" : "mlp_0",
                                     weft_mlp((weft_mlp_config){
                                         .in = 10, .hidden = 16, .out = 10, .act = WEFT_RELU})) ==
               WEFT_OK);
    WT_ALL(weft_parallelize_module(m, w->mesh, styles) == WEFT_OK);
    return m;
}

FUNCTION(call_module) { GIVE(weft_call(state, in[0])); }

/* CAP-21 */
WT_TEST_IN_WORLD(two_mlps__are_captured_whole, w)
{
    weft_module *m = new_mlps(w, "*.up colwise\n*.down rowwise\n");

    IS_AS_IMMEDIATE(w, call_module, m, {NULL, {20, 10}, true});
}

/* CAP-21, the sequence version */
WT_TEST_IN_WORLD(two_mlps_in_sequence__are_captured_whole, w)
{
    weft_module *m = new_mlps(w, "mlp_0.up colwise input=S(0)\nmlp_0.down rowwise output=S(0)\n"
                                 "mlp_1.up colwise input=S(0)\nmlp_1.down rowwise output=S(0)\n");

    IS_AS_IMMEDIATE(w, call_module, m, {NULL, {20, 10}, true});
}

/* Attention over the rows: weights of queries, keys and values are sharded by columns, the last one
 * by rows; each of the three asks for all rows of its own. */
FUNCTION(attend)
{
    weft_mesh *mesh = ((struct wt_world *)state)->mesh;
    weft_tensor *of[3], *scores;

    for (int i = 0; i < 3; i++) {
        of[i] = weft_linear(weft_redistribute(in[0], NULL), in[i + 1], NULL, 1);
        if (!of[i]) return weft_error_status();
    }
    scores = weft_softmax(weft_full_tensor(weft_matmul_t(of[0], of[1], false, true)), -1);
    scores = weft_from_local(scores, mesh, NULL, NULL);
    GIVE(weft_redistribute(weft_linear(weft_matmul(scores, of[2]), in[4], NULL, 1),
                           weft_placements(mesh, "S(0)")));
}

/* The text of the list, and of its line number `line` that has `part`; NULL: there is none. */
static const char *find_line(const char *text, const char *part, int number)
{
    const char *at = text - 1;

    while (number-- > 0 && at) at = strstr(at + 1, part);
    return at;
}

/* CAP-23 */
WT_TEST_IN_WORLD(block_input__is_gathered_once, w)
{
    static const struct wt_compiled_input of[] = {{"S(0)", {20, 16}, true},
                                                  {"S(0)", {16, 16}, true},
                                                  {"S(0)", {16, 16}, true},
                                                  {"S(0)", {16, 16}, true},
                                                  {"S(1)", {16, 16}, true}};
    weft_compiled *compiled = wt_compile(attend, w, true);
    char text[16000] = {0};
    FILE *out;

    IS_AS_IMMEDIATE(w, attend, w, {"S(0)", {20, 16}, true}, {"S(0)", {16, 16}, true},
                    {"S(0)", {16, 16}, true}, {"S(0)", {16, 16}, true}, {"S(1)", {16, 16}, true});
    weft_no_grad_open();
    for (int k = 0; k < 2; k++) {
        weft_tensor *in[5], *y;

        wt_compiled_inputs(w, in, of, 5, k);
        WT_ALL(weft_compiled_call(compiled, in, 5, &y, 1) == WEFT_OK);
    }
    WT_ALL(weft_no_grad_close() == WEFT_OK);
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    out = fmemopen(text, sizeof text - 1, "w");
    weft_compiled_print(compiled, true, out);
    fclose(out);
    wt_note("%s", text);
    if (weft_world_size() == 1) return;
    WT_ALL(find_line(text, "start all-gather(in0", 1) != NULL);
    WT_ALL(find_line(text, "start all-gather(in0", 2) == NULL);
    WT_ALL(find_line(text, "start all-gather(in0", 1) < find_line(text, "wait(", 1));
    WT_ALL(find_line(text, "wait(", 1) < find_line(text, "linear(", 1));
}

/* ---- pieces of several sizes ---- */

struct pieces {
    int64_t size;
};

static weft_status split_by(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED, weft_tensor **out,
                            int n_out CK_ATTRIBUTE_UNUSED, void *state)
{
    struct pieces *p = state;

    return weft_split_size(out, in[0], 0, p->size) < 0 ? weft_error_status() : WEFT_OK;
}

/* CAP-25 */
WT_TEST_IN_WORLD(split__gives_the_pieces, w)
{
    for (int64_t size = 2; size < 5; size++) {
        struct pieces p = {size};
        int n = (int)((8 + size - 1) / size);

        WT_BOTH_WAYS(fullgraph)
        {
            weft_compiled *compiled = wt_compile(split_by, &p, fullgraph);

            for (int k = 0; k < 3; k++) {
                weft_tensor *whole = wt_whole(WEFT_F32, k, 8, 8), *out[4], *want[4];
                weft_tensor *x = wt_spread(w, whole, "R");

                WT_ALL(weft_compiled_call(compiled, &x, 1, out, n) == WEFT_OK);
                WT_ALL(weft_split_size(want, whole, 0, size) == n);
                for (int i = 0; i < n; i++) WT_ALL(wt_near_tensors(out[i], want[i], WT_EXACT));
            }
            WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
        }
    }
}

FUNCTION(losses_of_pieces)
{
    weft_tensor *joined = weft_cat((weft_tensor *[]){in[0], in[1]}, 2, 0), *pieces[2];
    weft_scope *scope = weft_loss_parallel_open();

    if (weft_split_even(pieces, 2, joined, 0) != WEFT_OK) return weft_error_status();
    out[0] = weft_scope_return(scope, weft_slice(weft_log_softmax(pieces[1], 1), 0, 1, 3));
    return out[0] ? WEFT_OK : weft_error_status();
}

/* CAP-10 */
WT_TEST_IN_WORLD(joined_and_split__under_loss_parallel, w)
{
    IS_AS_IMMEDIATE(w, losses_of_pieces, NULL, {"S(1)", {4, 8}, true}, {"S(1)", {4, 8}, true});
}

/* ---- one in another, breaks, failures ---- */

FUNCTION(inner_gather) { GIVE(weft_to_local(weft_redistribute(in[0], NULL), NULL)); }

struct nested {
    struct wt_world *w;
    weft_compiled *inner;
};

static weft_status outer_adds(weft_tensor *const *in, int n_in CK_ATTRIBUTE_UNUSED,
                              weft_tensor **out, int n_out, void *state)
{
    struct nested *n = state;
    weft_tensor *x = weft_add_scalar(in[0], 1);

    x = weft_from_local(x, n->w->mesh, weft_placements(n->w->mesh, "S(0)"), NULL);
    return weft_compiled_call(n->inner, &x, 1, out, n_out);
}

/* CAP-26 */
WT_TEST_IN_WORLD(compiled_within_compiled__is_part_of_its_list, w)
{
    struct nested n = {w, wt_compile(inner_gather, NULL, true)};
    weft_compiled *compiled;
    char text[2000] = {0};
    FILE *out;

    IS_AS_IMMEDIATE(w, outer_adds, &n, {NULL, {4, 4}, true});
    compiled = wt_compile(outer_adds, &n, true);
    for (int k = 0; k < 2; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 4, 4), *y;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) == WEFT_OK);
        WT_EQ(weft_size(y, 0), 4 * weft_world_size());
    }
    out = fmemopen(text, sizeof text - 1, "w");
    weft_compiled_print(compiled, true, out);
    fclose(out);
    wt_note("%s", text);
    if (weft_world_size() == 1) return;
    WT_ALL(strstr(text, "start all-gather") != NULL);
    WT_ALL(strstr(strstr(text, "start all-gather") + 1, "start ") == NULL);
}

FUNCTION(add_with_break)
{
    weft_tensor *x = weft_mul_scalar(in[0], 2), *y;
    weft_mesh *mesh = ((struct wt_world *)state)->mesh;

    weft_graph_break("the program makes a tensor");
    y = weft_from_local(wt_whole(WEFT_F32, 3, 4, 4), mesh, NULL, NULL);
    weft_graph_break("it is made");
    GIVE(weft_add(x, weft_mul(y, y)));
}

/* CAP-27: tensors that the program makes between breaks */
WT_TEST_IN_WORLD(break_around_a_constructor__gives_the_result, w)
{
    static const struct wt_compiled_input of[] = {{"R", {4, 4}, true}};
    weft_compiled *whole = wt_compile(add_with_break, w, true);
    weft_tensor *x, *y = NULL;

    wt_is_as_immediate(w, add_with_break, w, false, of, 1, 1);
    wt_compiled_inputs(w, &x, of, 1, 0);
    WT_FAILS(weft_compiled_call(whole, &x, 1, &y, 1), WEFT_ERR_STATE, "the program makes a tensor");
    WT_ALL(y == NULL);
}

FUNCTION(fail_on_the_last_rank)
{
    weft_tensor *x = weft_add_scalar(in[0], 1);

    if (weft_world_rank() == weft_world_size() - 1) return WEFT_ERR_ARG;
    GIVE(x);
}

/* CAP-29 */
WT_TEST_IN_WORLD(failure_on_one_rank__is_one_of_all, w)
{
    weft_compiled *compiled = wt_compile(fail_on_the_last_rank, NULL, true);
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 2), "S(0)"), *y;

    WT_ALL(weft_compiled_call(compiled, &x, 1, &y, 1) != WEFT_OK);
    weft_error_clear();
    WT_ALL(wt_near_tensors(weft_full_tensor(x), wt_whole(WEFT_F32, 0, 8, 2), WT_EXACT));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "cases"); }
