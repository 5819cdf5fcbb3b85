/* call_list.c: from the nodes of a recorded list to calls on tensors. */
#include "compile/tools/call_list.h"

#include <stdio.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/mem.h"
#include "compile/record/recorder.h"
#include "device/device.h"
#include "dtensor/registration/registry.h"
#include "redistribute/in_flight.h"
#include "tensor/host_copy.h"
#include <weft/dtensor.h>
#include <weft/ops.h>

/* ---- parts ---- */

int wf_call_list_add_slot(struct wf_call_list *list, struct wf_layout *layout)
{
    list->slots = wf_array_grow(list->slots, list->n_slots, sizeof *list->slots);
    list->slots[list->n_slots] = (struct wf_slot){.layout = wf_layout_retain(layout)};
    return list->n_slots++;
}

struct wf_call *wf_call_list_add_call(struct wf_call_list *list, enum wf_call_kind kind)
{
    struct wf_call *call;

    list->calls = wf_array_grow(list->calls, list->n_calls, sizeof *list->calls);
    call = &list->calls[list->n_calls++];
    memset(call, 0, sizeof *call);
    call->kind = (uint8_t)kind;
    for (int i = 0; i < WF_MAX_IN; i++) call->in[i] = -1;
    for (int j = 0; j < WF_MAX_OUT; j++) call->out[j] = -1;
    return call;
}

size_t wf_slot_bytes(const struct wf_slot *slot)
{
    return (size_t)slot->layout->desc.numel * wf_dtypes[slot->layout->desc.dtype].size;
}

/* A tensor of exactly this layout, its strides too. */
static weft_tensor *new_tensor(struct wf_layout *layout)
{
    struct wf_operand operand = {.layout = layout};
    struct wf_block *block = wf_block_new_on(
        (weft_device)layout->desc.device, (size_t)wf_operand_bytes(&operand), WF_MEM_ACTIVATIONS);

    return block ? wf_tensor_new(layout, block, block->data, "input") : NULL;
}

weft_status wf_call_list_set_input(struct wf_call_list *list, int slot, const void *packed)
{
    struct wf_slot *of = &list->slots[slot];

    of->input = new_tensor(of->layout);
    if (!of->input) return weft_error_status();
    weft_retain(of->input);
    of->bytes = wf_malloc(wf_slot_bytes(of) + 1);
    memcpy(of->bytes, packed, wf_slot_bytes(of));
    return wf_tensor_upload(of->input, of->bytes);
}

weft_status wf_call_list_restore(const struct wf_call_list *list)
{
    for (int s = 0; s < list->n_slots; s++)
        if (list->slots[s].input)
            WF_TRY(wf_tensor_upload(list->slots[s].input, list->slots[s].bytes));
    return WEFT_OK;
}

void wf_call_list_free(struct wf_call_list *list)
{
    if (!list) return;
    for (int i = 0; i < list->n_calls; i++) {
        if (list->calls[i].want) wf_layout_release(list->calls[i].want);
        wf_free(list->calls[i].module);
    }
    for (int s = 0; s < list->n_slots; s++) {
        weft_release(list->slots[s].input);
        wf_layout_release(list->slots[s].layout);
        wf_free(list->slots[s].bytes);
    }
    for (int m = 0; m < list->n_meshes; m++) weft_mesh_release(list->meshes[m]);
    wf_free(list->calls);
    wf_free(list->slots);
    wf_free(list->results);
    wf_free(list->meshes);
    wf_free(list);
}

const char *wf_call_name(const struct wf_call_list *list, int i, char *text, size_t room)
{
    static const char *const names[] = {
        [WF_CALL_MOVE] = "redistribute", [WF_CALL_COPY] = "copy", [WF_CALL_FILL] = "fill"};
    const struct wf_call *call = &list->calls[i];
    const char *name =
        call->kind == WF_CALL_OP ? wf_op_name(call->op, &call->attrs) : names[call->kind];

    snprintf(text, room, "node %d (%s%s%s)", i, name, call->module ? " in " : "",
             call->module ? call->module : "");
    return text;
}

