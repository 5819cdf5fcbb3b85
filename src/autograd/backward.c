/*
 * backward.c: the walk from a result to the leaves.
 *
 * Two passes over the nodes that the result depends on. The first counts each node's consumers; the
 * second runs a node when all its consumers have run, and of several ready ones the one recorded
 * last. So nodes run in the reverse order of recording, and ranks whose tapes differ between the
 * same collectives reach these collectives in the same order. Each vjp runs in a scope of its own,
 * and a node releases its saved tensors as soon as it has run, so memory falls during backward.
 */
#include "autograd/tape.h"
#include "base/call_context.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/recorder.h"
#include "tensor/scope.h"

static struct wf_autograd_upcalls up;

static _Thread_local struct {
    struct wf_tape_node **items; /* nodes to visit, a stack; then nodes that are ready, a heap */
    size_t count, room;
    size_t
        base; /* where this walk's entries begin: a vjp may walk a tape of its own (recompute.c) */
    uint32_t epoch;
} work;

void wf_backward_finalize(void)
{
    wf_free(work.items);
    work.items = NULL;
    work.count = work.room = work.base = 0;
}

void wf_autograd_set_upcalls(const struct wf_autograd_upcalls *upcalls) { up = *upcalls; }

static void push_node(struct wf_tape_node *node)
{
    if (work.count == work.room) {
        work.room = work.room ? 2 * work.room : 256;
        work.items = wf_realloc(work.items, work.room * sizeof *work.items);
    }
    work.items[work.count++] = node;
}

/* The heap has the node on top that was recorded last. */
static void push_ready_node(struct wf_tape_node *node)
{
    struct wf_tape_node **heap;
    size_t at;

    push_node(node);
    heap = work.items + work.base;
    for (at = work.count - work.base - 1; at > 0; at = (at - 1) / 2) {
        if (heap[(at - 1) / 2]->number > node->number) break;
        heap[at] = heap[(at - 1) / 2];
    }
    heap[at] = node;
}

static struct wf_tape_node *pop_ready_node(void)
{
    struct wf_tape_node **heap = work.items + work.base, *first = heap[0];
    size_t n = --work.count - work.base, at = 0;
    struct wf_tape_node *last = heap[n];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < n && heap[child + 1]->number > heap[child]->number) child++;
        if (child >= n || heap[child]->number < last->number) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

weft_status wf_leaf_check_before_walk(const weft_tensor *leaf)
{
    struct wf_grad_state *state = leaf->grad_state;

    if (!state || !state->hook->check_before_walk) return WEFT_OK;
    return state->hook->before_add(state->hook, state);
}

static weft_status count_awaited_delivery(const weft_tensor *leaf)
{
    if (leaf->grad_state) leaf->grad_state->awaited++;
    return wf_leaf_check_before_walk(leaf);
}

/* First pass. Refuses, before anything has changed: a tape that was walked before, saved tensors
 * written since, and a leaf whose gradient hook refuses another term. */
static weft_status count_consumers(struct wf_tape_node *root)
{
    weft_status status = WEFT_OK;

    work.epoch++;
    root->mark = work.epoch;
    root->deps = 0;
    push_node(root);
    while (work.count > work.base) {
        struct wf_tape_node *node = work.items[--work.count];

        if (node->used)
            status = WF_FAIL(WEFT_ERR_STATE,
                             "backward: the tape through %s was freed by an earlier backward; use "
                             "weft_backward_retain "
                             "for all but the last",
                             node->name);
        for (int i = 0; i < node->n_in; i++) {
            struct wf_tape_node *producer = node->producers[i];

            if (node->leaves[i]) {
                weft_status refused = count_awaited_delivery(node->leaves[i]);

                if (status == WEFT_OK) status = refused;
            }
            if (!producer) continue;
            if (producer->mark != work.epoch) {
                producer->mark = work.epoch;
                producer->deps = 0;
                push_node(producer);
            }
            producer->deps++;
        }
        if (status == WEFT_OK) status = wf_tape_node_check_versions(node);
    }
    return status;
}

