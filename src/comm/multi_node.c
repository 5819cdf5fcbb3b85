/*
 * multi_node.c: the backend of a communicator whose ranks lie in equal blocks on several nodes:
 * shared memory inside, MPI between. Every rank of a node carries its own slice over the link, so
 * that nothing crosses it twice.
 *
 * With a power of two of ranks per node the reduction of a node is a subtree of the tree over all
 * ranks, so reducing inside first changes no bit; other counts let MPI move the terms. The stages
 * of a collective follow one another, and one collective the other, in the same order on all ranks.
 */
#include <stdio.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "comm/reduce.h"
#include "comm/shm/shm_backend.h"

struct op;

/* One stage of a collective. Sets op->inner or op->request; false when this rank has nothing to do.
 */
typedef bool stage_function(struct op *op);

enum { MAX_STAGES = 4 };

struct op {
    struct op *next;
    struct wf_coll *coll, inner;
    struct nodes *nodes;
    stage_function *stages[MAX_STAGES];
    int at;      /* the stage in progress */
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

static void fill_slice_counts(struct op *op)
{
    size_t ranks = (size_t)op->nodes->inside->size, count = op->coll->count;

    for (size_t rank = 0; rank < ranks; rank++)
        op->counts[rank] = count * (rank + 1) / ranks - count * rank / ranks;
}

static size_t own_slice_count(const struct op *op) { return op->counts[op->nodes->inside->rank]; }

static char *own_slice(const struct op *op, void *p)
{
    return (char *)p + wf_counts_prefix_sum(op->counts, op->nodes->inside->rank) *
                           weft_dtype_size(op->coll->dtype);
}

/* Sums on their way through the tree: those of 16-bit floats stay f32 until the end. */
static size_t accumulator_bytes(const struct wf_coll *coll)
{
    return wf_dtype_is_16_bit_float(coll->dtype) ? sizeof(float) : weft_dtype_size(coll->dtype);
}

static struct wf_coll make_inner_collective(const struct op *op, weft_coll kind,
                                            struct wf_comm *comm)
{
    return (struct wf_coll){.kind = kind,
                            .comm = comm,
                            .dtype = op->coll->dtype,
                            .reduce = op->coll->reduce,
                            .where = op->coll->where};
}

/* ---- all-reduce ---- */

static bool allreduce_small_inside(struct op *op)
{
    op->scratch = wf_malloc(op->coll->count * accumulator_bytes(op->coll));
    op->inner = make_inner_collective(op, WEFT_COLL_ALL_REDUCE, op->nodes->inside);
    op->inner.wide = WF_WIDE_OUT;
    op->inner.count = op->coll->count;
    op->inner.send = op->coll->send;
    op->inner.recv = op->scratch;
    return true;
}

static bool allreduce_small_across(struct op *op)
{
    op->inner = make_inner_collective(op, WEFT_COLL_ALL_REDUCE, op->nodes->across);
    op->inner.wide = WF_WIDE_IN;
    op->inner.count = op->coll->count;
    op->inner.send = op->scratch;
    op->inner.recv = op->coll->recv;
    return true;
}

static bool reduce_scatter_slices_inside(struct op *op)
{
    fill_slice_counts(op);
    op->scratch = wf_malloc(own_slice_count(op) * accumulator_bytes(op->coll));
    op->inner = make_inner_collective(op, WEFT_COLL_REDUCE_SCATTER, op->nodes->inside);
    op->inner.wide = WF_WIDE_OUT;
    op->inner.send_counts = op->counts;
    op->inner.send = op->coll->send;
    op->inner.recv = op->scratch;
    return true;
}

static bool allreduce_slice_across(struct op *op)
{
    op->inner = make_inner_collective(op, WEFT_COLL_ALL_REDUCE, op->nodes->across);
    op->inner.wide = WF_WIDE_IN;
    op->inner.count = own_slice_count(op);
    op->inner.send = op->scratch;
    op->inner.recv = own_slice(op, op->coll->recv);
    return true;
}

/* In place: every rank's own slice of recv is ready. */
static bool allgather_slices_inside(struct op *op)
{
    op->inner = make_inner_collective(op, WEFT_COLL_ALL_GATHER, op->nodes->inside);
    op->inner.recv_counts = op->counts;
    op->inner.send = own_slice(op, op->coll->recv);
    op->inner.recv = op->coll->recv;
    return true;
}

/* ---- broadcast ---- */

static bool scatter_on_root_node(struct op *op)
{
    int ranks = op->nodes->inside->size, root = op->coll->peer;

    fill_slice_counts(op);
    if (op->nodes->across->rank != root / ranks) return false;
    op->inner = make_inner_collective(op, WEFT_COLL_SCATTER, op->nodes->inside);
    op->inner.peer = root % ranks;
    op->inner.send_counts = op->counts;
    op->inner.send = op->coll->send;
    op->inner.recv = own_slice(op, op->coll->recv);
    return true;
}

static bool broadcast_slice_across(struct op *op)
{
    op->inner = make_inner_collective(op, WEFT_COLL_BROADCAST, op->nodes->across);
    op->inner.peer = op->coll->peer / op->nodes->inside->size;
    op->inner.count = own_slice_count(op);
    op->inner.send = op->inner.recv = own_slice(op, op->coll->recv);
    return true;
}

/* ---- reduce-scatter and all-gather: blocks in columns (backend.h) ---- */

static bool reduce_columns_inside(struct op *op)
{
    int ranks = op->nodes->inside->size, nodes = op->nodes->across->size;
    size_t mine = 0;

    for (int node = 0; node < nodes; node++) {
        op->counts[node] = op->coll->send_counts[node * ranks + op->nodes->inside->rank];
        mine += op->counts[node];
    }
    op->scratch = wf_malloc(mine * accumulator_bytes(op->coll));
    op->inner = make_inner_collective(op, (weft_coll)WF_COLL_REDUCE_COLUMNS, op->nodes->inside);
    op->inner.wide = WF_WIDE_OUT;
    op->inner.count = (size_t)nodes;
    op->inner.send_counts = op->coll->send_counts;
    op->inner.send = op->coll->send;
    op->inner.recv = op->scratch;
    return true;
}

static bool reduce_scatter_column_across(struct op *op)
{
    op->inner = make_inner_collective(op, WEFT_COLL_REDUCE_SCATTER, op->nodes->across);
    op->inner.wide = WF_WIDE_IN;
    op->inner.send_counts = op->counts;
    op->inner.send = op->scratch;
    op->inner.recv = op->coll->recv;
    return true;
}

/* MPI puts the blocks of this column where they belong in recv. */
static bool allgather_column_across(struct op *op)
{
    const struct wf_coll *coll = op->coll;
    struct nodes *nodes = op->nodes;
    int ranks = nodes->inside->size, n = nodes->across->size;
    struct wf_mpi_comm *net = nodes->across->state;
    size_t element = weft_dtype_size(coll->dtype);

    for (int node = 0; node < n; node++) {
        int block = node * ranks + nodes->inside->rank;

        op->numbers[node] = wf_mpi_int_count(coll->recv_counts[block]);
        op->numbers[n + node] = wf_mpi_int_count(wf_counts_prefix_sum(coll->recv_counts, block));
    }
    WF_MPI(MPI_Iallgatherv(coll->send, op->numbers[nodes->across->rank], wf_mpi_datatype(element),
                           coll->recv, op->numbers, op->numbers + n, wf_mpi_datatype(element),
                           net->first, &op->request));
    return true;
}

static bool allgather_columns_inside(struct op *op)
{
    op->inner = make_inner_collective(op, (weft_coll)WF_COLL_GATHER_COLUMNS, op->nodes->inside);
    op->inner.count = (size_t)op->nodes->across->size;
    op->inner.recv_counts = op->coll->recv_counts;
    op->inner.send = op->inner.recv = op->coll->recv;
    return true;
}

/* ---- everything else: MPI's own way crosses the link no more than it must ---- */

static bool whole_collective_by_mpi(struct op *op)
{
    op->inner = *op->coll;
    op->inner.comm = op->nodes->flat;
    return true;
}

static void choose_stages(struct op *op)
{
    static stage_function *const small_sum[MAX_STAGES] = {allreduce_small_inside,
                                                          allreduce_small_across};
    static stage_function *const sum[MAX_STAGES] = {
        reduce_scatter_slices_inside, allreduce_slice_across, allgather_slices_inside};
    static stage_function *const sum_scatter[MAX_STAGES] = {reduce_columns_inside,
                                                            reduce_scatter_column_across};
    static stage_function *const gather[MAX_STAGES] = {allgather_column_across,
                                                       allgather_columns_inside};
    static stage_function *const broadcast[MAX_STAGES] = {
        scatter_on_root_node, broadcast_slice_across, allgather_slices_inside};
    static stage_function *const flat[MAX_STAGES] = {whole_collective_by_mpi};
    stage_function *const *stages = flat;
    const struct wf_coll *coll = op->coll;
    bool small = coll->count * weft_dtype_size(coll->dtype) <= WF_ENGINE_INLINE;

    if (coll->kind == WEFT_COLL_ALL_REDUCE && op->nodes->tree_fits)
        stages = small ? small_sum : sum;
    if (coll->kind == WEFT_COLL_REDUCE_SCATTER && op->nodes->tree_fits) stages = sum_scatter;
    if (coll->kind == WEFT_COLL_ALL_GATHER) stages = gather;
    if (coll->kind == WEFT_COLL_BROADCAST && !small) stages = broadcast;
    memcpy(op->stages, stages, sizeof op->stages);
    op->queued = stages != flat;
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
    choose_stages(op);
    if (!op->queued) return op;
    if (nodes->tail)
        nodes->tail->next = op;
    else
        nodes->head = op;
    nodes->tail = op;
    return op;
}

static void retire_op(struct op *op)
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

static bool stage_is_complete(struct op *op)
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

static void start_stage(struct op *op)
{
    op->inner = (struct wf_coll){0};
    op->running = true;
    if (op->stages[op->at](op) && op->inner.comm) op->inner.comm->backend->start(&op->inner);
}

static bool nodes_progress(struct wf_coll *coll)
{
    struct op *op = coll->state;

    if (op->queued && op->nodes->head != op) return false;
    for (; op->at < MAX_STAGES && op->stages[op->at]; op->at++) {
        if (!op->running) start_stage(op);
        if (!stage_is_complete(op)) return false;
        op->running = false;
    }
    retire_op(op);
    return true;
}

static void nodes_start(struct wf_coll *coll)
{
    coll->state = new_op(coll);
    coll->complete = nodes_progress(coll);
}

static void nodes_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct op *op = coll->state;

