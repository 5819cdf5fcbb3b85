/*
 * test_repro.c: comparing a function with itself compiled, lists in files, and the smallest of them
 * that still differs. What differs is a backend's doing, which adds to the results of one op.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/given.h"
#include "support/near_modules.h"
#include "support/scratch.h"
#include "texts.h"

/* ---- a backend that computes one op wrongly ---- */

static _Thread_local const char *spoiled_op = "tanh";

struct spoiler {
    const weft_list *list;
};

static void run_spoiled(const weft_list_run *run, void *state)
{
    const struct spoiler *s = state;

    for (int i = 0; i < weft_list_node_count(s->list); i++) {
        weft_list_node node = weft_list_node_at(s->list, i);
        float first, *result;

        weft_list_run_node(run, i);
        if (strcmp(node.op, spoiled_op) != 0 || node.kind != WEFT_LIST_KERNEL) continue;
        result = weft_list_run_address(run, &node.out[0]);
        if (node.out[0].shape[0] == 0) continue;
        wf_device_download(node.out[0].device, &first, result, sizeof first, "spoiler");
        first += 1;
        wf_device_upload(node.out[0].device, result, &first, sizeof first);
    }
}

static weft_status make_spoiled(const weft_list *list, weft_list_runner *runner)
{
    struct spoiler *s = malloc(sizeof *s);

    s->list = list;
    *runner = (weft_list_runner){run_spoiled, free, s};
    return WEFT_OK;
}

static weft_status make_nothing(const weft_list *list, weft_list_runner *runner)
{
    (void)list;
    (void)runner;
    weft_compile_backend_register(NULL, NULL); /* records an error */
    return WEFT_ERR_ARG;
}

static void register_backends(void)
{
    for (int i = 0; weft_compile_backend_name(i); i++)
        if (strcmp(weft_compile_backend_name(i), "spoiled") == 0) return;
    WT_ALL(weft_compile_backend_register("spoiled", make_spoiled) == WEFT_OK);
    WT_ALL(weft_compile_backend_register("nothing", make_nothing) == WEFT_OK);
}

/* ---- functions ---- */

/* Eight ops, a view and a redistribution; the bias counts on one rank. */
static weft_status chain(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    weft_tensor *x = weft_exp(weft_mul_scalar(in[0], 0.25)), *y, *bias = state;

    (void)n;
    (void)n_out;
    y = weft_tanh(weft_add(x, in[0]));
    y = weft_linear(y, in[1], bias, 1);
    y = weft_redistribute(y, (weft_placement[]){weft_replicate()});
    y = weft_transpose(weft_relu(y), 0, 1);
    out[0] = weft_softmax(weft_mul_scalar(y, 3), 1);
    out[1] = x;
    return out[0] ? WEFT_OK : weft_error_status();
}

struct chain_inputs {
    weft_tensor *in[2], *bias;
};

static struct chain_inputs chain_inputs(struct wt_world *w)
{
    struct chain_inputs c = {.in = {wt_spread(w, wt_whole(WEFT_F32, 1, 6, 8), "S(1)"),
                                    wt_spread(w, wt_whole(WEFT_F32, 2, 5, 8), "S(1)")}};

    c.bias = wt_spread(w, weft_reshape(wt_whole(WEFT_F32, 3, 5, 1), (int64_t[]){5}, 1), "R");
    return c;
}

static weft_status step(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    (void)n;
    (void)n_out;
    out[0] = weft_sum(weft_call(state, in[0]), NULL, 0, false);
    if (!out[0]) return weft_error_status();
    return weft_backward(out[0]);
}

static weft_module *new_mlp(struct wt_world *w)
{
    weft_module *mlp =
        wt_own(weft_mlp((weft_mlp_config){.in = 8, .hidden = 12, .out = 8, .act = WEFT_GELU_TANH}));
    weft_plan plan[] = {{"up", weft_colwise_parallel()}, {"down", weft_rowwise_parallel()}, {0}};

    WT_ALL(weft_parallelize_module(mlp, w->mesh, plan) == WEFT_OK);
    return mlp;
}

/* ---- comparing ---- */

