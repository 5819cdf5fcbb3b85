/* call_in_segments.c: a call that runs the program and follows it, and when one is recorded. */
#include <stdio.h>

#include "base/mem.h"
#include "base/sys.h"
#include "compile/compiled.h"

/* Those that fit the inputs; how they run on is found out as the program goes. Of none, what
 * differs from the first. */
static int find_candidates(weft_compiled *compiled, weft_tensor *const *in, int n_in, int n_out)
{
    const struct wf_segmented *first = compiled->n_segmented ? compiled->segmented[0] : NULL;
    const char *draws = NULL;
    int n = 0;

    for (int i = 0; i < compiled->n_segmented; i++) {
        struct wf_segmented *s = compiled->segmented[i];

        if (!wf_guards_hold(s->guards, s->list, in, n_in, n_out, NULL, 0)) continue;
        draws = wf_step_draws_begin_again(s->list->draws);
        if (!draws) compiled->candidates[n++] = s;
    }
    if (n > 0) return n;
    if (draws)
        snprintf(compiled->reason, sizeof compiled->reason, "%s", draws);
    else
        wf_compiled_explain_miss(compiled, first ? first->guards : NULL, first ? first->list : NULL,
                                 in, n_in, n_out);
    return 0;
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

bool wf_compiled_has_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in, int n_out)
{
    return find_candidates(compiled, in, n_in, n_out) > 0;
}

weft_status wf_compiled_capture_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                         weft_tensor **out, int n_out, int n_candidates)
{
    struct wf_segmented *made;
    double began = wf_monotonic_seconds();
    weft_status status = wf_capture_segments(&compiled->function, in, n_in, out, n_out, &made,
                                             compiled->reason, sizeof compiled->reason);
    size_t n = (size_t)compiled->n_segmented + 1;

    wf_compile_times_add(&compiled->times, WF_COMPILE_RECORD, began);
    if (made && compiled->level == WF_LEVEL_CAPTURE) { /* it is not used */
        compiled->counts.captures++;
        wf_segmented_free(made);
        snprintf(compiled->reason, sizeof compiled->reason, "this call was captured");
        return status;
    }
    if (compiled->to_record > 0) compiled->to_record--;
    if (!made) {
        compiled->failed = MOST_TRIES;
        compiled->counts.immediate++;
        if (status == WEFT_OK && weft_error_status() == WEFT_OK) wf_compiled_log_reason(compiled);
        return status == WEFT_OK ? weft_error_status() : status;
    }
    if (is_known(compiled, made, n_candidates)) {
        wf_segmented_free(made);
        return status;
    }
    compiled->segmented = wf_realloc(compiled->segmented, n * sizeof(struct wf_segmented *));
    compiled->candidates = wf_realloc(compiled->candidates, n * sizeof(struct wf_segmented *));
    compiled->to_record = 0;
    wf_compiled_count_list(compiled, made->steps);
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
    double began = wf_monotonic_seconds();
    weft_status status =
        wf_follow(compiled->candidates, n_candidates, in, call_followed, &arguments, &result);

    wf_compile_times_add(&compiled->times, WF_COMPILE_RUN, began);
    compiled->counts.nodes = result.nodes;
    compiled->counts.memory = result.memory;
    compiled->counts.segments += result.segments;
    compiled->counts.plain += result.plain;
    compiled->counts.replays += result.differed_at < 0;
    compiled->reason[0] = 0;
    if (result.differed_at < 0) return status;
    compiled->to_record = RECORD_AFTER_DIFFERENCE;
    snprintf(compiled->reason, sizeof compiled->reason, "%s", result.reason);
    return status;
}

/* Whether a list fits, each rank finds out by itself. */
static weft_status call_without_list(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                     weft_tensor **out, int n_out)
{
    bool before = wf_others_may_record;
    weft_status status;

    wf_misses_add(&compiled->misses, compiled->reason);
    wf_others_may_record = true;
    status = wf_compiled_call_without_list(compiled, in, n_in, out, n_out);
    wf_others_may_record = before;
    return status;
}

weft_status wf_compiled_call_in_segments(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                         weft_tensor **out, int n_out)
{
    int n = find_candidates(compiled, in, n_in, n_out);
    bool more = wf_compiled_has_room(compiled) && compiled->n_segmented < MOST_LISTS &&
                compiled->failed < MOST_TRIES && !compiled->config.frozen &&
                !compiled->config.frozen_error;

    if (n == 0 && more)
        wf_misses_add(&compiled->misses,
                      compiled->n_segmented ? compiled->reason : "there is no list");
    if ((n == 0 || compiled->to_record > 0) && more)
        return wf_compiled_capture_segments(compiled, in, n_in, out, n_out, n);
    if (n == 0) return call_without_list(compiled, in, n_in, out, n_out);
    return follow(compiled, in, n_in, out, n_out, n);
}
