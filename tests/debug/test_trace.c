/* test_trace.c: traces as text and in Chrome's format, and plans in words. */
/* ranks: 1 2 4 */
/* mpi: 2 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/observers.h"
#include "debug/models.h"
#include "debug/text.h"
#include "debug/trace.h"
#include "device/timeline.h"
#include "support/worlds.h"

/* The line, and below it by so much these lines; NULL ends the list. */
static bool has_lines(const char *text, const char *const *lines)
{
    for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        const char *c = at;
        int i = 0;

        while (lines[i] && strncmp(c, lines[i], strlen(lines[i])) == 0) {
            c += strlen(lines[i++]);
            if (*c == '\n') c++;
        }
        if (!lines[i]) return true;
    }
    wt_note("'%s' ... is not in\n%.800s", lines[0], text);
    return false;
}

static char *printed(const weft_trace *trace)
{
    struct wt_text t;

    wt_text_begin(&t);
    weft_trace_print(trace, t.out);
    return (char *)wt_text_end(&t);
}

WT_TEST_IN_WORLD(trace_text__shows_what_happened_inside_what, w)
{
    weft_module *mlp = wt_split_mlp(w->mesh);
    weft_tensor *x = wt_whole(WEFT_F32, 0, 8, 10);
    char linear[160];
    weft_trace *trace;
    char *text;

    weft_set_requires_grad(x, true);
    trace = weft_trace_open(NULL);
    WT_ALL(weft_backward(weft_sum_all(weft_call(mlp, x))) == WEFT_OK);
    text = printed(trace);
    snprintf(linear, sizeof linear,
             "    linear(f32[8,10] [R], f32[16,10] [S(0)], f32[16] [S(0)]) -> f32[8,16] [S(1)] on "
             "(tp:%d)\n",
             wt_ranks());
    WT_ALL(has_lines(text, (const char *[]){"module MLP\n  module net1 linear", NULL}));
    WT_ALL(strstr(text, linear) != NULL);
    WT_ALL(has_lines(text, (const char *[]){"  module relu activation\n    relu(f32[8,", NULL}));
    WT_EQ(wt_occurrences(text, "      redistribute input 0 explicit: tp: P->R all-reduce"),
          wt_ranks() > 1);
    WT_EQ(wt_occurrences(text, "      all-reduce tp: 320 bytes"), wt_ranks() > 1);
    WT_EQ(wt_occurrences(text, "\nbackward net1: linear_dw("), 1);
    WT_EQ(wt_occurrences(text, "\n  all-reduce tp: 320 bytes"), wt_ranks() > 1); /* backward's */
    free(text);
    WT_ALL(weft_trace_close(trace) == WEFT_OK);
    weft_module_release(mlp);
}

/* What nobody asked for is called implicit. */
WT_TEST_IN_WORLD(trace_text__tells_implicit_from_explicit, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 8), "S(0)");
    weft_trace *trace = weft_trace_open(NULL);
    char *text;

    weft_add(a, wt_spread(w, wt_whole(WEFT_F32, 1, 8, 8), "S(1)"));
    weft_full_tensor(a);
    text = printed(trace);
    wt_note("%s", text);
    WT_EQ(wt_occurrences(text, " implicit: tp: S("), wt_ranks() > 1);
    WT_EQ(wt_occurrences(text, " explicit: tp: S(0)->R all-gather"), wt_ranks() > 1);
    WT_EQ(wt_occurrences(text, "\n  all-to-all tp: "), wt_ranks() > 1);
    free(text);
    weft_trace_close(trace);
}

static weft_trace *hashed(weft_tensor *x, double scale, bool further)
{
    weft_trace *trace = weft_trace_open(NULL);
    weft_tensor *y;

    weft_trace_hash_results(trace);
    y = weft_relu(weft_mul_scalar(weft_neg(x), scale));
    if (further) weft_exp(y);
    weft_trace_stop(trace);
    weft_neg(y); /* is not recorded */
    return trace;
}

