/* compiled.c: the public functions: which list a call runs, and what happens when none fits. */
#include <weft/compile.h>

#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "compile/compiled.h"
#include "compile/list/print_list.h"
#include "compile/tools/backend.h"
#include "device/capture.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

weft_compiled *weft_compile(weft_compiled_function *function, void *state,
                            weft_compile_config config)
{
    weft_compiled *compiled;
    weft_compile_backend *backend;
    enum wf_compile_level level;
    bool plain;

    WF_NEED_PTR(function, WEFT_ERR_ARG, "compile: no function");
    WF_TRY_PTR(wf_compile_level_read(&level));
    WF_NEED_PTR(wf_backend_find(config.backend, &backend, &plain), WEFT_ERR_ARG,
                "compile: there is no backend %s", config.backend);
    compiled = WF_NEW(weft_compiled);
    compiled->name = wf_strdup(config.name ? config.name : "function");
    compiled->passes_off =
        wf_compile_switched_off(level, plain, backend != NULL, config.passes_off);
    compiled->level = level;
    compiled->patience = CALLS_BEFORE_BACKWARD;
    compiled->config = config;
    if (compiled->config.most_variants <= 0) compiled->config.most_variants = MOST_VARIANTS;
    compiled->function =
        (struct wf_captured_function){.function = function,
                                      .state = state,
                                      .name = compiled->name,
                                      .passes_off = compiled->passes_off,
                                      .backend = backend,
                                      .graph = config.graph || level == WF_LEVEL_GRAPH};
    return compiled;
}

void weft_compiled_release(weft_compiled *compiled)
{
    if (!compiled) return;
    for (int i = 0; i < compiled->n_variants; i++) wf_variant_release(compiled->variants[i]);
    for (int i = 0; i < compiled->n_segmented; i++) wf_segmented_free(compiled->segmented[i]);
    wf_free(compiled->misses.of);
    wf_free(compiled->variants);
    wf_free(compiled->segmented);
    wf_free(compiled->candidates);
    wf_free(compiled->fitting_of_ranks);
    wf_free(compiled->name);
    wf_free(compiled->passes_off);
    wf_free(compiled);
}

static void add_counts(weft_compiled_counts *counts, const struct wf_variant *variant)
{
    counts->backward_replays += variant->backward_replays;
    if (variant->forward_program)
        counts->launches += wf_program_launch_count(variant->forward_program);
    if (variant->backward_program)
        counts->launches += wf_program_launch_count(variant->backward_program);
}

weft_compiled_counts weft_compiled_get_counts(const weft_compiled *compiled)
{
    weft_compiled_counts counts = WF_HANDLE(compiled)->counts;

    for (int i = 0; i < compiled->n_variants; i++) add_counts(&counts, compiled->variants[i]);
    for (int i = 0; i < compiled->n_segmented; i++)
        for (int k = 0; k < compiled->segmented[i]->n_segments; k++)
            counts.launches += wf_program_launch_count(compiled->segmented[i]->segments[k].program);
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
    for (int i = 0; i < compiled->n_segmented; i++) {
        const struct wf_segmented *s = compiled->segmented[i];

        for (int k = 0; k < s->n_segments; k++) {
            fprintf(out, "%s, segment %d\n", compiled->name, k);
            wf_op_list_print(lowered ? s->segments[k].list : s->segments[k].moves, out);
        }
    }
}

/* ---- which list ---- */

void wf_compiled_release_first_variant(weft_compiled *compiled)
{
    wf_variant_release(compiled->variants[0]);
    compiled->n_variants--;
    compiled->dropped++;
    memmove(&compiled->variants[0], &compiled->variants[1],
            (size_t)compiled->n_variants * sizeof compiled->variants[0]);
}

void wf_compiled_explain_miss(weft_compiled *compiled, const struct wf_guards *guards,
                              const struct wf_op_list *list, weft_tensor *const *in, int n_in,
                              int n_out)
{
    if (guards)
        (void)wf_guards_hold(guards, list, in, n_in, n_out, compiled->reason,
                             sizeof compiled->reason);
    else if (!compiled->failed)
        snprintf(compiled->reason, sizeof compiled->reason, "no list has been made");
}

/* ---- a call without a list ---- */

