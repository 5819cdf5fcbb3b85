/*
 * mpi_backend.c: the backend that any MPI-3 carries. Reductions are ours: MPI only moves the terms,
 * so that the tree is the same as everywhere.
 *
 * A collective has one or two steps of MPI. Ranks must begin MPI's collectives in the same order,
 * but when a first step ends differs from rank to rank; so second steps have a communicator of
 * their own and begin in the order of their tickets.
 */
#include <stdio.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/mem.h"
#include "comm/reduce.h"
#include "comm/shm/shm_backend.h"

enum { SMALL_BYTES = 8192 }; /* all-reduce: up to here every rank gets all terms */

enum phase { FIRST, TURN, SECOND };

struct wf_mpi_op {
    struct wf_mpi_op *next;
    MPI_Request request;
    enum phase phase;
    uint64_t number; /* of the collective */
    uint64_t ticket;
    int *numbers; /* counts and displacements for MPI */
    size_t room;
    char *terms;       /* what was received to be reduced */
    size_t term_count; /* elements of each rank's term */
};

/* Terms of a part of a tree travel as f32 (enum wf_reduce_wide). */
static size_t term_bytes(const struct wf_coll *coll)
{
    return coll->wide == WF_WIDE_IN && wf_dtype_is_16_bit_float(coll->dtype)
               ? sizeof(float)
               : weft_dtype_size(coll->dtype);
}

/* counts[0..n) and behind them displacements[0..n) */
static int *fill_counts_and_displacements(int *to, const size_t *counts, int n)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        to[i] = wf_mpi_int_count(counts[i]);
        to[n + i] = wf_mpi_int_count(at);
        at += counts[i];
    }
    return to;
}

/* `mine` elements from everybody */
static int *fill_equal_counts(int *to, size_t mine, int n)
{
    for (int i = 0; i < n; i++) {
        to[i] = wf_mpi_int_count(mine);
        to[n + i] = wf_mpi_int_count(mine * (size_t)i);
    }
    return to;
}

/* The slice of an all-reduce that a rank adds up. */
static size_t slice_start(size_t count, int size, int rank)
{
    return count * (size_t)rank / (size_t)size;
}

static int *fill_slice_counts(int *to, size_t count, int n)
{
    for (int i = 0; i < n; i++) {
        to[i] = wf_mpi_int_count(slice_start(count, n, i + 1) - slice_start(count, n, i));
        to[n + i] = wf_mpi_int_count(slice_start(count, n, i));
    }
    return to;
}

static bool is_send_or_recv(weft_coll kind)
{
    return kind == WEFT_COLL_SEND || kind == WEFT_COLL_RECV;
}

static struct wf_mpi_op *new_op(struct wf_mpi_comm *net, int size)
{
    struct wf_mpi_op *op = net->spare;
    size_t room = (size_t)size * 4;

    if (op)
        net->spare = op->next;
    else
        op = WF_NEW(struct wf_mpi_op);
    if (op->room < room) {
        op->numbers = wf_realloc(op->numbers, room * sizeof(int));
        op->room = room;
    }
    op->phase = FIRST;
    op->terms = NULL;
    op->request = MPI_REQUEST_NULL;
    return op;
}

/* ---- first steps ---- */

static void allocate_terms(struct wf_coll *coll, struct wf_mpi_op *op, size_t mine)
{
    op->term_count = mine;
    op->terms = wf_malloc((size_t)coll->comm->size * mine * term_bytes(coll));
}

static void start_all_reduce(struct wf_coll *coll, struct wf_mpi_comm *net, struct wf_mpi_op *op)
{
    int n = coll->comm->size, me = coll->comm->rank, *sends, *recvs;
    MPI_Datatype type = wf_mpi_datatype(term_bytes(coll));

    if (coll->count * term_bytes(coll) <= SMALL_BYTES) {
        allocate_terms(coll, op, coll->count);
        WF_MPI(MPI_Iallgather(coll->send, (int)coll->count, type, op->terms, (int)coll->count, type,
                              net->first, &op->request));
        return;
    }
    allocate_terms(coll, op, slice_start(coll->count, n, me + 1) - slice_start(coll->count, n, me));
    op->ticket = net->tickets++;
    sends = fill_slice_counts(op->numbers, coll->count, n);
    recvs = fill_equal_counts(op->numbers + 2 * n, op->term_count, n);
    WF_MPI(MPI_Ialltoallv(coll->send, sends, sends + n, type, op->terms, recvs, recvs + n, type,
                          net->first, &op->request));
}

