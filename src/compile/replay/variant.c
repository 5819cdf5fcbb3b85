/* variant.c: a replay: addresses, the run, and what comes out of it. */
#include "compile/replay/variant.h"

#include <string.h>

#include "autograd/tape.h"
#include "base/error.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "compile/list/lower.h"
#include "compile/replay/input_copies.h"
#include "compile/replay/taped_call.h"
#include "compile/tools/dump.h"
#include "mesh/mesh.h"
#include "tensor/tensor.h"

/* ---- blocks of storages ---- */

static struct wf_block *block_of_storage(const struct wf_op_list *list,
                                         const struct wf_program_run *run, int s,
                                         weft_tensor *const *in)
{
    const struct wf_storage *storage = &list->storages[s];

    switch ((enum wf_storage_kind)storage->kind) {
    case WF_STORAGE_INPUT:
        return in[storage->index]->block;
    case WF_STORAGE_EXTERNAL:
        return storage->block;
    case WF_STORAGE_GRADIENT:
        return list->gradients[storage->index].leaf->grad->block;
    case WF_STORAGE_MADE:
        return run->kept[s];
    case WF_STORAGE_FORWARD:
        return NULL;
    }
    return NULL;
}

static void set_bases(const struct wf_op_list *list, const struct wf_program_run *run,
                      weft_tensor *const *in)
{
    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_storage *storage = &list->storages[s];

        if (storage->kind == WF_STORAGE_INPUT) run->base[s] = in[storage->index]->data;
        if (storage->kind == WF_STORAGE_GRADIENT)
            run->base[s] = list->gradients[storage->index].leaf->grad->data;
    }
}

/* Backward refuses what was saved before: as after the ops that the list has. */
static void record_writes(const struct wf_variant *variant, const struct wf_program_run *run,
                          weft_tensor *const *in)
{
    const struct wf_op_list *list = variant->forward;

    for (int s = 0; s < list->n_storages; s++) {
        if (!list->storages[s].written || list->storages[s].kind == WF_STORAGE_MADE) continue;
        wf_inplace_write_count++;
        wf_block_record_write(block_of_storage(list, run, s, in), "a compiled function");
    }
}

/* Collectives in flight may still read what the list writes. */
static void wait_for_readers(const struct wf_variant *variant, const struct wf_program_run *run,
                             weft_tensor *const *in)
{
    const struct wf_op_list *list = variant->forward;

    for (int s = 0; s < list->n_storages; s++) {
        const struct wf_block *block;

        if (!list->storages[s].written || list->storages[s].kind == WF_STORAGE_MADE) continue;
        block = block_of_storage(list, run, s, in);
        if (block->readers > 0) wf_block_wait_readers(block);
    }
}

/* ---- results ---- */

static weft_tensor *new_result_handle(const struct wf_op_list *list,
                                      const struct wf_program_run *run, const struct wf_operand *at,
                                      weft_tensor *const *in)
{
    struct wf_block *block = block_of_storage(list, run, at->storage, in);

    if (run->kept[at->storage] && block->category == WF_MEM_COMM && !at->layout->partial)
        wf_block_recategorize(block, WF_MEM_ACTIVATIONS);
    return wf_tensor_new(at->layout, wf_block_retain(block), run->base[at->storage] + at->offset,
                         "compiled");
}

static void make_results(const struct wf_op_list *list, const struct wf_program_run *run,
                         weft_tensor *const *in, weft_tensor **out)
{
    for (int i = 0; i < list->n_results; i++) {
        const struct wf_list_result *result = &list->results[i];

        out[i] = result->same_as_input >= 0    ? in[result->same_as_input]
                 : result->same_as_result >= 0 ? out[result->same_as_result]
                 : result->outside             ? result->outside
                 : result->at.storage >= 0     ? new_result_handle(list, run, &result->at, in)
                                               : NULL;
        if (result->wrapped) out[i]->block->flags |= WF_BLOCK_WRAPPED;
    }
}

static bool gradient_is_updated_in_place(const struct wf_list_gradient *gradient)
{
    return gradient->at.storage >= 0 && gradient->at.storage == gradient->storage;
}

