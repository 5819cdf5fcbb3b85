/*
 * fuse.c: chains of kernels that are bound by memory run tile by tile (replay/fused.h): formulas by
 * element, casts, norms and softmax along the last dim, sums of a residual. It takes nodes whose
 * rows are independent and whose operands are row-major: nothing that draws, writes in place or has
 * to know where in the whole tensor it is.
 *
 * A later node joins an earlier one if it is connected with it and no node between them touches the
 * same bytes. Elements are computed by the very kernels that the nodes had, so bits stay.
 */
#include "base/array_grow.h"
#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/passes/kinds.h"
#include "compile/passes/passes.h"
#include "compile/passes/rename.h"
#include "compile/replay/fused.h"

enum { MOST_STEPS = 32, MOST_SKIPPED = 16 };

/* ---- rows of a node ---- */

/* What a node is to a group. rows 0: any that divide its elements. */
struct shape {
    enum wf_chain_kind kind;
    int64_t rows, elements;
    int64_t in_elements[WF_MAX_IN], out_elements[WF_MAX_OUT]; /* 0: whole in every tile */
};

static int64_t last_dim(const struct wf_tensor_desc *desc)
{
    return desc->ndim ? desc->shape[desc->ndim - 1] : 1;
}

/* Of formulas: all operands as the result, or one element. */
static bool shape_by_element(struct shape *shape, const struct wf_kernel_call *k)
{
    int64_t n = k->out[0]->numel;

    for (int i = 0; i < k->n_in; i++) {
        if (!k->in[i] || (k->in[i]->numel != 1 && (k->in[i]->numel != n || !k->in[i]->contiguous)))
            return false;
        shape->in_elements[i] = k->in[i]->numel == 1 ? 0 : n;
    }
    shape->out_elements[0] = n;
    shape->elements = n;
    return k->out[0]->contiguous && n > 1;
}

/* Or by rows: an operand of one row for all, or of one element per row. */
static bool shape_broadcast(struct shape *shape, const struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    int64_t n = last_dim(y);

    shape->rows = y->numel / n;
    shape->elements = shape->out_elements[0] = y->numel;
    for (int i = 0; i < k->n_in; i++) {
        const struct wf_tensor_desc *x = k->in[i];

        if (!x || !x->contiguous) return false;
        if (x->numel == y->numel && x->ndim == y->ndim)
            shape->in_elements[i] = x->numel;
        else if (x->numel == 1 || (x->numel == n && last_dim(x) == n))
            shape->in_elements[i] = 0;
        else if (x->numel == shape->rows && last_dim(x) == 1 && x->ndim == y->ndim)
            shape->in_elements[i] = x->numel;
        else
            return false;
    }
    return y->contiguous && y->ndim > 1 && shape->rows > 1;
}

/* Operands of a kernel along the last dim: bit i of `whole`: parameters. */
static bool shape_by_rows(struct shape *shape, const struct wf_kernel_call *k, int64_t rows,
                          unsigned whole)
{
    shape->rows = rows;
    shape->elements = k->out[0]->numel;
    for (int i = 0; i < k->n_in; i++) {
        if (!k->in[i] || whole >> i & 1) continue;
        if (!k->in[i]->contiguous || k->in[i]->numel % rows || k->in[i]->ndim < 1) return false;
        shape->in_elements[i] = k->in[i]->numel;
    }
    for (int j = 0; j < k->n_out; j++) {
        if (!k->out[j]) continue;
        if (!k->out[j]->contiguous || k->out[j]->numel % rows) return false;
        shape->out_elements[j] = k->out[j]->numel;
    }
    return rows > 1 && k->out[0]->ndim > 1;
}

/* Of the last dim: an element for each row. */
static bool shape_reduction(struct shape *shape, const struct wf_op_plan *plan)
{
    const struct wf_tensor_desc *x = plan->kernel.in[0], *y = plan->kernel.out[0];

    if (x->ndim < 2 || plan->attrs.reduce.dims != 1u << (x->ndim - 1)) return false;
    shape->rows = y->numel;
    shape->elements = shape->in_elements[0] = x->numel;
    shape->out_elements[0] = y->numel;
    return x->contiguous && y->contiguous && shape->rows > 1;
}

