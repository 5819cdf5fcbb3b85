/*
 * local_types.c: a walk over the tape, inputs first. An operation's result varies when an operand
 * does, stays a pending sum where the operation's row in ops.def says it passes one, and is the
 * same on all ranks when all operands are.
 */
#include "dtensor/local_types.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "dtensor/plan.h"

/* What is known of a node's result. */
struct finding {
    const struct wf_node *node; /* NULL: a free slot */
    enum wf_across across[WEFT_MAX_AXES];
    bool wanted; /* a gradient reaches something that is no stand-in */
};

struct walk {
    const weft_mesh *mesh;
    int n_axes;
    const struct wf_typed *inputs;
    int n_in;
    struct finding *table; /* open addressing, at most half full */
    size_t count, mask;
    struct wf_node **stack;
    size_t depth, room;
};

const char *wf_across_name(enum wf_across across)
{
    static const char *const names[] = {"unknown", "replicated", "varying", "pending"};

    return names[across];
}

enum wf_across wf_across_of(weft_placement p)
{
    if (p.kind == WEFT_KIND_PARTIAL) return WF_PENDING;
    return p.kind == WEFT_KIND_REPLICATE ? WF_SAME : WF_VARYING;
}

/* Another handle to the elements, off the tape. */
static weft_tensor *plain_handle(const weft_tensor *t)
{
    weft_tensor *other = wf_tensor_new(t->layout, wf_block_retain(t->block), t->data, t->origin);

    other->pending = t->pending;
    return other;
}

weft_tensor *wf_types_follow(weft_tensor *t)
{
    weft_tensor *leaf;

    if (!weft_dtype_is_float(weft_tensor_dtype(t))) return t;
    leaf = plain_handle(t);
    leaf->requires_grad = true;
    return leaf;
}

/* ---- findings ---- */

static struct finding *slot_of(const struct walk *walk, const struct wf_node *node)
{
    size_t at = (size_t)((uintptr_t)node >> 4) * 0x9E3779B1u;

    while (walk->table[at & walk->mask].node && walk->table[at & walk->mask].node != node) at++;
    return &walk->table[at & walk->mask];
}

static void grow(struct walk *walk)
{
    struct finding *old = walk->table;
    size_t slots = walk->mask + 1;

    walk->mask = 2 * slots - 1;
    walk->table = wf_calloc(walk->mask + 1, sizeof *walk->table);
    for (size_t i = 0; i < slots; i++)
        if (old[i].node) *slot_of(walk, old[i].node) = old[i];
    wf_free(old);
}

static void keep(struct walk *walk, const struct finding *finding)
{
    if (2 * ++walk->count > walk->mask) grow(walk);
    *slot_of(walk, finding->node) = *finding;
}

static void push(struct walk *walk, struct wf_node *node)
{
    if (walk->depth == walk->room) {
        walk->room = walk->room ? 2 * walk->room : 64;
        walk->stack = wf_realloc(walk->stack, walk->room * sizeof(struct wf_node *));
    }
    walk->stack[walk->depth++] = node;
}

/* ---- one operation ---- */

static struct finding of_leaf(const struct walk *walk, const weft_tensor *leaf)
{
    struct finding finding = {.wanted = true};

    for (int i = 0; i < walk->n_in; i++) {
        if (walk->inputs[i].tensor != leaf) continue;
        memcpy(finding.across, walk->inputs[i].across, sizeof finding.across);
        finding.wanted = !walk->inputs[i].stand_in;
    }
    return finding;
}

static struct finding of_operand(const struct walk *walk, const struct wf_node *node, int i)
{
    if (node->producers[i]) return *slot_of(walk, node->producers[i]);
    return node->leaves[i] ? of_leaf(walk, node->leaves[i]) : (struct finding){0};
}

static bool passes_pending(const struct wf_plan *plan, unsigned pending)
{
    uint32_t linear = plan->op < WF_OP_COUNT ? wf_ops[plan->op].linear : 0;

    return pending == (linear & 0xff) || pending == (linear >> 8 & 0xff);
}

static enum wf_across combine(const struct wf_plan *plan, const enum wf_across *operands)
{
    unsigned pending = 0;
    bool unknown = false;

