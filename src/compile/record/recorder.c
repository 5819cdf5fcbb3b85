/*
 * recorder.c: a function's kernels, moves and updates as nodes of a list, while they run.
 *
 * Bytes are told apart by their blocks. A block that was made while recording is known from its
 * birth; one that is met without that was there before and is external. So what some other code
 * has written is noticed when it is read: its block is new, and no node of the list writes it.
 */
#include "compile/record/recorder.h"

#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/call_context.h"
#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/record/gradients.h"
#include "device/device.h"
#include "kernels/device_kernels.h"
#include "redistribute/in_flight.h"

/* ---- blocks and their storages ---- */

int wf_recording_find(const struct wf_list_recorder *r, const struct wf_block *block)
{
    const struct wf_known_block *known = wf_block_map_find(&r->blocks, block);

    return known ? known->storage : -1;
}

static int add_external(struct wf_list_recorder *r, struct wf_block *block)
{
    int s = wf_op_list_add_storage(r->list,
                                   (struct wf_storage){.kind = WF_STORAGE_EXTERNAL,
                                                       .keeps_address = true,
                                                       .category = block->category,
                                                       .device = (uint8_t)wf_block_device(block),
                                                       .bytes = block->bytes,
                                                       .block = wf_block_retain(block),
                                                       .base = block->data});

    wf_block_map_add(&r->blocks, block, s);
    return s;
}

static int storage_of_block(struct wf_list_recorder *r, struct wf_block *block)
{
    int s = wf_recording_find(r, block);

    return s >= 0 ? s : add_external(r, block);
}

static struct wf_operand operand_at(struct wf_list_recorder *r, struct wf_block *block,
                                    const void *address, struct wf_layout *layout)
{
    int s = storage_of_block(r, block);

    return (struct wf_operand){.storage = s,
                               .offset = (const char *)address - r->list->storages[s].base,
                               .layout = layout ? wf_layout_retain(layout) : NULL};
}

struct wf_operand wf_recording_operand(struct wf_list_recorder *r, const weft_tensor *t)
{
    return operand_at(r, t->block, t->data, t->layout);
}

void wf_recording_add_input(struct wf_list_recorder *r, const weft_tensor *t, int index)
{
    if (wf_recording_find(r, t->block) >= 0) return; /* another view of an earlier input */
    wf_block_map_add(&r->blocks, t->block,
                     wf_op_list_add_storage(
                         r->list, (struct wf_storage){.kind = WF_STORAGE_INPUT,
                                                      .index = index,
                                                      .device = (uint8_t)wf_block_device(t->block),
                                                      .bytes = t->block->bytes,
                                                      .base = t->data}));
}

void wf_recording_add_forward(struct wf_list_recorder *r, struct wf_block *block,
                              const struct wf_storage *of, int index)
{
    wf_block_map_add(&r->blocks, block,
                     wf_op_list_add_storage(
                         r->list, (struct wf_storage){.kind = WF_STORAGE_FORWARD,
                                                      .index = index,
                                                      .device = (uint8_t)wf_block_device(block),
                                                      .bytes = block->bytes,
                                                      .keeps_address = of->keeps_address,
                                                      .base = of->base}));
}

/* ---- breaks ---- */

static void note_alive(const struct wf_list_recorder *r, struct wf_list_break *made)
{
    made->n_alive = r->list->n_storages;
    made->alive = wf_calloc((size_t)made->n_alive + 1, sizeof *made->alive);
    for (int i = 0; i < r->blocks.room; i++)
        if (r->blocks.slots[i].block && r->blocks.slots[i].storage >= 0)
            made->alive[r->blocks.slots[i].storage] = true;
}

void wf_recording_break(struct wf_list_recorder *r, const char *reason)
{
    struct wf_list_break *made;

    if (r->n_breaks && r->breaks[r->n_breaks - 1].node == r->list->n_nodes) return;
    r->breaks = wf_array_grow(r->breaks, r->n_breaks, sizeof *r->breaks);
    made = &r->breaks[r->n_breaks++];
    snprintf(made->reason, sizeof made->reason, "%s", reason);
    made->module = wf_current_context.module;
    made->node = r->list->n_nodes;
    made->alive = NULL;
    if (r->segments) note_alive(r, made);
}

static void break_with_op(struct wf_list_recorder *r, const char *what, const char *op)
{
    char reason[WF_REASON_BYTES];

    snprintf(reason, sizeof reason, what, op ? op : "the program");
    wf_recording_break(r, reason);
}

/* ---- nodes ---- */