/* ---- from nodes ---- */

struct place {
    struct wf_operand at; /* the layout is borrowed */
    int slot;
};

struct build {
    struct wf_call_list *list;
    const struct wf_op_list *from;
    weft_tensor *const *in;
    struct place *places;
    int n_places;
    const struct wf_list_node **fills; /* by storage */
    int *inputs;                       /* by storage: slots that are inputs */
    const struct wf_list_node *node;
};

static weft_status refuse(const struct build *b, const char *why)
{
    const struct wf_list_node *node = b->node;

    return WF_FAIL(WEFT_ERR_STATE, "compile record: %s%s%s: %s", node ? node->name : "a result",
                   node && node->module ? " in " : "", node && node->module ? node->module : "",
                   why);
}

static void note_place(struct build *b, const struct wf_operand *at, int slot)
{
    b->places = wf_array_grow(b->places, b->n_places, sizeof *b->places);
    b->places[b->n_places++] = (struct place){*at, slot};
}

/* Where the elements are that were there before: the address of the operand. */
static const char *address_of(const struct build *b, const struct wf_operand *at)
{
    const struct wf_storage *storage = &b->from->storages[at->storage];
    const weft_tensor *grad;

    switch ((enum wf_storage_kind)storage->kind) {
    case WF_STORAGE_INPUT:
        return (const char *)b->in[storage->index]->data + at->offset;
    case WF_STORAGE_EXTERNAL:
        return (const char *)storage->block->data + at->offset;
    case WF_STORAGE_GRADIENT:
        grad = b->from->gradients[storage->index].leaf->grad;
        return grad && grad->block->bytes == storage->bytes ? (const char *)grad->data + at->offset
                                                            : NULL;
    case WF_STORAGE_FORWARD:
    case WF_STORAGE_MADE:
        return NULL;
    }
    return NULL;
}

static void pack(const struct wf_tensor_desc *desc, const char *from, char *to)
{
    size_t size = wf_dtypes[desc->dtype].size;

    for (int64_t i = 0; i < desc->numel; i++)
        memcpy(to + (size_t)i * size, wf_element_address(desc, from, i), size);
}

static weft_status add_input(struct build *b, const struct wf_operand *at, int *slot)
{
    const char *from = address_of(b, at);
    weft_device device = (weft_device)b->from->storages[at->storage].device;
    char *packed, *box;
    weft_status status;

    if (b->from->storages[at->storage].written && b->inputs[at->storage]++)
        return refuse(b, "it reads bytes that change through two tensors from outside");
    *slot = wf_call_list_add_slot(b->list, at->layout);
    packed = wf_calloc(wf_slot_bytes(&b->list->slots[*slot]) + 1, 1);
    box = wf_calloc((size_t)wf_operand_bytes(at) + 1, 1);
    if (from) {
        wf_device_download(device, box, from, (size_t)wf_operand_bytes(at), "compile record");
        pack(&at->layout->desc, box, packed);
    }
    wf_free(box);
    status = wf_call_list_set_input(b->list, *slot, packed);
    wf_free(packed);
    note_place(b, at, *slot);
    return status;
}

static bool same_shape(const struct wf_layout *a, const struct wf_layout *b)
{
    return a->desc.dtype == b->desc.dtype && a->desc.ndim == b->desc.ndim && a->mesh == b->mesh &&
           a->numel == b->numel;
}