weft_status wf_compiled_call_function(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                      weft_tensor **out, int n_out)
{
    compiled->counts.immediate++;
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    return compiled->function.function(in, n_in, out, n_out, compiled->function.state);
}

void wf_compiled_log_reason(weft_compiled *compiled)
{
    if (compiled->warned || wf_log_rank() > 0) return;
    compiled->warned = true;
    WF_LOG(WF_LOG_WARN, "compile", "%s runs as it is: %s", compiled->name, compiled->reason);
}

/* No list fits and none is made. */
weft_status wf_compiled_call_without_list(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                          weft_tensor **out, int n_out)
{
    WF_NEED(!compiled->config.frozen_error, WEFT_ERR_STATE,
            "compiled %s: no list fits, and none may be made: %s", compiled->name,
            compiled->reason);
    wf_compiled_log_reason(compiled);
    return wf_compiled_call_function(compiled, in, n_in, out, n_out);
}

/* The limit is on captures; sizes that change are planned beyond it. */
bool wf_compiled_has_room(const weft_compiled *compiled)
{
    return compiled->level == WF_LEVEL_CAPTURE || /* which keeps none */
           compiled->counts.captures - compiled->dropped < compiled->config.most_variants ||
           compiled->counts.plans > 0 || compiled->config.dynamic;
}

bool wf_compiled_may_warm_up(const weft_compiled *compiled)
{
    return compiled->failed < MOST_TRIES && wf_compiled_has_room(compiled);
}

static bool is_frozen(const weft_compiled *compiled)
{
    return compiled->config.frozen || compiled->config.frozen_error;
}

