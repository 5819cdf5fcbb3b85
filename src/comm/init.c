/*
 * init.c: how the world of this process begins and ends: alone, or as a rank of mpiexec.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/knob.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/shm.h"

static pid_t process;                                /* a rank of mpiexec; 0: none, or it ends */
static bool mpi_is_ours;                             /* started here, so ended here */
static enum { NOT_BEGUN, BEGUN_EARLY, BEGUN } stage; /* of the main thread's world */

/* Started by mpiexec? Asked of the environment, so that a lone process never touches MPI. */
static bool has_launcher(void)
{
    static const char *const marks[] = {
        "PMI_RANK", "PMI_FD", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID"};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getenv(marks[i])) return true;
    return false;
}

/* mpiexec forwards what was printed only while the job lives: give it a moment. */
static void let_it_be_read(void) { nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); }

static void end_job(void)
{
    process = 0;
    let_it_be_read();
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/*
 * A rank that calls exit() takes its peers with it, and the launcher says but that: here it says
 * where it was. A rank that is killed has no last words, and mpiexec forwards none of its peers'.
 */
static void at_exit(void)
{
    const struct wf_recent *recent = &wf_comm_thread.recent;
    const char *module = wf_where_module();
    char after[512];
    int over;

    if (process != getpid() || !wf_comm_thread.world) return;
    MPI_Finalized(&over);
    if (over) return;
    snprintf(after, sizeof after, "%s%s%s%s%s%s%s%s", recent->label ? ", after " : "",
             recent->label ? wf_coll_name(recent->kind) : "",
             recent->label && recent->label[0] ? " on axis " : "",
             recent->label ? recent->label : "", recent->where.op ? " for " : "",
             recent->where.op ? recent->where.op : "", recent->where.module ? " in module " : "",
             recent->where.module ? recent->where.module : "");
    wf_last_words("the program exits before weft_finalize%s%s%s: ranks that wait for it end too",
                  module[0] ? ", in module " : "", module, after);
    let_it_be_read();
}

static weft_status start_mpi(int *argc, char ***argv)
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

static struct wf_comm *make_world(MPI_Comm comm, int rank, int size)
{
    struct wf_comm_thread *thread = &wf_comm_thread;
    struct wf_comm *world = wf_comm_make(NULL, size, rank, "");

    thread->net = wf_net_new(comm);
    if (wf_knobs.shm > 0) {
        thread->node = wf_node_open(thread->net->first, (int)wf_knobs.shm);
        if (thread->node->level > WF_NODE_NONE) wf_shm_open_desk(thread->node, world);
    }
    wf_shm_choose(world);
    return world;
}

/*
 * No rank takes its memory away while a peer may still look at it. Everybody writes to everybody,
 * because MPI_Finalize of MPICH 4.0 over UCX may hang on a connection that is made only to be
 * closed: the peer waits in a barrier of the launcher, where it answers nothing.
 */
static void part_together(struct wf_comm_thread *thread)
{
    int size = thread->world->size;
    char *words = wf_calloc((size_t)size, 2);
    MPI_Request request;

    WF_MPI(
        MPI_Ialltoall(words, 1, MPI_CHAR, words + size, 1, MPI_CHAR, thread->net->first, &request));
    wf_net_await(&request, "finalize");
    wf_free(words);
    WF_MPI(MPI_Ibarrier(thread->net->first, &request));
    wf_net_await(&request, "finalize");
}

static void leave_world(struct wf_comm_thread *thread)
{
    part_together(thread);
    wf_comm_drop_subs();
    wf_comm_unmake(thread->world);
    if (thread->node) {
        wf_shm_close_desk(thread->node);
        wf_node_close(thread->node);
    }
    wf_net_free(thread->net);
    *thread = (struct wf_comm_thread){0};
    wf_error_set_ranks(1);
}

static weft_status enter_world(MPI_Comm comm)
{
    int rank, size;

    WF_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    WF_MPI(MPI_Comm_rank(comm, &rank));
    WF_MPI(MPI_Comm_size(comm, &size));
    wf_log_set_rank(rank);
    wf_error_set_ranks(size);
    wf_die_set_handler(end_job);
    if (process == 0 && atexit(at_exit) == 0) process = getpid();
    if (size > 1) wf_comm_thread.world = make_world(comm, rank, size);
    return WEFT_OK;
}

static weft_status begin(void)
{
    WF_NEED(stage == NOT_BEGUN && !wf_comm_thread.world, WEFT_ERR_STATE,
            "the library has begun already, by weft_init or with the first mesh");
    stage = BEGUN;
    return WEFT_OK;
}

weft_status wf_comm_init(int *argc, char ***argv)
{
    if (stage == BEGUN_EARLY) {
        stage = BEGUN;
        return WEFT_OK;
    }
    WF_TRY(begin());
    if (!has_launcher()) return WEFT_OK;
    WF_TRY(start_mpi(argc, argv));
    return enter_world(MPI_COMM_WORLD);
}

static weft_status check_mpi(void)
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
    WF_TRY(check_mpi());
    WF_NEED(MPI_Comm_f2c(comm) != MPI_COMM_NULL, WEFT_ERR_ARG,
            "the world cannot begin on MPI_COMM_NULL");
    WF_TRY(begin());
    return enter_world(MPI_Comm_f2c(comm));
}

