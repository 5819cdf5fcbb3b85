/*
 * recompute.c: a node that stands for a whole piece of forward, and makes it again in backward.
 *
 * The first run is not recorded. In backward the piece runs once more on leaves with the bytes of
 * its inputs and with the random numbers of the first time, is walked at once, and the gradients of
 * those leaves go on to where the inputs came from. Parameters in the piece are leaves of the inner
 * walk like of any other. Who keeps them is told while the piece runs first that it will use them
 * once more (struct wf_uses). What it reads of tensors from outside, with a gradient or without,
 * must be the same the second time; only what it writes itself is its own business, such as
 * statistics.
 */
#include "autograd/tape.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/mem.h"
#include "base/observe.h"
#include "random/generator.h"
#include "tensor/scope.h"

struct piece {
    weft_recomputable *run;
    void *payload;
    void (*release)(void *payload);
    int n;
    unsigned modes;         /* of the scope it ran in first */
    bool in_region;         /* it ran in a local function that wants a gradient */
    bool local;             /* it ran in a local function */
    struct wf_uses uses;    /* tensors from outside that it will use once more */
    struct wf_draws *draws; /* before the first run; NULL: it is not recorded */
};

/* ---- tensors that are used again ---- */

static bool has_use(const struct wf_uses *uses, const weft_tensor *t)
{
    for (int i = 0; i < uses->count; i++)
        if (uses->items[i].leaf == t) return true;
    return false;
}

/* The last ones first: what was made is mostly used next. */
static bool is_made(const struct wf_uses *uses, const struct wf_block *block)
{
    for (int i = uses->n_made - 1; i >= 0; i--)
        if (uses->made[i] == block) return true;
    return false;
}

static bool is_known(const struct wf_uses *uses, const struct wf_block *block)
{
    for (int i = 0; i < uses->count; i++)
        if (uses->items[i].leaf->block == block) return true;
    return is_made(uses, block);
}

/* Handles of one block are one use, but each leaf that wants a gradient has a keeper of its own. */
void wf_uses_add(int n, weft_tensor *const *in)
{
    struct wf_uses *uses = wf_uses;

    for (int i = 0; i < n; i++) {
        weft_tensor *t = in[i];
        bool awaited;

        if (!t || t->node) continue;
        if (t->requires_grad ? has_use(uses, t) : is_known(uses, t->block)) continue;
        awaited = t->requires_grad && t->kept;
        uses->items = wf_grown(uses->items, uses->count, sizeof *uses->items);
        uses->items[uses->count++] =
            (struct wf_use){weft_retain(t), t->block->version, awaited, wf_local_functions > 0};
        if (awaited) t->kept->pieces++;
    }
}

void wf_uses_made(const weft_tensor *t)
{
    struct wf_uses *uses = wf_uses;

    if (is_known(uses, t->block)) return;
    uses->made = wf_grown(uses->made, uses->n_made, sizeof *uses->made);
    uses->made[uses->n_made++] = t->block;
}

static void note(const struct wf_event *event, void *payload)
{
    (void)payload;
    if (event->kind == WF_EVENT_INPUTS)
        wf_uses_add(event->n_inputs, event->inputs);
    else if (event->result)
        wf_uses_made(event->result);
}

