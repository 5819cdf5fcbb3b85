/*
 * recompute.c: activation checkpointing: a node for a function whose forward runs again in
 * backward.
 *
 * The first run is not recorded. In backward the function runs again on leaves with the bytes of
 * its inputs and with the random numbers of the first run; a backward through that run gives the
 * gradients of those leaves, which go on to the producers of the inputs. Parameters used inside are
 * leaves of this inner backward as of any other; their gradient hooks are notified during the first
 * run that one more use follows (struct wf_recompute_uses). Tensors from outside must have the same
 * elements in both runs, except those that the function writes itself, such as running statistics.
 */
#include "autograd/tape.h"

#include "base/array_grow.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/observers.h"
#include "random/generator.h"
#include "tensor/scope.h"

struct piece {
    weft_recomputable *run;
    void *payload;
    void (*release)(void *payload);
    int n;
    unsigned modes;                /* of the scope it ran in first */
    bool in_region;                /* it ran in a local function that wants a gradient */
    bool local;                    /* it ran in a local function */
    struct wf_recompute_uses uses; /* tensors from outside that it will use once more */
    struct wf_rng_state *draws;    /* before the first run; NULL: it is not recorded */
};

/* ---- tensors that are used again ---- */

static bool uses_contain_leaf(const struct wf_recompute_uses *uses, const weft_tensor *t)
{
    for (int i = 0; i < uses->count; i++)
        if (uses->items[i].leaf == t) return true;
    return false;
}

static bool block_is_known(const struct wf_recompute_uses *uses, const struct wf_block *block)
{
    for (int i = 0; i < uses->count; i++)
        if (uses->items[i].leaf->block == block) return true;
    for (int i = uses->n_made - 1; i >= 0; i--) /* what was made last is mostly used next */
        if (uses->made[i] == block) return true;
    return false;
}

/* Handles of one block are one use, but each leaf that wants a gradient has a gradient hook of its
 * own. */
void wf_recompute_uses_add(weft_tensor *const *in, int n)
{
    struct wf_recompute_uses *uses = wf_recompute_uses;

    for (int i = 0; i < n; i++) {
        weft_tensor *t = in[i];
        bool awaited;

        if (!t || t->node) continue;
        if (t->requires_grad ? uses_contain_leaf(uses, t) : block_is_known(uses, t->block))
            continue;
        awaited = t->requires_grad && t->grad_state;
        uses->items = wf_array_grow(uses->items, uses->count, sizeof *uses->items);
        uses->items[uses->count++] = (struct wf_recompute_use){weft_retain(t), t->block->version,
                                                               awaited, wf_local_functions > 0};
        if (awaited) t->grad_state->outstanding_calls++;
    }
}

void wf_recompute_uses_add_made(const weft_tensor *t)
{
    struct wf_recompute_uses *uses = wf_recompute_uses;

    if (block_is_known(uses, t->block)) return;
    uses->made = wf_array_grow(uses->made, uses->n_made, sizeof *uses->made);
    uses->made[uses->n_made++] = t->block;
}

static void record_use_event(const struct wf_event *event, void *payload)
{
    (void)payload;
    if (event->kind == WF_EVENT_INPUTS)
        wf_recompute_uses_add(event->inputs, event->n_inputs);
    else if (event->result)
        wf_recompute_uses_add_made(event->result);
}

/* Without what the first run has written itself. */
static void keep_unmodified_uses(struct wf_recompute_uses *uses)
{
    int kept = 0;

    for (int i = 0; i < uses->count; i++) {
        struct wf_recompute_use use = uses->items[i];

        if (use.leaf->requires_grad || use.leaf->block->version == use.version)
            uses->items[kept++] = use;
        else
            weft_release(use.leaf);
    }
    uses->count = kept;
    wf_free(uses->made);
    uses->made = NULL;
    uses->n_made = 0;
}

/* Their gradient hooks need not wait for this piece any more. */
static weft_status finish_uses(struct piece *piece, bool walked)
{
    weft_status status = WEFT_OK;

    for (int i = 0; i < piece->uses.count; i++) {
        struct wf_recompute_use *use = &piece->uses.items[i];
        struct wf_grad_state *state = use->leaf->grad_state;

        if (use->awaited && state && state->outstanding_calls > 0) state->outstanding_calls--;
        if (use->awaited && state && walked && status == WEFT_OK)
            status = wf_leaf_notify_if_complete(use->leaf);
        use->awaited = false;
    }
    return status;
}

/* The second run would compute with other numbers than the first. */
static weft_status check_uses_unmodified(const struct piece *piece)
{
    for (int i = 0; i < piece->uses.count; i++) {
        const struct wf_recompute_use *use = &piece->uses.items[i];
        char text[256];

        if (use->leaf->block->version == use->version) continue;
        weft_tensor_format(use->leaf, text, sizeof text);
        WF_NEED_LOCAL(
            !use->local, WEFT_ERR_STATE,
            "recomputed: the first run used a tensor from %s in a local function that was "
            "modified in place by %s since: %s",
            use->leaf->origin, use->leaf->block->writer, text);
        return WF_FAIL(WEFT_ERR_STATE,
                       "recomputed: the first run used a tensor from %s that was modified in place "
                       "by %s since: %s",
                       use->leaf->origin, use->leaf->block->writer, text);
    }
    return WEFT_OK;
}

static void release_piece(void *context)
{
    struct piece *piece = context;

    finish_uses(piece, false);
    for (int i = 0; i < piece->uses.count; i++) weft_release(piece->uses.items[i].leaf);
    wf_free(piece->uses.items);
    wf_rng_state_free(piece->draws);
    if (piece->release) piece->release(piece->payload);
    wf_free(piece);
}