bool wf_comm_has_begun(void) { return wf_comm_thread.world || stage != NOT_BEGUN; }

void wf_comm_began_early(void) { stage = BEGUN_EARLY; }

/* All processes of the world; alone, this one. */
static MPI_Comm whole_world(void)
{
    const struct wf_net *net = wf_comm_thread.net;

    return net ? net->first : MPI_COMM_SELF;
}

static weft_status translate(MPI_Group group, int *ranks, int count)
{
    int *all = wf_malloc((size_t)count * sizeof *all), inside = 0;
    MPI_Group world;

    for (int i = 0; i < count; i++) all[i] = i;
    WF_MPI(MPI_Comm_group(whole_world(), &world));
    WF_MPI(MPI_Group_translate_ranks(group, count, all, world, ranks));
    WF_MPI(MPI_Group_free(&world));
    wf_free(all);
    while (inside < count && ranks[inside] != MPI_UNDEFINED) inside++;
    WF_NEED(inside == count, WEFT_ERR_ARG, "member %d of the MPI communicator is not in the world",
            inside);
    return WEFT_OK;
}

weft_status wf_comm_mpi_members(int comm, int **world_ranks, int *count)
{
    weft_status status;
    MPI_Group group;

    WF_NEED(!wf_comm_thread.world || wf_comm_thread.net, WEFT_ERR_STATE,
            "ranks that are threads have no communicators of MPI");
    WF_TRY(check_mpi());
    WF_NEED(MPI_Comm_f2c(comm) != MPI_COMM_NULL, WEFT_ERR_ARG,
            "a mesh cannot be made of MPI_COMM_NULL");
    WF_MPI(MPI_Comm_group(MPI_Comm_f2c(comm), &group));
    WF_MPI(MPI_Group_size(group, count));
    *world_ranks = wf_malloc((size_t)*count * sizeof **world_ranks);
    status = translate(group, *world_ranks, *count);
    WF_MPI(MPI_Group_free(&group));
    if (status == WEFT_OK) return WEFT_OK;
    wf_free(*world_ranks);
    return status;
}

void wf_comm_finalize(void)
{
    if (wf_comm_thread.world)
        leave_world(&wf_comm_thread);
    else
        wf_comm_drop_subs();
    stage = NOT_BEGUN;
    if (!mpi_is_ours) return;
    mpi_is_ours = false;
    wf_die_set_handler(NULL);
    MPI_Finalize();
}
