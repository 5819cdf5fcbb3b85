/* compiled.c: the public functions: which list a call runs, and what happens when none fits. */
#include <weft/compile.h>

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "compile/list/print_list.h"
#include "compile/record/capture.h"
#include "compile/replay/follow.h"
#include "nn/module.h"
#include "tensor/tensor.h"

enum { MOST_VARIANTS = 8, MOST_TRIES = 2, MOST_LISTS = 64, RECORD_AFTER_DIFFERENCE = 4 };

struct weft_compiled {
    struct wf_captured_function function;
    weft_compile_config config;
    char *name, *passes_off;
    struct wf_variant **variants; /* one reference each; the one that fitted last is the first */
    int n_variants;
    struct wf_segmented **segmented; /* without fullgraph: calls in segments, all of them */
    int n_segmented;
    struct wf_segmented **candidates; /* room for those whose guards hold */
    int to_record; /* a call went another way: so many more are recorded, or until one is new */
    int failed;    /* captures that gave no list */
    bool warned;
    weft_compiled_counts counts;
    char reason[WF_REASON_BYTES]; /* empty: the last call was a replay */
};

weft_compiled *weft_compile(weft_compiled_function *function, void *state,
                            weft_compile_config config)
{
    weft_compiled *compiled;

    WF_NEED_PTR(function, WEFT_ERR_ARG, "compile: no function");
    compiled = WF_NEW(weft_compiled);
    compiled->name = wf_strdup(config.name ? config.name : "function");
    compiled->passes_off = config.passes_off ? wf_strdup(config.passes_off) : NULL;
    compiled->config = config;
    if (compiled->config.most_variants <= 0) compiled->config.most_variants = MOST_VARIANTS;
    compiled->function =
        (struct wf_captured_function){function, state, compiled->name, compiled->passes_off, NULL};
    return compiled;
}

/* ---- modules ---- */

static weft_status run_module(weft_tensor *const *in, int n_in, weft_tensor **out, int n_out,
                              void *module)
{
    (void)n_out;
    return wf_module_run_call(module, in, n_in, out);
}

static weft_status call_compiled_module(weft_module *m, weft_tensor *const *in, int n,
                                        weft_tensor **outputs, void *compiled)
{
    return weft_compiled_call(compiled, in, n, outputs, wf_module_output_count(m));
}

static void release_compiled(void *compiled) { weft_compiled_release(compiled); }

static weft_status compile_one_module(weft_module *m, weft_compile_config config)
{
    weft_compiled *compiled;

    for (int i = 0; i < m->n_hooks; i++)
        WF_NEED(!m->hooks[i].instead, WEFT_ERR_STATE, "compile: module '%s' is compiled already",
                m->path);
    if (!config.name) config.name = m->path[0] ? m->path : m->kind->type;
    compiled = weft_compile(run_module, m, config);
    if (!compiled) return weft_error_status();
    compiled->function.module = m;
    return wf_module_add_hook(m, (struct wf_hook){.instead = call_compiled_module,
                                                  .payload = compiled,
                                                  .release = release_compiled});
}

weft_status weft_compile_module(weft_module *m, const char *paths, weft_compile_config config)
{
    weft_module **modules;
    weft_status status = WEFT_OK;
    int n, compiled = 0;

    WF_NEED_GIVEN(m, "compile: no module");
    if (!paths) return compile_one_module(m, config);
    modules = wf_module_list_tree(m, &n);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (fnmatch(paths, modules[i]->path, 0) != 0) continue;
        status = compile_one_module(modules[i], config);
        compiled++;
    }
    wf_free(modules);
    WF_NEED(status != WEFT_OK || compiled, WEFT_ERR_NOT_FOUND,
            "compile: no module of '%s' has a path like '%s'", m->path, paths);
    return status;
}

const weft_compiled *weft_module_compiled(const weft_module *m)
{
    for (int i = 0; i < WF_HANDLE(m)->n_hooks; i++)
        if (m->hooks[i].instead == call_compiled_module) return m->hooks[i].payload;
    return NULL;
}

