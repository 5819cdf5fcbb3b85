/* segment.c: the tape node of a compiled call, and its backward: recorded once, then replayed. */
#include "compile/replay/segment.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/dispatch/redistribute_gradient.h"
#include <weft/ops.h>

/* A call whose results require gradients, until its tape is gone. */
struct wf_instance {
    struct wf_instance *next; /* among the idle ones */
    struct wf_variant *variant;
    weft_tensor **grads; /* of the results, as backward brings them; one reference each */
    int refs;            /* of the nodes */
    /* a replay: by storage of the backward list, where forward storages lie */
    char **base;
    struct wf_block **blocks;
    uint32_t *versions;
    struct wf_draw_start *starts; /* where the forward's draws began */
    /* the call that captured */
    struct wf_captured_forward captured;
    bool is_capture;
    enum { AWAITS_NOTHING, AWAITS_EXTERNALS, AWAITS_TARGETS } awaits; /* its leaves: a backward */
};

void wf_captured_forward_free(struct wf_captured_forward *captured)
{
    for (int i = 0; i < captured->n_in; i++) weft_release(captured->aliases[i]);
    for (int i = 0; i < captured->n_out; i++) weft_release(captured->out[i]);
    for (int i = 0; i < captured->n_blocks; i++) wf_block_release(captured->blocks[i].block);
    wf_free(captured->aliases);
    wf_free(captured->out);
    wf_free(captured->blocks);
    *captured = (struct wf_captured_forward){0};
}

static void release_blocks(struct wf_instance *instance)
{
    const struct wf_op_list *backward = instance->variant->backward;

    for (int s = 0; instance->blocks && s < backward->n_storages; s++) {
        if (instance->blocks[s]) wf_block_release(instance->blocks[s]);
        instance->blocks[s] = NULL;
    }
}

static void release_grads(struct wf_instance *instance)
{
    for (int i = 0; i < instance->variant->forward->n_results; i++) {
        weft_release(instance->grads[i]);
        instance->grads[i] = NULL;
    }
}

void wf_instance_free(struct wf_instance *instance)
{
    struct wf_instance *next;

    for (; instance; instance = next) {
        next = instance->next;
        wf_free(instance->grads);
        wf_free(instance->base);
        wf_free(instance->blocks);
        wf_free(instance->versions);
        wf_free(instance->starts);
        wf_free(instance);
    }
}

static struct wf_instance *new_instance(struct wf_variant *variant)
{
    struct wf_instance *instance = variant->idle;

    if (instance) {
        variant->idle = instance->next;
    } else {
        instance = WF_NEW(struct wf_instance);
        instance->grads =
            wf_calloc((size_t)variant->forward->n_results + 1, sizeof *instance->grads);
        instance->starts = wf_calloc((size_t)wf_step_draws_generator_count(variant->forward->draws),
                                     sizeof *instance->starts);
    }
    instance->variant = variant;
    instance->refs = 0;
    wf_step_draws_save(variant->forward->draws, instance->starts);
    variant->refs++;
    return instance;
}

/* ---- gradient hooks of the leaves that the function reads ----
 *
 * More terms are to come to them, as from a function that is computed again (autograd/recompute.c).
 * Which leaves they are is known from the first backward on; before, those that ops have read.
 */

static weft_tensor *awaited_leaf(const struct wf_instance *instance, int i)
{
    const struct wf_variant *variant = instance->variant;

    return instance->awaits == AWAITS_TARGETS ? variant->targets[i].leaf
                                              : variant->guards->externals[i].tensor;
}

static int count_awaited(const struct wf_instance *instance)
{
    const struct wf_variant *variant = instance->variant;

    if (instance->awaits == AWAITS_NOTHING) return 0;
    return instance->awaits == AWAITS_TARGETS ? variant->n_targets : variant->guards->n_externals;
}