void wf_tape_visit_leaves(const weft_tensor *t, wf_leaf_visitor *visit, void *payload)
{
    size_t base = work.base;

    if (!t->node) return;
    work.base = work.count;
    work.epoch++;
    t->node->mark = work.epoch;
    push_node(t->node);
    while (work.count > work.base) {
        const struct wf_tape_node *node = work.items[--work.count];

        if (wf_tape_node_runs_again(node)) visit(NULL, payload);
        for (int i = 0; i < node->n_in; i++) {
            struct wf_tape_node *producer = node->producers[i];

            if (node->leaves[i]) visit(node->leaves[i], payload);
            if (!producer || producer->mark == work.epoch) continue;
            producer->mark = work.epoch;
            push_node(producer);
        }
    }
    work.base = base;
}

/* Put another tensor in the place of a leaf's gradient. */
static weft_status replace_leaf_gradient(weft_tensor *leaf, weft_tensor *grad)
{
    if (!grad) return weft_error_status();
    if (wf_recorder) wf_recorder->gradient_changes(wf_recorder, leaf);
    wf_block_recategorize(grad->block, WF_MEM_GRADIENTS);
    weft_retain(grad);
    weft_release(leaf->grad);
    leaf->grad = grad;
    return WEFT_OK;
}

weft_tensor *wf_zero_gradient_like(const weft_tensor *of) { return up.full_like(of, 0); }

/* The sum of the gradient so far (NULL: none) and `grad`, in place where the first is not shared.
 */
static weft_tensor *sum_gradients(weft_tensor *so_far, weft_tensor *grad)
{
    if (!so_far) return grad;
    return up.add_into(so_far, grad) ? so_far : up.add(so_far, grad);
}

weft_status wf_leaf_accumulate_grad(weft_tensor *leaf, weft_tensor *grad)
{
    weft_tensor *mine;

    if (leaf->grad_state)
        WF_TRY(leaf->grad_state->hook->before_add(leaf->grad_state->hook, leaf->grad_state));
    mine = up.to_leaf_placements(grad, leaf);
    if (!mine) return weft_error_status();
    if (wf_recorder) wf_recorder->gradient_changes(wf_recorder, leaf);
    return replace_leaf_gradient(leaf, sum_gradients(leaf->grad, mine));
}

static weft_tensor *copy_row_major(weft_tensor *grad, const weft_tensor *leaf)
{
    (void)leaf;
    return up.copy(grad);
}

/* Replace a leaf's gradient by make(gradient), outside the tape. */
static weft_status rewrite_leaf_gradient(weft_tensor *leaf,
                                         weft_tensor *(*make)(weft_tensor *, const weft_tensor *))
{
    weft_scope *scope = weft_scope_open();
    weft_status status;

    wf_no_grad_depth++;
    status = replace_leaf_gradient(leaf, make(leaf->grad, leaf));
    wf_no_grad_depth--;
    weft_scope_close(scope);
    return status;
}

/*
 * Backward may leave two leaves with one gradient (of a sum), or a view as one. It is copied when
 * somebody asks for it, because optimizers scale gradients in place.
 */
weft_status wf_leaf_unshare_grad(weft_tensor *leaf)
{
    const weft_tensor *grad = leaf->grad;

    if (grad->refs == 1 && wf_block_is_unshared(grad->block) && grad->layout->desc.contiguous)
        return WEFT_OK;
    return rewrite_leaf_gradient(leaf, copy_row_major);
}

weft_status wf_leaf_notify_if_complete(weft_tensor *leaf)
{
    struct wf_grad_state *state = leaf->grad_state;

    if (state->awaited > 0 || state->outstanding_calls > 0 || !state->hook->wants_complete)
        return WEFT_OK;
    return state->hook->complete(state->hook, state);
}

weft_status wf_leaf_deliver_grad(weft_tensor *leaf, weft_tensor *grad)
{
    if (leaf->grad_state) leaf->grad_state->awaited--;
    WF_TRY(wf_leaf_accumulate_grad(leaf, grad));
    return leaf->grad_state ? wf_leaf_notify_if_complete(leaf) : WEFT_OK;
}

/* A recorder may want gradients as results of its list: they are delivered after it. */
static weft_status deliver_gradient(weft_tensor *leaf, weft_tensor *grad)
{
    if (wf_recorder && wf_recorder->delivers(wf_recorder, leaf)) {
        grad = up.to_leaf_placements(grad, leaf);
        if (!grad) return weft_error_status();
        wf_recorder->deliver(wf_recorder, leaf, grad);
        return WEFT_OK;
    }
    return wf_leaf_deliver_grad(leaf, grad);
}