    snprintf(text, bytes, "waiting for another node");
    if (op->running && op->inner.comm) op->inner.comm->backend->missing(&op->inner, text, bytes);
}

static struct wf_mpi_comm *nodes_agreement_channel(const struct wf_comm *comm)
{
    const struct nodes *nodes = comm->state;

    return nodes->flat->state;
}

/* ---- making one ---- */

/* Ranks per node when all nodes hold equally many, one after the other, and share memory; else 0.
 */
static int ranks_per_node(const struct wf_comm *comm, const struct wf_comm_node *node)
{
    const struct wf_rank_location *first = &node->places[comm->world_ranks[0]];
    int block = 0;

    while (block < comm->size && node->places[comm->world_ranks[block]].node == first->node)
        block++;
    if (block < 2 || comm->size % block) return 0;
    for (int rank = 0; rank < comm->size; rank++) {
        const struct wf_rank_location *place = &node->places[comm->world_ranks[rank]];
        const struct wf_rank_location *head =
            &node->places[comm->world_ranks[rank / block * block]];
        const struct wf_rank_location *before =
            rank >= block ? &node->places[comm->world_ranks[rank - block]] : NULL;

        if (!place->shares || place->node != head->node || (before && before->node == place->node))
            return 0;
    }
    return block;
}

