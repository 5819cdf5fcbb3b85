/*
 * test_tools.c: explain, the levels of WEFT_COMPILE, the profile, dumps and backends of compiled
 * functions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/knob.h"
#include "support/given.h"
#include "support/near_modules.h"
#include "support/scratch.h"
#include "texts.h"

/* ---- explain ---- */

static weft_status toy(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    weft_tensor *a = in[0], *b = in[1], *x = weft_div(a, weft_add_scalar(weft_abs(a), 1));
    FILE *nowhere = fopen("/dev/null", "w");

    (void)n;
    (void)n_out;
    (void)state;
    weft_tensor_print(x, nowhere);
    fclose(nowhere);
    if (weft_item(weft_sum(b, NULL, 0, false)) < 0) b = weft_mul_scalar(b, -1);
    out[0] = weft_mul(x, b);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* B42, B40 */
WT_TEST_IN_WORLD(explain__tells_graphs_breaks_and_ops, w)
{
    weft_tensor *in[] = {wt_constant(2, 5, 2), wt_constant(2, 5, -1)};
    weft_tensor *positive[] = {in[0], wt_constant(2, 5, 1)};
    char *text = TEXT_OF(WT_ALL(weft_compile_explain_print(toy, NULL, in, 2, 1, out) == WEFT_OK));

    WT_ALL(wt_text_has(text, "3 graphs with 2 graph breaks and 6 ops\n"));
    WT_ALL(wt_text_has(text, "graph 1: 3 ops: abs, add_scalar, div\n"));
    WT_ALL(wt_text_has(text, "break 1, after div: tensor print: the program reads elements\n"));
    WT_ALL(wt_text_has(text, "break 2, after sum: item: the program reads an element\n"));
    WT_ALL(wt_text_has(text, "graph 3: 2 ops: "));
    free(text);
    text = TEXT_OF(WT_ALL(weft_compile_explain_print(toy, NULL, positive, 2, 1, out) == WEFT_OK));
    WT_ALL(wt_text_has(text, "3 graphs with 2 graph breaks and 5 ops\n"));
    free(text);
}

/* Three formulas before the first break and two behind it are one chain, but for the break; the
 * second break, after a product, cuts none. */
static weft_status broken_chain(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                void *state)
{
    weft_tensor *x = weft_mul(weft_add_scalar(weft_abs(in[0]), 1), in[0]);

    (void)n;
    (void)n_out;
    if (*(bool *)state) weft_graph_break("in a chain");
    x = weft_matmul(weft_relu(weft_add(x, in[0])), in[1]);
    if (*(bool *)state) weft_graph_break("after a product");
    out[0] = weft_mul_scalar(x, 2);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* B14 */
WT_TEST_IN_WORLD(explain__tells_which_chains_a_break_cuts, w)
{
    weft_tensor *in[] = {wt_spread(w, wt_whole(WEFT_F32, 1, 24, 6), "S(0)"),
                         wt_spread(w, wt_whole(WEFT_F32, 2, 6, 4), "R")};
    bool broken = true;
    char *text = TEXT_OF(
        WT_ALL(weft_compile_explain_print(broken_chain, &broken, in, 2, 1, out) == WEFT_OK));

    WT_ALL(wt_text_has(text, "3 graphs with 2 graph breaks and 7 ops\n"));
    WT_ALL(wt_text_has(text, "break 1, after mul: in a chain\n"));
    WT_ALL(wt_text_has(text, "  it cuts a fused chain: 3 ops before it, 2 behind it\n") ==
           (wt_device() == WEFT_CPU));
    WT_ALL(wt_text_has(text, "graph 2: 3 ops: add, relu, matmul\n"
                             "break 2, after matmul: after a product\n"
                             "graph 3: "));
    free(text);
    broken = false;
    text = TEXT_OF(
        WT_ALL(weft_compile_explain_print(broken_chain, &broken, in, 2, 1, out) == WEFT_OK));
    WT_ALL(!strstr(text, "cuts"));
    free(text);
}

static weft_status call_module(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                               void *state)
{
    (void)n;
    (void)n_out;
    out[0] = weft_call(state, in[0]);
    return out[0] ? WEFT_OK : weft_error_status();
}

static weft_status call_and_gather(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                   void *state)
{
    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_relu(
        weft_redistribute(weft_transpose(in[0], 0, 1), (weft_placement[]){weft_replicate()}));
    weft_graph_break("of my own");
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_WORLD(explain__counts_a_redistribution_and_no_view, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 1, 6, 4), "S(0)");
    char *text = TEXT_OF(
        WT_ALL(weft_compile_explain_print(call_and_gather, NULL, &x, 1, 1, out) == WEFT_OK));

    WT_ALL(wt_text_has(text, wt_ranks() > 1 ? "1 graph with 1 graph break and 2 ops\n"
                                            : "1 graph with 1 graph break and 1 op\n"));
    WT_ALL(wt_text_has(text, "break 1, after relu: of my own\n"));
    free(text);
    WT_FAILS(weft_compile_explain_print(NULL, NULL, &x, 1, 1, stdout), WEFT_ERR_ARG, "no function");
}

/* ---- the levels of WEFT_COMPILE ---- */

/* Of the process: ranks that are threads all set it, between two agreements. */
static void set_knob(const char **knob, const char *value)
{
    WT_ALL(true);
    __atomic_store_n(knob, value, __ATOMIC_RELAXED);
    WT_ALL(true);
}

static weft_module *new_mlp(struct wt_world *w)
{
    weft_module *mlp = wt_own(weft_mlp((weft_mlp_config){.in = 8, .hidden = 12, .out = 8}));
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};

    WT_ALL(weft_parallelize_module(mlp, w->mesh, plan) == WEFT_OK);
    return mlp;
}