static int index_of_tensor(weft_tensor *const *tensors, int n, const weft_tensor *t)
{
    for (int i = 0; tensors && i < n; i++)
        if (tensors[i] == t) return i;
    return -1;
}

/* It was made before the recording, and is not the function's own handle: a replay would look for
 * its elements in the input of that call. */
static bool is_older_handle_to_input(const struct wf_list_recorder *r, const weft_tensor *t, int s)
{
    return r->aliases && s >= 0 && r->list->storages[s].kind == WF_STORAGE_INPUT &&
           t->recording != r->number && index_of_tensor(r->aliases, r->n_inputs, t) < 0;
}

static void break_at_external_handle(struct wf_list_recorder *r, const char *op, const char *does)
{
    char reason[WF_REASON_BYTES];

    snprintf(reason, sizeof reason,
             "%s %s an input by a handle from outside: give it as another input", op, does);
    wf_recording_break(r, reason);
}

bool wf_recording_is_external_input_handle(const struct wf_list_recorder *r, const weft_tensor *t)
{
    return is_older_handle_to_input(r, t, wf_recording_find(r, t->block));
}

/* Before its block is known: a tensor from outside is kept, with what a list depends on. */
static void note_external(struct wf_list_recorder *r, weft_tensor *t)
{
    int s = wf_recording_find(r, t->block), input = index_of_tensor(r->inputs, r->n_inputs, t);
    bool leaf = t->requires_grad && !t->node;

    if (input >= 0 || is_older_handle_to_input(r, t, s)) /* the function has its own handles */
        break_at_external_handle(r, wf_current_context.op ? wf_current_context.op : "the program",
                                 "reads");
    if (s >= 0 && (r->list->storages[s].kind != WF_STORAGE_EXTERNAL || !leaf)) return;
    for (int i = 0; i < r->n_externals; i++)
        if (r->externals[i].tensor == t) return;
    if (!r->segments && t->node && t->requires_grad && t->node->number <= r->tape_start &&
        wf_grad_is_enabled())
        break_with_op(r,
                      "%s: a tensor with a gradient of its own comes from outside: give it as "
                      "an input",
                      wf_current_context.op);
    r->externals = wf_array_grow(r->externals, r->n_externals, sizeof *r->externals);
    r->externals[r->n_externals++] =
        (struct wf_external_tensor){.tensor = weft_retain(t), .requires_grad = t->requires_grad};
}

static struct wf_list_node *add_node(struct wf_list_recorder *r, enum wf_list_node_kind kind,
                                     const char *name, struct wf_op_plan *plan)
{
    struct wf_list_node *node = wf_op_list_add_node(r->list, kind);

    node->name = name;
    node->module = wf_current_context.module;
    node->phase = (uint8_t)wf_current_context.phase;
    node->plan = plan;
    if (plan) plan->refs++;
    return node;
}

/* What no node has written has no elements yet, or those of some other code. */
static void check_read(struct wf_list_recorder *r, const struct wf_operand *operand,
                       const char *reader)
{
    struct wf_storage *storage = &r->list->storages[operand->storage];

    if (storage->kind != WF_STORAGE_MADE || storage->written || r->base.hears_meta) return;
    if (r->segments)
        storage->from_host = storage->written = true;
    else if (storage->bytes > 0)
        break_with_op(r, "%s reads elements that no op has made: give them as an input", reader);
}

static void check_write(struct wf_list_recorder *r, const struct wf_operand *operand, bool in_place)
{
    r->list->storages[operand->storage].written = true;
    if (in_place && r->pending_writes > 0) r->pending_writes--;
    if (r->pending_writes > 0)
        break_with_op(r, "%s writes in place in a way that is not recorded", r->pending_op);
    r->pending_writes = 0;
}

/* Others see it by handles of their own: in segments it is not put off any longer. */
static void cut_after_visible_write(struct wf_list_recorder *r, const struct wf_operand *to)
{
    const struct wf_storage *storage = &r->list->storages[to->storage];

    if (r->segments && (storage->kind != WF_STORAGE_MADE || storage->from_host))
        wf_recording_break(r, "");
}

static void wait_if_in_flight(const weft_tensor *t)
{
    if (t && t->in_flight) wf_tensor_wait(t);
}

void wf_recording_run_kernel(const struct wf_kernel_run_request *call)
{
    const struct wf_op_plan *plan = call->plan;
    const void *from[WF_MAX_IN];

    for (int i = 0; i < plan->n_in; i++)
        from[i] = call->in[i] && !plan->absent[i] ? call->in[i]->data : NULL;
    plan->kernel.run(&plan->kernel, call->to, from, &call->args->scalars);
}

