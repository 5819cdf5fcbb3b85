/*
 * pipeline.c: communication and products by turns. A gather whose result products read becomes a
 * broadcast of each rank's rows, and a product runs for the rows that are there while the next are
 * on their way. A product whose terms are scattered is computed for the rows of one rank after the
 * other, and each rank's sum begins while the next rows are computed.
 *
 * Rows are computed by the same kernels and terms are added in the same order; but a product of
 * fewer rows may add up in another order within a row, so this pass is off by itself. Where it is
 * on, the model of cost decides, from what all ranks know.
 */
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "compile/passes/passes.h"
#include "compile/passes/patterns.h"
#include "compile/passes/pieces.h"
#include "compile/passes/rename.h"
#include "dtensor/dispatch/plan_cache.h"
#include "kernels/device_kernels.h"
#include "mesh/mesh.h"
#include "ops/op_table.h"
#include "redistribute/link_cost.h"

enum { MOST_PRODUCTS = 8 };

/* Multiplications and additions of a core in a microsecond, about: only to tell what is far off. */
static const double flops = 5e4;

struct uses {
    int reads, writers, last_writer;
};

struct job;

struct walk {
    struct wf_op_list *list; /* the new nodes */
    struct wf_list_node *old;
    int n_old;
    struct uses *uses;
    struct job **jobs; /* of each old node that becomes pieces */
};

/* ---- what pays ---- */

static int64_t box_before(const struct wf_tensor_desc *desc, int dim)
{
    int64_t n = 1;

    for (int d = 0; d < dim; d++) n *= desc->shape[d];
    return n;
}

static double link_time(const struct wf_redist_plan *move, int axis, double bytes)
{
    struct wf_redist_problem problem = wf_redist_problem(move->from, move->to->placements);

    return wf_collective_time(problem.links[axis], wf_mesh_sizes(move->from->mesh)[axis] - 1,
                              bytes);
}

/* Time that would be hidden against that of the starts in between. Global sizes only. */
static bool pays(const struct wf_redist_plan *move, int axis, int ranks,
                 const struct wf_list_node *product)
{
    const struct wf_layout *out = move->to, *b = product->plan->used[1];
    double bytes = (double)out->numel * (double)wf_dtypes[out->desc.dtype].size;
    double all = link_time(move, axis, bytes), start = link_time(move, axis, 0);
    double product_time = 2 * (double)product->plan->out[0]->numel * (double)b->numel /
                          (double)(b->desc.ndim ? b->desc.global[0] : 1) / flops / ranks;
    double hidden = (all < product_time ? all : product_time) * (ranks - 1) / ranks;

    return wf_passes_forced || hidden > start * (ranks - 1);
}

/* ---- a gather before products ---- */

/* It reads the gathered rows, and all else that it needs was there before the gather. */
static bool can_follow(const struct walk *walk, const struct wf_found_gather *g, int i)
{
    const struct wf_list_node *move = &walk->old[g->node], *node = &walk->old[i];
    const struct wf_tensor_desc *a;

    if (node->dead || !wf_is_product_by_rows(node, g->dim)) return false;
    a = node->plan->kernel.in[0];
    if (node->in[0].storage != move->out[0].storage || node->in[0].offset != move->out[0].offset ||
        !a->contiguous || a->ndim != move->move->to->desc.ndim ||
        memcmp(a->shape, move->move->to->desc.shape, (size_t)a->ndim * sizeof *a->shape) != 0)
        return false;
    for (int k = 1; k < node->n_in; k++)
        if (node->in[k].storage >= 0 && (walk->uses[node->in[k].storage].last_writer >= g->node ||
                                         node->in[k].storage == move->out[0].storage))
            return false;
    return walk->uses[node->out[0].storage].writers == 1;
}

struct gathered {
    struct wf_found_gather found;
    int products[MOST_PRODUCTS], n;
    bool needed; /* somebody else reads the whole */
};

static bool find_products(const struct walk *walk, struct gathered *g)
{
    const struct wf_list_node *move = &walk->old[g->found.node];
    const struct wf_tensor_desc *desc = &move->move->to->desc;
    int s = move->out[0].storage;

    g->n = 0;
    if (walk->uses[s].writers != 1 || !desc->contiguous) return false;
    for (int i = g->found.node + 1; i < walk->n_old && g->n < MOST_PRODUCTS; i++)
        if (can_follow(walk, &g->found, i)) g->products[g->n++] = i;
    g->needed = walk->uses[s].reads > g->n || walk->list->storages[s].kept;
    return g->n > 0 && pays(move->move, g->found.axis, g->found.ranks, &walk->old[g->products[0]]);
}