static void add_to_awaited(struct wf_instance *instance, int by)
{
    for (int i = 0; i < count_awaited(instance); i++) {
        weft_tensor *leaf = awaited_leaf(instance, i);

        if (leaf && leaf->grad_state) leaf->grad_state->recomputes += by;
    }
}

static void begin_awaiting(struct wf_instance *instance)
{
    instance->awaits = instance->variant->backward ? AWAITS_TARGETS : AWAITS_EXTERNALS;
    add_to_awaited(instance, 1);
}

static bool came_before(const struct wf_instance *instance, int i)
{
    for (int j = 0; j < i; j++)
        if (awaited_leaf(instance, j) == awaited_leaf(instance, i)) return true;
    return false;
}

static weft_status notify_leaves(struct wf_instance *instance)
{
    int n = count_awaited(instance);
    weft_status status = WEFT_OK;

    add_to_awaited(instance, -1);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_tensor *leaf = awaited_leaf(instance, i);

        if (leaf && leaf->grad_state && leaf->grad && !came_before(instance, i))
            status = wf_leaf_notify_if_complete(leaf);
    }
    instance->awaits = AWAITS_NOTHING;
    return status;
}

static void release_instance(void *context)
{
    struct wf_instance *instance = context;
    struct wf_variant *variant = instance->variant;

    if (--instance->refs > 0) return;
    add_to_awaited(instance, -1);
    instance->awaits = AWAITS_NOTHING;
    release_grads(instance);
    if (instance->is_capture) wf_captured_forward_free(&instance->captured);
    instance->is_capture = false;
    release_blocks(instance);
    instance->next = variant->idle;
    variant->idle = instance;
    wf_variant_release(variant);
}

/* ---- gradients of the results ---- */

static weft_tensor *new_zeros(struct wf_layout *layout)
{
    weft_tensor *zeros = wf_tensor_new_empty(layout, WF_MEM_GRADIENTS, "compiled");

    if (zeros) memset(zeros->data, 0, (size_t)zeros->block->bytes);
    return zeros;
}

/* Of results that backward did not come from: so one backward list serves every case. */
static weft_status add_missing_gradients(struct wf_instance *instance)
{
    const struct wf_variant *variant = instance->variant;

    for (int i = 0; i < variant->forward->n_results; i++) {
        weft_tensor *zeros;

        if (!variant->forward->results[i].requires_grad || instance->grads[i]) continue;
        zeros = instance->is_capture ? wf_zero_gradient_like(instance->captured.out[i])
                                     : new_zeros(variant->gradient_layouts[i]);
        if (!zeros) return weft_error_status();
        instance->grads[i] = weft_retain(zeros);
    }
    return WEFT_OK;
}

/* The list reads them in the layouts that they had when it was recorded. */
static weft_status bring_gradients_to_layouts(struct wf_instance *instance)
{
    const struct wf_variant *variant = instance->variant;

    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_layout *want = variant->gradient_layouts[i];
        weft_tensor *grad = instance->grads[i];
        char now[200], then[200];

        if (!grad || grad->layout == want) continue;
        if (want->mesh && !want->partial) grad = wf_redistribute_gradient(grad, want);
        if (grad && grad->layout != want && !grad->layout->desc.contiguous)
            grad = wf_copy_row_major_for_view(grad);
        if (!grad) return weft_error_status();
        wf_layout_print(grad->layout, now, sizeof now);
        wf_layout_print(want, then, sizeof then);
        WF_NEED(grad->layout == want, WEFT_ERR_STATE,
                "compiled %s: backward: the gradient of result %d is %s, its list was made for %s",
                variant->name, i, now, then);
        weft_retain(grad);
        weft_release(instance->grads[i]);
        instance->grads[i] = grad;
    }
    return WEFT_OK;
}