static void run_kernel(struct wf_list_recorder *r, const struct wf_kernel_run_request *call)
{
    for (int i = 0; i < call->plan->n_in; i++) wait_if_in_flight(call->in[i]);
    r->executing++;
    wf_recording_run_kernel(call);
    r->executing--;
}

/* A draw of this list, or one of the forward's that backward takes again. Others have the same
 * numbers in every run. */
static void find_draw_of_node(const struct wf_op_list *list, struct wf_list_node *node)
{
    uint64_t seed = (uint64_t)node->scalars.v[0], number = (uint64_t)node->scalars.v[1];

    node->draws = wf_step_draws_find(list->draws, seed, number, &node->draw);
    if (node->draws || !list->forward_draws) return;
    node->draws = node->of_forward =
        wf_step_draws_find(list->forward_draws, seed, number, &node->draw);
}

static void record_kernel(struct wf_recorder *base, const struct wf_kernel_run_request *call)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    struct wf_op_plan *plan = call->plan;
    struct wf_list_node *node;

    if (!plan->meta) run_kernel(r, call);
    if (base->suspended) return;
    node = add_node(r, WF_LIST_KERNEL, plan->name, plan);
    node->n_in = plan->n_in;
    node->n_out = call->in_place ? 1 : plan->n_out;
    node->in_place = call->in_place;
    node->scalars = call->args->scalars;
    if (call->args->draws) find_draw_of_node(r->list, node);
    for (int i = 0; i < plan->n_in; i++) {
        if (!call->in[i]) continue;
        note_external(r, call->in[i]);
        /* absent here: another rank counts it, so for passes it is read here too */
        node->in[i] = operand_at(r, call->in[i]->block, call->in[i]->data, plan->used[i]);
        check_read(r, &node->in[i], plan->name);
    }
    for (int j = 0; j < node->n_out; j++) {
        if (!call->blocks[j]) continue;
        node->out[j] = operand_at(r, call->blocks[j], call->to[j], plan->out[j]);
        check_write(r, &node->out[j], call->in_place);
    }
    if (call->in_place) cut_after_visible_write(r, &node->out[0]);
}

static void record_copy(struct wf_recorder *base, const struct wf_strided_copy *copy,
                        struct wf_block *to, void *dst, struct wf_block *from, const void *src)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    struct wf_list_node *node;

    wf_device_strided_copy(wf_block_device(to), copy, dst, src);
    if (base->suspended) return;
    node = add_node(r, WF_LIST_COPY, "copy", NULL);
    node->n_in = node->n_out = 1;
    node->in_place = true;
    node->in[0] = operand_at(r, from, src, NULL);
    node->out[0] = operand_at(r, to, dst, NULL);
    node->copies = wf_malloc(sizeof *copy);
    *node->copies = *copy;
    node->n_copies = 1;
    check_write(r, &node->out[0], true);
    cut_after_visible_write(r, &node->out[0]);
}

static void record_fill(struct wf_recorder *base, struct wf_block *to, const void *element,
                        size_t size, size_t count)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    struct wf_list_node *node;

    if (base->suspended) return;
    node = add_node(r, WF_LIST_FILL, "fill", NULL);
    node->n_out = 1;
    node->out[0] = operand_at(r, to, to->data, NULL);
    memcpy(node->element, element, size);
    node->element_bytes = size;
    node->count = count;
    check_write(r, &node->out[0], false);
}

/* The result is written by copies and collectives: its block is known already, as are those in
 * between, which nobody reads afterwards. */
static struct wf_block *record_move(struct wf_recorder *base, struct wf_op_plan *owner,
                                    const struct wf_redist_plan *move, const weft_tensor *from)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    struct wf_list_node *node;
    struct wf_block *block;

    wait_if_in_flight(from);
    r->executing++;
    block = owner->meta ? wf_redist_simulate(move) : wf_redist_run(move, from->data);
    r->executing--;
    if (base->suspended) return block;
    note_external(r, (weft_tensor *)(uintptr_t)from);
    node = add_node(r, WF_LIST_MOVE, owner->name, owner);
    node->n_in = node->n_out = 1;
    node->move = move;
    node->in[0] = operand_at(r, from->block, from->data, move->from);
    check_read(r, &node->in[0], "redistribute");
    node->out[0] = operand_at(r, block, block->data, move->to);
    check_write(r, &node->out[0], false);
    return block;
}