/* The piece of one rank: where it arrives, and its products. */
struct piece {
    struct wf_rows rows;
    int start, buffer;
    int64_t offset; /* in the buffer */
};

/* Where this rank's rows lie together. Whether they have to be copied is its own affair. */
static struct wf_operand pack_own_rows(struct walk *walk, const struct wf_list_node *move)
{
    const struct wf_tensor_desc *desc = &move->move->from->desc;
    size_t size = wf_dtypes[desc->dtype].size;
    int64_t stride[WEFT_MAX_DIMS];
    struct wf_list_node *node;
    int packed;

    if (desc->contiguous) return wf_piece_operand(move->in[0]);
    packed = wf_piece_add_buffer(walk->list, WEFT_CPU, desc->numel * (int64_t)size);
    node = wf_piece_add_node(walk->list, WF_LIST_COPY, move);
    node->copies = wf_calloc(1, sizeof *node->copies);
    node->n_copies = node->n_in = node->n_out = 1;
    wf_row_major_strides(stride, desc->shape, desc->ndim);
    wf_strided_copy_init(node->copies, desc->shape, desc->stride, stride, desc->ndim, size);
    node->in[0] = wf_piece_operand(move->in[0]);
    node->out[0] = wf_piece_at(packed, 0);
    return wf_piece_at(packed, 0);
}

static void start_broadcast(struct walk *walk, const struct gathered *g, struct wf_operand own,
                            int rank, struct piece *piece)
{
    const struct wf_list_node *move = &walk->old[g->found.node];
    struct wf_list_piece made = {.action = {.act = WF_ACT_COLL,
                                            .axes = (uint8_t)(1u << g->found.axis),
                                            .coll = WEFT_COLL_BROADCAST,
                                            .count = g->found.counts[rank]},
                                 .peer = rank};
    int64_t size = (int64_t)wf_dtypes[move->move->from->desc.dtype].size;

    if (piece->rows.before == 1 && g->needed) {
        piece->buffer = move->out[0].storage;
        piece->offset = move->out[0].offset + piece->rows.first * piece->rows.after * size;
        walk->list->storages[piece->buffer].category = WF_MEM_COMM;
    } else {
        piece->buffer =
            wf_piece_add_buffer(walk->list, WEFT_CPU, (int64_t)g->found.counts[rank] * size);
        piece->offset = 0;
    }
    piece->start =
        wf_piece_add_start(walk->list, move, &made, own, wf_piece_at(piece->buffer, piece->offset));
}

static void add_products_of_piece(struct walk *walk, const struct gathered *g,
                                  struct wf_op_plan **plans, const struct piece *piece)
{
    const struct wf_list_node *move = &walk->old[g->found.node];
    int dim = g->found.dim;

    wf_piece_add_wait(walk->list, move, piece->start);
    if (g->needed && piece->rows.before != 1)
        wf_piece_add_copy(walk->list, move, piece->buffer, move->out[0], &move->move->to->desc, dim,
                          &piece->rows);
    for (int p = 0; p < g->n; p++) {
        const struct wf_list_node *product = &walk->old[g->products[p]];
        const struct wf_tensor_desc *y = product->plan->kernel.out[0];
        int64_t size = (int64_t)wf_dtypes[y->dtype].size;
        struct wf_operand out =
            wf_piece_at(product->out[0].storage,
                        product->out[0].offset + piece->rows.first * y->stride[dim] * size);

        if (piece->rows.before != 1)
            out = wf_piece_at(
                wf_piece_add_buffer(walk->list, WEFT_CPU, plans[p]->out[0]->numel * size), 0);
        wf_piece_add_product(walk->list, product, plans[p],
                             wf_piece_at(piece->buffer, piece->offset), out);
        if (piece->rows.before != 1)
            wf_piece_add_copy(walk->list, product, out.storage, product->out[0], y, dim,
                              &piece->rows);
    }
}