/* The tensor at this place, made or brought in when it is first asked for. */
static weft_status slot_of(struct build *b, const struct wf_operand *at, int *slot)
{
    const struct wf_list_node *fill;
    struct wf_call *call;

    for (int i = b->n_places - 1; i >= 0; i--) {
        const struct place *place = &b->places[i];

        if (place->at.storage != at->storage || place->at.offset != at->offset ||
            (at->layout && place->at.layout != at->layout))
            continue;
        *slot = place->slot;
        return WEFT_OK;
    }
    if (!at->layout) return refuse(b, "it copies bytes that are no tensor's");
    if (b->from->storages[at->storage].kind != WF_STORAGE_MADE) return add_input(b, at, slot);
    fill = b->fills[at->storage];
    if (fill && !at->layout->mesh && at->layout->desc.contiguous) {
        *slot = wf_call_list_add_slot(b->list, at->layout);
        call = wf_call_list_add_call(b->list, WF_CALL_FILL);
        call->n_out = 1;
        call->out[0] = *slot;
        memcpy(call->element, fill->element, sizeof call->element);
        note_place(b, at, *slot);
        return WEFT_OK;
    }
    for (int i = b->n_places - 1; i >= 0; i--) {
        const struct place *place = &b->places[i];

        if (place->at.storage != at->storage || place->at.offset != at->offset ||
            !same_shape(place->at.layout, at->layout))
            continue;
        *slot = place->slot; /* its gradient type alone is another, or */
        if (!at->layout->mesh) return WEFT_OK;
        call = wf_call_list_add_call(b->list, WF_CALL_MOVE); /* every rank keeps what it has */
        call->n_in = call->n_out = 1;
        call->in[0] = *slot;
        call->out[0] = *slot = wf_call_list_add_slot(b->list, at->layout);
        note_place(b, at, *slot);
        return WEFT_OK;
    }
    return refuse(b, "it reads a tensor that no op of the list has made");
}

static void set_outputs(struct build *b, struct wf_call *call)
{
    for (int j = 0; j < b->node->n_out; j++) {
        if (b->node->out[j].storage < 0) continue;
        call->out[j] = wf_call_list_add_slot(b->list, b->node->out[j].layout);
        note_place(b, &b->node->out[j], call->out[j]);
    }
}

static void set_op(struct wf_call *call, const struct wf_list_node *node)
{
    const struct wf_op_plan *plan = node->plan;

    call->op = plan->op;
    call->attr_words = plan->attr_words;
    call->attrs = plan->attrs;
    call->scalars = node->scalars;
    call->in_place = node->in_place;
    if (plan->want && !plan->in_place) call->want = wf_layout_retain(plan->want);
}

static weft_status add_kernel(struct build *b)
{
    const struct wf_list_node *node = b->node;
    int in[WF_MAX_IN], into = -1;
    struct wf_call *call;

    if (wf_ops[node->plan->op].attrs == WF_ATTRS_registered)
        return refuse(b, "a registered op cannot be written");
    for (int i = 0; i < node->plan->n_in; i++) {
        const struct wf_operand *at = &node->in[i];

        in[i] = -1;
        if (at->storage >= 0) WF_TRY(slot_of(b, at, &in[i]));
    }
    if (node->in_place) WF_TRY(slot_of(b, &node->out[0], &into));
    call = wf_call_list_add_call(b->list, WF_CALL_OP);
    set_op(call, node);
    call->n_in = node->plan->n_in;
    call->n_out = node->n_out;
    memcpy(call->in, in, (size_t)call->n_in * sizeof *in);
    if (node->in_place)
        call->out[0] = into;
    else
        set_outputs(b, call);
    return WEFT_OK;
}

static weft_status add_move(struct build *b)
{
    struct wf_call *call;
    int from;

    WF_TRY(slot_of(b, &b->node->in[0], &from));
    call = wf_call_list_add_call(b->list, WF_CALL_MOVE);
    call->n_in = call->n_out = 1;
    call->in[0] = from;
    set_outputs(b, call);
    return WEFT_OK;
}

/* Where a slice begins follows from where its first element lies. */
static weft_status add_view(struct build *b)
{
    const struct wf_list_node *node = b->node;
    struct wf_call *call;
    int from;

    if (node->plan->way != WF_EXECUTE_VIEW || node->out[0].layout != node->plan->out[0])
        return add_move(b); /* an input that an op moved, without a step */
    WF_TRY(slot_of(b, &node->in[0], &from));
    call = wf_call_list_add_call(b->list, WF_CALL_OP);
    set_op(call, node);
    call->n_in = call->n_out = 1;
    call->in[0] = from;
    if (node->plan->view_step)
        call->scalars.v[0] = (node->out[0].offset - node->in[0].offset - node->plan->view_offset) /
                             node->plan->view_step;
    set_outputs(b, call);
    return WEFT_OK;
}