/* A last bit is seen, and where it came from. */
WT_TEST_IN_WORLD(trace_compare__finds_where_runs_part, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 9), "S(1)");
    weft_trace *runs[] = {hashed(x, 2, false), hashed(x, 2, false), hashed(x, 2 + 1e-6, false),
                          hashed(x, 2, true), hashed(weft_transpose(x, 0, 1), 2, false)};
    static const int differences[] = {0, 0, 2, 1, 1};
    const char *const said[] = {NULL, NULL, "op 1: mul_scalar(", "op 3: none, against exp(",
                                ", against neg(f32[9,8]"};

    for (int i = 0; i < 5; i++) {
        bool empty = weft_local_numel(x) == 0 && i == 2;
        struct wt_text t;

        wt_text_begin(&t);
        WT_EQ(weft_trace_difference_print(runs[0], runs[i], t.out), empty ? 0 : differences[i]);
        wt_text_end(&t);
        wt_note("%d: %s", i, t.text);
        WT_ALL(!said[i] || empty || strstr(t.text, said[i]));
        free(t.text);
    }
    for (int i = 0; i < 5; i++) weft_trace_close(runs[i]);
}

/* Off means off. */
WT_TEST(trace__leaves_nobody_listening)
{
    unsigned before = wf_observed_events;
    weft_trace *trace = weft_trace_open(NULL);

    WT_ALL(wf_observed_events != before);
    WT_ALL(weft_trace_close(trace) == WEFT_OK);
    WT_ALL(wf_observed_events == before);
    WT_ALL(weft_trace_close(NULL) == WEFT_OK);
}

/* ---- the file ---- */

static char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    struct wt_text t;

    if (!file) return NULL;
    wt_text_begin(&t);
    for (int c = fgetc(file); c != EOF; c = fgetc(file)) fputc(c, t.out);
    fclose(file);
    return (char *)wt_text_end(&t);
}

/* Ranges of one row nest: that is what viewers rely on. */
static bool nests(const weft_trace *trace)
{
    for (int i = 0; i < trace->n_records; i++) {
        const struct wf_trace_record *r = &trace->records[i], *up = trace->records + r->parent;

        if (r->ended < r->began) return false;
        if (r->parent >= 0 && (r->began < up->began || r->ended > up->ended)) return false;
        if (r->parent < 0 && i && trace->records[i - 1].ended > r->ended) return false;
    }
    return true;
}

/* A path that all ranks agree on. */
static void make_path(char *path, size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    double number[1] = {wt_rank() == 0 ? (double)getpid() : 0};
    weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks());
    weft_placement sum = weft_partial(WEFT_SUM);
    weft_tensor *t = weft_from_data(WEFT_F64, (int64_t[]){1}, 1, number);

    snprintf(path, bytes, "%s/weft-trace-%.0f.json", folder ? folder : "/tmp",
             weft_item(weft_full_tensor(weft_from_local(t, mesh, &sum, NULL))));
    weft_mesh_release(mesh);
}

WT_TEST_IN_WORLD(trace_file__is_json_with_a_row_per_rank, w)
{
    weft_module *mlp = wt_split_mlp(w->mesh);
    weft_optim *sgd = weft_sgd(mlp, (weft_sgd_config){.lr = 0.1});
    char path[256], *text = NULL;
    bool gpu = weft_mesh_device(w->mesh) == WEFT_CUDA;
    weft_trace *trace;

    make_path(path, sizeof path);
    trace = weft_trace_open(path);
    WT_ALL(weft_backward(weft_sum_all(weft_call(mlp, wt_whole(WEFT_F32, 0, 8, 10)))) == WEFT_OK);
    WT_ALL(weft_step(sgd) == WEFT_OK);
    WT_ALL(nests(trace));
    WT_ALL(weft_trace_close(trace) == WEFT_OK);
    if (wt_rank() == 0) text = contents(path);
    if (wt_rank() == 0) remove(path);
    WT_ALL(wt_rank() > 0 || (text && wt_is_json(text)));
    if (text) wt_note("%.1500s", text);
    WT_ALL(!text || wt_occurrences(text, "\"thread_name\"") == wt_ranks() * (gpu ? 3 : 1));
    WT_ALL(!text || wt_occurrences(text, "{\"name\":\"rank 0\"}") == 1);
    WT_ALL(!text ||
           wt_occurrences(text, "\"name\":\"net2 linear\",\"cat\":\"module\"") == wt_ranks());
    WT_ALL(!text || wt_occurrences(text, "\"name\":\"backward net1\"") == wt_ranks());
    WT_ALL(!text || wt_occurrences(text, "\"name\":\"linear\",\"cat\":\"op\"") == 2 * wt_ranks());
    WT_ALL(!text || wt_occurrences(text, "\"axis\":\"tp\",\"bytes\":320,") ==
                        (wt_ranks() > 1 ? wt_ranks() : 0));
    free(text);
    weft_optim_release(sgd);
    weft_module_release(mlp);
}