/* What the counts say of each rank's rows. */
static void find_rows(struct piece *pieces, const size_t *counts, int ranks,
                      const struct wf_tensor_desc *desc, int dim)
{
    int64_t first = 0, before = box_before(desc, dim);
    int64_t after = desc->shape[dim] ? desc->numel / before / desc->shape[dim] : 1;

    for (int r = 0; r < ranks; r++) {
        pieces[r] = (struct piece){
            .rows = {before, first, (int64_t)counts[r] / (before * after), after}, .start = -1};
        first += pieces[r].rows.count;
    }
}

static void free_plans(struct wf_op_plan **plans, int n)
{
    for (int i = 0; i < n; i++)
        if (plans[i]) wf_op_plan_release_context(plans[i]);
    wf_free(plans);
}

/* A plan for each product and rank; NULL: some kernel refuses. */
static struct wf_op_plan **plan_products(const struct walk *walk, const int *products, int n,
                                         int dim, const struct piece *pieces, int ranks,
                                         bool keeps_strides)
{
    struct wf_op_plan **plans = wf_calloc((size_t)(n * ranks) + 1, sizeof *plans);

    for (int r = 0; r < ranks; r++)
        for (int p = 0; p < n; p++) {
            if (!pieces[r].rows.count) continue;
            plans[r * n + p] = wf_piece_plan(walk->old[products[p]].plan, dim, pieces[r].rows.count,
                                             keeps_strides);
            if (plans[r * n + p]) continue;
            free_plans(plans, n * ranks);
            return NULL;
        }
    return plans;
}

/* What becomes of a move, decided before the list is changed. */
struct job {
    bool is_gather;
    struct gathered g;
    struct wf_found_scatter f;
    int product; /* of a scatter */
    struct piece *pieces;
    struct wf_op_plan **plans;
};

static void free_job(struct job *job)
{
    if (!job) return;
    wf_free(job->pieces);
    wf_free(job->plans);
    wf_free(job);
}

/* NULL: a kernel refuses. */
static struct job *plan_gather(const struct walk *walk, const struct gathered *g)
{
    const struct wf_tensor_desc *desc = &walk->old[g->found.node].move->to->desc;
    struct job *job = WF_NEW(struct job);

    job->is_gather = true;
    job->g = *g;
    job->pieces = wf_calloc((size_t)g->found.ranks, sizeof *job->pieces);
    find_rows(job->pieces, g->found.counts, g->found.ranks, desc, g->found.dim);
    job->plans =
        plan_products(walk, g->products, g->n, g->found.dim, job->pieces, g->found.ranks, false);
    if (job->plans) return job;
    free_job(job);
    return NULL;
}

/* The next rows are asked for before the products of these. */
static void emit_gather(struct walk *walk, struct job *job)
{
    const struct gathered *g = &job->g;
    struct wf_operand own = pack_own_rows(walk, &walk->old[g->found.node]);
    int before = -1;

    for (int r = 0; r < g->found.ranks; r++) {
        if (!job->pieces[r].rows.count) continue;
        start_broadcast(walk, g, own, r, &job->pieces[r]);
        if (before >= 0)
            add_products_of_piece(walk, g, job->plans + before * g->n, &job->pieces[before]);
        before = r;
    }
    add_products_of_piece(walk, g, job->plans + before * g->n, &job->pieces[before]);
}

/* ---- a product before a scatter ---- */

/* The node that makes the terms; -1: it is no product of which only the move reads. */
static int product_of_terms(const struct walk *walk, const struct wf_found_scatter *f)
{
    const struct wf_list_node *move = &walk->old[f->node];
    int s = move->in[0].storage, i = f->node - 1;

    if (walk->list->storages[s].kind != WF_STORAGE_MADE || walk->list->storages[s].kept ||
        walk->uses[s].reads != 1 || walk->uses[s].writers != 1)
        return -1;
    while (i >= 0 && (walk->old[i].dead || walk->old[i].kind == WF_LIST_VIEW ||
                      walk->old[i].out[0].storage != s))
        i--;
    if (i < 0 || !wf_is_product_by_rows(&walk->old[i], f->dim) ||
        walk->old[i].out[0].offset != move->in[0].offset ||
        !walk->old[i].plan->kernel.out[0]->contiguous || !move->move->from->desc.contiguous ||
        walk->old[i].plan->kernel.out[0]->ndim != move->move->from->desc.ndim)
        return -1;
    for (int k = 0; k < walk->old[i].n_in; k++)
        if (walk->old[i].in[k].storage >= 0 &&
            walk->uses[walk->old[i].in[k].storage].last_writer >= i)
            return -1;
    return i;
}

