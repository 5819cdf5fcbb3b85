/*
 * epilogue.c: what stands behind a product and reads it element by element (an activation and its
 * gradient, the addition of a residual, a scale, a cast to f32), and the sum over rows that is the
 * gradient of a bias, become part of the product's kernel. On a GPU cuBLASLt computes them before
 * the product is written, without rounding it in between: so the pass is off by itself. On the CPU
 * they run behind the product, with the same bits and no faster; a product of bf16 that is written
 * in f32 at once is not rounded to bf16, so casts stay apart there.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "compile/list/derived_plan.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"
#include "ops/op_table.h"

enum { FARTHEST = 64 }; /* nodes between the two */

/* Which kernels become one. */
static const struct join {
    enum wf_kernel product, other;
    enum wf_epilogue epilogue; /* none: a sum beside it, or a cast */
    const char *name;
} joins[] = {
#define JOIN(product, other, epilogue)                                                             \
    WF_KERNEL_##product, WF_KERNEL_##other, WF_EPILOGUE_##epilogue, #product "+" #other
    {JOIN(linear, gelu_tanh, GELU_TANH)},
    {JOIN(linear, add, ADD)},
    {JOIN(linear_dx, gelu_tanh_grad, GELU_TANH_GRAD)},
    {JOIN(linear, mul_scalar, SCALE)},
    {JOIN(linear_dx, mul_scalar, SCALE)},
    {JOIN(matmul, mul_scalar, SCALE)},
    {JOIN(linear, cast, NONE)},
    {JOIN(linear_dx, cast, NONE)},
    {JOIN(linear_dw, cast, NONE)},
    {JOIN(linear_dw, sum, NONE)},
#undef JOIN
};
enum { JOINS = sizeof joins / sizeof *joins };

/* Two nodes that become one, where the first of them stands. */
struct match {
    const struct join *join;
    int product, other;
    int beside;                    /* operand of `other` that the epilogue reads too; -1: none */
    enum wf_summed_operand summed; /* of the product, by `other` */
    bool keeps;                    /* the product is needed itself */
};

struct walk {
    struct wf_op_list *list;
    int *readers; /* of each storage: nodes that read it */
    bool *given;  /* it outlives the list, or is not the list's own */
};

static enum wf_kernel kernel_of(const struct wf_list_node *node)
{
    return node->kind == WF_LIST_KERNEL && node->plan && !node->in_place && !node->draws &&
                   !node->dead
               ? (enum wf_kernel)wf_ops[node->plan->op].kernel
               : WF_KERNEL_COUNT;
}

static bool has_no_epilogue(enum wf_kernel product, const union wf_op_attrs *attrs)
{
    if (product == WF_KERNEL_matmul) return attrs->matmul.epilogue == WF_EPILOGUE_NONE;
    return product == WF_KERNEL_linear_dw ? attrs->linear_dw.summed == WF_SUMMED_NONE
                                          : attrs->linear.epilogue == WF_EPILOGUE_NONE;
}

/* A product of which no pass has made something else yet. */
static bool is_product(const struct wf_list_node *node)
{
    enum wf_kernel kernel = kernel_of(node);
    const struct wf_kernel_call *k;

    if (kernel != WF_KERNEL_linear && kernel != WF_KERNEL_linear_dx &&
        kernel != WF_KERNEL_linear_dw && kernel != WF_KERNEL_matmul)
        return false;
    k = &node->plan->kernel;
    if (k->n_out != 1 || !k->out[0]->numel || !k->in[0]->numel ||
        !wf_dtypes[k->in[0]->dtype].is_float)
        return false;
    for (int i = 0; i < k->n_in; i++)
        if (k->in[i] && k->in[i] != &node->plan->used[i]->desc) return false;
    return k->out[0]->dtype == k->in[0]->dtype && has_no_epilogue(kernel, &node->plan->attrs);
}

/* ---- which nodes may become one ---- */

struct use {
    const struct wf_op_list *list;
    int storage;
    bool reads, writes, meets;
};