static void keep_gradient_layouts(struct wf_instance *instance)
{
    struct wf_variant *variant = instance->variant;
    int n = variant->forward->n_results;

    variant->gradient_layouts = wf_calloc((size_t)n + 1, sizeof(struct wf_layout *));
    for (int i = 0; i < n; i++)
        if (instance->grads[i])
            variant->gradient_layouts[i] = wf_layout_retain(instance->grads[i]->layout);
}

/* Row-major, so that a replay finds it so. */
static weft_status make_gradients_row_major(struct wf_instance *instance)
{
    for (int i = 0; i < instance->captured.n_out; i++) {
        weft_tensor *grad = instance->grads[i];

        if (!grad || grad->layout->desc.contiguous) continue;
        grad = weft_retain(wf_copy_row_major_for_view(grad));
        if (!grad) return weft_error_status();
        weft_release(instance->grads[i]);
        instance->grads[i] = grad;
    }
    return WEFT_OK;
}

/* A handle of the open scope to the same bytes. */
static weft_tensor *handle_of(const weft_tensor *t)
{
    return wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);
}

static void make_room_for_blocks(struct wf_instance *instance)
{
    size_t n = (size_t)instance->variant->backward->n_storages + 1;

    if (instance->blocks) return;
    instance->blocks = wf_calloc(n, sizeof *instance->blocks);
    instance->versions = wf_calloc(n, sizeof *instance->versions);
    instance->base = wf_calloc(n, sizeof *instance->base);
}

/* Passes the gradients of all results on to the inner tape. */
static void vjp_join(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_instance *instance = node->context;
    int n = 0;

    (void)grad;
    for (int i = 0; i < instance->captured.n_out; i++)
        if (instance->variant->forward->results[i].requires_grad)
            in_grads[n++] = instance->grads[i];
}

static void release_nothing(void *instance) { (void)instance; }

static weft_status walk_inner_tape(struct wf_instance *instance)
{
    weft_tensor *joined[WF_NODE_INPUTS], *root;
    struct wf_tape_node *node;
    int n = 0;

    for (int i = 0; i < instance->captured.n_out; i++)
        if (instance->variant->forward->results[i].requires_grad)
            joined[n++] = instance->captured.out[i];
    root = wf_number_like(joined[0], 0);
    if (!root) return weft_error_status();
    node = wf_tape_record(root, vjp_join, "compiled", joined, n);
    node->context = instance;
    node->release_context = release_nothing;
    return weft_backward(root);
}

/* ---- the first backward: recorded ---- */

static struct wf_gradient_target target_of(const struct wf_captured_forward *captured,
                                           weft_tensor *leaf)
{
    for (int i = 0; i < captured->n_in; i++)
        if (captured->aliases[i] == leaf) return (struct wf_gradient_target){NULL, i};
    return (struct wf_gradient_target){weft_retain(leaf), -1};
}

/* Each term that was delivered is a result of the list. */
static void add_results(struct wf_variant *variant, struct wf_list_recorder *r,
                        const struct wf_captured_forward *captured)
{
    struct wf_op_list *list = r->list;
    int n = r->n_deliveries;

    list->results = wf_calloc((size_t)n + 1, sizeof *list->results);
    variant->targets = wf_calloc((size_t)n + 1, sizeof *variant->targets);
    variant->n_targets = list->n_results = n;
    for (int i = 0; i < n; i++) {
        list->results[i] = (struct wf_list_result){
            .at = wf_recording_operand(r, r->deliveries[i].grad), .same_as_input = -1};
        variant->targets[i] = target_of(captured, r->deliveries[i].leaf);
    }
}