/* B20, A3 */
WT_TEST_TIMES_IN_WORLD(level__has_the_same_bits_as_every_other, w, level, 4)
{
    static const char *const words[] = {"eager", "capture", "aot", "full"};
    static const int captures[] = {0, 4, 1, 1}, replays[] = {0, 0, 3, 3};
    weft_compiled *compiled;
    weft_module *mlp, *plain;

    weft_manual_seed(3);
    mlp = new_mlp(w);
    weft_manual_seed(3);
    plain = new_mlp(w);
    set_knob(&wf_knobs.compile, words[level]);
    compiled = wt_own(weft_compile(call_module, mlp, (weft_compile_config){.fullgraph = true}));
    set_knob(&wf_knobs.compile, "");
    for (int k = 0; k < 4; k++) {
        weft_tensor *x = wt_whole(WEFT_F32, k, 5, 8), *got = NULL, *want = weft_call(plain, x);

        WT_ALL(weft_compiled_call(compiled, &x, 1, &got, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(got, want, WT_EXACT));
        WT_ALL(weft_backward(weft_sum(got, NULL, 0, false)) == WEFT_OK);
        WT_ALL(weft_backward(weft_sum(want, NULL, 0, false)) == WEFT_OK);
    }
    WT_NEAR_GRADIENTS(mlp, plain, WT_EXACT);
    WT_EQ(weft_compiled_get_counts(compiled).captures, captures[level]);
    WT_EQ(weft_compiled_get_counts(compiled).replays, replays[level]);
    WT_EQ(weft_compiled_get_counts(compiled).backward_replays, replays[level]);
}

WT_TEST_IN_WORLD(level__is_one_of_four, w)
{
    set_knob(&wf_knobs.compile, "half");
    WT_FAILS(weft_compile(toy, NULL, (weft_compile_config){0}), WEFT_ERR_ARG, "half");
    set_knob(&wf_knobs.compile, "");
}

/* ---- what one rank alone does not read ---- */

static weft_status add_shared_bias(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                   void *state)
{
    weft_tensor *bias = weft_redistribute(in[2], (weft_placement[]){weft_replicate()});

    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_linear(in[0], in[1], weft_mul_scalar(bias, 2), 1);
    return out[0] ? WEFT_OK : weft_error_status();
}

/* The bias counts on one rank; the gather that makes it runs on all. A14 */
WT_TEST_IN_WORLD(bias_that_counts_once__is_made_on_every_rank, w)
{
    weft_compiled *compiled =
        wt_own(weft_compile(add_shared_bias, NULL, (weft_compile_config){.fullgraph = true}));
    weft_tensor *bias = weft_reshape(wt_whole(WEFT_F32, 3, 5, 1), (int64_t[]){5}, 1);
    weft_tensor *in[] = {wt_spread(w, wt_whole(WEFT_F32, 1, 6, 8), "S(1)"),
                         wt_spread(w, wt_whole(WEFT_F32, 2, 5, 8), "S(1)"),
                         wt_spread(w, bias, "S(0)")};
    weft_tensor *want, *got = NULL;

    WT_ALL(add_shared_bias(in, 3, &want, 1, NULL) == WEFT_OK);
    for (int k = 0; k < 3; k++) WT_ALL(weft_compiled_call(compiled, in, 3, &got, 1) == WEFT_OK);
    WT_EQ(weft_compiled_get_counts(compiled).replays, 2);
    WT_ALL(wt_near_tensors(got, want, WT_EXACT));
}

/* ---- switches ---- */

static weft_status two_chains(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                              void *state)
{
    weft_tensor *x = in[0];

    (void)n;
    (void)n_out;
    (void)state;
    weft_exp(x); /* nobody reads it */
    for (int i = 0; i < 4; i++) x = weft_softmax(x, 1);
    out[0] = x;
    return x ? WEFT_OK : weft_error_status();
}

static weft_compiled_counts counts_without(struct wt_world *w, const char *off)
{
    weft_compiled *compiled;
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 1, 40, 16), "S(0)"), *out = NULL;

    set_knob(&wf_knobs.compile_off, off);
    compiled = wt_own(weft_compile(two_chains, NULL, (weft_compile_config){.fullgraph = true}));
    for (int k = 0; k < 2; k++) WT_ALL(weft_compiled_call(compiled, &x, 1, &out, 1) == WEFT_OK);
    set_knob(&wf_knobs.compile_off, "");
    return weft_compiled_get_counts(compiled);
}

