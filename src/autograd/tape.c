/* tape.c: nodes: new, retain, save, release. Backward itself is in backward.c. */
#include "autograd/tape.h"

#include "base/call_context.h"
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"

enum { NODES_PER_CHUNK = 64 };

_Thread_local int wf_no_grad_depth;
_Thread_local int wf_local_functions;
_Thread_local struct wf_recompute_uses *wf_recompute_uses;

static _Thread_local struct {
    uint64_t recorded;
    struct wf_tape_node *free;
    struct wf_tape_node *dying; /* released nodes whose references are still to be dropped */
    bool dropping;
    void **chunks;
    int n_chunks;
} nodes;

static void add_node_chunk(void)
{
    struct wf_tape_node *chunk = wf_calloc(NODES_PER_CHUNK, sizeof *chunk);

    nodes.chunks = wf_realloc(nodes.chunks, (size_t)(nodes.n_chunks + 1) * sizeof *nodes.chunks);
    nodes.chunks[nodes.n_chunks++] = chunk;
    for (int i = 0; i < NODES_PER_CHUNK; i++) {
        chunk[i].next_free = nodes.free;
        nodes.free = &chunk[i];
    }
}

static void connect_input(struct wf_tape_node *node, int i, weft_tensor *in)
{
    node->producers[i] = NULL;
    node->leaves[i] = NULL;
    if (!in || !in->requires_grad) return;
    if (in->node) {
        node->producers[i] = in->node;
        in->node->refs++;
    } else {
        node->leaves[i] = weft_retain(in);
    }
}

struct wf_tape_node *wf_tape_record(weft_tensor *out, wf_vjp *vjp, const char *name,
                                    weft_tensor *const *in, int n_in)
{
    struct wf_tape_node *node;

    if (!nodes.free) add_node_chunk();
    node = nodes.free;
    nodes.free = node->next_free;
    node->vjp = vjp;
    node->name = name;
    node->module = wf_current_context.module;
    node->context = NULL;
    node->release_context = NULL;
    node->grad = NULL;
    for (int j = 0; j < WF_NODE_FURTHER_OUTPUTS; j++) node->further_grads[j] = NULL;
    node->number = ++nodes.recorded;
    node->refs = 1;
    node->n_in = n_in;
    node->order_only = 0;
    node->deps = 0;
    node->mark = 0;
    node->used = false;
    node->local = wf_local_functions > 0;
    for (int i = 0; i < n_in; i++) connect_input(node, i, in[i]);
    node->saved_slots = 0;
    node->writes = wf_inplace_write_count;
    node->saved_shards = NULL;
    out->node = node;
    out->requires_grad = true;
    return node;
}

uint64_t wf_tape_recorded_count(void) { return nodes.recorded; }

void wf_tape_node_add_order_edge(struct wf_tape_node *node, struct wf_tape_node *earlier)
{
    WF_ASSERT(node->n_in < WF_NODE_INPUTS && earlier->number < node->number);
    node->order_only |= (uint8_t)(1u << node->n_in);
    node->leaves[node->n_in] = NULL;
    node->producers[node->n_in++] = earlier;
    earlier->refs++;
}

/* The gradient of a further output waits in the node that made it. */
static void deliver_to_maker(const struct wf_tape_node *node, weft_tensor *grad, weft_tensor **in)
{
    (void)in;
    node->producers[0]->further_grads[node->v[0]] = grad ? weft_retain(grad) : NULL;
}

/* Of another handle: the maker may have saved `out`, and would keep itself alive. */
weft_tensor *wf_tape_record_further_output(weft_tensor *first, int which, weft_tensor *out)
{
    struct wf_tape_node *node;
    weft_tensor *seen;

    if (!first || !out || !first->node) return out;
    WF_ASSERT(which >= 0 && which < WF_NODE_FURTHER_OUTPUTS);
    seen = wf_tensor_new(out->layout, wf_block_retain(out->block), out->data, out->origin);
    seen->in_flight = out->in_flight;
    node = wf_tape_record(seen, deliver_to_maker, first->node->name, &first, 1);
    node->order_only = 1;
    node->v[0] = which;
    return seen;
}