/* What was in flight while something else happened is a pair of events, for ranges must nest. */
WT_TEST_IN_WORLD(trace_events__of_overlapping_collectives_are_pairs, w)
{
    static const weft_redistribute_options later = {.async = true};
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 64, 64), "S(0)"), *moving;
    weft_placement whole = weft_replicate();
    weft_trace *trace = weft_trace_open(NULL), *hashing;
    struct wt_text t;

    moving = weft_redistribute_with(a, &whole, &later);
    weft_relu(a);
    weft_wait(moving);
    weft_redistribute(a, &whole);
    wt_text_begin(&t);
    fputc('[', t.out);
    wf_trace_write_events(trace, t.out);
    fputc(']', t.out);
    wt_text_end(&t);
    wt_note("%s", t.text);
    WT_ALL(wt_is_json(t.text));
    WT_EQ(wt_occurrences(t.text, "\"name\":\"redistribute\",\"cat\":\"op\""), 2);
    WT_EQ(wt_occurrences(t.text, "\"cat\":\"collective\",\"ph\":\"b\""), wt_ranks() > 1);
    WT_EQ(wt_occurrences(t.text, "\"cat\":\"collective\",\"ph\":\"e\""), wt_ranks() > 1);
    WT_EQ(wt_occurrences(t.text, "\"cat\":\"collective\",\"ph\":\"X\""), wt_ranks() > 1);
    free(t.text);
    weft_trace_close(trace);
    hashing = weft_trace_open(NULL); /* waits for results, while it makes their records */
    weft_trace_hash_results(hashing);
    moving = weft_redistribute_with(a, &whole, &later);
    WT_EQ(hashing->n_records, wt_ranks() > 1 ? 2 : 1);
    WT_ALL(hashing->records[hashing->n_records - 1].norm > 0);
    WT_ALL(weft_wait(moving) != NULL);
    weft_trace_close(hashing);
}

/* ---- what a GPU ran ---- */

/* One row each for the kernels of ops and for collectives that the GPU itself carries out, which
 * say how long nothing ran beside them. On CPUs and through host memory there are none. */
WT_TEST_IN_WORLD(trace_events__of_a_gpu_have_rows_for_its_streams, w)
{
    static const weft_redistribute_options later = {.async = true};
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 64, 64), "S(0)"), *moving;
    bool gpu = weft_tensor_device(a) == WEFT_CUDA;
    const char *backend = getenv("WT_BACKEND");
    int by_gpu = gpu && wt_ranks() > 1 && backend && strcmp(backend, "nccl") == 0;
    weft_placement whole = weft_replicate();
    weft_trace *trace = weft_trace_open(NULL);
    struct wt_text t;

    moving = weft_redistribute_with(a, &whole, &later);
    weft_relu(a);
    weft_tanh(weft_wait(moving));
    weft_trace_stop(trace);
    weft_relu(a); /* is not recorded */
    wt_text_begin(&t);
    fputc('[', t.out);
    wf_trace_write_events(trace, t.out);
    fputc(']', t.out);
    wt_text_end(&t);
    wt_note("%s", t.text);
    WT_ALL(wt_is_json(t.text));
    WT_EQ(wt_occurrences(t.text, ", compute stream\""), gpu);
    WT_EQ(wt_occurrences(t.text, ", communication stream\""), gpu);
    WT_EQ(wt_occurrences(t.text, "\"name\":\"relu\",\"cat\":\"gpu\""), gpu);
    WT_EQ(wt_occurrences(t.text, "\"name\":\"tanh\",\"cat\":\"gpu\""), gpu);
    WT_EQ(wt_occurrences(t.text, "\"exposed\":"), by_gpu);
    free(t.text);
    weft_trace_close(trace);
    WT_ALL(wf_timeline_recorders == 0);
}