static void note_use(int storage, bool write, void *payload)
{
    struct use *use = payload;

    if (write && wf_storages_may_meet(use->list, storage, use->storage)) use->meets = true;
    if (storage != use->storage) return;
    use->reads |= !write;
    use->writes |= write;
}

static struct use use_between(const struct walk *walk, int storage, int first, int end)
{
    struct use use = {.list = walk->list, .storage = storage};

    for (int i = first; i < end; i++)
        if (walk->list->nodes[i].kind != WF_LIST_VIEW && !walk->list->nodes[i].dead)
            wf_list_node_visit_storages(walk->list, &walk->list->nodes[i], note_use, &use);
    return use;
}

/* The later node may stand where the earlier one does, whose result alone it need not wait for. */
static bool may_move_up(const struct walk *walk, int later, int to, int result)
{
    const struct wf_list_node *node = &walk->list->nodes[later];

    for (int i = 0; i < node->n_in; i++)
        if (node->in[i].storage >= 0 && node->in[i].storage != result &&
            use_between(walk, node->in[i].storage, to, later).meets)
            return false;
    for (int j = 0; j < node->n_out; j++) {
        struct use use = use_between(walk, node->out[j].storage, to, later);

        if (walk->list->storages[node->out[j].storage].kind != WF_STORAGE_MADE || use.reads ||
            use.writes)
            return false;
    }
    return result < 0 || !use_between(walk, result, to + 1, later).writes;
}

/* Elements side by side, in the product's order. */
static bool is_alike(const struct wf_tensor_desc *a, const struct wf_tensor_desc *b)
{
    return a && a->contiguous && a->numel == b->numel && a->dtype == b->dtype;
}

static bool have_same_shape(const struct wf_tensor_desc *a, const struct wf_tensor_desc *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim) == 0;
}

/* A product of 16-bit floats that is written in f32 at once; cuBLASLt has none with a bias of 16
 * bits.
 */
static bool match_cast(const struct walk *walk, const struct match *m)
{
    const struct wf_list_node *product = &walk->list->nodes[m->product],
                              *other = &walk->list->nodes[m->other];
    const struct wf_tensor_desc *made = product->plan->kernel.out[0],
                                *wide = other->plan->kernel.out[0];
    int s = product->out[0].storage;

    return other->plan->device == WEFT_CUDA && product->n_in == 2 &&
           wf_dtype_is_16_bit_float(made->dtype) && wide->dtype == WEFT_F32 && wide->contiguous &&
           wide->numel == made->numel &&
           wf_operands_begin_together(&other->in[0], &product->out[0]) &&
           is_alike(other->plan->kernel.in[0], made) && walk->readers[s] == 1 && !walk->given[s];
}

/* cuBLASLt would not scale a bias, and times 0 it need not look at operands that are NaN. */
static bool can_be_scaled_in_product(const struct wf_list_node *product,
                                     const struct wf_list_node *other)
{
    double scale = other->scalars.s[0];

    if (product->plan->kernel.out[0]->dtype != WEFT_F64) scale = (float)scale;
    return product->n_in == 2 && scale != 0;
}

/* The node reads the product element by element. Kept beside it, only what gelu's gradient needs.
 */
static bool match_epilogue(const struct walk *walk, struct match *m)
{
    const struct wf_list_node *product = &walk->list->nodes[m->product],
                              *other = &walk->list->nodes[m->other];
    const struct wf_kernel_call *k = &other->plan->kernel;
    int s = product->out[0].storage,
        at = wf_operands_begin_together(&other->in[0], &product->out[0]) ? 0 : 1;

    if (other->n_out != 1 || other->n_in > 2 || at >= other->n_in ||
        !wf_operands_begin_together(&other->in[at], &product->out[0]) ||
        (at == 1 && m->join->epilogue != WF_EPILOGUE_ADD) ||
        !is_alike(k->out[0], product->plan->kernel.out[0]))
        return false;
    for (int i = 0; i < other->n_in; i++)
        if (other->plan->absent[i] || !is_alike(k->in[i], k->out[0])) return false;
    m->beside = other->n_in == 2 ? 1 - at : -1;
    if (m->beside >= 0 && other->in[m->beside].storage == s) return false;
    m->keeps = walk->readers[s] > 1 || walk->given[s];
    if (m->join->epilogue == WF_EPILOGUE_SCALE && !can_be_scaled_in_product(product, other))
        return false;
    if (m->join->product == WF_KERNEL_matmul &&
        !have_same_shape(k->out[0], product->plan->kernel.out[0]))
        return false; /* matmul finds its batch by the result's shape */
    return !m->keeps || m->join->epilogue == WF_EPILOGUE_GELU_TANH;
}