/* Nothing is done with the terms before the collective, and only a division after it. */
static bool is_plain_scatter(const struct wf_redist_plan *move)
{
    const struct wf_redist_program *program = move->program;
    bool sent = false;

    for (int i = 0; i < program->n_actions; i++) {
        const struct wf_redist_action *action = &program->actions[i];

        if (action->act == WF_ACT_COLL)
            sent = true;
        else if (sent ? action->act != WF_ACT_DIVIDE : action->act != WF_ACT_COPY)
            return false;
        if (sent && action->dst != program->result) return false;
    }
    return move->to->desc.contiguous;
}

static void start_sum(struct walk *walk, const struct wf_found_scatter *f, int rank,
                      struct wf_operand terms, struct piece *piece)
{
    const struct wf_list_node *move = &walk->old[f->node];
    const struct wf_redist_program *program = move->move->program;
    struct wf_list_piece made = {.action = {.act = WF_ACT_COLL}, .rooted = true};

    for (int i = 0; i < program->n_actions; i++)
        if (program->actions[i].act == WF_ACT_COLL) made.action.reduce = program->actions[i].reduce;
    made.action.axes = (uint8_t)(1u << f->axis);
    made.action.coll = WEFT_COLL_REDUCE_SCATTER;
    made.action.send_counts = wf_calloc((size_t)f->ranks, sizeof(size_t));
    made.action.send_counts[rank] = f->counts[rank];
    piece->start = wf_piece_add_start(walk->list, move, &made, wf_piece_operand(terms),
                                      wf_piece_operand(move->out[0]));
}

static void add_ends(struct walk *walk, const struct wf_list_node *move)
{
    const struct wf_redist_program *program = move->move->program;

    for (int i = 0; i < program->n_actions; i++) {
        struct wf_list_node *node;

        if (program->actions[i].act != WF_ACT_DIVIDE) continue;
        node = wf_piece_add_node(walk->list, WF_LIST_DIVIDE, move);
        node->plan = move->plan;
        node->plan->refs++;
        node->move = move->move;
        node->action = &program->actions[i];
        node->n_out = 1;
        node->in_place = true;
        node->out[0] = wf_piece_operand(move->out[0]);
    }
}

static void add_terms_of_rank(struct walk *walk, const struct wf_found_scatter *f, int product,
                              struct wf_op_plan *plan, int rank, struct piece *piece)
{
    const struct wf_list_node *node = &walk->old[product];
    const struct wf_tensor_desc *a = node->plan->kernel.in[0];
    struct wf_operand from = wf_piece_at(node->in[0].storage, node->in[0].offset), terms;

    from.offset += piece->rows.first * a->stride[f->dim] * (int64_t)wf_dtypes[a->dtype].size;
    terms = wf_piece_at(wf_piece_add_buffer(walk->list, WEFT_CPU,
                                            plan->out[0]->numel *
                                                (int64_t)wf_dtypes[plan->out[0]->desc.dtype].size),
                        0);
    wf_piece_add_product(walk->list, node, plan, from, terms);
    start_sum(walk, f, rank, terms, piece);
}

static struct job *plan_scatter(const struct walk *walk, const struct wf_found_scatter *f,
                                int product)
{
    const struct wf_tensor_desc *desc = &walk->old[f->node].move->from->desc;
    struct job *job = WF_NEW(struct job);

    job->f = *f;
    job->product = product;
    job->pieces = wf_calloc((size_t)f->ranks, sizeof *job->pieces);
    find_rows(job->pieces, f->counts, f->ranks, desc, f->dim);
    job->plans = plan_products(walk, &product, 1, f->dim, job->pieces, f->ranks, true);
    if (job->plans) return job;
    free_job(job);
    return NULL;
}

