/*
 * init.c: how the world of this process begins and ends: alone, or as a rank of mpiexec.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/net.h"

static bool mpi_is_ours; /* started here, so ended here */

/* Started by mpiexec? Asked of the environment, so that a lone process never touches MPI. */
static bool has_launcher(void)
{
    static const char *const marks[] = {"PMI_RANK", "PMI_FD", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                        "MPI_LOCALRANKID"};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getenv(marks[i])) return true;
    return false;
}

static void end_job(void) { MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE); }

static weft_status start_mpi(int *argc, char ***argv)
{
    int provided, running;

    MPI_Initialized(&running);
    if (running) return WEFT_OK;
    WF_NEED(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS, WEFT_ERR_COMM,
            "MPI cannot start");
    mpi_is_ours = true;
    return WEFT_OK;
}

weft_status wf_comm_init(int *argc, char ***argv)
{
    int rank, size;
    struct wf_comm *world;

    WF_NEED(!wf_comm_thread.world, WEFT_ERR_STATE, "the world exists already");
    if (!has_launcher()) return WEFT_OK;
    WF_TRY(start_mpi(argc, argv));
    WF_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    WF_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    WF_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    wf_log_set_rank(rank);
    wf_die_set_handler(end_job);
    if (size == 1) return WEFT_OK;
    world = wf_comm_make(NULL, size, rank, "");
    world->backend = &wf_backend_mpi;
    world->state = wf_net_new(MPI_COMM_WORLD);
    wf_comm_thread.world = world;
    return WEFT_OK;
}

void wf_comm_finalize(void)
{
    wf_comm_drop_subs();
    if (wf_comm_thread.world) wf_comm_unmake(wf_comm_thread.world);
    wf_comm_thread.world = NULL;
    if (!mpi_is_ours) return;
    mpi_is_ours = false;
    wf_die_set_handler(NULL);
    MPI_Finalize();
}
