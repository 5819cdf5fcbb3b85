/* forecast_list.c: the list of a function whose tensors have no elements, and what it would take.
 */
#include <weft/compile.h>

#include "base/error.h"
#include "base/mem.h"
#include "compile/list/lower.h"
#include "compile/passes/passes.h"
#include "compile/record/guards.h"
#include "compile/replay/memory_plan.h"
#include "compile/tools/compile_level.h"
#include "tensor/tensor.h"

/* What something still holds at the function's end: results, gradients, what backward will read. */
static void keep_what_is_alive(struct wf_list_recorder *r)
{
    for (int i = 0; i < r->blocks.room; i++) {
        const struct wf_known_block *known = &r->blocks.slots[i];

        if (known->block && known->storage >= 0 &&
            r->list->storages[known->storage].kind == WF_STORAGE_MADE)
            r->list->storages[known->storage].kept = true;
    }
}

static void add_storages(weft_compile_forecast *f, const struct wf_op_list *list)
{
    struct wf_memory_plan *plan = wf_memory_plan_without_memory(list);

    f->planned = wf_memory_plan_bytes(plan);
    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];
        int first, last;

        if (storage->kept) f->kept += storage->bytes;
        wf_memory_plan_lifetime(plan, s, &first, &last);
        if (storage->kind != WF_STORAGE_MADE && first >= 0) f->outside += storage->bytes;
    }
    wf_memory_plan_free(plan);
}

static void forecast_list(weft_compile_forecast *f, struct wf_op_list *list, const char *off)
{
    wf_passes_run(list, off);
    wf_op_list_lower(list);
    wf_passes_run(list, off);
    for (int i = 0; i < list->n_nodes; i++) {
        f->nodes += list->nodes[i].kind != WF_LIST_VIEW;
        f->collectives += list->nodes[i].kind == WF_LIST_START;
    }
    add_storages(f, list);
}

static weft_status check_inputs(weft_tensor *const *in, int n_in)
{
    for (int i = 0; i < n_in; i++) {
        WF_TRY(wf_tensor_check_alive(in[i], "compile forecast"));
        WF_NEED(!in[i] || wf_is_meta(in[i]), WEFT_ERR_STATE,
                "compile forecast: input %d has elements; make it on WEFT_META", i);
    }
    return WEFT_OK;
}

/* The call, and what is alive when only its results and the tape are left. */
static weft_status call_recorded(struct wf_list_recorder *r, weft_compiled_function *function,
                                 void *state, weft_tensor *const *in, int n_in, int n_out)
{
    weft_tensor **out = wf_calloc((size_t)n_out + 1, sizeof(weft_tensor *));
    weft_scope *scope = weft_scope_open(), *inner = weft_scope_open();
    weft_status status = function(in, n_in, out, n_out, state);

    (void)weft_scope_return_n(inner, out, n_out);
    keep_what_is_alive(r);
    wf_recording_end(r);
    weft_scope_close(scope);
    wf_free(out);
    return status;
}

weft_status weft_compile_forecast_list(weft_compile_forecast *forecast,
                                       weft_compiled_function *function, void *state,
                                       weft_tensor *const *in, int n_in, int results,
                                       const char *passes_off)
{
    struct wf_list_recorder r;
    weft_status status;

    WF_NEED(forecast && function && n_in >= 0 && n_in <= WF_COMPILED_INPUTS && (in || !n_in) &&
                results >= 0 && results <= WF_COMPILED_INPUTS,
            WEFT_ERR_ARG,
            "compile forecast: no function, nothing to write to, or %d inputs without a list",
            n_in);
    WF_NEED(!wf_recorder, WEFT_ERR_STATE, "compile forecast: within a compiled function");
    WF_TRY(check_inputs(in, n_in));
    *forecast = (weft_compile_forecast){0};
    wf_recording_begin(&r);
    r.base.hears_meta = true;
    for (int i = 0; i < n_in; i++)
        if (in[i]) wf_recording_add_input(&r, in[i], i);
    status = call_recorded(&r, function, state, in, n_in, results);
    forecast->breaks = r.n_breaks;
    if (status == WEFT_OK) {
        char *off = wf_compile_switched_off(WF_LEVEL_FULL, false, false, passes_off);

        forecast_list(forecast, r.list, off);
        wf_free(off);
    }
    wf_recording_free(&r);
    return status;
}