static void start_reduce_scatter(struct wf_coll *coll, struct wf_mpi_comm *net,
                                 struct wf_mpi_op *op)
{
    int n = coll->comm->size,
        *sends = fill_counts_and_displacements(op->numbers, coll->send_counts, n), *recvs;
    MPI_Datatype type = wf_mpi_datatype(term_bytes(coll));

    allocate_terms(coll, op, coll->send_counts[coll->comm->rank]);
    recvs = fill_equal_counts(op->numbers + 2 * n, op->term_count, n);
    WF_MPI(MPI_Ialltoallv(coll->send, sends, sends + n, type, op->terms, recvs, recvs + n, type,
                          net->first, &op->request));
}

static void start_gather_or_scatter(struct wf_coll *coll, struct wf_mpi_comm *net,
                                    struct wf_mpi_op *op)
{
    int n = coll->comm->size, me = coll->comm->rank, *a = op->numbers, *b = a + 2 * n;
    MPI_Datatype type = wf_mpi_datatype(weft_dtype_size(coll->dtype));
    MPI_Request *request = &op->request;

    switch (coll->kind) {
    case WEFT_COLL_ALL_GATHER:
        fill_counts_and_displacements(b, coll->recv_counts, n);
        WF_MPI(MPI_Iallgatherv(coll->send, b[me], type, coll->recv, b, b + n, type, net->first,
                               request));
        break;
    case WEFT_COLL_ALL_TO_ALL:
        fill_counts_and_displacements(a, coll->send_counts, n);
        fill_counts_and_displacements(b, coll->recv_counts, n);
        WF_MPI(MPI_Ialltoallv(coll->send, a, a + n, type, coll->recv, b, b + n, type, net->first,
                              request));
        break;
    case WEFT_COLL_SCATTER:
        fill_counts_and_displacements(a, coll->send_counts, n);
        WF_MPI(MPI_Iscatterv(coll->send, a, a + n, type, coll->recv, a[me], type, coll->peer,
                             net->first, request));
        break;
    default:
        fill_counts_and_displacements(b, coll->recv_counts, n);
        WF_MPI(MPI_Igatherv(coll->send, b[me], type, coll->recv, b, b + n, type, coll->peer,
                            net->first, request));
    }
}

static void start_bcast_p2p_or_barrier(struct wf_coll *coll, struct wf_mpi_comm *net,
                                       struct wf_mpi_op *op)
{
    MPI_Datatype type = wf_mpi_datatype(weft_dtype_size(coll->dtype));
    int count = wf_mpi_int_count(coll->count);

    switch (coll->kind) {
    case WEFT_COLL_BROADCAST:
        if (coll->comm->rank == coll->peer && coll->send != coll->recv && count)
            memcpy(coll->recv, coll->send, coll->count * weft_dtype_size(coll->dtype));
        WF_MPI(MPI_Ibcast(coll->recv, count, type, coll->peer, net->first, &op->request));
        break;
    case WEFT_COLL_SEND:
        WF_MPI(MPI_Isend(coll->send, count, type, coll->peer, 0, net->first, &op->request));
        break;
    case WEFT_COLL_RECV:
        WF_MPI(MPI_Irecv(coll->recv, count, type, coll->peer, 0, net->first, &op->request));
        break;
    default:
        WF_MPI(MPI_Ibarrier(net->first, &op->request));
    }
}

/* ---- afterwards ---- */

static bool is_two_step_all_reduce(const struct wf_coll *coll)
{
    return coll->kind == WEFT_COLL_ALL_REDUCE && coll->count * term_bytes(coll) > SMALL_BYTES;
}

static void start_second_step(struct wf_coll *coll, struct wf_mpi_comm *net, struct wf_mpi_op *op)
{
    int n = coll->comm->size, *slices = fill_slice_counts(op->numbers, coll->count, n);
    MPI_Datatype type = wf_mpi_datatype(weft_dtype_size(coll->dtype));

    net->turn++;
    WF_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, type, coll->recv, slices, slices + n, type, net->second,
                           &op->request));
}