/* B46, B48, A49 */
WT_TEST_IN_WORLD(compare__finds_nothing_where_nothing_differs, w)
{
    struct chain_inputs c = chain_inputs(w);
    weft_compile_check check = {.f64 = true};
    int first = 7;
    char *text = TEXT_OF(WT_ALL(
        weft_compile_compare_print(chain, c.bias, c.in, 2, 2, check, out, &first) == WEFT_OK));

    WT_EQ(first, -1);
    WT_ALL(wt_text_has(text, "nodes: compiled as immediately\n"));
    WT_ALL(wt_text_has(text, "nodes within tolerance, the farthest node "));
    free(text);
    check.f64_relative = 1e-12;
    text = TEXT_OF(WT_ALL(
        weft_compile_compare_print(chain, c.bias, c.in, 2, 2, check, out, &first) == WEFT_OK));
    WT_ALL(wt_text_has(text, "the first beyond tolerance is node 1 (exp)"));
    free(text);
}

WT_TEST_IN_WORLD(compare__runs_backward_too, w)
{
    weft_module *mlp = new_mlp(w);
    weft_tensor *x = wt_whole(WEFT_F32, 1, 5, 8);
    int first = 7;
    char *text =
        TEXT_OF(WT_ALL(weft_compile_compare_print(step, mlp, &x, 1, 1, (weft_compile_check){0}, out,
                                                  &first) == WEFT_OK));

    WT_EQ(first, -1);
    WT_ALL(wt_text_has(text, "compiled as immediately\n"));
    free(text);
}

WT_TEST_IN_WORLD(compare__names_the_first_node_that_differs, w)
{
    struct chain_inputs c = chain_inputs(w);
    weft_compile_check check = {.backend = "spoiled"};
    int first = -1;
    char *text;

    register_backends();
    text = TEXT_OF(WT_ALL(
        weft_compile_compare_print(chain, c.bias, c.in, 2, 2, check, out, &first) == WEFT_OK));
    WT_EQ(first, 3);
    WT_ALL(wt_text_has(text, "the first that differs is node 3 (tanh): "));
    free(text);
    check.relative = check.absolute = 10;
    text = TEXT_OF(WT_ALL(
        weft_compile_compare_print(chain, c.bias, c.in, 2, 2, check, out, &first) == WEFT_OK));
    WT_EQ(first, -1);
    free(text);
}

static weft_status read_a_number(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                                 void *state)
{
    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_mul_scalar(in[0], weft_item(weft_sum(in[0], NULL, 0, false)));
    return WEFT_OK;
}

struct training {
    weft_module *mlp;
    weft_optim *optim;
};

static weft_status take_step(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                             void *state)
{
    struct training *t = state;

    if (step(in, n, out, n_out, t->mlp) != WEFT_OK) return weft_error_status();
    return weft_step(t->optim);
}

WT_TEST_IN_WORLD(record__refuses_what_cannot_run_again, w)
{
    weft_tensor *x = wt_whole(WEFT_F32, 1, 2, 3);
    struct training t;

    WT_FAILS(weft_compile_record(read_a_number, NULL, &x, 1, 1, "nowhere"), WEFT_ERR_STATE,
             "item: the program reads an element");
    WT_FAILS(weft_compile_record(NULL, NULL, &x, 1, 1, "nowhere"), WEFT_ERR_ARG, "no function");
    x = wt_whole(WEFT_F32, 1, 5, 8);
    t.mlp = new_mlp(w);
    t.optim = wt_own(weft_adamw(t.mlp, (weft_adamw_config){.lr = 0.1}));
    WT_FAILS(weft_compile_record(take_step, &t, &x, 1, 1, "nowhere"), WEFT_ERR_STATE,
             "an optimizer's step cannot be written");
}

/* ---- files ---- */

static const char *path_of(const char *name)
{
    static char path[500];

    WT_ALL(true);
    if (wt_rank() == 0) snprintf(path, sizeof path, "%s", wt_scratch(name));
    WT_ALL(true);
    return path;
}

/* B23 */
WT_TEST_IN_WORLD(record__writes_what_replay_reads, w)
{
    struct chain_inputs c = chain_inputs(w);
    const char *path = path_of("chain");
    weft_module *mlp = new_mlp(w);
    weft_tensor *x = wt_whole(WEFT_F32, 1, 5, 8);
    int first = 7;
    char *text;

    register_backends();
    WT_ALL(weft_compile_record(chain, c.bias, c.in, 2, 2, path) == WEFT_OK);
    text = TEXT_OF(WT_ALL(weft_compile_replay_print(path, (weft_compile_check){.f64 = true}, out,
                                                    &first) == WEFT_OK));
    WT_EQ(first, -1);
    WT_ALL(wt_text_has(text, "compiled as immediately\n"));
    free(text);
    text =
        TEXT_OF(WT_ALL(weft_compile_replay_print(path, (weft_compile_check){.backend = "spoiled"},
                                                 out, &first) == WEFT_OK));
    WT_EQ(first, 3);
    free(text);
    WT_ALL(weft_compile_record(step, mlp, &x, 1, 1, path) == WEFT_OK);
    text = TEXT_OF(
        WT_ALL(weft_compile_replay_print(path, (weft_compile_check){0}, out, &first) == WEFT_OK));
    WT_EQ(first, -1);
    free(text);
}