static weft_status record_backward(struct wf_instance *instance)
{
    struct wf_variant *variant = instance->variant;
    struct wf_captured_forward *captured = &instance->captured;
    struct wf_list_recorder *r = WF_NEW(struct wf_list_recorder);
    weft_status status;

    wf_recording_begin(r);
    r->is_backward = true;
    r->list->forward_draws = variant->forward->draws;
    for (int i = 0; i < captured->n_blocks; i++)
        wf_recording_add_forward(r, captured->blocks[i].block,
                                 variant->forward->storages[captured->blocks[i].storage].base,
                                 captured->blocks[i].storage);
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad)
            wf_recording_add_input(r, instance->grads[i], i);
    status = walk_inner_tape(instance);
    if (status == WEFT_OK) add_results(variant, r, captured);
    wf_recording_end(r);
    for (int i = 0; i < r->n_deliveries && status == WEFT_OK; i++) {
        weft_tensor *leaf = r->deliveries[i].leaf;

        status = wf_leaf_deliver_grad(leaf, r->deliveries[i].grad);
    }
    if (r->n_breaks) {
        variant->unusable = wf_format("backward: %s", r->breaks[0].reason);
    } else if (status == WEFT_OK) {
        variant->backward = r->list;
        r->list = NULL;
    }
    wf_recording_free(r);
    wf_free(r);
    return status;
}

static void drop_inner_tape(struct wf_captured_forward *captured)
{
    for (int i = 0; i < captured->n_in; i++) weft_release(captured->aliases[i]);
    for (int i = 0; i < captured->n_out; i++) weft_release(captured->out[i]);
    captured->n_in = captured->n_out = 0;
}

static bool is_forward_result(const struct wf_op_list *forward, int storage)
{
    for (int i = 0; i < forward->n_results; i++)
        if (forward->results[i].at.storage == storage) return true;
    return false;
}

static bool instance_holds(const struct wf_instance *instance, const struct wf_block *block)
{
    for (int s = 0; s < instance->variant->backward->n_storages; s++)
        if (instance->blocks[s] == block) return true;
    return false;
}

/* What the forward made and something still holds, though the tape is gone and it is no result: the
 * function keeps it, and a replay would not be seen there. */
static void look_for_kept_tensors(struct wf_instance *instance)
{
    struct wf_variant *variant = instance->variant;
    const struct wf_captured_forward *captured = &instance->captured;

    for (int i = 0; i < captured->n_blocks; i++) {
        const struct wf_known_block *known = &captured->blocks[i];
        int held = 1 + instance_holds(instance, known->block);

        if (variant->forward->storages[known->storage].kind != WF_STORAGE_MADE ||
            is_forward_result(variant->forward, known->storage) || known->block->refs <= held)
            continue;
        if (!variant->unusable)
            variant->unusable = wf_strdup("it keeps a tensor that it makes: make it a result");
    }
}

/* The tape of the capture is gone, but another backward may come: as after a replay. */
static void become_replay(struct wf_instance *instance)
{
    const struct wf_captured_forward *captured = &instance->captured;
    struct wf_variant *variant = instance->variant;
    const struct wf_op_list *backward = variant->backward;

    make_room_for_blocks(instance);
    for (int s = 0; s < backward->n_storages; s++) {
        if (backward->storages[s].kind != WF_STORAGE_FORWARD) continue;
        for (int i = 0; i < captured->n_blocks; i++) {
            struct wf_block *block = captured->blocks[i].block;

            if (captured->blocks[i].storage != backward->storages[s].index) continue;
            instance->blocks[s] = wf_block_retain(block);
            instance->versions[s] = block->version;
            instance->base[s] = backward->storages[s].base;
        }
    }
    drop_inner_tape(&instance->captured);
    look_for_kept_tensors(instance);
    wf_captured_forward_free(&instance->captured);
    instance->is_capture = false;
}

static weft_status capture_backward(struct wf_instance *instance, weft_tensor **in_grads)
{
    struct wf_captured_forward *captured = &instance->captured;
    struct wf_variant *variant = instance->variant;

    WF_TRY(make_gradients_row_major(instance));
    WF_TRY(record_backward(instance));
    for (int i = 0; i < captured->n_in; i++)
        if (captured->aliases[i] && captured->aliases[i]->grad)
            in_grads[i] = handle_of(captured->aliases[i]->grad);
    if (!variant->backward) return WEFT_OK;
    keep_gradient_layouts(instance);
    WF_TRY(wf_variant_finish(variant));
    become_replay(instance);
    return WEFT_OK;
}