/* All are made before the first is put in its place: one may lie where another leaf's was. */
static void set_gradients(const struct wf_op_list *list, const struct wf_program_run *run,
                          weft_tensor *const *in)
{
    for (int i = 0; i < list->n_gradients; i++) {
        struct wf_list_gradient *gradient = &list->gradients[i];

        if (gradient->at.storage < 0 || gradient_is_updated_in_place(gradient)) continue;
        gradient->made = weft_retain(new_result_handle(list, run, &gradient->at, in));
        wf_block_recategorize(gradient->made->block, WF_MEM_GRADIENTS);
    }
    for (int i = 0; i < list->n_gradients; i++) {
        struct wf_list_gradient *gradient = &list->gradients[i];

        if (gradient->hook) {
            gradient->leaf->grad_state->reduced = gradient->reduced;
            gradient->hook->reduced = gradient->all_reduced;
        }
        if (gradient_is_updated_in_place(gradient)) continue;
        weft_release(gradient->leaf->grad);
        gradient->leaf->grad = gradient->made;
        gradient->made = NULL;
    }
}

struct wf_block *wf_variant_block(const struct wf_variant *variant,
                                  const struct wf_program_run *run, int storage,
                                  weft_tensor *const *in)
{
    return block_of_storage(variant->forward, run, storage, in);
}

/* In the first run of a function that is computed again: as its ops would. */
static void note_uses(const struct wf_variant *variant, weft_tensor *const *in)
{
    wf_note_unrecorded_use(in, variant->guards->n_in);
    for (int i = 0; i < variant->guards->n_externals; i++)
        wf_note_unrecorded_use(&variant->guards->externals[i].tensor, 1);
}

static void note_results_made(const struct wf_op_list *list, const struct wf_program_run *run,
                              weft_tensor *const *out)
{
    for (int i = 0; i < list->n_results; i++) {
        int s = list->results[i].at.storage;

        if (s >= 0 && run->kept[s]) wf_note_made_tensor(out[i]);
    }
}

weft_status wf_variant_replay(struct wf_variant *variant, weft_tensor *const *in, weft_tensor **out)
{
    const struct wf_op_list *list = variant->forward;
    struct wf_program_run run;
    struct wf_input_copies copies;
    struct wf_taped_call *call = NULL;
    weft_status status;
    double began = wf_monotonic_seconds();

    for (int i = 0; i < variant->guards->n_in; i++)
        if (in[i]) wf_wait_ready(in[i]);
    WF_TRY(wf_program_begin_run(variant->forward_program, &run));
    set_bases(list, &run, in);
    wait_for_readers(variant, &run, in);
    status = wf_input_copies_make(&copies, list, &run, in);
    if (status != WEFT_OK) {
        wf_program_end_run(variant->forward_program, &run);
        return status;
    }
    if (wf_recompute_uses) note_uses(variant, in);
    wf_program_run_all(variant->forward_program, &run);
    wf_input_copies_release(&copies, &run);
    wf_step_draws_advance(list->draws);
    make_results(list, &run, in, out);
    if (wf_recompute_uses) note_results_made(list, &run, out);
    if (variant->differentiable) call = wf_taped_call_record(variant, &run, in, out);
    record_writes(variant, &run, in);
    if (call) wf_taped_call_refresh_written_versions(call);
    set_gradients(list, &run, in); /* last: what backward reads may be one that goes now */
    wf_program_end_run(variant->forward_program, &run);
    wf_compile_times_add(&variant->times, WF_COMPILE_RUN, began);
    return WEFT_OK;
}

/* ---- making and freeing ---- */

bool wf_variant_is_ready(const struct wf_variant *variant)
{
    return variant->forward_program && !variant->unusable;
}

static void note_kept(struct wf_op_list *list, const struct wf_operand *at)
{
    if (at->storage >= 0 && list->storages[at->storage].kind == WF_STORAGE_MADE)
        list->storages[at->storage].kept = true;
}

static void keep_results(struct wf_op_list *list)
{
    for (int i = 0; i < list->n_results; i++) note_kept(list, &list->results[i].at);
    for (int i = 0; i < list->n_gradients; i++) note_kept(list, &list->gradients[i].at);
}

/* What backward reads of the forward outlives it. */
static void note_forward_read(int storage, bool write, void *payload)
{
    struct wf_variant *variant = payload;
    struct wf_storage *of = &variant->backward->storages[storage];

    (void)write;
    if (of->kind != WF_STORAGE_FORWARD) return;
    of->kept_by_calls = true;
    note_kept(variant->forward, &(struct wf_operand){.storage = of->index});
}

static weft_status improve_and_plan(struct wf_variant *variant, struct wf_op_list *list,
                                    struct wf_op_list **moves, struct wf_program **program)
{
    struct wf_compile_times *times = &variant->times;
    double now = wf_monotonic_seconds();

