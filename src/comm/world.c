/*
 * world.c: who the ranks are: this rank's world, and the communicators made from it. How bytes move
 * is left to the backends.
 */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/stream_ordered.h"
#include "device/capture.h"

struct wf_comm *wf_comm_alloc(const int *world_ranks, int size, int rank, const char *label)
{
    struct wf_comm *comm = WF_NEW(struct wf_comm);

    comm->size = size;
    comm->rank = rank;
    comm->label = label ? label : "";
    comm->calls = WF_NEW(uint64_t);
    comm->equal_counts = wf_calloc((size_t)size, sizeof *comm->equal_counts);
    comm->device = WF_NEW(struct wf_device_comm);
    comm->world_ranks = wf_malloc((size_t)size * sizeof(int));
    for (int i = 0; i < size; i++) comm->world_ranks[i] = world_ranks ? world_ranks[i] : i;
    return comm;
}

void wf_comm_free(struct wf_comm *comm)
{
    if (!comm->shares) {
        comm->backend->close(comm);
        wf_free(comm->device);
        wf_free(comm->world_ranks);
        wf_free(comm->calls);
        wf_free(comm->equal_counts);
    }
    wf_free(comm);
}

struct wf_comm *wf_comm_world(void)
{
    static _Thread_local int self_rank;
    static _Thread_local uint64_t self_calls;
    static _Thread_local size_t self_count;
    static _Thread_local struct wf_comm self;

    if (wf_comm_thread_state.world) return wf_comm_thread_state.world;
    self = (struct wf_comm){.backend = &wf_backend_self,
                            .label = "",
                            .size = 1,
                            .world_ranks = &self_rank,
                            .calls = &self_calls,
                            .equal_counts = &self_count};
    return &self;
}

static bool same_ranks(const struct wf_comm *comm, const int *world_ranks, int count)
{
    return comm->size == count &&
           memcmp(comm->world_ranks, world_ranks, (size_t)count * sizeof(int)) == 0;
}

/* A communicator over the same ranks, whatever its label. */
static const struct wf_comm *find_comm_of_ranks(const int *world_ranks, int count)
{
    const struct wf_comm *world = wf_comm_world();

    if (same_ranks(world, world_ranks, count)) return world;
    for (int i = 0; i < wf_comm_thread_state.n_comms; i++) {
        const struct wf_comm *comm = wf_comm_thread_state.comms[i];

        if (same_ranks(comm, world_ranks, count)) return comm;
    }
    return NULL;
}

static struct wf_comm *find_labeled_comm(const int *world_ranks, int count, const char *label)
{
    for (int i = 0; i < wf_comm_thread_state.n_comms; i++) {
        struct wf_comm *comm = wf_comm_thread_state.comms[i];

        if (same_ranks(comm, world_ranks, count) && strcmp(comm->label, label) == 0) return comm;
    }
    return NULL;
}

static struct wf_comm *share_under_label(const struct wf_comm *state, const char *label)
{
    struct wf_comm *comm = WF_NEW(struct wf_comm);

    *comm = *state;
    comm->label = label;
    comm->shares = true;
    return comm;
}

static struct wf_comm *make_comm(const int *world_ranks, int count, const char *label)
{
    const struct wf_comm *world = wf_comm_world();
    struct wf_comm *comm;
    int rank = 0;

    while (rank < count && world_ranks[rank] != world->rank) rank++;
    if (rank == count)
        WF_DIE("a communicator of %d ranks is asked for by rank %d, which is not one of them",
               count, world->rank);
    comm = wf_comm_alloc(world_ranks, count, rank, label);
    if (count == 1)
        comm->backend = &wf_backend_self;
    else
        world->backend->open(comm, world);
    wf_comm_thread_state.made++;
    return comm;
}

struct wf_comm *wf_comm_for_ranks(const int *world_ranks, int count, const char *label)
{
    struct wf_comm_thread_state *thread = &wf_comm_thread_state;
    const char *name = label ? label : "";
    struct wf_comm *comm = find_labeled_comm(world_ranks, count, name);
    const struct wf_comm *state;

    if (comm) return comm;
    state = find_comm_of_ranks(world_ranks, count);
    comm = state ? share_under_label(state, name) : make_comm(world_ranks, count, name);
    thread->comms =
        wf_realloc(thread->comms, (size_t)(thread->n_comms + 1) * sizeof(struct wf_comm *));
    thread->comms[thread->n_comms++] = comm;
    return comm;
}

/* Peers may have made theirs in another order: all take leave before any waits. NCCL waits for the
 * graphs that captured on a communicator when it is finished. */
void wf_comm_close_on_device(void)
{
    struct wf_comm_thread_state *thread = &wf_comm_thread_state;

    wf_graphs_close();
    for (int i = 0; i < thread->n_comms; i++) wf_stream_ordered_finish(thread->comms[i]);
    if (thread->world) wf_stream_ordered_finish(thread->world);
    for (int i = 0; i < thread->n_comms; i++) wf_stream_ordered_close(thread->comms[i]);
    if (thread->world) wf_stream_ordered_close(thread->world);
}

void wf_comm_free_all_but_world(void)
{
    struct wf_comm_thread_state *thread = &wf_comm_thread_state;

    for (int i = thread->n_comms - 1; i >= 0; i--) wf_comm_free(thread->comms[i]);
    wf_free(thread->comms);
    thread->comms = NULL;
    thread->n_comms = 0;
    thread->made = 0;
}

int wf_comm_rank(const struct wf_comm *comm) { return comm->rank; }

int wf_comm_size(const struct wf_comm *comm) { return comm->size; }

const char *wf_comm_label(const struct wf_comm *comm) { return comm->label; }

const char *wf_comm_backend_name(const struct wf_comm *comm) { return comm->backend->name; }

int wf_comm_created_count(void) { return wf_comm_thread_state.made; }