/* The first step is over: add up, and say whether that was all. */
static bool finish_first_step(struct wf_coll *coll, struct wf_mpi_op *op)
{
    size_t element = weft_dtype_size(coll->dtype);
    int n = coll->comm->size;
    void *out = coll->recv;
    const void **ins;

    if (!op->terms) return true;
    if (is_two_step_all_reduce(coll))
        out = (char *)out + slice_start(coll->count, n, coll->comm->rank) * element;
    ins = wf_malloc((size_t)n * sizeof *ins);
    for (int i = 0; i < n; i++) ins[i] = op->terms + (size_t)i * op->term_count * term_bytes(coll);
    wf_reduce_tree_wide(&out, 1, ins, n, op->term_count, coll->dtype, coll->reduce, coll->wide);
    wf_free(ins);
    return !is_two_step_all_reduce(coll);
}

static void retire_op(struct wf_coll *coll, struct wf_mpi_comm *net, struct wf_mpi_op *op)
{
    wf_free(op->terms);
    op->next = net->spare;
    net->spare = op;
    coll->state = NULL;
}

/* A longer message than expected is an error to MPI, a shorter one is not. */
static void check_received_count(const struct wf_coll *coll, const MPI_Status *status)
{
    char what[512];
    int got;

    WF_MPI(MPI_Get_count(status, wf_mpi_datatype(weft_dtype_size(coll->dtype)), &got));
    if ((size_t)got == coll->count) return;
    wf_coll_describe_with_caller(coll, what, sizeof what);
    WF_DIE("ranks do different collectives: %s: rank %d sends %d elements", what,
           coll->comm->world_ranks[coll->peer], got);
}

static bool mpi_progress(struct wf_coll *coll)
{
    struct wf_mpi_comm *net = coll->comm->state;
    struct wf_mpi_op *op = coll->state;
    MPI_Status status;
    int done;

    if (op->phase != TURN) {
        WF_MPI(MPI_Test(&op->request, &done, &status));
        if (!done) {
            wf_mpi_answer_liveness(net);
            return false;
        }
        if (coll->kind == WEFT_COLL_RECV) check_received_count(coll, &status);
        if (op->phase == SECOND || finish_first_step(coll, op)) {
            retire_op(coll, net, op);
            return true;
        }
        op->phase = TURN;
    }
    if (net->turn != op->ticket) return false;
    start_second_step(coll, net, op);
    op->phase = SECOND;
    return false;
}

static void mpi_start(struct wf_coll *coll)
{
    struct wf_mpi_comm *net = coll->comm->state;
    struct wf_mpi_op *op = new_op(net, coll->comm->size);

    coll->state = op;
    if (!is_send_or_recv(coll->kind)) net->calls++;
    op->number = net->calls;
    switch (coll->kind) {
    case WEFT_COLL_ALL_REDUCE:
        start_all_reduce(coll, net, op);
        break;
    case WEFT_COLL_REDUCE_SCATTER:
        start_reduce_scatter(coll, net, op);
        break;
    case WEFT_COLL_ALL_GATHER:
    case WEFT_COLL_ALL_TO_ALL:
    case WEFT_COLL_SCATTER:
    case WEFT_COLL_GATHER:
        start_gather_or_scatter(coll, net, op);
        break;
    default:
        start_bcast_p2p_or_barrier(coll, net, op);
    }
    coll->complete = mpi_progress(coll);
}

static void mpi_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct wf_mpi_op *op = coll->state;

    if (is_send_or_recv(coll->kind))
        snprintf(text, bytes, "not arrived: rank %d", coll->comm->world_ranks[coll->peer]);
    else
        wf_mpi_list_absent_ranks(coll->comm->state, coll->comm, op->number, text, bytes);
}

static struct wf_mpi_comm *mpi_agreement_channel(const struct wf_comm *comm) { return comm->state; }

static void mpi_open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    (void)world;
    wf_comm_choose_backend(comm);
}

static void mpi_close_comm(struct wf_comm *comm) { wf_mpi_comm_free(comm->state); }

void wf_mpi_comm_free(struct wf_mpi_comm *net)
{
    struct wf_mpi_op *op;

    while ((op = net->spare)) {
        net->spare = op->next;
        wf_free(op->numbers);
        wf_free(op);
    }
    wf_mpi_agreements_free(net);
    WF_MPI(MPI_Comm_free(&net->agreeing));
    WF_MPI(MPI_Comm_free(&net->second));
    WF_MPI(MPI_Comm_free(&net->first));
    wf_free(net);
}

const struct wf_backend wf_backend_mpi = {
    .name = "mpi",
    .start = mpi_start,
    .step = mpi_progress,
    .missing = mpi_describe_missing_ranks,
    .compares_over = mpi_agreement_channel,
    .open = mpi_open_comm,
    .close = mpi_close_comm,
};