/* The sum over all rows of what the gradient of the weight is computed from. */
static bool match_sum(const struct walk *walk, struct match *m)
{
    const struct wf_list_node *product = &walk->list->nodes[m->product],
                              *other = &walk->list->nodes[m->other];
    const struct wf_linear_dw_attrs *attrs = &product->plan->attrs.linear_dw;
    const struct wf_reduce_attrs *reduce = &other->plan->attrs.reduce;

    if (other->plan->device == WEFT_CUDA &&
        (!wf_knobs.cublas || other->plan->kernel.in[0]->dtype == WEFT_F64))
        return false; /* our own kernels sum better apart */
    if (other->n_in != 1 || other->plan->absent[0] || other->scalars.s[0] != 1 || reduce->mean ||
        reduce->wide)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct wf_tensor_desc *d = product->plan->kernel.in[i];
        int rows = d->ndim - (i ? attrs->k_dims : attrs->n_dims);

        if (product->plan->absent[i] ||
            !wf_operands_begin_together(&other->in[0], &product->in[i]) ||
            !is_alike(other->plan->kernel.in[0], d) || other->plan->kernel.in[0]->ndim != d->ndim ||
            reduce->dims != (1u << rows) - 1 || !other->plan->kernel.out[0]->contiguous ||
            other->plan->kernel.out[0]->dtype != d->dtype)
            continue;
        m->summed = i ? WF_SUMMED_RIGHT : WF_SUMMED_LEFT;
        return true;
    }
    return false;
}

static const struct join *find_join(enum wf_kernel product, enum wf_kernel other)
{
    for (int i = 0; i < JOINS; i++)
        if (joins[i].product == product && joins[i].other == other) return &joins[i];
    return NULL;
}

/* The node at `other`, which may stand before a weight's gradient. */
static bool may_become_one(const struct walk *walk, struct match *m)
{
    const struct wf_list_node *product = &walk->list->nodes[m->product],
                              *other = &walk->list->nodes[m->other];
    bool earlier = m->other < m->product;

    m->join = find_join(kernel_of(product), kernel_of(other));
    if (!m->join || other->plan->device != product->plan->device) return false;
    if (m->join->other == WF_KERNEL_sum)
        return match_sum(walk, m) && may_move_up(walk, earlier ? m->product : m->other,
                                                 earlier ? m->other : m->product, -1);
    return !earlier &&
           (m->join->other == WF_KERNEL_cast ? match_cast(walk, m) : match_epilogue(walk, m)) &&
           may_move_up(walk, m->other, m->product, product->out[0].storage);
}

static bool find_match(const struct walk *walk, int product, struct match *m)
{
    bool gradient = kernel_of(&walk->list->nodes[product]) == WF_KERNEL_linear_dw;
    int first = gradient && product > FARTHEST ? product - FARTHEST : gradient ? 0 : product;

    for (int i = first; i < walk->list->n_nodes && i <= product + FARTHEST; i++) {
        *m = (struct match){.product = product, .other = i, .beside = -1};
        if (i != product && may_become_one(walk, m)) return true;
    }
    return false;
}

/* ---- the node of both ---- */