static bool find_shape(struct shape *shape, const struct wf_op_plan *plan)
{
    const struct wf_kernel_call *k = &plan->kernel;
    enum wf_kernel kernel = wf_ops[plan->op].kernel;
    const struct wf_tensor_desc *x = k->in[0];
    bool grad = kernel == WF_KERNEL_layer_norm_grad || kernel == WF_KERNEL_rms_norm_grad;

    *shape = (struct shape){.kind = wf_chain_kind_of(kernel)};
    if (shape->kind == WF_KIND_NONE || !x || !k->out[0] || k->out[0]->numel < 1 || x->numel < 1)
        return false;
    switch (shape->kind) {
    case WF_KIND_BY_ELEMENT:
    case WF_KIND_LIBRARY:
        if (shape_by_element(shape, k)) return true;
        *shape = (struct shape){.kind = shape->kind};
        return shape->kind == WF_KIND_BY_ELEMENT && shape_broadcast(shape, k);
    case WF_KIND_SOFTMAX:
        return plan->attrs.dim.dim == x->ndim - 1 &&
               shape_by_rows(shape, k, x->numel / last_dim(x), 0);
    case WF_KIND_LAYER_NORM: /* sums over rows stay what they are: one kernel */
        if (grad && ((k->n_out > 1 && k->out[1]) || (k->n_out > 2 && k->out[2]))) return false;
        return shape_by_rows(shape, k, x->numel / last_dim(x), grad ? 1u << 2 : 3u << 1);
    case WF_KIND_RMS_NORM:
        if (grad && k->n_out > 1 && k->out[1]) return false;
        return shape_by_rows(shape, k, x->numel / last_dim(x), grad ? 1u << 2 : 1u << 1);
    case WF_KIND_SWIGLU:
        return shape_by_rows(shape, k,
                             kernel == WF_KERNEL_swiglu ? k->out[0]->numel / last_dim(k->out[0])
                                                        : x->numel / last_dim(x),
                             0);
    case WF_KIND_REDUCTION:
        return shape_reduction(shape, plan);
    case WF_KIND_NONE:
        return false;
    }
    return false;
}

/* ---- groups ---- */

struct storage_facts {
    int writers, reads;             /* in the list */
    int group_reads;                /* by the group that is being made */
    int64_t offset, bytes;          /* where and how much it writes or reads by rows */
    bool written, read;             /* by the group */
    bool passed_write, passed_read; /* by nodes that it passes over */
};

struct walk {
    struct wf_op_list *list;
    struct storage_facts *facts;
    int *touched, n_touched; /* storages whose facts the group has changed */
    bool passed_outside;     /* a node passed over writes to bytes from outside */
    /* the group */
    int members[MOST_STEPS], n;
    struct shape shapes[MOST_STEPS];
    int64_t rows, elements; /* rows 0: not fixed yet */
    bool library;
};

static void touch(struct walk *walk, int s)
{
    walk->touched = wf_array_grow(walk->touched, walk->n_touched, sizeof *walk->touched);
    walk->touched[walk->n_touched++] = s;
}

static void begin_group(struct walk *walk)
{
    for (int i = 0; i < walk->n_touched; i++) {
        struct storage_facts *f = &walk->facts[walk->touched[i]];

        f->group_reads = 0;
        f->written = f->read = f->passed_write = f->passed_read = false;
    }
    walk->n_touched = walk->n = 0;
    walk->passed_outside = walk->library = false;
    walk->rows = walk->elements = 0;
}

static void pass_over(int storage, bool write, void *payload)
{
    struct walk *walk = payload;
    struct storage_facts *f = &walk->facts[storage];

    touch(walk, storage);
    if (write)
        f->passed_write = true;
    else
        f->passed_read = true;
    if (write && walk->list->storages[storage].kind != WF_STORAGE_MADE) walk->passed_outside = true;
}

static bool may_join(const struct walk *walk, const struct wf_list_node *node, struct shape *shape)
{
    if (node->kind != WF_LIST_KERNEL || node->in_place || node->draws || !node->plan ||
        node->plan->device != WEFT_CPU || wf_ops[node->plan->op].prepare)
        return false;
    for (int i = 0; i < node->n_in; i++)
        if (node->plan->absent[i]) return false;
    for (int j = 0; j < node->n_out; j++) {
        int s = node->out[j].storage;

        if (s >= 0 &&
            (walk->list->storages[s].kind != WF_STORAGE_MADE || walk->facts[s].writers != 1))
            return false;
    }
    return find_shape(shape, node->plan);
}