void wf_tape_node_release_saved(struct wf_tape_node *node)
{
    for (uint32_t left = node->saved_slots; left; left &= left - 1)
        weft_release(node->saved[__builtin_ctz(left)]);
    node->saved_slots = 0;
    wf_saved_shards_free(node->saved_shards);
    node->saved_shards = NULL;
}

weft_status wf_tape_node_fail_modified(const struct wf_tape_node *node, const weft_tensor *t)
{
    struct wf_call_context before = wf_current_context;
    char text[256];

    wf_current_context.module = node->module;
    weft_tensor_format(t, text, sizeof text);
    if (node->local)
        WF_FAIL_LOCAL(
            WEFT_ERR_STATE,
            "backward: the gradient of %s in a local function needs a tensor from %s that "
            "was modified in place by %s since: %s; write before the forward or after the "
            "backward, or to a copy",
            node->name, t->origin, t->block->writer, text);
    else
        WF_FAIL(WEFT_ERR_STATE,
                "backward: the gradient of %s needs a tensor from %s that was modified in place by "
                "%s since: %s; write before the forward or after the backward, or to a copy",
                node->name, t->origin, t->block->writer, text);
    wf_current_context = before;
    return WEFT_ERR_STATE;
}

/* Drop what the node refers to. Producers that die of it are queued, not recursed into: a chain of
 * a million nodes must not need a million stack frames. */
static void release_node_references(struct wf_tape_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        if (node->producers[i]) wf_tape_node_release(node->producers[i]);
        if (node->leaves[i]) weft_release(node->leaves[i]);
    }
    wf_tape_node_release_saved(node);
    if (node->grad) weft_release(node->grad);
    for (int j = 0; j < WF_NODE_FURTHER_OUTPUTS; j++) weft_release(node->further_grads[j]);
    if (node->context) node->release_context(node->context);
}

void wf_tape_node_release(struct wf_tape_node *node)
{
    if (--node->refs > 0) return;
    node->next_free = nodes.dying;
    nodes.dying = node;
    if (nodes.dropping) return;
    nodes.dropping = true;
    while ((node = nodes.dying)) {
        nodes.dying = node->next_free;
        release_node_references(node);
        node->next_free = nodes.free;
        nodes.free = node;
    }
    nodes.dropping = false;
}

void wf_autograd_finalize(void)
{
    wf_backward_finalize();
    for (int c = 0; c < nodes.n_chunks; c++) wf_free(nodes.chunks[c]);
    wf_free(nodes.chunks);
    nodes.free = NULL;
    nodes.chunks = NULL;
    nodes.n_chunks = 0;
}

void weft_no_grad_open(void) { wf_no_grad_depth++; }

weft_status weft_no_grad_close(void)
{
    WF_NEED(wf_no_grad_depth > 0, WEFT_ERR_STATE, "no_grad_close: no region is open");
    wf_no_grad_depth--;
    return WEFT_OK;
}

weft_tensor *weft_set_requires_grad(weft_tensor *t, bool wanted)
{
    if (!t) return NULL;
    WF_TRY_PTR(wf_tensor_check_alive(t, "set_requires_grad"));
    WF_NEED_PTR(!t->node, WEFT_ERR_STATE,
                "set_requires_grad: the tensor is the result of %s, not a leaf", t->node->name);
    WF_NEED_PTR(!wanted || wf_dtype_has_gradient(weft_tensor_dtype(t)), WEFT_ERR_DTYPE,
                "set_requires_grad: %s tensors carry no gradient",
                weft_dtype_name(weft_tensor_dtype(t)));
    t->requires_grad = wanted;
    return t;
}

bool weft_requires_grad(const weft_tensor *t) { return t && t->requires_grad; }