static weft_status add_copy(struct build *b)
{
    struct wf_call *call;
    int from, to;

    WF_TRY(slot_of(b, &b->node->in[0], &from));
    WF_TRY(slot_of(b, &b->node->out[0], &to));
    call = wf_call_list_add_call(b->list, WF_CALL_COPY);
    call->n_in = call->n_out = 1;
    call->in_place = true;
    call->in[0] = from;
    call->out[0] = to;
    return WEFT_OK;
}

static weft_status add_node(struct build *b)
{
    int before = b->list->n_calls;
    weft_status status = WEFT_OK;

    switch ((enum wf_list_node_kind)b->node->kind) {
    case WF_LIST_KERNEL:
        status = add_kernel(b);
        break;
    case WF_LIST_VIEW:
        status = add_view(b);
        break;
    case WF_LIST_MOVE:
        status = add_move(b);
        break;
    case WF_LIST_COPY:
        status = add_copy(b);
        break;
    case WF_LIST_FILL:
        b->fills[b->node->out[0].storage] = b->node;
        break;
    case WF_LIST_DELIVER: /* the gradient is a result too */
        break;
    case WF_LIST_UPDATE:
        return refuse(b, "an optimizer's step cannot be written: leave it out of the function");
    case WF_LIST_FUSED:
    case WF_LIST_START:
    case WF_LIST_WAIT:
    case WF_LIST_DIVIDE:
    case WF_LIST_POWER:
    case WF_LIST_NODE_KINDS:
        return refuse(b, "it is of the lower level");
    }
    for (int i = before; i < b->list->n_calls && b->node->module; i++)
        if (!b->list->calls[i].module) b->list->calls[i].module = wf_strdup(b->node->module);
    return status;
}

static weft_status add_result(struct build *b, const struct wf_operand *at)
{
    int slot;

    WF_TRY(slot_of(b, at, &slot));
    b->list->results = wf_array_grow(b->list->results, b->list->n_results, sizeof(int));
    b->list->results[b->list->n_results++] = slot;
    return WEFT_OK;
}

static weft_status build_all(struct build *b, struct wf_list_recorder *r, weft_tensor *const *out,
                             int n_out)
{
    for (int i = 0; i < b->from->n_nodes; i++) {
        b->node = &b->from->nodes[i];
        WF_TRY(add_node(b));
    }
    b->node = NULL;
    for (int i = 0; i < n_out; i++) {
        struct wf_operand at;
        weft_status status;

        if (!out[i]) continue;
        at = wf_recording_operand(r, out[i]);
        status = add_result(b, &at);
        wf_layout_release(at.layout); /* the slot has its own reference */
        WF_TRY(status);
    }
    for (int i = 0; i < r->list->n_gradients; i++) {
        const weft_tensor *grad = r->list->gradients[i].leaf->grad;
        struct wf_operand at;
        weft_status status;

        if (!grad) continue;
        at = wf_recording_operand(r, grad);
        status = add_result(b, &at);
        wf_layout_release(at.layout);
        WF_TRY(status);
    }
    return WEFT_OK;
}

static weft_status build_list(struct wf_list_recorder *r, weft_tensor *const *in,
                              weft_tensor *const *out, int n_out, struct wf_call_list **list)
{
    size_t n = (size_t)r->list->n_storages + (size_t)n_out + (size_t)r->list->n_gradients + 1;
    struct build b = {.list = WF_NEW(struct wf_call_list), .from = r->list, .in = in};
    weft_status status;

    b.list->exact = true;
    b.fills = wf_calloc(n, sizeof *b.fills);
    b.inputs = wf_calloc(n, sizeof *b.inputs);
    status = build_all(&b, r, out, n_out);
    wf_free(b.fills);
    wf_free(b.inputs);
    wf_free(b.places);
    if (status == WEFT_OK)
        *list = b.list;
    else
        wf_call_list_free(b.list);
    return status;
}