static struct wf_comm *open_inter_node_comm(const struct wf_comm *comm, int block)
{
    int n = comm->size / block, *ranks = wf_malloc((size_t)n * sizeof *ranks);
    struct wf_comm *across;

    for (int node = 0; node < n; node++)
        ranks[node] = comm->world_ranks[node * block + comm->rank % block];
    across = wf_comm_alloc(ranks, n, comm->rank / block, comm->label);
    across->backend = &wf_backend_mpi;
    across->state = wf_mpi_comm_new_for_ranks(wf_comm_thread_state.net, ranks, n, ranks[0]);
    wf_free(ranks);
    return across;
}

static struct wf_comm *open_flat_mpi_comm(const struct wf_comm *comm)
{
    struct wf_comm *flat = wf_comm_alloc(comm->world_ranks, comm->size, comm->rank, comm->label);

    flat->backend = &wf_backend_mpi;
    flat->state = wf_mpi_comm_new_for_ranks(wf_comm_thread_state.net, comm->world_ranks, comm->size,
                                            comm->world_ranks[0]);
    return flat;
}

bool wf_multi_node_open(struct wf_comm *comm)
{
    struct wf_comm_node *node = wf_comm_thread_state.node;
    int block = ranks_per_node(comm, node);
    struct nodes *nodes;
    struct wf_comm *inside;
    bool ok;

    if (!block) return false;
    inside = wf_comm_alloc(comm->world_ranks + comm->rank / block * block, block,
                           comm->rank % block, comm->label);
    nodes = WF_NEW(struct nodes);
    nodes->flat = open_flat_mpi_comm(comm);
    ok = wf_shm_attach_engine(inside, node);
    if (!wf_mpi_all_true(((struct wf_mpi_comm *)nodes->flat->state)->first, ok)) {
        if (!ok) inside->backend = &wf_backend_self;
        wf_comm_free(inside);
        wf_comm_free(nodes->flat);
        wf_free(nodes);
        return false;
    }
    nodes->inside = inside;
    nodes->across = open_inter_node_comm(comm, block);
    nodes->tree_fits = (block & (block - 1)) == 0;
    comm->backend = &wf_backend_multi_node;
    comm->state = nodes;
    return true;
}

static void nodes_open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    (void)world;
    wf_comm_choose_backend(comm);
}

static void nodes_close_comm(struct wf_comm *comm)
{
    struct nodes *nodes = comm->state;

    wf_comm_free(nodes->across);
    wf_comm_free(nodes->inside);
    wf_comm_free(nodes->flat);
    wf_free(nodes);
}

const struct wf_backend wf_backend_multi_node = {
    .name = "nodes",
    .start = nodes_start,
    .step = nodes_progress,
    .missing = nodes_describe_missing_ranks,
    .compares_over = nodes_agreement_channel,
    .open = nodes_open_comm,
    .close = nodes_close_comm,
};