/* ---- later ones: replayed ---- */

static weft_status check_unmodified(const struct wf_instance *instance)
{
    const struct wf_op_list *backward = instance->variant->backward;

    for (int s = 0; s < backward->n_storages; s++)
        WF_NEED(!instance->blocks[s] || instance->blocks[s]->version == instance->versions[s],
                WEFT_ERR_STATE,
                "backward: a tensor that the compiled function %s has read was written in place "
                "since, by %s",
                instance->variant->name,
                instance->blocks[s]->writer ? instance->blocks[s]->writer : "the program");
    return WEFT_OK;
}

static void set_bases(const struct wf_instance *instance, const struct wf_program_run *run)
{
    const struct wf_op_list *backward = instance->variant->backward;

    for (int s = 0; s < backward->n_storages; s++) {
        const struct wf_storage *storage = &backward->storages[s];

        if (storage->kind == WF_STORAGE_FORWARD) run->base[s] = instance->base[s];
        if (storage->kind == WF_STORAGE_INPUT) run->base[s] = instance->grads[storage->index]->data;
    }
}

static struct wf_block *block_of(const struct wf_instance *instance,
                                 const struct wf_program_run *run, int s)
{
    const struct wf_storage *storage = &instance->variant->backward->storages[s];

    switch ((enum wf_storage_kind)storage->kind) {
    case WF_STORAGE_INPUT:
        return instance->grads[storage->index]->block;
    case WF_STORAGE_EXTERNAL:
        return storage->block;
    case WF_STORAGE_FORWARD:
        return instance->blocks[s];
    case WF_STORAGE_MADE:
        return run->kept[s];
    case WF_STORAGE_GRADIENT:
        return NULL;
    }
    return NULL;
}

static weft_tensor *result_handle(const struct wf_instance *instance,
                                  const struct wf_program_run *run, int i)
{
    const struct wf_operand *at = &instance->variant->backward->results[i].at;
    struct wf_block *block = block_of(instance, run, at->storage);

    return wf_tensor_new(at->layout, wf_block_retain(block), run->base[at->storage] + at->offset,
                         "compiled");
}

static weft_status deliver_result(const struct wf_gradient_target *target, weft_tensor *grad,
                                  weft_tensor **in_grads)
{
    weft_tensor **sum;

    if (target->leaf) return wf_leaf_accumulate_grad(target->leaf, grad);
    sum = &in_grads[target->input];
    *sum = *sum ? weft_add(*sum, grad) : grad;
    return *sum ? WEFT_OK : weft_error_status();
}

static weft_status replay_backward(struct wf_instance *instance, weft_tensor **in_grads)
{
    struct wf_variant *variant = instance->variant;
    struct wf_program_run run;
    weft_status status = WEFT_OK;
    double began = wf_monotonic_seconds();
    const char *why;

    WF_TRY(bring_gradients_to_layouts(instance));
    WF_TRY(check_unmodified(instance));
    why = wf_step_draws_begin_again(variant->backward->draws);
    WF_NEED(!why, WEFT_ERR_STATE, "compiled %s: backward: %s", variant->name, why);
    wf_step_draws_restore(variant->forward->draws, instance->starts);
    WF_TRY(wf_program_begin_run(variant->backward_program, &run));
    set_bases(instance, &run);
    wf_program_run_all(variant->backward_program, &run);
    wf_step_draws_advance(variant->backward->draws);
    for (int i = 0; i < variant->n_targets && status == WEFT_OK; i++)
        status = deliver_result(&variant->targets[i], result_handle(instance, &run, i), in_grads);
    wf_program_end_run(variant->backward_program, &run);
    variant->backward_replays++;
    wf_compile_times_add(&variant->times, WF_COMPILE_RUN_BACKWARD, began);
    return status;
}