    for (int i = 0; i < plan->n_in; i++) {
        if (!plan->in[i]) continue;
        if (operands[i] == WF_VARYING) return WF_VARYING;
        unknown |= operands[i] == WF_UNKNOWN;
        if (operands[i] == WF_PENDING) pending |= 1u << i;
    }
    if (unknown) return WF_UNKNOWN;
    if (!pending) return WF_SAME;
    return passes_pending(plan, pending) ? WF_PENDING : WF_VARYING;
}

static void of_placements(const struct walk *walk, const struct wf_layout *layout,
                          enum wf_across *across)
{
    for (int a = 0; a < walk->n_axes && layout->mesh == walk->mesh; a++)
        across[a] = wf_across_of(layout->placements[a]);
}

static struct finding judge(const struct walk *walk, const struct wf_node *node)
{
    const struct wf_plan *plan =
        node->release_context == wf_plan_release_context ? node->context : NULL;
    enum wf_across operands[WEFT_MAX_AXES][WF_NODE_INPUTS];
    struct finding finding = {.node = node};

    for (int i = 0; i < node->n_in; i++) {
        struct finding operand = of_operand(walk, node, i);

        finding.wanted |= operand.wanted;
        for (int a = 0; a < walk->n_axes; a++) operands[a][i] = operand.across[a];
    }
    if (!plan || plan->out[0]->mesh) return finding;
    if (plan->op == WF_OP_to_local)
        of_placements(walk, plan->in[0], finding.across);
    else
        for (int a = 0; a < walk->n_axes; a++) finding.across[a] = combine(plan, operands[a]);
    return finding;
}

/* ---- all of them ---- */

/* What made an argument is none of the function's business. */
static void seed(struct walk *walk)
{
    for (int i = 0; i < walk->n_in; i++) {
        const struct wf_typed *input = &walk->inputs[i];
        struct finding finding = {.node = input->tensor->node, .wanted = true};

        if (!finding.node) continue;
        memcpy(finding.across, input->across, sizeof finding.across);
        keep(walk, &finding);
    }
}

static void visit(struct walk *walk, struct wf_node *root)
{
    push(walk, root);
    while (walk->depth) {
        struct wf_node *node = walk->stack[walk->depth - 1];
        size_t before = walk->depth;
        struct finding finding;

        if (slot_of(walk, node)->node) {
            walk->depth--;
            continue;
        }
        for (int i = 0; i < node->n_in; i++)
            if (node->producers[i] && !slot_of(walk, node->producers[i])->node)
                push(walk, node->producers[i]);
        if (walk->depth > before) continue;
        finding = judge(walk, node);
        keep(walk, &finding);
        walk->depth--;
    }
}

/* Nobody asks for a stand-in's gradient from here on. */
static void cut_stand_ins(const struct walk *walk)
{
    for (size_t s = 0; s <= walk->mask; s++) {
        struct wf_node *node = (struct wf_node *)walk->table[s].node;

        for (int i = 0; node && i < node->n_in; i++) {
            if (!node->leaves[i] || of_leaf(walk, node->leaves[i]).wanted) continue;
            weft_release(node->leaves[i]);
            node->leaves[i] = NULL;
        }
    }
}

void wf_types_infer(const weft_mesh *mesh, const struct wf_typed *inputs, int n_in, bool gradients,
                    weft_tensor **results, int n_out, enum wf_across (*across)[WEFT_MAX_AXES])
{
    struct walk walk = {
        .mesh = mesh, .n_axes = weft_mesh_ndim(mesh), .inputs = inputs, .n_in = n_in, .mask = 63};

    walk.table = wf_calloc(walk.mask + 1, sizeof *walk.table);
    seed(&walk);
    for (int j = 0; j < n_out; j++) {
        struct finding finding = {0};

        if (results[j] && results[j]->node) {
            visit(&walk, results[j]->node);
            finding = *slot_of(&walk, results[j]->node);
        } else if (results[j]) {
            finding = of_leaf(&walk, results[j]);
        }
        memcpy(across[j], finding.across, sizeof finding.across);
        if (results[j] && results[j]->requires_grad && !(finding.wanted && gradients))
            results[j] = plain_handle(results[j]);
    }
    cut_stand_ins(&walk);
    wf_free(walk.table);
    wf_free(walk.stack);
}