static weft_status add_gradient_to_input(struct wf_tape_node *node, int i, weft_tensor *grad)
{
    struct wf_tape_node *producer = node->producers[i];
    weft_tensor *leaf = node->leaves[i], *sum;

    if (leaf) return deliver_gradient(leaf, grad);
    sum = sum_gradients(producer->grad, grad);
    if (!sum) return weft_error_status();
    weft_retain(sum);
    weft_release(producer->grad);
    producer->grad = sum;
    return WEFT_OK;
}

weft_status wf_tape_node_add_term(struct wf_tape_node *node, int i, weft_tensor *grad)
{
    weft_tensor *leaf = node->leaves[i];

    if (!wf_tape_node_needs_grad(node, i)) return WEFT_OK;
    if (leaf && !(wf_recorder && wf_recorder->delivers(wf_recorder, leaf)))
        return wf_leaf_accumulate_grad(leaf, grad);
    if (leaf && leaf->grad_state) leaf->grad_state->awaited++; /* one more is delivered */
    return add_gradient_to_input(node, i, grad);
}

static weft_status run_vjp(struct wf_tape_node *node)
{
    weft_tensor *in_grads[WF_NODE_INPUTS] = {0};
    weft_scope *scope = weft_scope_open();
    weft_status before = weft_error_status(), status;

    wf_current_context.module = node->module;
    if (node->saved_shards)
        wf_tape_node_run_gathered(node, in_grads);
    else
        node->vjp(node, node->grad, in_grads);
    /* a piece that runs again may want no gradient for its inputs, only for leaves in it */
    status = before == WEFT_OK ? weft_error_status() : WEFT_OK;
    for (int i = 0; i < node->n_in && status == WEFT_OK; i++) {
        if (!wf_tape_node_needs_grad(node, i) || node->order_only >> i & 1) continue;
        if (in_grads[i])
            status = add_gradient_to_input(node, i, in_grads[i]);
        else if (weft_error_status() != WEFT_OK)
            status = weft_error_status();
        else
            status =
                WF_FAIL(WEFT_ERR_STATE, "backward: %s has no gradient for input %d", node->name, i);
    }
    weft_scope_close(scope);
    return status;
}

static void drop_node_gradients(struct wf_tape_node *node)
{
    weft_release(node->grad);
    node->grad = NULL;
    for (int j = 0; j < WF_NODE_FURTHER_OUTPUTS; j++) {
        weft_release(node->further_grads[j]);
        node->further_grads[j] = NULL;
    }
}

/* After a failure: gradients that no vjp consumed must not enter the next backward, nor may that
 * one wait for terms of this one. */
static void drop_undelivered_gradients(struct wf_tape_node *root)
{
    work.count = work.base;
    work.epoch++;
    push_node(root);
    while (work.count > work.base) {
        struct wf_tape_node *node = work.items[--work.count];

        if (node->mark == work.epoch) continue;
        node->mark = work.epoch;
        drop_node_gradients(node);
        for (int i = 0; i < node->n_in; i++) {
            if (node->producers[i]) push_node(node->producers[i]);
            if (node->leaves[i] && node->leaves[i]->grad_state)
                node->leaves[i]->grad_state->awaited = 0;
        }
    }
}

/* Second pass. What a node saved may have been written since the first: by an optimizer that
 * updates in backward, by a gradient function of the program's own. */
static weft_status run_ready_nodes(struct wf_tape_node *root, bool retain)
{
    struct wf_tape_node *node = root;

    while (node) {
        struct wf_tape_node *next = NULL; /* the heap is for tapes that branch */
        weft_status status = wf_tape_node_check_versions(node);

        if (status == WEFT_OK) status = run_vjp(node);
        if (status != WEFT_OK) {
            drop_undelivered_gradients(root);
            return status;
        }
        drop_node_gradients(node);
        if (!retain) {
            node->used = true;
            wf_tape_node_release_saved(node);
        }
        for (int i = 0; i < node->n_in; i++) {
            struct wf_tape_node *producer = node->producers[i];

            if (!producer || --producer->deps > 0) continue;
            if (next) push_ready_node(next);
            next = producer;
        }
        if (work.count > work.base) {
            if (next) push_ready_node(next);
            next = pop_ready_node();
        }
        node = next;
    }
    return WEFT_OK;
}

_Thread_local bool wf_backward_is_retained;