/* Rows that suit the group and the node; -1: none. 0: any. */
static int64_t common_rows(const struct walk *walk, const struct shape *shape)
{
    bool library = walk->library || shape->kind == WF_KIND_LIBRARY;

    if (walk->n == 0) return shape->rows;
    if (!walk->rows && !shape->rows) return walk->elements == shape->elements ? 0 : -1;
    if (library) return -1;
    if (walk->rows && shape->rows) return walk->rows == shape->rows ? walk->rows : -1;
    if (walk->rows) return shape->elements % walk->rows ? -1 : walk->rows;
    return walk->elements % shape->rows ? -1 : shape->rows;
}

static int64_t size_of(const struct wf_tensor_desc *desc)
{
    return (int64_t)wf_dtypes[desc->dtype].size;
}

/* No node passed over has to come before this one, and what the group wrote it reads row by row. */
static bool operands_allow(const struct walk *walk, const struct wf_list_node *node,
                           const struct shape *shape, bool *connected)
{
    for (int i = 0; i < node->n_in; i++) {
        const struct wf_operand *o = &node->in[i];
        const struct storage_facts *f;

        if (o->storage < 0) continue;
        f = &walk->facts[o->storage];
        if (f->passed_write ||
            (walk->passed_outside && walk->list->storages[o->storage].kind != WF_STORAGE_MADE))
            return false;
        if (f->written && (!shape->in_elements[i] || o->offset != f->offset ||
                           f->bytes != shape->in_elements[i] * size_of(node->plan->kernel.in[i])))
            return false;
        if (f->written || (f->read && shape->in_elements[i])) *connected = true;
    }
    for (int j = 0; j < node->n_out; j++) {
        int s = node->out[j].storage;

        if (s >= 0 && (walk->facts[s].passed_write || walk->facts[s].passed_read ||
                       walk->facts[s].read || walk->facts[s].written))
            return false;
    }
    return true;
}

static void add_to_chain(struct walk *walk, int i, const struct shape *shape, int64_t rows)
{
    const struct wf_list_node *node = &walk->list->nodes[i];

    for (int k = 0; k < node->n_in; k++) {
        int s = node->in[k].storage;

        if (s < 0) continue;
        touch(walk, s);
        walk->facts[s].group_reads++;
        if (shape->in_elements[k]) walk->facts[s].read = true;
    }
    for (int j = 0; j < node->n_out; j++) {
        int s = node->out[j].storage;

        if (s < 0) continue;
        touch(walk, s);
        walk->facts[s].written = true;
        walk->facts[s].offset = node->out[j].offset;
        walk->facts[s].bytes = shape->out_elements[j] * size_of(node->plan->kernel.out[j]);
    }
    walk->members[walk->n] = i;
    walk->shapes[walk->n++] = *shape;
    walk->rows = rows;
    if (!shape->rows) walk->elements = shape->elements;
    walk->library |= shape->kind == WF_KIND_LIBRARY;
}

static void find_group(struct walk *walk, int first)
{
    int skipped = 0;

    for (int i = first; i < walk->list->n_nodes && walk->n < MOST_STEPS && skipped < MOST_SKIPPED;
         i++) {
        const struct wf_list_node *node = &walk->list->nodes[i];
        bool connected = walk->n == 0;
        struct shape shape;
        int64_t rows;

        if (node->dead || node->kind == WF_LIST_VIEW) continue;
        if (may_join(walk, node, &shape)) {
            rows = common_rows(walk, &shape);
            if (rows >= 0 && operands_allow(walk, node, &shape, &connected) && connected) {
                add_to_chain(walk, i, &shape, rows);
                continue;
            }
        }
        if (walk->n == 0) return;
        wf_list_node_visit_storages(walk->list, node, pass_over, walk);
        skipped++;
    }
}

/* ---- one node instead of many ---- */

static bool is_inner(const struct walk *walk, int s)
{
    const struct wf_storage *storage = &walk->list->storages[s];
    const struct storage_facts *f = &walk->facts[s];

    return f->written && storage->kind == WF_STORAGE_MADE && !storage->kept && !storage->same_as &&
           f->reads == f->group_reads;
}

