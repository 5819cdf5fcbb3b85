/*
 * local.c: the backend whose ranks are threads of this process, and the call that starts them. The
 * collectives are the engine's; a peer's address is an address here.
 */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/engine.h"

/* The control memory of one set of ranks: made by the first member that asks, freed at the end. */
struct group {
    struct group *next;
    int *world_ranks, size;
    char *rings; /* one per rank */
};

struct town {
    pthread_mutex_t lock;
    struct group *groups;
    int ranks;
    int (*body)(void *payload);
    void *payload;
};

struct resident {
    struct town *town;
    pthread_t thread;
    int rank, result;
    weft_status status;
    char *message;
};

static _Thread_local struct town *here;
static void (*start_hook)(void), (*finish_hook)(void);

bool wf_comm_is_rank_thread(void) { return here != NULL; }

void wf_comm_set_thread_hooks(void (*start)(void), void (*finish)(void))
{
    start_hook = start;
    finish_hook = finish;
}

static size_t ring_bytes(int size)
{
    return (wf_engine_ring_bytes(size, false) + 4095) / 4096 * 4096;
}

static struct group *make_group(const int *world_ranks, int size)
{
    struct group *group = WF_NEW(struct group);

    group->size = size;
    group->world_ranks = wf_malloc((size_t)size * sizeof(int));
    memcpy(group->world_ranks, world_ranks, (size_t)size * sizeof(int));
    group->rings = wf_calloc((size_t)size + 1, ring_bytes(size));
    return group;
}

static struct group *find_group(struct town *town, const int *world_ranks, int size)
{
    struct group *group;

    pthread_mutex_lock(&town->lock);
    for (group = town->groups; group; group = group->next)
        if (group->size == size &&
            memcmp(group->world_ranks, world_ranks, (size_t)size * sizeof(int)) == 0)
            break;
    if (!group) {
        group = make_group(world_ranks, size);
        group->next = town->groups;
        town->groups = group;
    }
    pthread_mutex_unlock(&town->lock);
    return group;
}

static void open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    struct group *group = find_group(here, comm->world_ranks, comm->size);
    struct wf_engine *engine = wf_engine_new(comm->rank, comm->size, false);
    uintptr_t first = ((uintptr_t)group->rings + 4095) / 4096 * 4096;

    (void)world;
    engine->high = UINTPTR_MAX;
    for (int rank = 0; rank < comm->size; rank++)
        engine->ring[rank] = (char *)first + (size_t)rank * ring_bytes(comm->size);
    comm->backend = &wf_backend_local;
    comm->state = engine;
}

static void close_comm(struct wf_comm *comm) { wf_engine_free(comm->state); }

const struct wf_backend wf_backend_local = {
    .name = "local",
    .start = wf_engine_start,
    .step = wf_engine_step,
    .missing = wf_engine_missing,
    .reads = wf_engine_reads,
    .open = open_comm,
    .close = close_comm,
};

static void enter(struct resident *resident)
{
    struct wf_comm *world = wf_comm_make(NULL, resident->town->ranks, resident->rank, "");

    wf_log_set_rank(resident->rank);
    wf_error_set_ranks(world->size);
    here = resident->town;
    if (world->size == 1)
        world->backend = &wf_backend_self;
    else
        open_comm(world, NULL);
    wf_comm_thread = (struct wf_comm_thread){.world = world};
}

static void leave(void)
{
    wf_comm_drop_subs();
    wf_comm_unmake(wf_comm_thread.world);
    wf_comm_thread = (struct wf_comm_thread){0};
    wf_error_set_ranks(1);
}

static void *live(void *payload)
{
    struct resident *resident = payload;
    struct town *town = resident->town;

    enter(resident);
    if (start_hook) start_hook();
    resident->result = town->body(town->payload);
    resident->status = weft_error_status();
    resident->message = wf_strdup(weft_error_message());
    if (finish_hook) finish_hook();
    leave();
    return NULL;
}

static void free_groups(struct town *town)
{
    struct group *group;

    while ((group = town->groups)) {
        town->groups = group->next;
        wf_free(group->world_ranks);
        wf_free(group->rings);
        wf_free(group);
    }
}

/* The first non-zero result in rank order, with the error that its rank left. */
static int verdict(struct resident *residents, int ranks)
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

int wf_comm_run_local(int ranks, int (*body)(void *payload), void *payload)
{
    struct town town = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .ranks = ranks, .body = body, .payload = payload};
    struct resident *residents;
    int result;

    if (!body) return (int)WF_FAIL(WEFT_ERR_ARG, "no function to run on %d ranks", ranks);
    if (ranks < 1 || ranks > MOST_RANKS)
        return (int)WF_FAIL(WEFT_ERR_ARG, "cannot run on %d ranks", ranks);
    residents = wf_calloc((size_t)ranks, sizeof *residents);
    for (int rank = 0; rank < ranks; rank++) {
        residents[rank].town = &town;
        residents[rank].rank = rank;
        if (pthread_create(&residents[rank].thread, NULL, live, &residents[rank]))
            WF_DIE("cannot start thread %d of %d", rank, ranks);
    }
    for (int rank = 0; rank < ranks; rank++) pthread_join(residents[rank].thread, NULL);
    result = verdict(residents, ranks);
    free_groups(&town);
    wf_free(residents);
    return result;
}