static weft_status walk_tape(weft_tensor *t, weft_tensor *gradient, bool retain)
{
    struct wf_call_context before = wf_current_context;
    bool retained_before = wf_backward_is_retained;
    size_t base = work.base;
    weft_status status;

    if (!t->node) return wf_leaf_accumulate_grad(t, gradient);
    work.base = work.count;
    status = count_consumers(t->node);
    if (status != WEFT_OK) {
        drop_undelivered_gradients(t->node);
        work.base = base;
        return status;
    }
    t->node->grad = weft_retain(gradient);
    t->node->refs++;
    wf_no_grad_depth++;
    wf_current_context.phase = WF_BACKWARD;
    wf_backward_is_retained = retain;
    status = run_ready_nodes(t->node, retain);
    wf_backward_is_retained = retained_before;
    wf_current_context = before;
    wf_no_grad_depth--;
    work.base = base;
    wf_tape_node_release(t->node);
    return status;
}

/* A gradient from the program, as one of t. */
static weft_tensor *convert_given_gradient(weft_tensor *t, weft_tensor *gradient)
{
    wf_no_grad_depth++;
    gradient = up.to_mesh_of(gradient, t);
    wf_no_grad_depth--;
    if (!gradient) return NULL;
    for (int d = 0; d < weft_ndim(t); d++)
        WF_NEED_PTR(weft_ndim(t) == weft_ndim(gradient) &&
                        weft_size(t, d) == weft_size(gradient, d),
                    WEFT_ERR_SHAPE,
                    "backward_from: the gradient's shape differs from the tensor's in dim %d", d);
    return gradient;
}

static weft_status run_backward(weft_tensor *t, weft_tensor *gradient, bool retain)
{
    weft_scope *scope;
    weft_status status;

    WF_NEED_GIVEN(t, "backward: no tensor");
    WF_TRY(wf_tensor_check_alive(t, "backward"));
    WF_TRY(wf_tensor_check_alive(gradient, "backward"));
    WF_NEED(up.add, WEFT_ERR_STATE, "backward: weft_init was not called");
    WF_NEED(t->requires_grad, WEFT_ERR_STATE,
            "backward: the tensor was not computed from anything that requires a gradient");
    WF_NEED(
        gradient || t->layout->numel == 1, WEFT_ERR_SHAPE,
        "backward: the tensor has %lld elements; only one-element tensors have an implied gradient",
        (long long)t->layout->numel);
    scope = weft_scope_open();
    wf_scope_set_saved_shard_mesh(NULL); /* what a vjp computes again it needs at once */
    gradient = gradient ? convert_given_gradient(t, gradient) : up.full_like(t, 1);
    status = gradient ? walk_tape(t, gradient, retain) : weft_error_status();
    weft_scope_close(scope);
    return status;
}

weft_status weft_backward(weft_tensor *loss) { return run_backward(loss, NULL, false); }

weft_status weft_backward_retain(weft_tensor *loss) { return run_backward(loss, NULL, true); }

weft_status weft_backward_from(weft_tensor *t, weft_tensor *gradient)
{
    WF_NEED_GIVEN(gradient, "backward_from: no gradient");
    return run_backward(t, gradient, false);
}

weft_tensor *weft_grad(weft_tensor *leaf)
{
    if (!leaf) return NULL;
    WF_TRY_PTR(wf_tensor_check_alive(leaf, "grad"));
    if (leaf->grad_state && leaf->requires_grad &&
        leaf->grad_state->hook->reduce(leaf->grad_state->hook) != WEFT_OK)
        return NULL;
    if (!leaf->grad) return NULL;
    if (wf_recorder) wf_recorder->gradient_changes(wf_recorder, leaf);
    if (leaf->grad->layout->partial && rewrite_leaf_gradient(leaf, up.reduce) != WEFT_OK)
        return NULL;
    return wf_leaf_unshare_grad(leaf) == WEFT_OK ? leaf->grad : NULL;
}

bool weft_grad_is_partial(const weft_tensor *leaf)
{
    return leaf && leaf->grad && leaf->grad->layout->partial;
}

void weft_zero_grad(weft_tensor *leaf)
{
    if (!leaf || wf_tensor_check_alive(leaf, "zero_grad") != WEFT_OK) return;
    if (wf_recorder) wf_recorder->gradient_changes(wf_recorder, leaf);
    if (leaf->grad_state)
        leaf->grad_state->hook->before_drop(leaf->grad_state->hook, leaf->grad_state);
    weft_release(leaf->grad);
    leaf->grad = NULL;
}
