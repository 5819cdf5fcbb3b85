/*
 * thread_ranks.c: the backend whose ranks are threads of this process, and the call that starts
 * them. The collectives are the engine's; a peer's address is an address here.
 */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/shm/shm_engine.h"
#include "device/device.h"

/* The control memory of one set of ranks: made by the first member that asks, freed at the end. */
struct group {
    struct group *next;
    int *world_ranks, size;
    char *rings; /* one per rank */
};

struct thread_world {
    pthread_mutex_t lock;
    struct group *groups;
    int ranks;
    int (*body)(void *payload);
    void *payload;
};

struct rank_thread {
    struct thread_world *thread_world;
    pthread_t thread;
    int rank, result;
    weft_status status;
    char *message;
};

static _Thread_local struct thread_world *here;
static void (*start_hook)(void), (*finish_hook)(void);

bool wf_comm_is_rank_thread(void) { return here != NULL; }

void wf_comm_set_thread_hooks(void (*start)(void), void (*finish)(void))
{
    start_hook = start;
    finish_hook = finish;
}

static size_t control_memory_bytes(int size)
{
    return (wf_shm_engine_control_bytes(size, false) + 4095) / 4096 * 4096;
}

static struct group *find_or_make_group(struct thread_world *thread_world, const int *world_ranks,
                                        int size)
{
    struct group *group;

    pthread_mutex_lock(&thread_world->lock);
    for (group = thread_world->groups; group; group = group->next)
        if (group->size == size &&
            memcmp(group->world_ranks, world_ranks, (size_t)size * sizeof(int)) == 0)
            break;
    if (!group) {
        group = WF_NEW(struct group);
        group->size = size;
        group->world_ranks = wf_malloc((size_t)size * sizeof(int));
        memcpy(group->world_ranks, world_ranks, (size_t)size * sizeof(int));
        group->rings = wf_calloc((size_t)size + 1, control_memory_bytes(size));
        group->next = thread_world->groups;
        thread_world->groups = group;
    }
    pthread_mutex_unlock(&thread_world->lock);
    return group;
}

static void threads_open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    struct group *group = find_or_make_group(here, comm->world_ranks, comm->size);
    struct wf_shm_engine *engine = wf_shm_engine_new(comm->rank, comm->size, false);
    uintptr_t first = ((uintptr_t)group->rings + 4095) / 4096 * 4096;

    (void)world;
    engine->high = UINTPTR_MAX;
    for (int rank = 0; rank < comm->size; rank++)
        engine->ring[rank] = (char *)first + (size_t)rank * control_memory_bytes(comm->size);
    comm->backend = &wf_backend_local;
    comm->state = engine;
}

static void threads_close_comm(struct wf_comm *comm) { wf_shm_engine_free(comm->state); }

const struct wf_backend wf_backend_local = {
    .name = "local",
    .start = wf_shm_engine_start,
    .step = wf_shm_engine_progress,
    .missing = wf_shm_engine_describe_missing_ranks,
    .open = threads_open_comm,
    .close = threads_close_comm,
};

static void enter_rank_thread(struct rank_thread *rank_thread)
{
    struct wf_comm *world =
        wf_comm_alloc(NULL, rank_thread->thread_world->ranks, rank_thread->rank, "");

    wf_log_set_rank(rank_thread->rank);
    wf_error_set_world_size(world->size);
    wf_device_set_local_rank(rank_thread->rank);
    here = rank_thread->thread_world;
    if (world->size == 1)
        world->backend = &wf_backend_self;
    else
        threads_open_comm(world, NULL);
    wf_comm_thread_state = (struct wf_comm_thread_state){.world = world};
}

static void leave_rank_thread(void)
{
    wf_comm_free_all_but_world();
    wf_comm_free(wf_comm_thread_state.world);
    wf_comm_thread_state = (struct wf_comm_thread_state){0};
    wf_error_set_world_size(1);
}

static void *rank_thread_main(void *payload)
{
    struct rank_thread *rank_thread = payload;
    struct thread_world *thread_world = rank_thread->thread_world;

    enter_rank_thread(rank_thread);
    if (start_hook) start_hook();
    rank_thread->result = thread_world->body(thread_world->payload);
    rank_thread->status = weft_error_status();
    rank_thread->message = wf_strdup(weft_error_message());
    if (finish_hook) finish_hook();
    leave_rank_thread();
    return NULL;
}

static void free_groups(struct thread_world *thread_world)
{
    struct group *group;

    while ((group = thread_world->groups)) {
        thread_world->groups = group->next;
        wf_free(group->world_ranks);
        wf_free(group->rings);
        wf_free(group);
    }
}

/* The first non-zero result in rank order, with the error that its rank left. */
static int first_failed_result(struct rank_thread *residents, int ranks)
{
    int result = 0;

    for (int rank = 0; rank < ranks; rank++) {
        if (!result && residents[rank].result) {
            result = residents[rank].result;
            if (residents[rank].status != WEFT_OK)
                wf_error_set(residents[rank].status, residents[rank].message);
        }
        wf_free(residents[rank].message);
    }
    return result;
}

enum { MOST_RANKS = 4096 }; /* each is a thread */

int wf_comm_run_rank_threads(int ranks, int (*body)(void *payload), void *payload)
{
    struct thread_world thread_world = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .ranks = ranks, .body = body, .payload = payload};
    struct rank_thread *residents;
    int result;

    if (!body) return (int)WF_FAIL(WEFT_ERR_ARG, "no function to run on %d ranks", ranks);
    if (ranks < 1 || ranks > MOST_RANKS)
        return (int)WF_FAIL(WEFT_ERR_ARG, "cannot run on %d ranks", ranks);
    residents = wf_calloc((size_t)ranks, sizeof *residents);
    for (int rank = 0; rank < ranks; rank++) {
        residents[rank].thread_world = &thread_world;
        residents[rank].rank = rank;
        if (pthread_create(&residents[rank].thread, NULL, rank_thread_main, &residents[rank]))
            WF_DIE("cannot start thread %d of %d", rank, ranks);
    }
    for (int rank = 0; rank < ranks; rank++) pthread_join(residents[rank].thread, NULL);
    result = first_failed_result(residents, ranks);
    free_groups(&thread_world);
    wf_free(residents);
    return result;
}
