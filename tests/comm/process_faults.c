/*
 * process_faults.c: ranks under mpiexec that do what tests/comm/process_faults.sh names: "late",
 * "exit" or "killed" (rank 1 is killed while shared memory is in use), or a collective in which
 * rank 1 counts otherwise: "differ" (a long all-reduce), "small" (a short one) and those of the
 * table.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/settings/knob.h"
#include "comm/comm.h"
#include "device/pool.h"

enum { COUNT = 300000 };

static void all_reduce(size_t count)
{
    struct wf_block *block = wf_block_new(COUNT * sizeof(float), WF_MEM_COMM);
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE, .comm = wf_comm_world(), .count = count};

    if (!block) exit(EXIT_FAILURE);
    memset(block->data, 0, COUNT * sizeof(float));
    coll.send = coll.recv = block->data;
    wf_comm_run(&coll);
    wf_block_release(block);
}

/* Rank 1 takes the last rank's share to be smaller. Afterwards all meet, since a rank that only
 * sends need not have noticed yet. */
static void differ_in(weft_coll kind, bool differs)
{
    int n = wf_comm_size(wf_comm_world());
    size_t counts[8] = {5, 5, 5, 5, 5, 5, 5, 5};
    float send[40] = {0}, recv[40];
    struct wf_coll coll = {.kind = kind,
                           .comm = wf_comm_world(),
                           .count = differs ? 39 : 40,
                           .send_counts = counts,
                           .recv_counts = counts,
                           .send = send,
                           .recv = recv};

    if (differs) counts[n - 1] = 4;
    wf_comm_run(&coll);
    wf_comm_run(&(struct wf_coll){.kind = WEFT_COLL_BARRIER, .comm = wf_comm_world()});
}

static const struct {
    const char *name;
    weft_coll kind;
} kinds[] = {{"gather", WEFT_COLL_ALL_GATHER},
             {"exchange", WEFT_COLL_ALL_TO_ALL},
             {"scatter", WEFT_COLL_SCATTER},
             {"broadcast", WEFT_COLL_BROADCAST},
             {"small", WEFT_COLL_ALL_REDUCE}};

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    int rank;

    wf_knobs_read();
    WEFT_CHECK(wf_comm_init(&argc, &argv));
    rank = wf_comm_rank(wf_comm_world());
    all_reduce(COUNT);
    if (rank == 1 && strcmp(fault, "killed") == 0) raise(SIGKILL);
    wf_current_context.module = "model.head";
    if (rank == 1 && strcmp(fault, "exit") == 0) exit(EXIT_SUCCESS);
    if (rank == 1 && strcmp(fault, "late") == 0) nanosleep(&(struct timespec){.tv_sec = 20}, NULL);
    all_reduce(rank == 1 && strcmp(fault, "differ") == 0 ? COUNT - 1 : COUNT);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(fault, kinds[i].name) == 0) differ_in(kinds[i].kind, rank == 1);
    wf_comm_finalize();
    return EXIT_SUCCESS;
}