static struct wf_fused_operand operand_of(const struct walk *walk, const struct wf_operand *o,
                                          const struct wf_tensor_desc *desc, int64_t elements,
                                          int64_t rows)
{
    if (o->storage < 0 || !desc) return (struct wf_fused_operand){.storage = -1};
    return (struct wf_fused_operand){.storage = o->storage,
                                     .offset = o->offset,
                                     .row_bytes = elements / rows * size_of(desc),
                                     .inner = is_inner(walk, o->storage)};
}

static struct wf_fused_step step_of(const struct walk *walk, int m, int64_t rows)
{
    const struct wf_list_node *node = &walk->list->nodes[walk->members[m]];
    const struct shape *shape = &walk->shapes[m];
    const struct wf_kernel_call *k = &node->plan->kernel;
    struct wf_fused_step step = {
        .plan = node->plan, .scalars = &node->scalars, .flat = shape->rows == 0};

    for (int i = 0; i < WF_MAX_IN; i++)
        step.in[i] = operand_of(walk, &node->in[i], i < k->n_in ? k->in[i] : NULL,
                                shape->in_elements[i], rows);
    for (int j = 0; j < WF_MAX_OUT; j++)
        step.out[j] = operand_of(walk, &node->out[j], j < k->n_out ? k->out[j] : NULL,
                                 shape->out_elements[j], rows);
    return step;
}

/* What the list shows of it: some of the operands from outside. */
static void show_operands(const struct walk *walk, struct wf_list_node *shown)
{
    for (int m = 0; m < walk->n; m++) {
        const struct wf_list_node *node = &walk->list->nodes[walk->members[m]];

        for (int i = 0; i < node->n_in && shown->n_in < WF_MAX_IN; i++)
            if (node->in[i].storage >= 0 && !walk->facts[node->in[i].storage].written)
                shown->in[shown->n_in++] = wf_operand_retain(node->in[i]);
        for (int j = 0; j < node->n_out && shown->n_out < WF_MAX_OUT; j++)
            if (node->out[j].storage >= 0 && !is_inner(walk, node->out[j].storage))
                shown->out[shown->n_out++] = wf_operand_retain(node->out[j]);
    }
}

/* Takes the place of its first member, whose plan and operands a dead node keeps until the sweep.
 */
static int replace_group(struct walk *walk)
{
    struct wf_fused_step steps[MOST_STEPS];
    int64_t rows = walk->rows ? walk->rows : walk->elements;
    struct wf_list_node *first = &walk->list->nodes[walk->members[0]];
    struct wf_list_node made = {.kind = WF_LIST_FUSED,
                                .phase = first->phase,
                                .name = "fused",
                                .module = first->module,
                                .started = -1};

    for (int i = 0; i < WF_MAX_IN; i++) made.in[i] = wf_no_operand();
    for (int j = 0; j < WF_MAX_OUT; j++) made.out[j] = wf_no_operand();
    for (int m = 0; m < walk->n; m++) steps[m] = step_of(walk, m, rows);
    made.fused = wf_fused_new(steps, walk->n, rows);
    if (!made.fused) return 0;
    show_operands(walk, &made);
    for (int m = 1; m < walk->n; m++) walk->list->nodes[walk->members[m]].dead = true;
    wf_op_list_replace_node(walk->list, walk->members[0], &made);
    return walk->n;
}

static void count_use(int storage, bool write, void *payload)
{
    struct storage_facts *facts = payload;

    if (write)
        facts[storage].writers++;
    else
        facts[storage].reads++;
}

int wf_pass_fuse(struct wf_op_list *list)
{
    struct walk walk = {.list = list};
    int changed = 0;

    walk.facts = wf_calloc((size_t)list->n_storages + 1, sizeof *walk.facts);
    for (int i = 0; i < list->n_nodes; i++)
        wf_list_node_visit_storages(list, &list->nodes[i], count_use, walk.facts);
    for (int i = 0; i < list->n_nodes; i++) {
        if (list->nodes[i].dead || list->nodes[i].kind != WF_LIST_KERNEL) continue;
        begin_group(&walk);
        find_group(&walk, i);
        if (walk.n > 1) changed += replace_group(&walk);
    }
    if (changed) wf_op_list_sweep(list);
    wf_free(walk.facts);
    wf_free(walk.touched);
    return changed;
}
