/*
 * capture.c: the call of a function that is recorded. It computes what any call computes; beside
 * that it leaves a variant, or the reason why there is none.
 */
#include "compile/record/capture.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/observers.h"
#include "comm/comm.h"
#include "compile/record/gradients.h"
#include "compile/replay/follow.h"
#include "compile/replay/taped_call.h"
#include "mesh/mesh.h"
#include "redistribute/in_flight.h"

struct capture {
    struct wf_list_recorder recorder;
    struct wf_captured_forward forward;
    struct wf_capture_result *result;
};

static void give_up(struct wf_capture_result *result, const char *reason)
{
    if (!result->reason[0]) snprintf(result->reason, sizeof result->reason, "%s", reason);
}

/* Leaves of an inner tape, where the inputs are of an outer one. */
static void make_aliases(struct capture *c, weft_tensor *const *in, int n_in)
{
    c->forward.n_in = n_in;
    c->forward.aliases = wf_calloc((size_t)n_in + 1, sizeof *c->forward.aliases);
    for (int i = 0; i < n_in; i++) {
        weft_tensor *alias;

        if (!in[i]) continue;
        wf_wait_ready(in[i]);
        alias = wf_tensor_new(in[i]->layout, wf_block_retain(in[i]->block), in[i]->data, "input");
        alias->requires_grad = in[i]->requires_grad && wf_grad_is_enabled();
        c->forward.aliases[i] = weft_retain(alias);
    }
}

static void note_module(const struct wf_event *event, void *guards)
{
    wf_guards_add_module(guards, event->subject);
}

/* ---- results ---- */

static int input_of_handle(const struct capture *c, const weft_tensor *t)
{
    for (int i = 0; i < c->forward.n_in; i++)
        if (c->forward.aliases[i] == t) return i;
    return -1;
}

static void add_results(struct capture *c, weft_tensor *const *out, int n_out)
{
    struct wf_op_list *list = c->recorder.list;

    list->results = wf_calloc((size_t)n_out + 1, sizeof *list->results);
    list->n_results = n_out;
    for (int i = 0; i < n_out; i++) {
        struct wf_list_result *result = &list->results[i];

        *result = (struct wf_list_result){
            .at = wf_no_operand(), .same_as_input = -1, .same_as_result = -1};
        if (!out[i]) continue;
        result->same_as_input = input_of_handle(c, out[i]);
        for (int j = i - 1; j >= 0; j--)
            if (out[j] == out[i]) result->same_as_result = j;
        if (result->same_as_input >= 0 || result->same_as_result >= 0) continue;
        if (wf_recording_is_external_input_handle(&c->recorder, out[i]))
            wf_recording_break(&c->recorder, "a result is an input by a handle from outside: "
                                             "give it as another input, and return that");
        if (out[i]->node && !out[i]->node->used && out[i]->node->number <= c->recorder.tape_start)
            wf_recording_break(&c->recorder, "a result with a gradient of its own comes from "
                                             "outside: give it as an input, and return that");
        result->at = wf_recording_operand(&c->recorder, out[i]);
        result->wrapped = out[i]->block->flags & WF_BLOCK_WRAPPED;
        if (list->storages[result->at.storage].kind == WF_STORAGE_EXTERNAL &&
            !(out[i]->node && !out[i]->node->used))
            result->outside = weft_retain(out[i]);
        result->requires_grad = out[i]->requires_grad && out[i]->node && !out[i]->node->used;
        if (list->storages[result->at.storage].kind == WF_STORAGE_MADE &&
            !list->storages[result->at.storage].written && out[i]->block->bytes)
            wf_recording_break(&c->recorder, "a result has elements that no op has made");
    }
}

/* ---- what the function keeps ---- */

static const struct wf_list_node *writer_of(const struct wf_op_list *list, int storage)
{
    for (int i = 0; i < list->n_nodes; i++)
        for (int j = 0; j < list->nodes[i].n_out; j++)
            if (list->nodes[i].out[j].storage == storage) return &list->nodes[i];
    return NULL;
}

/* Bytes that were made and are still there when the function has returned, though they are no
 * result: a replay would make them anew, and whoever holds them would not see it. */
static void look_for_kept_tensors(struct capture *c)
{
    const struct wf_op_list *list = c->recorder.list;
    const struct wf_block_map *map = &c->recorder.blocks;

    for (int i = 0; i < map->room; i++) {
        int s = map->slots[i].block ? map->slots[i].storage : -1;
        const struct wf_list_node *writer;
        char reason[WF_REASON_BYTES];

        if (s < 0 || list->storages[s].kind != WF_STORAGE_MADE || wf_op_list_gives(list, s))
            continue;
        writer = writer_of(list, s);
        snprintf(reason, sizeof reason, "it keeps a tensor that %s made%s%s: make it a result",
                 writer ? writer->name : "it", writer && writer->module ? " in " : "",
                 writer && writer->module ? writer->module : "");
        give_up(c->result, reason);
        c->result->may_succeed_later = true;
    }
}

