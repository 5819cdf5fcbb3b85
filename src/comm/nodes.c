/*
 * nodes.c: the backend of a communicator whose ranks lie in equal blocks on several nodes: shared
 * memory inside, MPI between. Every rank of a node carries its own slice over the link, so that
 * nothing crosses it twice.
 *
 * With a power of two of ranks per node the reduction of a node is a subtree of the tree over all
 * ranks, so reducing inside first changes no bit; other counts let MPI move the terms. The parts of
 * a collective follow one another, and one collective the other, in the same order on all ranks.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "comm/reduce.h"
#include "comm/shm.h"

struct op;

/* One part of a collective. Sets op->inner, or op->request; false when this rank has no share. */
typedef bool part(struct op *op);

enum { MAX_PARTS = 4 };

struct op {
    struct op *next;
    struct wf_coll *coll, inner;
    struct nodes *nodes;
    part *parts[MAX_PARTS];
    int at;      /* the part in progress */
    bool queued; /* one after the other; else straight to MPI */
    bool running;
    MPI_Request request;
    char *scratch;  /* the node's sum of this rank's slice or blocks */
    size_t *counts; /* slices of the ranks of a node, then this column's blocks */
    int *numbers;   /* counts and displacements for MPI */
};

struct nodes {
    struct wf_comm *flat, *inside, *across; /* all ranks; this node's; this place's on every node */
    bool tree_fits;
    struct op *head, *tail;
};

/* ---- slices: what a rank carries over the link ---- */

static void cut_slices(struct op *op)
{
    size_t ranks = (size_t)op->nodes->inside->size, count = op->coll->count;

    for (size_t rank = 0; rank < ranks; rank++)
        op->counts[rank] = count * (rank + 1) / ranks - count * rank / ranks;
}

static size_t slice_count(const struct op *op) { return op->counts[op->nodes->inside->rank]; }

static char *slice_of(const struct op *op, void *p)
{
    return (char *)p +
           wf_counts_before(op->counts, op->nodes->inside->rank) * weft_dtype_size(op->coll->dtype);
}

/* Sums on their way through the tree: bf16 stays f32 until the end. */
static size_t sum_bytes(const struct wf_coll *coll)
{
    return coll->dtype == WEFT_BF16 ? sizeof(float) : weft_dtype_size(coll->dtype);
}

static struct wf_coll inner(const struct op *op, weft_coll kind, struct wf_comm *comm)
{
    return (struct wf_coll){.kind = kind,
                            .comm = comm,
                            .dtype = op->coll->dtype,
                            .reduce = op->coll->reduce,
                            .where = op->coll->where};
}

/* ---- all-reduce ---- */

static bool sum_small_inside(struct op *op)
{
    op->scratch = wf_malloc(op->coll->count * sum_bytes(op->coll));
    op->inner = inner(op, WEFT_COLL_ALL_REDUCE, op->nodes->inside);
    op->inner.wide = WF_WIDE_OUT;
    op->inner.count = op->coll->count;
    op->inner.send = op->coll->send;
    op->inner.recv = op->scratch;
    return true;
}

static bool sum_small_across(struct op *op)
{
    op->inner = inner(op, WEFT_COLL_ALL_REDUCE, op->nodes->across);
    op->inner.wide = WF_WIDE_IN;
    op->inner.count = op->coll->count;
    op->inner.send = op->scratch;
    op->inner.recv = op->coll->recv;
    return true;
}

static bool sum_slices_inside(struct op *op)
{
    cut_slices(op);
    op->scratch = wf_malloc(slice_count(op) * sum_bytes(op->coll));
    op->inner = inner(op, WEFT_COLL_REDUCE_SCATTER, op->nodes->inside);
    op->inner.wide = WF_WIDE_OUT;
    op->inner.send_counts = op->counts;
    op->inner.send = op->coll->send;
    op->inner.recv = op->scratch;
    return true;
}