/* NULL: the kernel refuses. */
static struct wf_op_plan *plan_of_joined_node(const struct match *m,
                                              const struct wf_op_plan *product,
                                              const struct wf_op_plan *other)
{
    struct wf_op_plan *plan = wf_derived_plan_new_like(product);
    int last = m->join->epilogue == WF_EPILOGUE_ADD ? 3 : 2; /* behind the place of a bias */

    plan->name = m->join->name;
    if (m->join->product == WF_KERNEL_linear_dw)
        plan->attrs.linear_dw.summed = (uint8_t)m->summed;
    else if (m->join->product == WF_KERNEL_matmul)
        plan->attrs.matmul.epilogue = (uint8_t)m->join->epilogue;
    else {
        plan->attrs.linear.epilogue = (uint8_t)m->join->epilogue;
        plan->attrs.linear.wide = m->join->other == WF_KERNEL_cast;
    }
    for (int i = 0; i < product->n_in; i++)
        if (product->used[i]) plan->used[i] = wf_layout_retain(product->used[i]);
    if (m->beside >= 0) plan->used[last] = wf_layout_retain(other->used[m->beside]);
    plan->n_in = m->beside >= 0 ? (uint8_t)(last + 1) : product->n_in;
    plan->out[0] = wf_layout_retain(m->summed ? product->out[0] : other->out[0]);
    if (m->keeps || m->summed)
        plan->out[1] = wf_layout_retain(m->keeps ? product->out[0] : other->out[0]);
    plan->n_out = plan->out[1] ? 2 : 1;
    return wf_derived_plan_prepare(plan);
}

static bool join_nodes(struct walk *walk, const struct match *m)
{
    const struct wf_list_node *product = &walk->list->nodes[m->product],
                              *other = &walk->list->nodes[m->other];
    struct wf_op_plan *plan = plan_of_joined_node(m, product->plan, other->plan);
    struct wf_list_node both = {.kind = WF_LIST_KERNEL, .started = -1};

    if (!plan) return false;
    both.name = plan->name;
    both.module = product->module;
    both.phase = product->phase;
    both.plan = plan;
    both.scalars = m->join->epilogue == WF_EPILOGUE_SCALE ? other->scalars : product->scalars;
    both.n_in = plan->n_in;
    both.n_out = plan->n_out;
    for (int i = 0; i < both.n_in; i++)
        both.in[i] = i < product->n_in ? wf_operand_retain(product->in[i]) : wf_no_operand();
    if (m->beside >= 0) both.in[both.n_in - 1] = wf_operand_retain(other->in[m->beside]);
    both.out[0] = wf_operand_retain(m->summed ? product->out[0] : other->out[0]);
    if (both.n_out > 1)
        both.out[1] = wf_operand_retain(m->summed ? other->out[0] : product->out[0]);
    walk->list->nodes[m->product > m->other ? m->product : m->other].dead = true;
    wf_op_list_replace_node(walk->list, m->product < m->other ? m->product : m->other, &both);
    return true;
}

/* ---- the pass ---- */

static void count_reader(int storage, bool write, void *payload)
{
    struct walk *walk = payload;

    if (!write) walk->readers[storage]++;
}

int wf_pass_epilogue(struct wf_op_list *list)
{
    struct walk walk = {.list = list,
                        .readers = wf_calloc((size_t)list->n_storages + 1, sizeof(int)),
                        .given = wf_calloc((size_t)list->n_storages + 1, sizeof(bool))};
    int changed = 0;

    for (int s = 0; s < list->n_storages; s++)
        walk.given[s] = list->storages[s].kind != WF_STORAGE_MADE || list->storages[s].kept ||
                        wf_op_list_gives(list, s);
    for (int i = 0; i < list->n_nodes; i++)
        if (list->nodes[i].kind != WF_LIST_VIEW)
            wf_list_node_visit_storages(list, &list->nodes[i], count_reader, &walk);
    for (int i = 0; i < list->n_nodes; i++) {
        struct match m;

        if (is_product(&list->nodes[i]) && find_match(&walk, i, &m))
            changed += join_nodes(&walk, &m);
    }
    wf_op_list_sweep(list);
    wf_free(walk.readers);
    wf_free(walk.given);
    return changed;
}