/* ---- running ---- */

/* A leaf with the bytes of t. */
static weft_tensor *new_leaf_sharing_data(const weft_tensor *t, bool wanted)
{
    weft_tensor *leaf = wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);

    leaf->in_flight = t->in_flight;
    leaf->requires_grad = wanted;
    leaf->inner_leaf = true;
    return leaf;
}

/* The second run, recorded although backward is not. */
static weft_tensor *run_second_time(const struct piece *piece, weft_tensor *const *in)
{
    int depth = wf_no_grad_depth, functions = wf_local_functions;
    weft_tensor *out;

    wf_no_grad_depth = 0;
    wf_local_functions = piece->local;
    wf_scope_set_modes(piece->modes); /* in the vjp's own scope */
    wf_rng_state_enter(piece->draws);
    if (piece->in_region)
        out = wf_local_region_recompute(piece->run, in, piece->n, piece->payload);
    else
        out = piece->run(in, piece->n, piece->payload);
    wf_rng_state_leave(piece->draws);
    wf_no_grad_depth = depth;
    wf_local_functions = functions;
    return out;
}

/* The first run. Where an outer piece is on its first, it is that which will use the leaves. */
static weft_tensor *run_first_time(struct piece *piece, weft_tensor *const *in)
{
    bool outermost = wf_grad_is_enabled();
    int wants_complete = -1;
    weft_tensor *out;

    if (outermost) {
        wf_recompute_uses = &piece->uses;
        for (int i = 0; i < piece->n; i++)
            wf_recompute_uses_add_made(in[i]); /* the node keeps them */
        wants_complete = wf_observer_add(WF_EVENT_INPUTS | WF_EVENT_OP, record_use_event, NULL);
        piece->draws = wf_rng_state_save();
    }
    wf_no_grad_depth++;
    out = piece->run(in, piece->n, piece->payload);
    wf_no_grad_depth--;
    if (outermost) {
        wf_observer_remove(wants_complete);
        keep_unmodified_uses(wf_recompute_uses);
        wf_recompute_uses = NULL;
    }
    return out;
}

/* Gradients of the leaves `in`, to which the second run leads; none if all of it is frozen. */
static weft_status rerun_and_backward(struct piece *piece, weft_tensor *const *in,
                                      weft_tensor *grad)
{
    weft_tensor *out;

    WF_TRY(check_uses_unmodified(piece));
    out = run_second_time(piece, in);
    if (!out)
        return weft_error_status()
                   ? weft_error_status()
                   : WF_FAIL(WEFT_ERR_STATE, "recomputed: nothing came of the second run");
    if (!out->requires_grad) return WEFT_OK;
    WF_TRY(weft_backward_from(out, grad));
    return finish_uses(piece, true);
}

static void vjp_recompute(const struct wf_tape_node *node, weft_tensor *grad,
                          weft_tensor **in_grads)
{
    struct piece *piece = node->context;
    weft_tensor *in[WF_NODE_INPUTS];

    for (int i = 0; i < piece->n; i++)
        in[i] = new_leaf_sharing_data(node->saved[i], wf_tape_node_needs_grad(node, i));
    if (rerun_and_backward(piece, in, grad) != WEFT_OK) return;
    for (int i = 0; i < piece->n; i++)
        if (wf_tape_node_needs_grad(node, i))
            in_grads[i] = in[i]->grad ? in[i]->grad : wf_zero_gradient_like(in[i]);
}

bool wf_tape_node_runs_again(const struct wf_tape_node *node) { return node->vjp == vjp_recompute; }

static weft_status check_arguments(weft_recomputable *run, weft_tensor *const *in, int n)
{
    WF_NEED(run && n >= 0 && n <= WF_NODE_INPUTS, WEFT_ERR_ARG, "recomputed: %s, %d inputs",
            run ? "a function" : "no function", n);
    WF_NEED(in || n == 0, WEFT_ERR_ARG, "recomputed: %d inputs, but no list of them", n);
    for (int i = 0; i < n; i++) {
        WF_NEED_GIVEN(in[i], "recomputed: input %d is NULL", i);
        WF_TRY(wf_tensor_check_alive(in[i], "recomputed"));
    }
    return WEFT_OK;
}

static weft_tensor *record_recompute_node(weft_tensor *out, struct piece *piece,
                                          weft_tensor *const *in)
{
    weft_tensor *seen;
    struct wf_tape_node *node = wf_tape_record(out, vjp_recompute, "recomputed", in, piece->n);

    node->context = piece;
    node->release_context = release_piece;
    for (int i = 0; i < piece->n; i++) wf_tape_node_save(node, i, in[i]);
    wf_tape_node_shard_saved(node);
    seen = wf_local_region_add_recomputed(out);
    piece->in_region = seen != out;
    return seen;
}

weft_tensor *weft_recomputed(weft_recomputable *run, weft_tensor *const *in, int n, void *payload,
                             void (*release)(void *payload))
{
    struct piece *piece = WF_NEW(struct piece);
    weft_tensor *out = NULL;

    *piece = (struct piece){.run = run,
                            .payload = payload,
                            .release = release,
                            .n = n,
                            .modes = wf_scope_modes(),
                            .local = wf_local_functions > 0};
    if (check_arguments(run, in, n) == WEFT_OK) out = run_first_time(piece, in);
    if (!out || !wf_grad_is_enabled() || !wf_dtype_has_gradient(out->layout->desc.dtype)) {
        release_piece(piece);
        return out;
    }
    if (out->requires_grad)
        out = new_leaf_sharing_data(out, false); /* an input or a leaf, handed through */
    return record_recompute_node(out, piece, in);
}
