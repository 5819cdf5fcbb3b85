/*
 * test_comm_faults.c: what ends a job, and what it says then. Each case runs in a child process,
 * whose standard error is compared.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/settings/knob.h"
#include "comm/comm.h"
#include "support/mpi_check.h"
#include "support/stderr_text.h"

enum { RANKS = 4, COUNT = 5 };

static struct wf_comm *line(void)
{
    static const int ranks[RANKS] = {0, 1, 2, 3};

    return wf_comm_for_ranks(ranks, RANKS, "tp");
}

static void nap(void) { nanosleep(&(struct timespec){.tv_sec = 20}, NULL); }

static void all_reduce(struct wf_comm *comm, size_t count)
{
    float send[2 * COUNT] = {0}, recv[2 * COUNT];
    struct wf_coll coll = {
        .kind = WEFT_COLL_ALL_REDUCE, .comm = comm, .count = count, .send = send, .recv = recv};

    wf_comm_run(&coll);
}

static int come_late(void *payload)
{
    struct wf_comm *comm = line();

    (void)payload;
    if (wf_comm_rank(comm) == 2) nap();
    all_reduce(comm, COUNT);
    return 0;
}

static int send_nothing(void *payload)
{
    struct wf_comm *comm = line();
    float x;
    struct wf_coll coll = {.kind = WEFT_COLL_RECV, .comm = comm, .count = 1, .peer = 3, .recv = &x};

    (void)payload;
    if (wf_comm_rank(comm)) nap();
    wf_comm_run(&coll);
    return 0;
}

static int differ_in_count(void *payload)
{
    struct wf_comm *comm = line();

    (void)payload;
    all_reduce(comm, COUNT);
    all_reduce(comm, wf_comm_rank(comm) == 3 ? COUNT + 1 : COUNT);
    return 0;
}

static int differ_in_kind(void *payload)
{
    struct wf_comm *comm = line();
    struct wf_coll barrier = {.kind = WEFT_COLL_BARRIER, .comm = comm};

    (void)payload;
    if (wf_comm_rank(comm) == 1)
        wf_comm_run(&barrier);
    else
        all_reduce(comm, COUNT);
    return 0;
}

static int forget_recv(void *payload)
{
    float send[COUNT] = {0};
    struct wf_coll coll = {
        .kind = WEFT_COLL_ALL_REDUCE, .comm = line(), .count = COUNT, .send = send};

    (void)payload;
    wf_comm_run(&coll);
    return 0;
}

static int average(void *payload)
{
    float x[COUNT] = {0};
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = line(),
                           .reduce = WEFT_AVG,
                           .count = COUNT,
                           .send = x,
                           .recv = x};

    (void)payload;
    wf_comm_run(&coll);
    return 0;
}

/* ---- counts that differ: rank 3 thinks of one element more, or for another rank ---- */

/* A collective of `kind` as every rank would call it: counts of COUNT, and 3 is the root. */
static void with_counts(weft_coll kind, size_t *sends, size_t *recvs, size_t count, int root)
{
    float send[4 * RANKS * COUNT] = {0}, recv[4 * RANKS * COUNT];
    struct wf_coll coll = {.kind = kind,
                           .comm = line(),
                           .peer = root,
                           .count = count,
                           .send_counts = sends,
                           .recv_counts = recvs,
                           .send = send,
                           .recv = recv};

    wf_comm_run(&coll);
}

static int one_more(weft_coll kind)
{
    size_t sends[RANKS], recvs[RANKS];
    bool odd = wf_comm_rank(line()) == 3;

    for (int i = 0; i < RANKS; i++) sends[i] = recvs[i] = COUNT;
    if (odd && kind == WEFT_COLL_ALL_TO_ALL) sends[1]++; /* recvs of rank 1 stay */
    if (odd && kind != WEFT_COLL_ALL_TO_ALL) sends[2]++, recvs[2]++;
    with_counts(kind, sends, recvs, odd ? COUNT + 1 : COUNT, 3);
    return 0;
}

static int broadcast_counts(void *payload) { return (void)payload, one_more(WEFT_COLL_BROADCAST); }
static int scatter_counts(void *payload) { return (void)payload, one_more(WEFT_COLL_SCATTER); }
static int gather_counts(void *payload) { return (void)payload, one_more(WEFT_COLL_GATHER); }
static int exchange_counts(void *payload) { return (void)payload, one_more(WEFT_COLL_ALL_TO_ALL); }

/* The sums of the counts agree: only how they are split differs. */
static int split_otherwise(weft_coll kind)
{
    size_t counts[RANKS] = {COUNT, COUNT, COUNT, COUNT};

    if (wf_comm_rank(line()) == 3) counts[1]++, counts[2]--;
    with_counts(kind, counts, counts, COUNT, 0);
    return 0;
}

static int scatter_split(void *payload)
{
    return (void)payload, split_otherwise(WEFT_COLL_SCATTER);
}
static int reduce_split(void *payload)
{
    return (void)payload, split_otherwise(WEFT_COLL_REDUCE_SCATTER);
}