/* A rank's sum is waited for when the next has begun. */
static void emit_scatter(struct walk *walk, struct job *job)
{
    const struct wf_found_scatter *f = &job->f;
    const struct wf_list_node *move = &walk->old[f->node];
    int before = -1;

    walk->list->storages[move->out[0].storage].category = WF_MEM_COMM;
    for (int r = 0; r < f->ranks; r++) {
        if (!job->pieces[r].rows.count) continue;
        add_terms_of_rank(walk, f, job->product, job->plans[r], r, &job->pieces[r]);
        if (before >= 0) wf_piece_add_wait(walk->list, move, job->pieces[before].start);
        before = r;
    }
    wf_piece_add_wait(walk->list, move, job->pieces[before].start);
    add_ends(walk, move);
}

/* ---- the pass ---- */

static void count_use(int storage, bool write, void *payload)
{
    struct uses *uses = payload;

    if (write)
        uses[storage].writers++;
    else
        uses[storage].reads++;
}

static void count_uses(struct walk *walk)
{
    int *last_writer = wf_list_last_writers(walk->list);

    for (int s = 0; s < walk->list->n_storages; s++) walk->uses[s].last_writer = last_writer[s];
    for (int i = 0; i < walk->list->n_nodes; i++)
        wf_list_node_visit_storages(walk->list, &walk->list->nodes[i], count_use, walk->uses);
    wf_free(last_writer);
}

/* Products that are in pieces already are dead, and so are moves with a job. */
static void decide(struct walk *walk)
{
    for (int i = 0; i < walk->n_old; i++) {
        struct gathered g;

        if (walk->old[i].kind != WF_LIST_MOVE || walk->old[i].move->to->desc.numel == 0 ||
            !wf_find_gather(&(struct wf_op_list){.nodes = walk->old}, i, &g.found) ||
            !find_products(walk, &g))
            continue;
        walk->jobs[i] = plan_gather(walk, &g);
        for (int p = 0; walk->jobs[i] && p < g.n; p++) walk->old[g.products[p]].dead = true;
    }
    for (int i = 0; i < walk->n_old; i++) {
        struct wf_found_scatter f;
        int product;

        if (walk->jobs[i] || walk->old[i].kind != WF_LIST_MOVE ||
            walk->old[i].move->from->desc.numel == 0 ||
            !wf_find_scatter(&(struct wf_op_list){.nodes = walk->old}, i, &f) ||
            !is_plain_scatter(walk->old[i].move) ||
            walk->uses[walk->old[i].out[0].storage].writers != 1)
            continue;
        product = product_of_terms(walk, &f);
        if (product < 0 || !pays(walk->old[i].move, f.axis, f.ranks, &walk->old[product])) continue;
        walk->jobs[i] = plan_scatter(walk, &f, product);
        if (walk->jobs[i]) walk->old[product].dead = true;
    }
}

static int rewrite(struct walk *walk)
{
    struct wf_op_list *dead = wf_op_list_new();
    int changed = 0, *number = wf_calloc((size_t)walk->n_old + 1, sizeof *number);

    for (int i = 0; i < walk->n_old; i++) {
        struct wf_list_node *node;

        number[i] = walk->list->n_nodes;
        if (walk->jobs[i]) {
            (walk->jobs[i]->is_gather ? emit_gather : emit_scatter)(walk, walk->jobs[i]);
            changed++;
        }
        if (walk->jobs[i] || walk->old[i].dead) continue;
        node = wf_op_list_add_node(walk->list, WF_LIST_KERNEL);
        *node = walk->old[i];
        if (node->started >= 0) node->started = number[node->started];
    }
    for (int i = 0; i < walk->n_old; i++)
        if (walk->jobs[i] || walk->old[i].dead)
            *wf_op_list_add_node(dead, WF_LIST_KERNEL) = walk->old[i];
    wf_op_list_free(dead);
    wf_free(number);
    return changed;
}

int wf_pass_pipeline(struct wf_op_list *list)
{
    struct walk walk = {.list = list, .n_old = list->n_nodes};
    int changed;

    if (list->keeps_collectives) return 0;
    walk.uses = wf_calloc((size_t)list->n_storages + 1, sizeof *walk.uses);
    walk.jobs = wf_calloc((size_t)list->n_nodes + 1, sizeof(struct job *));
    count_uses(&walk);
    walk.old = list->nodes;
    decide(&walk);
    list->nodes = NULL;
    list->n_nodes = 0;
    changed = rewrite(&walk);
    for (int i = 0; i < walk.n_old; i++) free_job(walk.jobs[i]);
    wf_free(walk.old);
    wf_free(walk.uses);
    wf_free(walk.jobs);
    return changed;
}