void weft_compiled_release(weft_compiled *compiled)
{
    if (!compiled) return;
    for (int i = 0; i < compiled->n_variants; i++) wf_variant_release(compiled->variants[i]);
    for (int i = 0; i < compiled->n_segmented; i++) wf_segmented_free(compiled->segmented[i]);
    wf_free(compiled->variants);
    wf_free(compiled->segmented);
    wf_free(compiled->candidates);
    wf_free(compiled->name);
    wf_free(compiled->passes_off);
    wf_free(compiled);
}

weft_compiled_counts weft_compiled_get_counts(const weft_compiled *compiled)
{
    weft_compiled_counts counts = WF_HANDLE(compiled)->counts;

    for (int i = 0; i < compiled->n_variants; i++)
        counts.backward_replays += compiled->variants[i]->backward_replays;
    return counts;
}

const char *weft_compiled_reason(const weft_compiled *compiled)
{
    return WF_HANDLE(compiled)->reason[0] ? compiled->reason : NULL;
}

void weft_compiled_print(const weft_compiled *compiled, bool lowered, FILE *out)
{
    for (int i = 0; i < WF_HANDLE(compiled)->n_variants; i++) {
        const struct wf_variant *v = compiled->variants[i];

        if (!v->forward_program) continue;
        fprintf(out, "%s, forward\n", compiled->name);
        wf_op_list_print(lowered ? v->forward : v->forward_moves, out);
        if (!v->backward_program) continue;
        fprintf(out, "%s, backward\n", compiled->name);
        wf_op_list_print(lowered ? v->backward : v->backward_moves, out);
    }
}

void weft_graph_break(const char *reason)
{
    wf_recorder_leave("%s", reason ? reason : "weft_graph_break");
}

static _Thread_local int disabled_regions;

void weft_compile_disable_open(void)
{
    disabled_regions++;
    if (!wf_recorder) return;
    wf_recorder_leave("a region that is not compiled");
    wf_recorder->suspended++;
}

weft_status weft_compile_disable_close(void)
{
    WF_NEED(disabled_regions > 0, WEFT_ERR_STATE, "compile_disable_close: no region is open");
    disabled_regions--;
    if (!wf_recorder || wf_recorder->suspended == 0) return WEFT_OK;
    wf_recorder->suspended--;
    wf_recorder_leave("the end of a region that is not compiled");
    return WEFT_OK;
}

/* ---- which list ---- */

static bool is_ready(const struct wf_variant *variant)
{
    return variant->forward_program && !variant->unusable;
}

/* The variant that fits, at the front of the list; NULL: none, and `reason` says what differs. */
static struct wf_variant *find_variant(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                       int n_out)
{
    for (int i = 0; i < compiled->n_variants; i++) {
        struct wf_variant *variant = compiled->variants[i];

        if (!wf_guards_hold(variant->guards, variant->forward, in, n_in, n_out,
                            i == 0 ? compiled->reason : NULL, sizeof compiled->reason))
            continue;
        memmove(&compiled->variants[1], &compiled->variants[0], (size_t)i * sizeof variant);
        compiled->variants[0] = variant;
        return variant;
    }
    return NULL;
}

/* ---- a call without a list ---- */

static weft_status call_function(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                 weft_tensor **out, int n_out)
{
    compiled->counts.immediate++;
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    return compiled->function.function(in, n_in, out, n_out, compiled->function.state);
}

static void log_reason(weft_compiled *compiled)
{
    if (compiled->warned || wf_log_rank() > 0) return;
    compiled->warned = true;
    WF_LOG(WF_LOG_WARN, "compile", "%s runs as it is: %s", compiled->name, compiled->reason);
}

/* No list fits and none is made. */
static weft_status call_without_list(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                     weft_tensor **out, int n_out)
{
    WF_NEED(!compiled->config.frozen_error, WEFT_ERR_STATE,
            "compiled %s: no list fits, and none may be made: %s", compiled->name,
            compiled->reason);
    log_reason(compiled);
    return call_function(compiled, in, n_in, out, n_out);
}

/* The limit is on captures; sizes that change are planned beyond it. */
static bool has_room(const weft_compiled *compiled)
{
    return compiled->counts.captures < compiled->config.most_variants ||
           compiled->counts.plans > 0 || compiled->config.dynamic;
}

static bool may_capture(const weft_compiled *compiled)
{
    return !compiled->config.frozen && !compiled->config.frozen_error &&
           compiled->failed < MOST_TRIES && has_room(compiled);
}