/* Each reads its own bytes, or those of a root that knows nothing of it. */
static int differ_in_root(void *payload)
{
    struct wf_comm *comm = line();

    (void)payload;
    with_counts(WEFT_COLL_BROADCAST, NULL, NULL, COUNT, wf_comm_rank(comm) == 3 ? 3 : 0);
    all_reduce(comm, COUNT);
    return 0;
}

static int send_too_little(void *payload)
{
    struct wf_comm *comm = line();
    float x[2] = {0};
    struct wf_coll pair = {.kind = WEFT_COLL_SEND, .comm = comm, .count = 1, .send = x, .recv = x};

    (void)payload;
    pair.peer = 3 - wf_comm_rank(comm);
    if (wf_comm_rank(comm) == 0) pair.kind = WEFT_COLL_RECV, pair.count = 2;
    if (wf_comm_rank(comm) == 0 || wf_comm_rank(comm) == 3) wf_comm_run(&pair);
    nap();
    return 0;
}

static int exchange_with_oneself(void *payload)
{
    size_t sends[RANKS] = {1, 1, 1, 1}, recvs[RANKS] = {1, 1, 1, 1};

    (void)payload;
    sends[wf_comm_rank(line())] = 2;
    with_counts(WEFT_COLL_ALL_TO_ALL, sends, recvs, 0, 0);
    return 0;
}

struct fault {
    const char *name;
    int (*body)(void *payload);
    long check;
    const char *says[3]; /* pieces of what is printed */
};

#define DIFFER "different collectives"

static const struct fault faults[] = {
    {"late",
     come_late,
     1,
     {"all-reduce sum of 5 f32 on axis tp", "not arrived: rank 2", "WEFT_TIMEOUT"}},
    {"no send",
     send_nothing,
     1,
     {"recv of 1 f32 on axis tp", "not arrived: rank 3", "WEFT_TIMEOUT"}},
    {"count",
     differ_in_count,
     2,
     {"different collectives", "all-reduce sum of 5 f32", "all-reduce sum of 6 f32"}},
    {"kind", differ_in_kind, 2, {"different collectives", "all-reduce sum of 5 f32", "barrier"}},
    {"recv", forget_recv, 1, {"all-reduce on axis 'tp' of 4 ranks", "recv is NULL", ""}},
    {"average", average, 1, {"all-reduce on axis 'tp' of 4 ranks", "no such reduction", ""}},
    /* trial 1.3: in shared memory always, and with the fingerprint wherever ranks are */
    {"broadcast", broadcast_counts, 1, {DIFFER, "broadcast of 5 f32", "giving 24 bytes"}},
    {"scatter", scatter_counts, 1, {DIFFER, "scatter of 20 f32", "giving 84 bytes"}},
    {"gather", gather_counts, 1, {DIFFER, "gather of 21 f32", "splits it in another way"}},
    {"exchange", exchange_counts, 1, {DIFFER, "rank 1: all-to-all", "giving 24 bytes"}},
    {"scatter split", scatter_split, 1, {DIFFER, "scatter of 20 f32", "splits it in another way"}},
    {"reduce split", reduce_split, 1, {DIFFER, "reduce-scatter", "splits it in another way"}},
    {"root", differ_in_root, 1, {DIFFER, "all-reduce sum of 5 f32", "in an earlier one"}},
    {"pair", send_too_little, 1, {DIFFER, "recv of 2 f32", "giving 4 bytes"}},
    {"itself", exchange_with_oneself, 1, {"all-to-all on axis 'tp'", "it sends itself", ""}},
    {"exchange", exchange_counts, 2, {DIFFER, "rank 3 sends 6 elements to rank 1", "takes 5"}},
    {"scatter split", scatter_split, 2, {DIFFER, "scatter of 20 f32", "collective 1"}},
    {"root", differ_in_root, 2, {DIFFER, "broadcast of 5 f32", "collective 1"}},
};

static void leave(void) { _exit(3); }

/* The child: death by leave() instead of abort(). */
static void suffer(const void *payload)
{
    const struct fault *fault = payload;

    wf_die_set_handler(leave);
    wf_knobs.check = fault->check;
    wf_knobs.timeout = 1;
    wf_comm_run_rank_threads(RANKS, fault->body, NULL);
}

WT_UNIT_TIMES(fault__ends_the_job_with_a_sentence, (int)(sizeof faults / sizeof *faults))
{
    const struct fault *fault = &faults[_i];
    int status;
    const char *text = wt_stderr_of_child(suffer, fault, &status);

    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s: status %d, said: %s",
                  fault->name, status, text);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(strstr(text, fault->says[i]), "%s: no '%s' in: %s", fault->name,
                      fault->says[i], text);
}

static int do_alike(void *payload)
{
    struct wf_comm *comm = line();

    (void)payload;
    for (size_t i = 0; i < 20; i++) all_reduce(comm, i % COUNT);
    return 0;
}

WT_UNIT(fault__equal_collectives_pass_the_fingerprint)
{
    wf_knobs.check = 2;
    ck_assert_int_eq(wf_comm_run_rank_threads(RANKS, do_alike, NULL), 0);
    wf_knobs.check = 1;
}

int main(void) { return wt_unit_main("comm_faults"); }