static bool sum_slice_across(struct op *op)
{
    op->inner = inner(op, WEFT_COLL_ALL_REDUCE, op->nodes->across);
    op->inner.wide = WF_WIDE_IN;
    op->inner.count = slice_count(op);
    op->inner.send = op->scratch;
    op->inner.recv = slice_of(op, op->coll->recv);
    return true;
}

/* In place: every rank's own slice of recv is ready. */
static bool gather_slices_inside(struct op *op)
{
    op->inner = inner(op, WEFT_COLL_ALL_GATHER, op->nodes->inside);
    op->inner.recv_counts = op->counts;
    op->inner.send = slice_of(op, op->coll->recv);
    op->inner.recv = op->coll->recv;
    return true;
}

/* ---- broadcast ---- */

static bool hand_out_on_root_node(struct op *op)
{
    int ranks = op->nodes->inside->size, root = op->coll->peer;

    cut_slices(op);
    if (op->nodes->across->rank != root / ranks) return false;
    op->inner = inner(op, WEFT_COLL_SCATTER, op->nodes->inside);
    op->inner.peer = root % ranks;
    op->inner.send_counts = op->counts;
    op->inner.send = op->coll->send;
    op->inner.recv = slice_of(op, op->coll->recv);
    return true;
}

static bool pass_slice_across(struct op *op)
{
    op->inner = inner(op, WEFT_COLL_BROADCAST, op->nodes->across);
    op->inner.peer = op->coll->peer / op->nodes->inside->size;
    op->inner.count = slice_count(op);
    op->inner.send = op->inner.recv = slice_of(op, op->coll->recv);
    return true;
}

/* ---- reduce-scatter and all-gather: blocks in columns (backend.h) ---- */

static bool sum_columns_inside(struct op *op)
{
    int ranks = op->nodes->inside->size, nodes = op->nodes->across->size;
    size_t mine = 0;

    for (int node = 0; node < nodes; node++) {
        op->counts[node] = op->coll->send_counts[node * ranks + op->nodes->inside->rank];
        mine += op->counts[node];
    }
    op->scratch = wf_malloc(mine * sum_bytes(op->coll));
    op->inner = inner(op, (weft_coll)WF_COLL_REDUCE_COLUMNS, op->nodes->inside);
    op->inner.wide = WF_WIDE_OUT;
    op->inner.count = (size_t)nodes;
    op->inner.send_counts = op->coll->send_counts;
    op->inner.send = op->coll->send;
    op->inner.recv = op->scratch;
    return true;
}

static bool sum_column_across(struct op *op)
{
    op->inner = inner(op, WEFT_COLL_REDUCE_SCATTER, op->nodes->across);
    op->inner.wide = WF_WIDE_IN;
    op->inner.send_counts = op->counts;
    op->inner.send = op->scratch;
    op->inner.recv = op->coll->recv;
    return true;
}

/* MPI puts the blocks of this column where they belong in recv. */
static bool gather_column_across(struct op *op)
{
    const struct wf_coll *coll = op->coll;
    struct nodes *nodes = op->nodes;
    int ranks = nodes->inside->size, n = nodes->across->size;
    struct wf_net *net = nodes->across->state;
    size_t element = weft_dtype_size(coll->dtype);

    for (int node = 0; node < n; node++) {
        int block = node * ranks + nodes->inside->rank;

        op->numbers[node] = wf_net_number(coll->recv_counts[block]);
        op->numbers[n + node] = wf_net_number(wf_counts_before(coll->recv_counts, block));
    }
    WF_MPI(MPI_Iallgatherv(coll->send, op->numbers[nodes->across->rank], wf_net_type(element),
                           coll->recv, op->numbers, op->numbers + n, wf_net_type(element),
                           net->first, &op->request));
    return true;
}

static bool gather_columns_inside(struct op *op)
{
    op->inner = inner(op, (weft_coll)WF_COLL_GATHER_COLUMNS, op->nodes->inside);
    op->inner.count = (size_t)op->nodes->across->size;
    op->inner.recv_counts = op->coll->recv_counts;
    op->inner.send = op->inner.recv = op->coll->recv;
    return true;
}