/* [began, ended) of spans in the order in which they were given. */
WT_TEST(exposed__is_what_no_kernel_runs_beside)
{
    static const struct wf_span spans[] = {
        {.stream = WF_STREAM_COMPUTE, .began = 0, .ended = 2},
        {.stream = WF_STREAM_COMM, .began = 1, .ended = 5},
        {.stream = WF_STREAM_COMPUTE, .began = 3, .ended = 4},
        {.stream = WF_STREAM_COMPUTE, .began = 3.25, .ended = 3.5}, /* within the op before */
        {.stream = WF_STREAM_COMM, .began = 5, .ended = 7},
        {.stream = WF_STREAM_COMPUTE, .began = 6.5, .ended = 9},
        {.stream = WF_STREAM_COMM, .began = 7, .ended = 8},
    };
    static const struct {
        int span;
        double exposed;
    } want[] = {{1, 2}, {4, 1.5}, {6, 0}};

    for (int i = 0; i < 3; i++)
        WT_ALL(wf_span_exposed(&spans[want[i].span], spans, 7) == want[i].exposed);
    WT_ALL(wf_span_exposed(&spans[1], spans, 0) == 4);
}

WT_TEST(trace_file__that_cannot_be_written_fails_on_all_ranks)
{
    weft_trace *trace = weft_trace_open("/tmp/no/such/folder/trace.json");

    WT_FAILS(weft_trace_close(trace), WEFT_ERR_IO, "/tmp/no/such/folder/trace.json");
}

/* ---- plans in words ---- */

WT_TEST_IN_WORLD(explain__names_inputs_moves_and_outputs, w)
{
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 128), "S(0)");
    weft_tensor *b = wt_spread(w, wt_whole(WEFT_F32, 1, 8, 128), "S(1)");
    struct wt_text t;

    weft_set_requires_grad(a, true);
    wt_text_begin(&t);
    WT_ALL(weft_explain_print(weft_relu(weft_add(a, b)), 1, t.out) == WEFT_OK);
    wt_text_end(&t);
    wt_note("%s", t.text);
    WT_ALL(strncmp(t.text, "relu\n  in: f32[8,128] [S(", 25) == 0);
    WT_EQ(wt_occurrences(t.text, "\n    add\n      in: f32[8,128] [S(0)] on (tp:"), 1);
    WT_EQ(wt_occurrences(t.text, "all-to-all"), wt_ranks() > 1);
    WT_EQ(wt_occurrences(t.text, " bytes sent, "), wt_ranks() > 1);
    free(t.text);
    WT_FAILS(weft_explain_print(b, 0, stdout), WEFT_ERR_STATE, "no recorded op");
}

/* What is no op's node is named, whatever else it keeps. */
WT_TEST_IN_WORLD(explain__names_nodes_that_have_no_plan, w)
{
    static const weft_redistribute_options half = {.forward = WEFT_AS(WEFT_BF16)};
    weft_tensor *a = wt_spread(w, wt_whole(WEFT_F32, 0, 8, 16), "S(0)");
    weft_placement whole = weft_replicate();
    struct wt_text t;

    weft_set_requires_grad(a, true);
    wt_text_begin(&t);
    WT_ALL(weft_explain_print(weft_redistribute_with(a, &whole, &half), 3, t.out) == WEFT_OK);
    WT_ALL(strcmp(wt_text_end(&t), "redistribute\n") == 0);
    free(t.text);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "trace"); }
