/*
 * recompute.c: a node that stands for a whole piece of forward, and makes it again in backward.
 *
 * The first run is not recorded. In backward the piece runs once more on leaves with the bytes of
 * its inputs, is walked at once, and the gradients of those leaves go on to where the inputs came
 * from. Parameters in the piece are leaves of the inner walk like of any other.
 */
#include "autograd/tape.h"

#include "base/error.h"
#include "base/mem.h"

struct piece {
    weft_recomputable *run;
    void *payload;
    void (*release)(void *payload);
    int n;
};

static void release_piece(void *context)
{
    struct piece *piece = context;

    if (piece->release) piece->release(piece->payload);
    wf_free(piece);
}

/* A leaf with the bytes of t. */
static weft_tensor *leaf_like(const weft_tensor *t, bool wanted)
{
    weft_tensor *leaf = wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);

    leaf->pending = t->pending;
    leaf->requires_grad = wanted;
    return leaf;
}

/* The second run, recorded although backward is not. */
static weft_tensor *run_again(const struct piece *piece, weft_tensor *const *in)
{
    int depth = wf_no_grad_depth;
    weft_tensor *out;

    wf_no_grad_depth = 0;
    out = piece->run(in, piece->n, piece->payload);
    wf_no_grad_depth = depth;
    return out;
}

static void vjp(const struct wf_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    const struct piece *piece = node->context;
    weft_tensor *in[WF_NODE_INPUTS], *out;

    for (int i = 0; i < piece->n; i++) in[i] = leaf_like(node->saved[i], wf_node_wants(node, i));
    out = run_again(piece, in);
    if (!out || !out->requires_grad) return; /* everything in it is frozen */
    if (weft_backward_from(out, grad) != WEFT_OK) return;
    for (int i = 0; i < piece->n; i++) in_grads[i] = in[i]->grad;
}

static weft_status check(weft_recomputable *run, weft_tensor *const *in, int n)
{
    WF_NEED(run && n >= 0 && n <= WF_NODE_INPUTS, WEFT_ERR_ARG, "recomputed: %s, %d inputs",
            run ? "a function" : "no function", n);
    for (int i = 0; i < n; i++)
        if (!in[i])
            return weft_error_status() ? weft_error_status()
                                       : WF_FAIL(WEFT_ERR_ARG, "recomputed: input %d is NULL", i);
    return WEFT_OK;
}

static void record(weft_tensor *out, struct piece *piece, weft_tensor *const *in)
{
    struct wf_node *node = wf_node_record(out, vjp, "recomputed", piece->n, in);

    node->context = piece;
    node->release_context = release_piece;
    for (int i = 0; i < piece->n; i++) wf_node_save(node, i, in[i]);
    wf_node_cut_saved(node);
}

weft_tensor *weft_recomputed(weft_recomputable *run, weft_tensor *const *in, int n, void *payload,
                             void (*release)(void *payload))
{
    struct piece *piece = WF_NEW(struct piece);
    weft_tensor *out = NULL;

    *piece = (struct piece){run, payload, release, n};
    if (check(run, in, n) == WEFT_OK) {
        wf_no_grad_depth++;
        out = run(in, n, payload);
        wf_no_grad_depth--;
    }
    if (!out || !wf_recording() || !weft_dtype_is_float((weft_dtype)out->layout->desc.dtype)) {
        release_piece(piece);
        return out;
    }
    if (out->requires_grad) out = leaf_like(out, false); /* an input or a leaf, handed through */
    record(out, piece, in);
    return out;
}