/* ---- agreement ---- */

static weft_mesh *mesh_of_capture(const struct capture *c)
{
    const struct wf_op_list *list = c->recorder.list;

    for (int i = 0; i < c->forward.n_in; i++)
        if (c->forward.aliases[i] && c->forward.aliases[i]->layout->mesh)
            return c->forward.aliases[i]->layout->mesh;
    for (int i = 0; i < list->n_nodes; i++)
        for (int j = 0; j < list->nodes[i].n_out; j++)
            if (list->nodes[i].out[j].layout && list->nodes[i].out[j].layout->mesh)
                return list->nodes[i].out[j].layout->mesh;
    return NULL;
}

struct verdict {
    int32_t status, usable, may_succeed_later;
    char text[WF_REASON_BYTES];
};

/* A list is only of use when every rank has one; an error of one is an error of all. */
static weft_status agree(struct capture *c, weft_status status)
{
    struct wf_comm *comm = wf_mesh_all_axes_comm(mesh_of_capture(c));
    struct verdict mine = {
        (int32_t)status, !c->result->reason[0], c->result->may_succeed_later, {0}};
    struct verdict *all;
    int ranks = comm ? wf_comm_size(comm) : 1;
    bool later = true;

    if (ranks == 1) return status;
    snprintf(mine.text, sizeof mine.text, "%s",
             status != WEFT_OK ? weft_error_message() : c->result->reason);
    all = wf_calloc((size_t)ranks, sizeof *all);
    wf_comm_allgather_bytes(comm, &mine, all, sizeof mine);
    for (int r = 0; r < ranks; r++) {
        if (all[r].status != WEFT_OK && status == WEFT_OK)
            status = WF_FAIL((weft_status)all[r].status, "compiled function, on rank %d: %s", r,
                             all[r].text);
        if (all[r].usable) continue;
        give_up(c->result, all[r].text);
        later &= all[r].may_succeed_later;
    }
    c->result->may_succeed_later = c->result->reason[0] && later;
    wf_free(all);
    return status;
}

/* ---- the call ---- */

/* `c`: the list gets the results, while all that the function has made is still there; or NULL. */
static weft_status call_function(const struct wf_captured_function *f, weft_tensor *const *in,
                                 int n_in, weft_tensor **out, int n_out, struct capture *c)
{
    weft_scope *scope = weft_scope_open();
    weft_status before = weft_error_status(), status;

    for (int i = 0; i < n_out; i++) out[i] = NULL;
    status = f->function(in, n_in, out, n_out, f->state);
    if (status == WEFT_OK && before == WEFT_OK) status = weft_error_status();
    if (c && status == WEFT_OK) add_results(c, out, n_out);
    (void)weft_scope_return_n(scope, out, n_out);
    return status;
}

weft_status wf_call_in_scope(const struct wf_captured_function *f, weft_tensor *const *in, int n_in,
                             weft_tensor **out, int n_out)
{
    return call_function(f, in, n_in, out, n_out, NULL);
}

/* Blocks that are alive belong to the inner tape and to the results. */
static void retain_blocks(struct capture *c)
{
    const struct wf_block_map *map = &c->recorder.blocks;

    c->forward.blocks = wf_calloc((size_t)map->count + 1, sizeof *c->forward.blocks);
    for (int i = 0; i < map->room; i++) {
        if (!map->slots[i].block || map->slots[i].storage < 0) continue;
        c->forward.blocks[c->forward.n_blocks++] = map->slots[i];
        wf_block_retain(map->slots[i].block);
    }
}

static struct wf_variant *new_variant(const struct wf_captured_function *f, struct capture *c,
                                      struct wf_guards *guards)
{
    struct wf_variant *variant = WF_NEW(struct wf_variant);

    variant->refs = 1;
    variant->name = wf_strdup(f->name);
    variant->mesh = mesh_of_capture(c);
    if (variant->mesh) weft_mesh_retain(variant->mesh);
    variant->passes_off = f->passes_off ? wf_strdup(f->passes_off) : NULL;
    variant->backend = f->backend;
    variant->graph = f->graph;
    variant->guards = guards;
    wf_guards_take_externals(guards, &c->recorder);
    variant->forward = c->recorder.list;
    variant->steps = wf_op_list_steps(variant->forward);
    c->recorder.list = NULL;
    for (int i = 0; i < variant->forward->n_results; i++)
        variant->differentiable |= variant->forward->results[i].requires_grad;
    return variant;
}

/* Results that are inputs become the caller's own handles; a tensor that is returned twice becomes
 * one handle. */