/* B49 */
WT_TEST_IN_WORLD(switches__leave_out_a_pass_or_planned_memory, w)
{
    weft_compiled_counts all = counts_without(w, "fuse"), no_dead = counts_without(w, "dead,fuse"),
                         no_pass = counts_without(w, "all"),
                         no_memory = counts_without(w, "all,memory");

    WT_ALL(no_dead.nodes > all.nodes);
    WT_EQ(no_pass.nodes, 5);
    WT_ALL(no_memory.memory > no_pass.memory);
}

/* ---- the profile ---- */

/* B26, B30, B31, A25 */
WT_TEST_IN_WORLD(profile__counts_misses_by_what_differed, w)
{
    weft_compiled *compiled = wt_own(
        weft_compile(two_chains, NULL, (weft_compile_config){.name = "chains", .fullgraph = true}));
    char *text;

    for (int k = 0; k < 9; k++) {
        weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, k, k < 6 ? 4 : 7, 16), "S(0)"), *out;

        WT_ALL(weft_compiled_call(compiled, &x, 1, &out, 1) == WEFT_OK);
    }
    text = TEXT_OF(weft_compiled_profile_print(compiled, out));
    WT_ALL(wt_text_has(text,
                       "chains: 9 calls, 2 captures, 7 hits, 0 immediate, 0 backward replays\n"));
    WT_ALL(wt_text_has(text, "1 missed: there is no list\n"));
    WT_ALL(wt_text_has(text, "1 missed: input 0 is f32[7,16] [S(0)]"));
    WT_ALL(wt_text_has(text, "us in 7\n"));
    free(text);
}

/* ---- dumps ---- */

static char *read_text(const char *folder, const char *name)
{
    char path[700], *text = calloc(1, 20000);
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r");
    if (!file) {
        free(text);
        return NULL;
    }
    if (fread(text, 1, 19999, file) == 0) text[0] = 0;
    fclose(file);
    return text;
}

static weft_status gather_product(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                  void *state)
{
    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_matmul(in[0], weft_redistribute(in[1], (weft_placement[]){weft_replicate()}));
    return out[0] ? WEFT_OK : weft_error_status();
}

static void compile_gather(struct wt_world *w)
{
    weft_compiled *compiled = wt_own(weft_compile(
        gather_product, NULL, (weft_compile_config){.name = "gather", .fullgraph = true}));
    weft_tensor *in[] = {wt_spread(w, wt_whole(WEFT_F32, 1, 6, 4), "S(0)"),
                         wt_spread(w, wt_whole(WEFT_F32, 2, 4, 6), "S(0)")};
    weft_tensor *out = NULL;

    WT_ALL(weft_compiled_call(compiled, in, 2, &out, 1) == WEFT_OK);
}