/* Lists of the same steps that there are already: from the second on, or with `dynamic`, another is
 * one more plan of them. */
static bool is_another_size(const weft_compiled *compiled, uint64_t steps)
{
    int same = 0;

    for (int i = 0; i < compiled->n_variants; i++) same += compiled->variants[i]->steps == steps;
    for (int i = 0; i < compiled->n_segmented; i++) same += compiled->segmented[i]->steps == steps;
    return same >= (compiled->config.dynamic ? 1 : 2);
}

static void count_list(weft_compiled *compiled, uint64_t steps)
{
    if (is_another_size(compiled, steps))
        compiled->counts.plans++;
    else
        compiled->counts.captures++;
}

static void add_variant(weft_compiled *compiled, struct wf_variant *variant)
{
    count_list(compiled, variant->steps);
    if (compiled->n_variants == MOST_LISTS) /* the one that was used longest ago */
        wf_variant_release(compiled->variants[--compiled->n_variants]);
    compiled->variants =
        wf_array_grow(compiled->variants, compiled->n_variants, sizeof(struct wf_variant *));
    memmove(&compiled->variants[1], &compiled->variants[0],
            (size_t)compiled->n_variants * sizeof variant);
    compiled->variants[0] = variant;
    compiled->n_variants++;
}

static weft_status capture(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                           weft_tensor **out, int n_out)
{
    struct wf_capture_result result;
    weft_status status = wf_capture_function(&compiled->function, in, n_in, out, n_out, &result);

    if (result.variant && !result.reason[0])
        add_variant(compiled, result.variant);
    else
        wf_variant_release(result.variant);
    if (status != WEFT_OK) return status;
    if (!result.reason[0]) {
        snprintf(compiled->reason, sizeof compiled->reason, "this call was captured");
        return WEFT_OK;
    }
    compiled->failed += result.may_succeed_later ? 1 : MOST_TRIES;
    snprintf(compiled->reason, sizeof compiled->reason, "%s", result.reason);
    if (compiled->config.fullgraph && compiled->failed >= MOST_TRIES) {
        for (int i = 0; i < n_out; i++) out[i] = NULL;
        return WF_FAIL(WEFT_ERR_STATE, "compiled %s: it cannot be one list: %s", compiled->name,
                       result.reason);
    }
    compiled->counts.immediate++;
    log_reason(compiled);
    return WEFT_OK;
}

static weft_status replay(weft_compiled *compiled, struct wf_variant *variant,
                          weft_tensor *const *in, weft_tensor **out)
{
    compiled->reason[0] = 0;
    compiled->counts.replays++;
    compiled->counts.nodes = wf_program_call_count(variant->forward_program);
    compiled->counts.memory = wf_program_memory(variant->forward_program);
    return wf_variant_replay(variant, in, out);
}

/* ---- in segments ---- */

/* Those that fit the inputs; how they run on is found out as the program goes. */
static int find_candidates(weft_compiled *compiled, weft_tensor *const *in, int n_in, int n_out)
{
    int n = 0;

    for (int i = 0; i < compiled->n_segmented; i++) {
        struct wf_segmented *s = compiled->segmented[i];

        if (!wf_guards_hold(s->guards, s->list, in, n_in, n_out, i == 0 ? compiled->reason : NULL,
                            sizeof compiled->reason) ||
            wf_step_draws_begin_again(s->list->draws))
            continue;
        compiled->candidates[n++] = s;
    }
    return n;
}

static bool is_known(const weft_compiled *compiled, const struct wf_segmented *made, int n)
{
    for (int i = 0; i < n; i++) {
        const struct wf_op_list *list = compiled->candidates[i]->list;

        if (list->n_nodes != made->list->n_nodes) continue;
        if (wf_op_lists_equal_to(list, made->list, list->n_nodes)) return true;
    }
    return false;
}