bool wf_compiled_may_capture(const weft_compiled *compiled)
{
    return !is_frozen(compiled) && wf_compiled_may_warm_up(compiled);
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

static void count_capture(weft_compiled *compiled, bool another_size)
{
    if (another_size)
        compiled->counts.plans++;
    else
        compiled->counts.captures++;
}

void wf_compiled_count_list(weft_compiled *compiled, uint64_t steps)
{
    count_capture(compiled, is_another_size(compiled, steps));
}

/* A shard that one rank copies another may not: the steps of ranks differ, what they count may not.
 */
static bool is_another_size_on_all_ranks(const weft_compiled *compiled,
                                         const struct wf_variant *variant)
{
    struct wf_comm *comm = wf_mesh_all_axes_comm(variant->mesh);
    bool here = is_another_size(compiled, variant->steps);

    return comm && wf_comm_size(comm) > 1 ? wf_comm_least(comm, here) : here;
}

static void add_variant(weft_compiled *compiled, struct wf_variant *variant)
{
    count_capture(compiled, is_another_size_on_all_ranks(compiled, variant));
    if (compiled->n_variants == MOST_LISTS) /* the one that was used longest ago */
        wf_variant_release(compiled->variants[--compiled->n_variants]);
    compiled->variants =
        wf_array_grow(compiled->variants, compiled->n_variants, sizeof(struct wf_variant *));
    memmove(&compiled->variants[1], &compiled->variants[0],
            (size_t)compiled->n_variants * sizeof variant);
    compiled->variants[0] = variant;
    compiled->n_variants++;
}

weft_status wf_compiled_capture(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                weft_tensor **out, int n_out)
{
    struct wf_capture_result result;
    double began = wf_monotonic_seconds();
    weft_status status = wf_capture_function(&compiled->function, in, n_in, out, n_out, &result);

    wf_compile_times_add(&compiled->times, WF_COMPILE_RECORD, began);
    if (result.variant && !result.reason[0] && compiled->level != WF_LEVEL_CAPTURE) {
        add_variant(compiled, result.variant);
    } else {
        compiled->counts.captures += result.variant && !result.reason[0];
        wf_variant_release(result.variant);
    }
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
    wf_compiled_log_reason(compiled);
    return WEFT_OK;
}

static weft_status replay(weft_compiled *compiled, struct wf_variant *variant,
                          weft_tensor *const *in, weft_tensor **out)
{
    compiled->reason[0] = 0;
    compiled->counts.replays++;
    compiled->counts.nodes = wf_program_call_count(variant->forward_program);
    compiled->counts.memory = wf_program_memory(variant->forward_program);
    compiled->counts.saved = variant->saved.bytes;
    compiled->counts.saved_without = variant->saved.without;
    return wf_variant_replay(variant, in, out);
}

weft_status wf_compiled_check_inputs(const weft_compiled *compiled, weft_tensor *const *in,
                                     int n_in, int n_out)
{
    WF_NEED_GIVEN(compiled, "compiled call: no compiled function");
    WF_NEED(n_in >= 0 && n_in <= WF_COMPILED_INPUTS && (in || !n_in) && n_out >= 0 &&
                n_out <= WF_COMPILED_INPUTS,
            WEFT_ERR_ARG, "compiled call: %d inputs or no list of them, %d results; at most %d",
            n_in, n_out, WF_COMPILED_INPUTS);
    for (int i = 0; i < n_in; i++) WF_TRY(wf_tensor_check_alive(in[i], "compiled call"));
    return WEFT_OK;
}

/* Else the list is recorded anew, for which there is room when it has gone. */
static bool waits_for_backward(const weft_compiled *compiled, struct wf_variant *variant)
{
    return ++variant->calls_without_backward < compiled->patience || is_frozen(compiled) ||
           compiled->failed >= MOST_TRIES;
}

static weft_status call_compiled(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                 weft_tensor **out, int n_out)
{
    struct wf_variant *variant;
    const char *why;

    WF_TRY(wf_compiled_check_inputs(compiled, in, n_in, n_out));
    WF_NEED(out || n_out == 0, WEFT_ERR_ARG, "compiled call: no room for %d results", n_out);
    WF_NEED(!n_in || !n_out || in != out, WEFT_ERR_ARG,
            "compiled call: results are asked for where the inputs stand");
    compiled->counts.calls++;
    if (wf_recorder || wf_others_may_record || wf_compile_disabled_regions ||
        wf_capture_is_open()) {
        snprintf(compiled->reason, sizeof compiled->reason,
                 "it is part of what is recorded, or of what is not compiled");
        return wf_compiled_call_function(compiled, in, n_in, out, n_out);
    }
    if (compiled->level == WF_LEVEL_EAGER) {
        snprintf(compiled->reason, sizeof compiled->reason, "WEFT_COMPILE=eager");
        return wf_compiled_call_function(compiled, in, n_in, out, n_out);
    }
    if (!compiled->config.fullgraph)
        return wf_compiled_call_in_segments(compiled, in, n_in, out, n_out);
    variant = wf_compiled_find_variant(compiled, in, n_in, n_out);
    if (variant && wf_variant_is_ready(variant)) {
        why = wf_step_draws_begin_again(variant->forward->draws);
        if (!why) return replay(compiled, variant, in, out);
        snprintf(compiled->reason, sizeof compiled->reason, "%s", why);
        return wf_compiled_call_without_list(compiled, in, n_in, out, n_out);
    }
    if (variant && variant->unusable) {
        snprintf(compiled->reason, sizeof compiled->reason, "%s", variant->unusable);
        return wf_compiled_call_without_list(compiled, in, n_in, out, n_out);
    }
    if (variant && waits_for_backward(compiled, variant)) {
        snprintf(compiled->reason, sizeof compiled->reason, "its first backward has not come yet");
        return (is_frozen(compiled) ? wf_compiled_call_without_list
                                    : wf_compiled_call_function)(compiled, in, n_in, out, n_out);
    }
    if (variant) {
        snprintf(compiled->reason, sizeof compiled->reason, "no backward came after its capture");
        wf_compiled_release_first_variant(compiled);
        compiled->patience *= 2;
    }
    wf_misses_add(&compiled->misses, compiled->n_variants ? compiled->reason : "there is no list");
    if (!wf_compiled_may_capture(compiled))
        return wf_compiled_call_without_list(compiled, in, n_in, out, n_out);
    return wf_compiled_capture(compiled, in, n_in, out, n_out);
}

weft_status weft_compiled_call(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                               weft_tensor **out, int n_out)
{
    int disabled = wf_compile_disabled_regions;
    weft_status status = call_compiled(compiled, in, n_in, out, n_out);

    if (status != WEFT_OK) wf_compile_disabled_regions = disabled; /* a region that was left open */
    return status;
}
