/*
 * init.c: how the world of this process begins and ends: alone, or as a rank of mpiexec.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "comm/shm/shm_backend.h"
#include "device/device.h"

static pid_t process;                                /* a rank of mpiexec; 0: none, or it ends */
static bool mpi_is_ours;                             /* started here, so ended here */
static enum { NOT_BEGUN, BEGUN_EARLY, BEGUN } stage; /* of the main thread's world */

bool wf_comm_is_started_by_mpiexec(void)
{
    static const char *const marks[] = {
        "PMI_RANK", "PMI_FD", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getenv(marks[i])) return true;
    return false;
}

/* mpiexec forwards what was printed only while the job lives: give it a moment. */
static void wait_for_output_forwarding(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

static void abort_mpi_job(void)
{
    process = 0;
    wait_for_output_forwarding();
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/*
 * A rank that calls exit() ends the job, and the launcher reports only that; this handler prints
 * where the program was. A killed rank runs no handler.
 */
static void report_early_exit(void)
{
    const struct wf_last_collective *recent = &wf_comm_thread_state.recent;
    const char *module = wf_current_module_path();
    char after[512];
    int over;

    if (process != getpid() || !wf_comm_thread_state.world) return;
    MPI_Finalized(&over);
    if (over) return;
    snprintf(after, sizeof after, "%s%s%s%s%s%s%s%s", recent->label ? ", after " : "",
             recent->label ? wf_coll_name(recent->kind) : "",
             recent->label && recent->label[0] ? " on axis " : "",
             recent->label ? recent->label : "", recent->where.op ? " for " : "",
             recent->where.op ? recent->where.op : "", recent->where.module ? " in module " : "",
             recent->where.module ? recent->where.module : "");
    wf_error_print("the program exits before weft_finalize%s%s%s: ranks that wait for it end too",
                   module[0] ? ", in module " : "", module, after);
    wait_for_output_forwarding();
}

static weft_status init_mpi(int *argc, char ***argv)
{
    int provided, running, over;

    MPI_Finalized(&over);
    WF_NEED(!over, WEFT_ERR_COMM, "MPI has ended and cannot start again");
    MPI_Initialized(&running);
    if (running) return WEFT_OK;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        WF_DIE("MPI cannot start");
    mpi_is_ours = true;
    return WEFT_OK;
}

static int rank_on_node(MPI_Comm world)
{
    MPI_Comm here = wf_mpi_comm_of_node(world);
    int rank;

    WF_MPI(MPI_Comm_rank(here, &rank));
    WF_MPI(MPI_Comm_free(&here));
    return rank;
}

static struct wf_comm *create_world_comm(MPI_Comm comm, int rank, int size)
{
    struct wf_comm_thread_state *thread = &wf_comm_thread_state;
    struct wf_comm *world = wf_comm_alloc(NULL, size, rank, "");

    thread->net = wf_mpi_comm_new(comm);
    if (wf_knobs.shm > 0) {
        thread->node = wf_comm_node_open(thread->net->first, (int)wf_knobs.shm);
        if (thread->node->level > WF_SHARING_NONE) wf_shm_open_node_comm(thread->node, world);
    }
    wf_device_set_local_rank(thread->node ? thread->node->rank : rank_on_node(comm));
    wf_comm_choose_backend(world);
    return world;
}

/*
 * No rank unmaps shared memory that a peer may still read. The all-to-all connects every pair of
 * ranks first: MPI_Finalize of MPICH 4.0 over UCX may hang when it has to open a connection,
 * because the peer already waits in the launcher's barrier.
 */
static void synchronize_before_finalize(struct wf_comm_thread_state *thread)
{
    int size = thread->world->size;
    char *words = wf_calloc((size_t)size, 2);
    MPI_Request request;

    WF_MPI(
        MPI_Ialltoall(words, 1, MPI_CHAR, words + size, 1, MPI_CHAR, thread->net->first, &request));
    wf_mpi_wait(&request, "finalize");
    wf_free(words);
    WF_MPI(MPI_Ibarrier(thread->net->first, &request));
    wf_mpi_wait(&request, "finalize");
}

static void leave_world(struct wf_comm_thread_state *thread)
{
    synchronize_before_finalize(thread);
    wf_comm_free_all_but_world();
    wf_comm_free(thread->world);
    if (thread->node) {
        wf_shm_close_node_comm(thread->node);
        wf_comm_node_close(thread->node);
    }
    wf_mpi_comm_free(thread->net);
    *thread = (struct wf_comm_thread_state){0};
    wf_error_set_world_size(1);
}

static weft_status join_world(MPI_Comm comm)
{
    int rank, size;

    WF_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    WF_MPI(MPI_Comm_rank(comm, &rank));
    WF_MPI(MPI_Comm_size(comm, &size));
    wf_log_set_rank(rank);
    wf_error_set_world_size(size);
    wf_die_set_handler(abort_mpi_job);
    if (process == 0 && atexit(report_early_exit) == 0) process = getpid();
    if (size > 1) wf_comm_thread_state.world = create_world_comm(comm, rank, size);
    return WEFT_OK;
}

static weft_status mark_initialized(void)
{
    WF_NEED(stage == NOT_BEGUN && !wf_comm_thread_state.world, WEFT_ERR_STATE,
            "the library has begun already, by weft_init or with the first mesh");
    stage = BEGUN;
    wf_device_set_local_rank(0); /* of one rank; create_world_comm knows better */
    return WEFT_OK;
}

weft_status wf_comm_init(int *argc, char ***argv)
{
    if (stage == BEGUN_EARLY) {
        stage = BEGUN;
        return WEFT_OK;
    }
    WF_TRY(mark_initialized());
    if (!wf_comm_is_started_by_mpiexec()) return WEFT_OK;
    WF_TRY(init_mpi(argc, argv));
    return join_world(MPI_COMM_WORLD);
}

static weft_status check_mpi_is_running(void)
{
    int running, over;

    MPI_Initialized(&running);
    MPI_Finalized(&over);
    WF_NEED(running && !over, WEFT_ERR_STATE,
            "a communicator of MPI is given, but MPI is not running");
    return WEFT_OK;
}

weft_status wf_comm_init_mpi(int comm)
{
    WF_TRY(check_mpi_is_running());
    WF_NEED(MPI_Comm_f2c(comm) != MPI_COMM_NULL, WEFT_ERR_ARG,
            "the world cannot begin on MPI_COMM_NULL");
    WF_TRY(mark_initialized());
    return join_world(MPI_Comm_f2c(comm));
}

bool wf_comm_is_initialized(void) { return wf_comm_thread_state.world || stage != NOT_BEGUN; }

void wf_comm_mark_early_init(void) { stage = BEGUN_EARLY; }

static weft_status translate_to_world_ranks(MPI_Group group, int *ranks, int count)
{
    const struct wf_mpi_comm *net = wf_comm_thread_state.net;
    int *all = wf_malloc((size_t)count * sizeof *all), inside = 0;
    MPI_Group world; /* all processes of it; alone, this one */

    for (int i = 0; i < count; i++) all[i] = i;
    WF_MPI(MPI_Comm_group(net ? net->first : MPI_COMM_SELF, &world));
    WF_MPI(MPI_Group_translate_ranks(group, count, all, world, ranks));
    WF_MPI(MPI_Group_free(&world));
    wf_free(all);
    while (inside < count && ranks[inside] != MPI_UNDEFINED) inside++;
    WF_NEED(inside == count, WEFT_ERR_ARG, "member %d of the MPI communicator is not in the world",
            inside);
    return WEFT_OK;
}

weft_status wf_comm_world_ranks_of_mpi(int comm, int **world_ranks, int *count)
{
    weft_status status;
    MPI_Group group;

    WF_NEED(!wf_comm_thread_state.world || wf_comm_thread_state.net, WEFT_ERR_STATE,
            "ranks that are threads have no communicators of MPI");
    WF_TRY(check_mpi_is_running());
    WF_NEED(MPI_Comm_f2c(comm) != MPI_COMM_NULL, WEFT_ERR_ARG,
            "a mesh cannot be made of MPI_COMM_NULL");
    WF_MPI(MPI_Comm_group(MPI_Comm_f2c(comm), &group));
    WF_MPI(MPI_Group_size(group, count));
    *world_ranks = wf_malloc((size_t)*count * sizeof **world_ranks);
    status = translate_to_world_ranks(group, *world_ranks, *count);
    WF_MPI(MPI_Group_free(&group));
    if (status == WEFT_OK) return WEFT_OK;
    wf_free(*world_ranks);
    return status;
}

void wf_comm_finalize(void)
{
    if (wf_comm_thread_state.world)
        leave_world(&wf_comm_thread_state);
    else
        wf_comm_free_all_but_world();
    stage = NOT_BEGUN;
    if (!mpi_is_ours) return;
    mpi_is_ours = false;
    wf_die_set_handler(NULL);
    MPI_Finalize();
}