enum { BATCH = 2, CONTEXT = 6, VOCAB = 13 };

static weft_status gpt_step(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                            void *state)
{
    (void)n;
    (void)n_out;
    out[0] = weft_gpt_loss(state, in[0], in[1]);
    return out[0] ? weft_backward(out[0]) : weft_error_status();
}

/* Draws, integers, embeddings, a sharded loss; gradients of every parameter. B25 */
WT_TEST_IN_WORLD(record__writes_a_model_with_its_backward, w)
{
    weft_module *gpt = wt_own(weft_gpt((weft_gpt_config){.vocab = VOCAB,
                                                         .context = CONTEXT,
                                                         .width = 24,
                                                         .heads = 6,
                                                         .layers = 2,
                                                         .act = WEFT_GELU_TANH,
                                                         .dropout = 0.2,
                                                         .dtype = WEFT_F32}));
    int64_t values[2][BATCH * CONTEXT], shape[] = {BATCH, CONTEXT};
    weft_compile_check check = {.f64 = true};
    const char *path = path_of("gpt");
    weft_tensor *in[2];
    int first = 7;
    char *text;

    WT_ALL(weft_parallelize_module(gpt, w->mesh, weft_gpt_plan()) == WEFT_OK);
    for (int64_t i = 0; i < 2 * BATCH * CONTEXT; i++) values[i % 2][i / 2] = (i * i + 3) % VOCAB;
    for (int k = 0; k < 2; k++) in[k] = weft_from_data(WEFT_I64, shape, 2, values[k]);
    text = TEXT_OF(
        WT_ALL(weft_compile_compare_print(gpt_step, gpt, in, 2, 1, check, out, &first) == WEFT_OK));
    WT_EQ(first, -1);
    WT_ALL(wt_text_has(text, "compiled as immediately\n") && wt_text_has(text, "within tolerance"));
    free(text);
    WT_ALL(weft_compile_record(gpt_step, gpt, in, 2, 1, path) == WEFT_OK);
    text = TEXT_OF(WT_ALL(weft_compile_replay_print(path, check, out, &first) == WEFT_OK));
    WT_EQ(first, -1);
    WT_ALL(wt_text_has(text, "compiled as immediately\n") && wt_text_has(text, "within tolerance"));
    free(text);
}

/* B24 */
WT_TEST_IN_WORLD(minify__leaves_the_op_that_is_wrong, w)
{
    struct chain_inputs c = chain_inputs(w);
    weft_compile_check check = {.backend = "spoiled"};
    char whole[500], smaller[500];
    int left = 0, first = -1;
    char *text;

    register_backends();
    snprintf(whole, sizeof whole, "%s", path_of("whole"));
    snprintf(smaller, sizeof smaller, "%s", path_of("smaller"));
    WT_ALL(weft_compile_record(chain, c.bias, c.in, 2, 2, whole) == WEFT_OK);
    text = TEXT_OF(WT_ALL(weft_compile_minify_print(whole, smaller, check, out, &left) == WEFT_OK));
    WT_EQ(left, 1);
    WT_ALL(wt_text_has(text, "1 of "));
    WT_ALL(wt_text_has(text, "  node 0 (tanh)\n"));
    free(text);
    text = TEXT_OF(WT_ALL(weft_compile_replay_print(smaller, check, out, &first) == WEFT_OK));
    WT_EQ(first, 0);
    free(text);
    text = TEXT_OF(WT_ALL(
        weft_compile_minify_print(whole, smaller, (weft_compile_check){0}, out, &left) == WEFT_OK));
    WT_EQ(left, 0);
    free(text);
    check.backend = "nothing";
    text = TEXT_OF(WT_ALL(weft_compile_minify_print(whole, smaller, check, out, &left) == WEFT_OK));
    WT_EQ(left, 1);
    WT_ALL(wt_text_has(text, "compiled they fail: "));
    free(text);
}

int main(int argc, char **argv) { return wt_scratch_end(wt_main(argc, argv, "repro")); }