/* Without what the first run has written itself. */
static void end_first_run(struct wf_uses *uses)
{
    int kept = 0;

    for (int i = 0; i < uses->count; i++) {
        struct wf_use use = uses->items[i];

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

/* Their keepers need not wait for this piece any more. */
static weft_status end_uses(struct piece *piece, bool walked)
{
    weft_status status = WEFT_OK;

    for (int i = 0; i < piece->uses.count; i++) {
        struct wf_use *use = &piece->uses.items[i];
        struct wf_kept *kept = use->leaf->kept;

        if (use->awaited && kept && kept->pieces > 0) kept->pieces--;
        if (use->awaited && kept && walked && status == WEFT_OK)
            status = wf_leaf_maybe_arrived(use->leaf);
        use->awaited = false;
    }
    return status;
}

static void drop_uses(struct piece *piece)
{
    end_uses(piece, false);
    for (int i = 0; i < piece->uses.count; i++) weft_release(piece->uses.items[i].leaf);
    wf_free(piece->uses.items);
    piece->uses = (struct wf_uses){0};
}

/* The second run would compute with other numbers than the first. */
static weft_status check_uses(const struct piece *piece)
{
    for (int i = 0; i < piece->uses.count; i++) {
        const struct wf_use *use = &piece->uses.items[i];
        char text[256];

        if (use->leaf->block->version == use->version) continue;
        weft_tensor_describe(use->leaf, text, sizeof text);
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

    drop_uses(piece);
    wf_draws_free(piece->draws);
    if (piece->release) piece->release(piece->payload);
    wf_free(piece);
}

/* ---- running ---- */

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
    int depth = wf_no_grad_depth, functions = wf_local_functions;
    weft_tensor *out;

    wf_no_grad_depth = 0;
    wf_local_functions = piece->local;
    wf_scope_set_modes(piece->modes); /* in the vjp's own scope */
    wf_draws_begin(piece->draws);
    if (piece->in_region)
        out = wf_local_region_run_piece(piece->run, in, piece->n, piece->payload);
    else
        out = piece->run(in, piece->n, piece->payload);
    wf_draws_end(piece->draws);
    wf_no_grad_depth = depth;
    wf_local_functions = functions;
    return out;
}

/* The first run. Where an outer piece is on its first, it is that which will use the leaves. */
static weft_tensor *run_first(struct piece *piece, weft_tensor *const *in)
{
    bool outermost = wf_recording();
    int listening = -1;
    weft_tensor *out;

    if (outermost) {
        wf_uses = &piece->uses;
        for (int i = 0; i < piece->n; i++) wf_uses_made(in[i]); /* the node keeps them */
        listening = wf_observe_add(WF_EVENT_INPUTS | WF_EVENT_OP, note, NULL);
        piece->draws = wf_draws_save();
    }
    wf_no_grad_depth++;
    out = piece->run(in, piece->n, piece->payload);
    wf_no_grad_depth--;
    if (outermost) {
        wf_observe_remove(listening);
        end_first_run(wf_uses);
        wf_uses = NULL;
    }
    return out;
}

/* Gradients of the leaves `in`, to which the second run leads; none if all of it is frozen. */
static weft_status walk_again(struct piece *piece, weft_tensor *const *in, weft_tensor *grad)
{
    weft_tensor *out;

    WF_TRY(check_uses(piece));
    out = run_again(piece, in);
    if (!out)
        return weft_error_status()
                   ? weft_error_status()
                   : WF_FAIL(WEFT_ERR_STATE, "recomputed: nothing came of the second run");
    if (!out->requires_grad) return WEFT_OK;
    WF_TRY(weft_backward_from(out, grad));
    return end_uses(piece, true);
}

static void vjp(const struct wf_node *node, weft_tensor *grad, weft_tensor **in_grads)
{
    struct piece *piece = node->context;
    weft_tensor *in[WF_NODE_INPUTS];

    for (int i = 0; i < piece->n; i++) in[i] = leaf_like(node->saved[i], wf_node_wants(node, i));
    if (walk_again(piece, in, grad) != WEFT_OK) return;
    for (int i = 0; i < piece->n; i++)
        if (wf_node_wants(node, i)) in_grads[i] = in[i]->grad ? in[i]->grad : wf_no_gradient(in[i]);
}

static weft_status check(weft_recomputable *run, weft_tensor *const *in, int n)
{
    WF_NEED(run && n >= 0 && n <= WF_NODE_INPUTS, WEFT_ERR_ARG, "recomputed: %s, %d inputs",
            run ? "a function" : "no function", n);
    WF_NEED(in || n == 0, WEFT_ERR_ARG, "recomputed: %d inputs, but no list of them", n);
    for (int i = 0; i < n; i++) {
        WF_NEED_GIVEN(in[i], "recomputed: input %d is NULL", i);
        WF_TRY(wf_tensor_need_live(in[i], "recomputed"));
    }
    return WEFT_OK;
}

static weft_tensor *record(weft_tensor *out, struct piece *piece, weft_tensor *const *in)
{
    weft_tensor *seen;
    struct wf_node *node = wf_node_record(out, vjp, "recomputed", piece->n, in);

    node->context = piece;
    node->release_context = release_piece;
    for (int i = 0; i < piece->n; i++) wf_node_save(node, i, in[i]);
    wf_node_cut_saved(node);
    seen = wf_local_region_piece(out);
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
    if (check(run, in, n) == WEFT_OK) out = run_first(piece, in);
    if (!out || !wf_recording() || !weft_dtype_is_float((weft_dtype)out->layout->desc.dtype)) {
        release_piece(piece);
        return out;
    }
    if (out->requires_grad) out = leaf_like(out, false); /* an input or a leaf, handed through */
    return record(out, piece, in);
}
