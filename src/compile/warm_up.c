/* warm_up.c: lists that are made before they are needed. */
#include "base/error.h"
#include "base/mem.h"
#include "compile/compiled.h"
#include "compile/record/undo.h"
#include "compile/replay/taped_call.h"

/* One whose first backward has not come is recorded anew, with one. */
static bool has_list(weft_compiled *compiled, weft_tensor *const *in, int n_in, int n_out)
{
    const struct wf_variant *variant;

    if (!compiled->config.fullgraph) return wf_compiled_has_segments(compiled, in, n_in, n_out);
    variant = wf_compiled_find_variant(compiled, in, n_in, n_out);
    if (!variant) return false;
    if (wf_variant_is_ready(variant) || variant->unusable) return true;
    if (compiled->failed < MOST_TRIES) wf_compiled_release_first_variant(compiled);
    return false;
}

static weft_status call_and_undo(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                 int n_out)
{
    weft_tensor **out = wf_calloc((size_t)n_out + 1, sizeof(weft_tensor *));
    weft_scope *scope = weft_scope_open();
    struct wf_undo undo;
    weft_status status;

    wf_undo_begin(&undo);
    compiled->function.undo = &undo;
    if (compiled->config.fullgraph) {
        status = wf_compiled_capture(compiled, in, n_in, out, n_out);
        if (status == WEFT_OK) status = wf_taped_call_warm_up(out, n_out);
    } else {
        status = wf_compiled_capture_segments(compiled, in, n_in, out, n_out, 0);
    }
    compiled->function.undo = NULL;
    weft_scope_close(scope);
    wf_undo_end(&undo);
    wf_free(out);
    return status;
}

static weft_status check_list_runs(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                   int n_out)
{
    const struct wf_variant *variant;

    if (!compiled->config.fullgraph) return WEFT_OK;
    variant = wf_compiled_find_variant(compiled, in, n_in, n_out);
    WF_NEED(!variant || !variant->unusable, WEFT_ERR_STATE,
            "compiled %s: it cannot be one list: %s", compiled->name, variant->unusable);
    return WEFT_OK;
}

weft_status weft_compiled_warm_up(weft_compiled *compiled, weft_tensor *const *in, int n_in,
                                  int results)
{
    WF_TRY(wf_compiled_check_inputs(compiled, in, n_in, results));
    WF_NEED(!wf_recorder && !wf_others_may_record && !wf_compile_disabled_regions, WEFT_ERR_STATE,
            "compiled %s: warm-up within a compiled function, or where nothing is compiled",
            compiled->name);
    if (compiled->level < WF_LEVEL_AOT) return WEFT_OK; /* no call uses a list */
    for (int tries = 0; !has_list(compiled, in, n_in, results); tries++) {
        WF_NEED(tries < MOST_TRIES && wf_compiled_may_warm_up(compiled), WEFT_ERR_STATE,
                "compiled %s: warm-up: no list can be made: %s", compiled->name, compiled->reason);
        WF_TRY(call_and_undo(compiled, in, n_in, results));
    }
    return check_list_runs(compiled, in, n_in, results);
}