static void give_same_handles(const struct wf_op_list *list, weft_tensor *const *in,
                              weft_tensor **out)
{
    for (int i = 0; i < list->n_results; i++)
        if (list->results[i].same_as_input >= 0)
            out[i] = in[list->results[i].same_as_input];
        else if (list->results[i].same_as_result >= 0)
            out[i] = out[list->results[i].same_as_result];
}

static weft_status finish_and_agree_across_ranks(struct wf_variant *variant)
{
    weft_status status = wf_variant_finish(variant);

    if (status != WEFT_OK) variant->unusable = wf_strdup(weft_error_message());
    wf_variant_agree_across_ranks(variant);
    return status;
}

static weft_status make_variant(const struct wf_captured_function *f, struct capture *c,
                                struct wf_guards *guards, weft_tensor *const *in, weft_tensor **out,
                                int n_out)
{
    struct wf_variant *variant = new_variant(f, c, guards);

    c->result->variant = variant;
    if (!variant->differentiable) {
        give_same_handles(variant->forward, in, out);
        return finish_and_agree_across_ranks(variant);
    }
    c->forward.out = wf_calloc((size_t)n_out + 1, sizeof *c->forward.out);
    c->forward.n_out = n_out;
    for (int i = 0; i < n_out; i++) c->forward.out[i] = weft_retain(out[i]);
    wf_taped_call_record_captured(variant, &c->forward, in, out, f->undo);
    give_same_handles(variant->forward, in, out);
    c->forward = (struct wf_captured_forward){0};
    return WEFT_OK;
}

weft_status wf_capture_function(const struct wf_captured_function *f, weft_tensor *const *in,
                                int n_in, weft_tensor **out, int n_out,
                                struct wf_capture_result *result)
{
    struct capture *c = WF_NEW(struct capture);
    struct wf_guards *guards = wf_guards_new(in, n_in, n_out);
    bool taped = false;
    weft_status status;
    int observer;

    *result = (struct wf_capture_result){0};
    c->result = result;
    wf_redist_wait_all();
    make_aliases(c, in, n_in);
    wf_recording_begin(&c->recorder);
    c->forward.tape_start = c->recorder.tape_start;
    c->recorder.undo = f->undo;
    c->recorder.base.is_whole = true;
    for (int i = 0; i < n_in; i++)
        if (in[i]) wf_recording_add_input(&c->recorder, c->forward.aliases[i], i);
    c->recorder.inputs = in;
    c->recorder.aliases = c->forward.aliases;
    c->recorder.n_inputs = n_in;
    if (f->module) wf_guards_add_module(guards, f->module);
    observer = wf_observer_add(WF_EVENT_ENTER, note_module, guards);
    status = call_function(f, c->forward.aliases, n_in, out, n_out, c);
    wf_recording_finish_gradients(&c->recorder);
    wf_observer_remove(observer);
    for (int i = 0; status == WEFT_OK && i < n_out; i++)
        taped |= c->recorder.list->results[i].requires_grad;
    if (status == WEFT_OK && !taped) look_for_kept_tensors(c);
    wf_recording_end(&c->recorder);
    if (taped) retain_blocks(c);
    if (c->recorder.n_breaks) give_up(result, c->recorder.breaks[0].reason);
    status = agree(c, status);
    if (status == WEFT_OK && (!result->reason[0] || taped))
        status = make_variant(f, c, guards, in, out, n_out);
    else
        wf_guards_free(guards);
    if (result->variant && result->reason[0]) result->variant->unusable = wf_strdup(result->reason);
    wf_captured_forward_free(&c->forward);
    wf_recording_free(&c->recorder);
    wf_free(c);
    return status;
}

/* ---- in segments ---- */

weft_status wf_capture_segments(const struct wf_captured_function *f, weft_tensor *const *in,
                                int n_in, weft_tensor **out, int n_out, struct wf_segmented **made,
                                char *reason, size_t room)
{
    struct wf_list_recorder *r = WF_NEW(struct wf_list_recorder);
    struct wf_guards *guards = wf_guards_new(in, n_in, n_out);
    const char *why;
    weft_status status;
    int observer;

    *made = NULL;
    reason[0] = 0;
    wf_redist_wait_all();
    wf_recording_begin(r);
    r->undo = f->undo;
    r->segments = true;
    for (int i = 0; i < n_in; i++)
        if (in[i]) wf_recording_add_input(r, in[i], i);
    if (f->module) wf_guards_add_module(guards, f->module);
    observer = wf_observer_add(WF_EVENT_ENTER, note_module, guards);
    status = wf_call_in_scope(f, in, n_in, out, n_out);
    wf_observer_remove(observer);
    wf_recording_break(r, "");
    why = wf_recording_end(r);
    if (why) snprintf(reason, room, "%s", why);
    wf_guards_take_externals(guards, r);
    if (status == WEFT_OK && !why)
        *made = wf_segmented_new(r, guards, f);
    else
        wf_guards_free(guards);
    wf_recording_free(r);
    wf_free(r);
    return status;
}