static void record_view(struct wf_recorder *base, struct wf_op_plan *plan, const weft_tensor *of,
                        const weft_tensor *view)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    bool moves = wf_op_has_kernel(&wf_ops[plan->op]) || plan->way == WF_EXECUTE_REDISTRIBUTION ||
                 view->layout != plan->out[0]; /* an input of this plan, without a step */
    struct wf_list_node *node;

    if (base->suspended) return;
    note_external(r, (weft_tensor *)(uintptr_t)of); /* the leaf may be read through views alone */
    node = add_node(r, WF_LIST_VIEW, moves ? "redistribute" : plan->name, plan);
    node->n_in = node->n_out = 1;
    node->in[0] = operand_at(r, of->block, of->data, of->layout);
    node->out[0] = operand_at(r, view->block, view->data, view->layout);
}

/* ---- updates of an optimizer ---- */

/* Where an address lies among the storages that are there now; -1: in none. */
static struct wf_operand operand_of_address(const struct wf_list_recorder *r, const void *address)
{
    struct wf_operand found = {.storage = -1};

    for (int i = 0; i < r->blocks.room; i++) {
        const struct wf_known_block *known = &r->blocks.slots[i];
        const char *data = known->block ? known->block->data : NULL;

        if (!data || known->storage < 0 || (const char *)address < data ||
            (const char *)address >= data + known->block->bytes)
            continue;
        found.storage = known->storage;
        found.offset = (const char *)address - r->list->storages[known->storage].base;
    }
    return found;
}

void wf_recording_run_update(weft_tensor *const *parameters, const struct wf_optimizer_item *items,
                             int n)
{
    if (n) wf_optimizer_kernels_on(wf_device_of(parameters[0]))->step(items, n);
}

static void record_update(struct wf_recorder *base, const struct wf_changing_call *call,
                          weft_tensor *const *parameters, struct wf_optimizer_item *items, int n)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    struct wf_list_node *node;

    if (r->undo) call->advance(call->self, -1); /* counts of updates and steps */
    if (r->segments || base->suspended) {       /* it is made by the program in each call */
        wf_recording_break(r, "");
        wf_recording_run_update(parameters, items, n);
        call->release(call->self);
        r->pending_writes = 0;
        return;
    }
    node = add_node(r, WF_LIST_UPDATE, "optimizer step", NULL);
    if (n && !wf_is_meta(parameters[0])) wf_recording_run_update(parameters, items, n);
    node->call = *call;
    node->items = items;
    node->n_items = n;
    node->arrays = wf_calloc(2 * (size_t)n + 1, sizeof *node->arrays);
    for (int i = 0; i < n; i++) {
        node->arrays[2 * i] = operand_at(r, parameters[i]->block, parameters[i]->data, NULL);
        node->arrays[2 * i + 1] = wf_is_meta(parameters[i])
                                      ? wf_recording_operand(r, parameters[i]->grad)
                                      : operand_of_address(r, items[i].arrays.g);
        if (node->arrays[2 * i + 1].storage < 0) {
            wf_recording_break(r, "an optimizer uses a gradient that comes from elsewhere");
            continue;
        }
        r->list->storages[node->arrays[2 * i].storage].written = true;
        check_read(r, &node->arrays[2 * i + 1], "an optimizer");
    }
    r->pending_writes = 0;
}

/* ---- the pool ---- */

static void note_block_made(struct wf_recorder *base, struct wf_block *block)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    wf_block_map_add(&r->blocks, block,
                     wf_op_list_add_storage(
                         r->list, (struct wf_storage){.kind = WF_STORAGE_MADE,
                                                      .category = block->category,
                                                      .device = (uint8_t)wf_block_device(block),
                                                      .bytes = block->bytes,
                                                      .base = block->data}));
}

static void note_block_released(struct wf_recorder *base, struct wf_block *block)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;
    struct wf_known_block *known = wf_block_map_find(&r->blocks, block);

    if (known) known->storage = -1;
}

/* What the list has not made has to be put back after a warm-up. */
static void save_if_from_outside(struct wf_list_recorder *r, struct wf_block *block)
{
    int s = r->undo ? wf_recording_find(r, block) : -1;

    if (r->undo && (s < 0 || r->list->storages[s].kind == WF_STORAGE_EXTERNAL ||
                    r->list->storages[s].kind == WF_STORAGE_INPUT))
        wf_undo_save_block(r->undo, block);
}

static void note_block_written(struct wf_recorder *base, struct wf_block *block, const char *op)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    save_if_from_outside(r, block);
    if (base->suspended || !(block->flags & WF_BLOCK_RECORDED)) return;
    r->pending_writes++;
    r->pending_op = op;
}

