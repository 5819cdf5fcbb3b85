/*
 * process_faults.c: ranks under mpiexec that do what tests/comm/process_faults.sh names: "late",
 * "differ", "exit" or "killed" (rank 1 is killed while shared memory is in use).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/knob.h"
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

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    int rank;

    wf_knobs_read();
    WEFT_CHECK(wf_comm_init(&argc, &argv));
    rank = wf_comm_rank(wf_comm_world());
    all_reduce(COUNT);
    if (rank == 1 && strcmp(fault, "killed") == 0) raise(SIGKILL);
    wf_here.module = "model.head";
    if (rank == 1 && strcmp(fault, "exit") == 0) exit(EXIT_SUCCESS);
    if (rank == 1 && strcmp(fault, "late") == 0) nanosleep(&(struct timespec){.tv_sec = 20}, NULL);
    all_reduce(rank == 1 && strcmp(fault, "differ") == 0 ? COUNT - 1 : COUNT);
    wf_comm_finalize();
    return EXIT_SUCCESS;
}