/* B21, B22, B27, B28, A38 */
WT_TEST_IN_WORLD(dump__writes_the_files_that_are_asked_for, w)
{
    static const char *const names[] = {"graph.txt", "calls.txt", "graph.dot", "schedule.txt",
                                        "memory.txt"};
    static _Thread_local int lists; /* that this rank has written */
    static char folder[500];
    const char *parts[] = {"redistribute(", "start all-gather(", "digraph \"gather\"",
                           "us are waited for", "bytes planned"};
    char mine[600];

    if (wt_rank() == 0) snprintf(folder, sizeof folder, "%s", wt_scratch("dump"));
    WT_ALL(true);
    set_knob(&wf_knobs.compile_dump, folder);
    for (int only = 0; only < 3; only++) {
        set_knob(&wf_knobs.compile_files, only == 1 ? "graph,memory" : "");
        set_knob(&wf_knobs.compile_only, only == 2 ? "other*" : "gath*");
        compile_gather(w);
        snprintf(mine, sizeof mine, "%s/gather.%d/rank%d", folder, lists, wt_rank());
        if (only < 2) lists++;
        for (int f = 0; f < 5; f++) {
            char *text = read_text(mine, names[f]);

            if (only == 2 || (only == 1 && f % 4))
                WT_ALL(!text);
            else
                WT_ALL(text && (wt_ranks() == 1 || wt_text_has(text, parts[f])));
            free(text);
        }
    }
    set_knob(&wf_knobs.compile_dump, "");
    set_knob(&wf_knobs.compile_files, "");
    set_knob(&wf_knobs.compile_only, "");
}

/* ---- backends ---- */

struct counted {
    const weft_list *list;
    int runs, released;
};

static _Thread_local struct counted counted;

static void run_counted(const weft_list_run *run, void *state)
{
    struct counted *of = state;

    of->runs++;
    for (int i = 0; i < weft_list_node_count(of->list); i++) weft_list_run_node(run, i);
}

static void release_counted(void *state) { ((struct counted *)state)->released++; }

static weft_status make_counted(const weft_list *list, weft_list_runner *runner)
{
    counted.list = list;
    *runner = (weft_list_runner){run_counted, release_counted, &counted};
    return WEFT_OK;
}

static bool is_backend(const char *name)
{
    for (int i = 0; weft_compile_backend_name(i); i++)
        if (strcmp(weft_compile_backend_name(i), name) == 0) return true;
    return false;
}

/* B2, B4 */
WT_TEST_IN_WORLD(backend__gets_the_list_and_runs_it, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 1, 4, 16), "S(0)"), *want, *got;
    weft_compiled *compiled;

    if (!is_backend("counted"))
        WT_ALL(weft_compile_backend_register("counted", make_counted) == WEFT_OK);
    WT_ALL(is_backend("counted") && is_backend("weft") && is_backend("in_order"));
    WT_FAILS(weft_compile_backend_register("weft", make_counted), WEFT_ERR_ARG, "is taken");
    WT_FAILS(weft_compile(two_chains, NULL, (weft_compile_config){.backend = "none"}), WEFT_ERR_ARG,
             "no backend none");
    memset(&counted, 0, sizeof counted);
    compiled = weft_compile(two_chains, NULL,
                            (weft_compile_config){.backend = "counted", .fullgraph = true});
    WT_ALL(two_chains(&x, 1, &want, 1, NULL) == WEFT_OK);
    for (int k = 0; k < 3; k++) {
        WT_ALL(weft_compiled_call(compiled, &x, 1, &got, 1) == WEFT_OK);
        WT_ALL(wt_near_tensors(got, want, WT_EXACT));
    }
    WT_EQ(counted.runs, 2);
    WT_EQ(weft_list_node_count(counted.list), weft_compiled_get_counts(compiled).nodes);
    WT_ALL(weft_list_node_at(counted.list, 0).out[0].has_shape);
    WT_EQ(weft_list_node_at(counted.list, 0).out[0].shape[1], 16);
    weft_compiled_release(compiled);
    WT_EQ(counted.released, 1);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "tools")); }