/* ---- everything else: MPI's own way crosses the link no more than it must ---- */

static bool all_by_mpi(struct op *op)
{
    op->inner = *op->coll;
    op->inner.comm = op->nodes->flat;
    return true;
}

static void choose_parts(struct op *op)
{
    static part *const small_sum[MAX_PARTS] = {sum_small_inside, sum_small_across};
    static part *const sum[MAX_PARTS] = {sum_slices_inside, sum_slice_across, gather_slices_inside};
    static part *const sum_scatter[MAX_PARTS] = {sum_columns_inside, sum_column_across};
    static part *const gather[MAX_PARTS] = {gather_column_across, gather_columns_inside};
    static part *const broadcast[MAX_PARTS] = {hand_out_on_root_node, pass_slice_across,
                                               gather_slices_inside};
    static part *const flat[MAX_PARTS] = {all_by_mpi};
    part *const *parts = flat;
    const struct wf_coll *coll = op->coll;
    bool small = coll->count * weft_dtype_size(coll->dtype) <= WF_ENGINE_INLINE;

    if (coll->kind == WEFT_COLL_ALL_REDUCE && op->nodes->tree_fits) parts = small ? small_sum : sum;
    if (coll->kind == WEFT_COLL_REDUCE_SCATTER && op->nodes->tree_fits) parts = sum_scatter;
    if (coll->kind == WEFT_COLL_ALL_GATHER) parts = gather;
    if (coll->kind == WEFT_COLL_BROADCAST && !small) parts = broadcast;
    memcpy(op->parts, parts, sizeof op->parts);
    op->queued = parts != flat;
}

/* ---- one collective ---- */

static struct op *new_op(struct wf_coll *coll)
{
    struct nodes *nodes = coll->comm->state;
    struct op *op = WF_NEW(struct op);

    op->coll = coll;
    op->nodes = nodes;
    op->request = MPI_REQUEST_NULL;
    op->counts = wf_calloc((size_t)coll->comm->size, sizeof *op->counts);
    op->numbers = wf_calloc((size_t)nodes->across->size * 2, sizeof *op->numbers);
    choose_parts(op);
    if (!op->queued) return op;
    if (nodes->tail)
        nodes->tail->next = op;
    else
        nodes->head = op;
    nodes->tail = op;
    return op;
}

static void retire(struct op *op)
{
    struct nodes *nodes = op->nodes;

    if (op->queued) {
        nodes->head = op->next;
        if (!nodes->head) nodes->tail = NULL;
    }
    op->coll->state = NULL;
    wf_free(op->scratch);
    wf_free(op->counts);
    wf_free(op->numbers);
    wf_free(op);
}

static bool part_is_over(struct op *op)
{
    int done = 1;

    if (op->request != MPI_REQUEST_NULL) {
        WF_MPI(MPI_Test(&op->request, &done, MPI_STATUS_IGNORE));
        return done;
    }
    if (op->inner.comm && !op->inner.complete)
        op->inner.complete = op->inner.comm->backend->step(&op->inner);
    return !op->inner.comm || op->inner.complete;
}

static void begin_part(struct op *op)
{
    op->inner = (struct wf_coll){0};
    op->running = true;
    if (op->parts[op->at](op) && op->inner.comm) op->inner.comm->backend->start(&op->inner);
}

static bool step(struct wf_coll *coll)
{
    struct op *op = coll->state;

    if (op->queued && op->nodes->head != op) return false;
    for (; op->at < MAX_PARTS && op->parts[op->at]; op->at++) {
        if (!op->running) begin_part(op);
        if (!part_is_over(op)) return false;
        op->running = false;
    }
    retire(op);
    return true;
}

static void start(struct wf_coll *coll)
{
    coll->state = new_op(coll);
    coll->complete = step(coll);
}