/* ---- nodes ---- */

static void vjp_segment(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_instance *instance = node->context;
    const struct wf_guards *guards = instance->variant->guards;
    weft_tensor *of_inputs[WF_COMPILED_INPUTS] = {0};
    weft_status status = add_missing_gradients(instance);
    int n = 0;

    (void)grad;
    if (status == WEFT_OK)
        status = instance->is_capture ? capture_backward(instance, of_inputs)
                                      : replay_backward(instance, of_inputs);
    if (status == WEFT_OK) status = notify_leaves(instance);
    release_grads(instance);
    if (status != WEFT_OK) return;
    for (int i = 0; i < guards->n_in; i++) {
        struct wf_layout *layout;

        if (!guards->in[i].requires_grad) continue;
        layout = wf_layout_with_placements(guards->in[i].layout, guards->in[i].layout->placements);
        in_grads[n++] = of_inputs[i] ? of_inputs[i] : new_zeros(layout);
        wf_layout_release(layout);
    }
}

/* One result's gradient has come; the segment runs when all have. */
static void vjp_result(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct wf_instance *instance = node->context;

    (void)in_grads;
    weft_release(instance->grads[node->v[0]]);
    instance->grads[node->v[0]] = weft_retain(grad);
}

/* The segment's node has the inputs that require gradients; each result has a node behind it. */
static void record_nodes(struct wf_instance *instance, weft_tensor *const *in, weft_tensor **out)
{
    const struct wf_variant *variant = instance->variant;
    weft_tensor *wanted[WF_NODE_INPUTS], *hidden = NULL;
    struct wf_tape_node *segment = NULL;
    int n = 0;

    for (int i = 0; i < variant->guards->n_in; i++)
        if (variant->guards->in[i].requires_grad) wanted[n++] = in[i];
    for (int i = 0; i < variant->forward->n_results; i++) {
        struct wf_tape_node *node;

        if (!variant->forward->results[i].requires_grad) continue;
        if (!segment) {
            hidden = handle_of(out[i]); /* which keeps the node until the scope closes */
            segment = wf_tape_record(hidden, vjp_segment, "compiled", wanted, n);
            segment->context = instance;
            segment->release_context = release_instance;
            instance->refs++;
        }
        node = wf_tape_record(out[i], vjp_result, "compiled result", NULL, 0);
        node->context = instance;
        node->release_context = release_instance;
        node->v[0] = i;
        instance->refs++;
        wf_tape_node_add_order_edge(node, segment);
    }
    begin_awaiting(instance);
}

weft_status wf_segment_record(struct wf_variant *variant, const struct wf_program_run *run,
                              weft_tensor *const *in, weft_tensor **out)
{
    struct wf_instance *instance = new_instance(variant);
    const struct wf_op_list *backward = variant->backward;

    make_room_for_blocks(instance);
    for (int s = 0; s < backward->n_storages; s++) {
        int of = backward->storages[s].index;
        struct wf_block *block;

        if (backward->storages[s].kind != WF_STORAGE_FORWARD) continue;
        block = wf_variant_block(variant, run, of, in);
        if (!block) continue; /* alive when the list was made, and read by none of its nodes */
        instance->blocks[s] = wf_block_retain(block);
        instance->versions[s] = instance->blocks[s]->version;
        instance->base[s] = run->base[of];
    }
    record_nodes(instance, in, out);
    return WEFT_OK;
}

void wf_segment_record_captured(struct wf_variant *variant, struct wf_captured_forward *captured,
                                weft_tensor *const *in, weft_tensor **out)
{
    struct wf_instance *instance = new_instance(variant);

    instance->captured = *captured;
    instance->is_capture = true;
    for (int i = 0; i < captured->n_out; i++)
        if (variant->forward->results[i].requires_grad) out[i] = handle_of(captured->out[i]);
    record_nodes(instance, in, out);
}
