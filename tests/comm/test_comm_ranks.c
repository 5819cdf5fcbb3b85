/*
 * test_comm_ranks.c: every collective between processes, started by mpiexec. The backend follows
 * from WEFT_SHM; the first argument, when given, is the backend that the world must have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/knob.h"
#include "comm/comm.h"
#include "comm_cases.h"
#include "device/pool.h"

/* The worst verdict of all ranks, so that mpiexec's status is right whichever rank fails. */
static int worst(int failed)
{
    int32_t mine = failed, all = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = wf_comm_world(),
                           .dtype = WEFT_I32,
                           .reduce = WEFT_MAX,
                           .count = 1,
                           .send = &mine,
                           .recv = &all};

    wf_comm_run(&coll);
    return all;
}

static int wrong_backend(const char *wanted)
{
    const char *found = wf_comm_backend_name(wf_comm_world());

    if (!wanted || wf_comm_size(wf_comm_world()) == 1 || strcmp(found, wanted) == 0) return 0;
    fprintf(stderr, "the world's backend is %s, not %s\n", found, wanted);
    return 1;
}

int main(int argc, char **argv)
{
    int failed;

    wf_knobs_read();
    WEFT_CHECK(wf_comm_init(&argc, &argv));
    failed = comm_cases(NULL);
    if (failed) fprintf(stderr, "%d failures, first: %s\n", failed, weft_error_message());
    failed = worst(failed + wrong_backend(argc > 1 ? argv[1] : NULL));
    if (wf_comm_rank(wf_comm_world()) == 0) printf("verdict: %s\n", failed ? "fail" : "pass");
    fflush(stdout);
    wf_comm_finalize();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