weft_status wf_call_list_record(weft_compiled_function *function, void *state,
                                weft_tensor *const *in, int n_in, int n_out,
                                struct wf_call_list **list)
{
    struct wf_list_recorder r;
    weft_tensor **out = wf_calloc((size_t)n_out + 1, sizeof(weft_tensor *));
    weft_scope *scope = weft_scope_open();
    weft_status status;

    wf_redist_wait_all();
    wf_recording_begin(&r);
    for (int i = 0; i < n_in; i++)
        if (in[i]) wf_recording_add_input(&r, in[i], i);
    status = function(in, n_in, out, n_out, state);
    wf_recording_end(&r);
    if (status == WEFT_OK && r.n_breaks)
        status = WF_FAIL(WEFT_ERR_STATE, "compile record: it cannot be one list: %s",
                         r.breaks[0].reason);
    if (status == WEFT_OK) {
        weft_no_grad_open();
        status = build_list(&r, in, out, n_out, list);
        weft_no_grad_close();
    }
    weft_scope_close(scope);
    wf_recording_free(&r);
    wf_free(out);
    return status;
}

/* ---- running ---- */

static weft_tensor *run_op(const struct wf_call_list *list, const struct wf_call *call,
                           weft_tensor **of, weft_tensor **more)
{
    weft_tensor *in[WF_MAX_IN];
    struct wf_op_args args = {.attr_words = call->attr_words,
                              .attrs = &call->attrs,
                              .scalars = call->scalars,
                              .want = call->want};

    (void)list;
    for (int i = 0; i < call->n_in; i++) in[i] = call->in[i] >= 0 ? of[call->in[i]] : NULL;
    if (call->in_place) args.into = of[call->out[0]];
    return wf_dispatch_op(call->op, in, call->n_in, &args, more);
}

static weft_tensor *run_fill(const struct wf_layout *layout, const struct wf_call *call)
{
    const struct wf_tensor_desc *desc = &layout->desc;

    return weft_full((weft_dtype)desc->dtype, desc->shape, desc->ndim,
                     wf_dtypes[desc->dtype].load(call->element));
}

static weft_status check_layout(const struct wf_call_list *list, int i, int slot,
                                const weft_tensor *t)
{
    char name[200], now[200], then[200];

    if (!list->exact || t->layout == list->slots[slot].layout) return WEFT_OK;
    if (!t->layout->mesh && same_shape(t->layout, list->slots[slot].layout)) return WEFT_OK;
    wf_layout_print(t->layout, now, sizeof now);
    wf_layout_print(list->slots[slot].layout, then, sizeof then);
    return WF_FAIL(WEFT_ERR_STATE, "compile replay: %s gives %s, it gave %s",
                   wf_call_name(list, i, name, sizeof name), now, then);
}

weft_status wf_call_run(const struct wf_call_list *list, int i, weft_tensor **of)
{
    const struct wf_call *call = &list->calls[i];
    weft_tensor *made[WF_MAX_OUT] = {0};

    switch ((enum wf_call_kind)call->kind) {
    case WF_CALL_OP:
        made[0] = run_op(list, call, of, &made[1]);
        break;
    case WF_CALL_MOVE:
        made[0] = weft_redistribute(of[call->in[0]], list->slots[call->out[0]].layout->placements);
        break;
    case WF_CALL_COPY:
        return weft_copy_(of[call->out[0]], of[call->in[0]]);
    case WF_CALL_FILL:
        made[0] = run_fill(list->slots[call->out[0]].layout, call);
        break;
    }
    if (!made[0]) return weft_error_status();
    if (call->in_place) return WEFT_OK;
    for (int j = 0; j < call->n_out; j++) {
        if (call->out[j] < 0) continue;
        if (!made[j]) return weft_error_status();
        WF_TRY(check_layout(list, i, call->out[j], made[j]));
        of[call->out[j]] = made[j];
    }
    return WEFT_OK;
}