static void missing(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct op *op = coll->state;

    snprintf(text, bytes, "waiting for another node");
    if (op->running && op->inner.comm) op->inner.comm->backend->missing(&op->inner, text, bytes);
}

static bool reads(const struct wf_comm *comm, const void *p)
{
    const struct nodes *nodes = comm->state;

    return wf_engine_reads(nodes->inside, p);
}

static struct wf_net *compares_over(const struct wf_comm *comm)
{
    const struct nodes *nodes = comm->state;

    return nodes->flat->state;
}

/* ---- making one ---- */

/* Ranks per node when all nodes hold equally many, one after the other, and share memory; else 0.
 */
static int block_size(const struct wf_comm *comm, const struct wf_node *node)
{
    const struct wf_place *first = &node->places[comm->world_ranks[0]];
    int block = 0;

    while (block < comm->size && node->places[comm->world_ranks[block]].node == first->node)
        block++;
    if (block < 2 || comm->size % block) return 0;
    for (int rank = 0; rank < comm->size; rank++) {
        const struct wf_place *place = &node->places[comm->world_ranks[rank]];
        const struct wf_place *head = &node->places[comm->world_ranks[rank / block * block]];
        const struct wf_place *before =
            rank >= block ? &node->places[comm->world_ranks[rank - block]] : NULL;

        if (!place->shares || place->node != head->node || (before && before->node == place->node))
            return 0;
    }
    return block;
}

static struct wf_comm *open_across(const struct wf_comm *comm, int block)
{
    int n = comm->size / block, *ranks = wf_malloc((size_t)n * sizeof *ranks);
    struct wf_comm *across;

    for (int node = 0; node < n; node++)
        ranks[node] = comm->world_ranks[node * block + comm->rank % block];
    across = wf_comm_make(ranks, n, comm->rank / block, comm->label);
    across->backend = &wf_backend_mpi;
    across->state = wf_net_sub(wf_comm_thread.net, ranks, n, ranks[0]);
    wf_free(ranks);
    return across;
}

static struct wf_comm *open_flat(const struct wf_comm *comm)
{
    struct wf_comm *flat = wf_comm_make(comm->world_ranks, comm->size, comm->rank, comm->label);

    flat->backend = &wf_backend_mpi;
    flat->state =
        wf_net_sub(wf_comm_thread.net, comm->world_ranks, comm->size, comm->world_ranks[0]);
    return flat;
}

bool wf_nodes_open(struct wf_comm *comm)
{
    struct wf_node *node = wf_comm_thread.node;
    int block = block_size(comm, node);
    struct nodes *nodes;
    struct wf_comm *inside;
    bool ok;

    if (!block) return false;
    inside = wf_comm_make(comm->world_ranks + comm->rank / block * block, block, comm->rank % block,
                          comm->label);
    nodes = WF_NEW(struct nodes);
    nodes->flat = open_flat(comm);
    ok = wf_shm_open(inside, node);
    if (!wf_net_all(((struct wf_net *)nodes->flat->state)->first, ok)) {
        if (!ok) inside->backend = &wf_backend_self;
        wf_comm_unmake(inside);
        wf_comm_unmake(nodes->flat);
        wf_free(nodes);
        return false;
    }
    nodes->inside = inside;
    nodes->across = open_across(comm, block);
    nodes->tree_fits = (block & (block - 1)) == 0;
    comm->backend = &wf_backend_nodes;
    comm->state = nodes;
    return true;
}

static void open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    (void)world;
    wf_shm_choose(comm);
}

static void close_comm(struct wf_comm *comm)
{
    struct nodes *nodes = comm->state;

    wf_comm_unmake(nodes->across);
    wf_comm_unmake(nodes->inside);
    wf_comm_unmake(nodes->flat);
    wf_free(nodes);
}

const struct wf_backend wf_backend_nodes = {
    .name = "nodes",
    .start = start,
    .step = step,
    .missing = missing,
    .reads = reads,
    .compares_over = compares_over,
    .open = open_comm,
    .close = close_comm,
};