    wf_passes_run(list, variant->passes_off);
    now = wf_compile_times_add(times, WF_COMPILE_PASSES, now);
    *moves = wf_op_list_copy(list);
    wf_op_list_lower(list);
    now = wf_compile_times_add(times, WF_COMPILE_LOWER, now);
    wf_passes_run(list, variant->passes_off);
    now = wf_compile_times_add(times, WF_COMPILE_PASSES, now);
    *program = wf_program_new(list);
    if (!*program) return weft_error_status();
    if (variant->graph) wf_program_launch_as_graph(*program);
    if (variant->backend && wf_program_hand_to_backend(*program, variant->backend) != WEFT_OK) {
        wf_program_free(*program);
        *program = NULL;
        return weft_error_status();
    }
    wf_compile_times_add(times, WF_COMPILE_PLAN, now);
    return WEFT_OK;
}

/* What a rank says of its lists. */
struct verdict {
    uint64_t collectives[2]; /* of forward and backward */
    int32_t has_backward, usable;
    char why[WF_REASON_BYTES];
};

/* What passes decide may follow from this rank's shards: a copy here is a view there. Lists whose
 * collectives differ are of no use. */
void wf_variant_agree_across_ranks(struct wf_variant *variant)
{
    struct verdict mine = {.has_backward = variant->backward != NULL, .usable = !variant->unusable},
                   *all;
    struct wf_comm *comm = wf_mesh_all_axes_comm(variant->mesh);
    int ranks = comm ? wf_comm_size(comm) : 1;

    if (ranks == 1) return;
    if (mine.usable) {
        mine.collectives[0] = wf_op_list_collectives(variant->forward);
        if (variant->backward) mine.collectives[1] = wf_op_list_collectives(variant->backward);
    } else {
        snprintf(mine.why, sizeof mine.why, "%s", variant->unusable);
    }
    all = wf_calloc((size_t)ranks, sizeof mine);
    wf_comm_allgather_bytes(comm, &mine, all, sizeof mine);
    for (int r = 0; r < ranks && !variant->unusable; r++)
        if (!all[r].usable)
            variant->unusable = wf_strdup(all[r].why);
        else if (all[r].has_backward != mine.has_backward ||
                 memcmp(all[r].collectives, mine.collectives, sizeof mine.collectives) != 0)
            variant->unusable = wf_strdup("ranks would do other collectives than each other");
    wf_free(all);
}

weft_status wf_variant_finish(struct wf_variant *variant)
{
    struct wf_op_list *backward = variant->backward;

    if (variant->differentiable && !backward) return WEFT_OK; /* after the first backward */
    keep_results(variant->forward);
    if (backward) {
        keep_results(backward);
        variant->saved = wf_passes_run_on_pair(variant->forward, backward, variant->passes_off);
        WF_TRY(improve_and_plan(variant, backward, &variant->backward_moves,
                                &variant->backward_program));
        wf_variant_plan_deliveries(variant);
        for (int i = 0; i < backward->n_nodes; i++)
            wf_list_node_visit_storages(backward, &backward->nodes[i], note_forward_read, variant);
        for (int i = 0; i < backward->n_results; i++)
            if (backward->results[i].at.storage >= 0)
                note_forward_read(backward->results[i].at.storage, false, variant);
    }
    WF_TRY(improve_and_plan(variant, variant->forward, &variant->forward_moves,
                            &variant->forward_program));
    wf_variant_report(variant);
    return WEFT_OK;
}

void wf_variant_free_gradient_targets(struct wf_variant *variant)
{
    for (int i = 0; i < variant->n_targets; i++) weft_release(variant->targets[i].leaf);
    wf_free(variant->targets);
    variant->targets = NULL;
    variant->n_targets = 0;
}

void wf_variant_release(struct wf_variant *variant)
{
    if (!variant || --variant->refs > 0) return;
    if (variant->idle) wf_taped_calls_free(variant->idle);
    wf_program_free(variant->forward_program);
    wf_program_free(variant->backward_program);
    wf_op_list_free(variant->forward_moves);
    wf_op_list_free(variant->backward_moves);
    for (int i = 0; variant->gradient_layouts && i < variant->forward->n_results; i++)
        if (variant->gradient_layouts[i]) wf_layout_release(variant->gradient_layouts[i]);
    wf_op_list_free(variant->forward);
    wf_op_list_free(variant->backward);
    wf_guards_free(variant->guards);
    wf_variant_free_gradient_targets(variant);
    wf_free(variant->gradient_layouts);
    wf_free(variant->passes_off);
    if (variant->mesh) weft_mesh_release(variant->mesh);
    wf_free(variant->unusable);
    wf_free(variant->name);
    wf_free(variant);
}