static void note_handle_written(struct wf_recorder *base, const weft_tensor *t, const char *op)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    if (!base->suspended && wf_recording_is_external_input_handle(r, t))
        break_at_external_handle(r, op, "writes");
}

/* ---- gradients of leaves ---- */

static void note_gradient_changes(struct wf_recorder *base, weft_tensor *leaf)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    if (index_of_tensor(r->aliases, r->n_inputs, leaf) >= 0 && !r->is_backward)
        wf_recording_break(r, "backward within it reaches an input: call backward behind it");
    if (r->undo && !r->is_backward) wf_undo_save_gradient(r->undo, leaf);
    if (!r->is_backward) wf_recording_record_gradient(r, leaf);
}

static bool delivers(struct wf_recorder *base, const weft_tensor *leaf)
{
    return ((struct wf_list_recorder *)base)->is_backward && !leaf->inner_leaf;
}

/* What a hook waits for, the leaf gets here and not at the end of a run. */
static void add_delivery_node(struct wf_list_recorder *r, const weft_tensor *grad)
{
    struct wf_list_node *node = add_node(r, WF_LIST_DELIVER, "deliver gradient", NULL);

    node->n_in = 1;
    node->in[0] = wf_recording_operand(r, grad);
    node->result = r->n_deliveries;
    check_read(r, &node->in[0], "a gradient hook");
}

static void take_delivery(struct wf_recorder *base, weft_tensor *leaf, weft_tensor *grad)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    if (leaf->grad_state && !base->suspended) add_delivery_node(r, grad);
    r->deliveries = wf_array_grow(r->deliveries, r->n_deliveries, sizeof *r->deliveries);
    r->deliveries[r->n_deliveries++] = (struct wf_delivery){weft_retain(leaf), weft_retain(grad)};
}

/* ---- what no list has ---- */

static void note_collective(struct wf_recorder *base, const char *name)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    if (!r->executing && !base->suspended)
        break_with_op(r, "%s outside of an op is not recorded", name);
}

static void note_leave(struct wf_recorder *base, const char *reason)
{
    struct wf_list_recorder *r = (struct wf_list_recorder *)base;

    if (!r->executing && !base->suspended) wf_recording_break(r, reason);
}

void wf_recording_begin(struct wf_list_recorder *r)
{
    *r = (struct wf_list_recorder){.base = {.kernel = record_kernel,
                                            .copy = record_copy,
                                            .fill = record_fill,
                                            .move = record_move,
                                            .view = record_view,
                                            .update = record_update,
                                            .block_made = note_block_made,
                                            .block_released = note_block_released,
                                            .block_written = note_block_written,
                                            .handle_written = note_handle_written,
                                            .gradient_changes = note_gradient_changes,
                                            .delivers = delivers,
                                            .deliver = take_delivery,
                                            .collective = note_collective,
                                            .leave = note_leave}};
    r->list = wf_op_list_new();
    r->tape_start = wf_tape_recorded_count();
    r->list->draws = wf_step_draws_begin();
    r->number = wf_next_recording_number();
    wf_recorder = &r->base;
}

static void forget_flags(struct wf_list_recorder *r)
{
    for (int i = 0; i < r->blocks.room; i++)
        if (r->blocks.slots[i].block && r->blocks.slots[i].storage >= 0)
            r->blocks.slots[i].block->flags &= (uint8_t)~WF_BLOCK_RECORDED;
}

const char *wf_recording_end(struct wf_list_recorder *r)
{
    const char *why = wf_step_draws_end(r->list->draws);

    wf_recorder = NULL;
    wf_recording_number = 0;
    forget_flags(r);
    if (why) wf_recording_break(r, why);
    if (r->pending_writes > 0)
        break_with_op(r, "%s writes in place in a way that is not recorded", r->pending_op);
    return why;
}

void wf_recording_free(struct wf_list_recorder *r)
{
    for (int i = 0; i < r->n_deliveries; i++) {
        weft_release(r->deliveries[i].leaf);
        weft_release(r->deliveries[i].grad);
    }
    for (int i = 0; i < r->n_externals; i++) weft_release(r->externals[i].tensor);
    for (int i = 0; i < r->n_breaks; i++) wf_free(r->breaks[i].alive);
    wf_op_list_free(r->list);
    wf_free(r->externals);
    wf_free(r->deliveries);
    wf_free(r->breaks);
    wf_free(r->blocks.slots);
    r->list = NULL;
}
