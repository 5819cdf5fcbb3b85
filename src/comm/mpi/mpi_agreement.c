/*
 * mpi_agreement.c: checks that all ranks ask MPI for the same collective. MPI itself does not, and
 * counts that differ may give wrong numbers without an error. An all-gather of a few words runs
 * beside every collective, which is complete when these words agree.
 */
#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "comm/mpi/mpi_comm.h"

/* Words of a rank. In an all-to-all each rank has its own counts. Each pair (sender, receiver) with
 * its count is hashed by both ends, so over all ranks the sum of SENT equals the sum of TAKEN. */
enum { WHAT, COUNTS, SENT, TAKEN, WORDS };

struct wf_mpi_agreement {
    struct wf_mpi_agreement *next;
    MPI_Request request;
    uint64_t number; /* of the collective, for the liveness question */
    uint64_t mine[WORDS];
    uint64_t *all; /* WORDS of each rank */
};

static struct wf_mpi_comm *mpi_comm_of(const struct wf_coll *coll)
{
    return coll->comm->backend->compares_over(coll->comm);
}

static uint64_t hash_pair_count(int from, int to, size_t count)
{
    uint64_t words[] = {(uint64_t)from, (uint64_t)to, count};

    return wf_hash_bytes(words, sizeof words); /* sums of weaker ones may be equal */
}

static void fill_agreement_words(uint64_t *words, const struct wf_coll *coll)
{
    int me = coll->comm->rank;

    words[WHAT] = wf_coll_signature(coll);
    words[COUNTS] = wf_coll_hash_counts(0, coll);
    words[SENT] = words[TAKEN] = 0;
    if (coll->kind != WEFT_COLL_ALL_TO_ALL) {
        words[SENT] = words[TAKEN] = coll->bytes;
        return;
    }
    for (int peer = 0; peer < coll->comm->size; peer++) {
        words[SENT] += hash_pair_count(me, peer, coll->send_counts[peer]);
        words[TAKEN] += hash_pair_count(peer, me, coll->recv_counts[peer]);
    }
}

void wf_mpi_agreement_start(struct wf_coll *coll)
{
    struct wf_mpi_comm *net = mpi_comm_of(coll);
    struct wf_mpi_agreement *a = net->spare_agreement;

    if (a) {
        net->spare_agreement = a->next;
    } else {
        a = WF_NEW(struct wf_mpi_agreement);
        a->all = wf_malloc((size_t)coll->comm->size * sizeof a->mine);
    }
    a->number = net->calls + 1;
    fill_agreement_words(a->mine, coll);
    coll->agreement = a;
    WF_MPI(MPI_Iallgather(a->mine, WORDS, MPI_UINT64_T, a->all, WORDS, MPI_UINT64_T, net->agreeing,
                          &a->request));
}

static _Noreturn void die_naming_difference(const struct wf_coll *coll, const uint64_t *theirs,
                                            int rank)
{
    const int *world = coll->comm->world_ranks;
    char mine[512], other[64];

    wf_coll_describe_with_caller(coll, mine, sizeof mine);
    wf_coll_describe_signature(theirs[WHAT], coll->comm, other, sizeof other);
    if ((theirs[WHAT] & 0xff) == WEFT_COLL_ALL_TO_ALL)
        WF_DIE("ranks do different collectives: rank %d: %s; rank %d: %s (WEFT_CHECK=2 says more)",
               world[coll->comm->rank], mine, world[rank], other);
    WF_DIE("ranks do different collectives: rank %d: %s, %zu bytes; rank %d: %s, %llu bytes "
           "(WEFT_CHECK=2 says more)",
           world[coll->comm->rank], mine, coll->bytes, world[rank], other,
           (unsigned long long)theirs[SENT]);
}

static void check_same_collective(const struct wf_coll *coll, const struct wf_mpi_agreement *a)
{
    uint64_t sent = 0, taken = 0;
    char mine[512];

    for (int rank = 0; rank < coll->comm->size; rank++) {
        const uint64_t *theirs = a->all + rank * WORDS;

        if (theirs[WHAT] != a->mine[WHAT] || theirs[COUNTS] != a->mine[COUNTS])
            die_naming_difference(coll, theirs, rank);
        sent += theirs[SENT];
        taken += theirs[TAKEN];
    }
    if (sent == taken) return;
    wf_coll_describe_with_caller(coll, mine, sizeof mine);
    WF_DIE("ranks do different collectives: %s: what some rank sends is not what its peer takes "
           "(WEFT_CHECK=2 says more)",
           mine);
}

void wf_mpi_agreement_progress(struct wf_coll *coll)
{
    struct wf_mpi_agreement *a = coll->agreement;
    struct wf_mpi_comm *net = mpi_comm_of(coll);
    int done;

    WF_MPI(MPI_Test(&a->request, &done, MPI_STATUS_IGNORE));
    if (!done) {
        wf_mpi_answer_liveness(net);
        return;
    }
    check_same_collective(coll, a);
    coll->agreement = NULL;
    a->next = net->spare_agreement;
    net->spare_agreement = a;
}

void wf_mpi_agreement_describe_missing_ranks(const struct wf_coll *coll, char *text, size_t bytes)
{
    const struct wf_mpi_agreement *a = coll->agreement;
    struct wf_mpi_comm *net = mpi_comm_of(coll);

    if (net == coll->comm->state)
        wf_mpi_list_absent_ranks(net, coll->comm, a->number, text, bytes);
    else /* collectives between nodes are not counted there */
        snprintf(text, bytes, "waiting for another node");
}

void wf_mpi_agreements_free(struct wf_mpi_comm *net)
{
    struct wf_mpi_agreement *a;

    while ((a = net->spare_agreement)) {
        net->spare_agreement = a->next;
        wf_free(a->all);
        wf_free(a);
    }
}