static weft_status capture_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                    weft_tensor **out, int n_out, int n_candidates)
{
    struct wf_segmented *made;
    weft_status status = wf_capture_segments(&compiled->function, in, n_in, out, n_out, &made,
                                             compiled->reason, sizeof compiled->reason);
    size_t n = (size_t)compiled->n_segmented + 1;

    if (compiled->to_record > 0) compiled->to_record--;
    if (!made) {
        compiled->failed = MOST_TRIES;
        compiled->counts.immediate++;
        if (status == WEFT_OK) log_reason(compiled);
        return status;
    }
    if (is_known(compiled, made, n_candidates)) {
        wf_segmented_free(made);
        return status;
    }
    compiled->segmented = wf_realloc(compiled->segmented, n * sizeof(struct wf_segmented *));
    compiled->candidates = wf_realloc(compiled->candidates, n * sizeof(struct wf_segmented *));
    compiled->to_record = 0;
    count_list(compiled, made->steps);
    compiled->segmented[compiled->n_segmented++] = made;
    snprintf(compiled->reason, sizeof compiled->reason, "this call was captured");
    return status;
}

struct call_arguments {
    const struct wf_captured_function *function;
    weft_tensor *const *in;
    weft_tensor **out;
    int n_in, n_out;
};

static weft_status call_followed(void *payload)
{
    const struct call_arguments *a = payload;

    return wf_call_in_scope(a->function, a->in, a->n_in, a->out, a->n_out);
}

static weft_status follow(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                          weft_tensor **out, int n_out, int n_candidates)
{
    struct call_arguments arguments = {&compiled->function, in, out, n_in, n_out};
    struct wf_follow_result result;
    weft_status status =
        wf_follow(compiled->candidates, n_candidates, in, call_followed, &arguments, &result);

    compiled->counts.segments += result.segments;
    compiled->counts.plain += result.plain;
    compiled->counts.replays += result.differed_at < 0;
    if (result.differed_at >= 0) compiled->to_record = RECORD_AFTER_DIFFERENCE;
    snprintf(compiled->reason, sizeof compiled->reason, "%s", result.reason);
    return status;
}

static weft_status call_in_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                    weft_tensor **out, int n_out)
{
    int n = find_candidates(compiled, in, n_in, n_out);
    bool more = has_room(compiled) && compiled->n_segmented < MOST_LISTS &&
                compiled->failed < MOST_TRIES && !compiled->config.frozen &&
                !compiled->config.frozen_error;

    if ((n == 0 || compiled->to_record > 0) && more)
        return capture_segments(compiled, in, n_in, out, n_out, n);
    if (n == 0) return call_without_list(compiled, in, n_in, out, n_out);
    return follow(compiled, in, n_in, out, n_out, n);
}

weft_status weft_compiled_call(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                               weft_tensor **out, int n_out)
{
    struct wf_variant *variant;
    const char *why;

    WF_NEED_GIVEN(compiled, "compiled call: no compiled function");
    WF_NEED(n_in >= 0 && n_in <= WF_COMPILED_INPUTS && (in || !n_in) && n_out >= 0 &&
                (out || !n_out),
            WEFT_ERR_ARG, "compiled call: %d inputs, %d results, or no list of them; at most %d",
            n_in, n_out, WF_COMPILED_INPUTS);
    for (int i = 0; i < n_in; i++) WF_TRY(wf_tensor_check_alive(in[i], "compiled call"));
    compiled->counts.calls++;
    snprintf(compiled->reason, sizeof compiled->reason, "no list has been made");
    if (wf_recorder || disabled_regions) /* part of the list that is recorded, or of none */
        return call_function(compiled, in, n_in, out, n_out);
    if (!compiled->config.fullgraph) return call_in_segments(compiled, in, n_in, out, n_out);
    variant = find_variant(compiled, in, n_in, n_out);
    if (variant && is_ready(variant)) {
        why = wf_step_draws_begin_again(variant->forward->draws);
        if (!why) return replay(compiled, variant, in, out);
        snprintf(compiled->reason, sizeof compiled->reason, "%s", why);
        return call_without_list(compiled, in, n_in, out, n_out);
    }
    if (variant) {
        snprintf(compiled->reason, sizeof compiled->reason, "%s",
                 variant->unusable ? variant->unusable : "its first backward has not come yet");
        return call_function(compiled, in, n_in, out, n_out);
    }
    if (!may_capture(compiled)) return call_without_list(compiled, in, n_in, out, n_out);
    return capture(compiled, in, n_in, out, n_out);
}
