/*
 * shm_backend.c: the backend for ranks that are processes of one node. The collectives themselves
 * are in shm_engine.c; here its control memory is placed in the arenas, and the ranks of a new
 * communicator exchange the addresses over the node communicator.
 */
#include "comm/shm/shm_backend.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"

enum { NO_ROOM = -1 };

/* This rank's control memory: its offset in the arena. The staging buffer needs no zeros. */
static int64_t allocate_control_memory(struct wf_comm_node *node, int size)
{
    char *ring = wf_arena_alloc_pages(&node->arena, wf_shm_engine_control_bytes(size, true));

    if (!ring) return NO_ROOM;
    memset(ring, 0, wf_shm_engine_control_bytes(size, false));
    return ring - node->arena.base;
}

static void free_control_memory(struct wf_comm_node *node, int64_t offset, int size)
{
    if (offset != NO_ROOM)
        wf_arena_free_pages(&node->arena, node->arena.base + offset,
                            wf_shm_engine_control_bytes(size, true));
}

/* local_ranks: of the members, on the node */
static bool attach_engine(struct wf_comm *comm, struct wf_comm_node *node, const int *local_ranks,
                          const int64_t *offsets)
{
    struct wf_shm_engine *engine = wf_shm_engine_new(comm->rank, comm->size, true);

    engine->low = (uintptr_t)node->arena.base;
    engine->high = engine->low + node->arena.bytes;
    for (int rank = 0; rank < comm->size; rank++) {
        if (offsets[rank] == NO_ROOM) {
            wf_shm_engine_free(engine);
            return false;
        }
        engine->base[rank] = node->base[local_ranks[rank]];
        engine->ring[rank] = (char *)(engine->base[rank] + (uintptr_t)offsets[rank]);
    }
    comm->backend = &wf_backend_shm;
    comm->state = engine;
    return true;
}

/* Every member tells every other one number over the node_comm. */
static void exchange_numbers(const struct wf_comm *comm, struct wf_comm_node *node,
                             const int *local_ranks, int64_t *numbers)
{
    struct wf_coll coll = {.comm = node->node_comm, .dtype = WEFT_I64, .count = 1};

    coll.kind = WEFT_COLL_SEND;
    coll.send = &numbers[comm->rank];
    for (int rank = 0; rank < comm->size; rank++) {
        coll.peer = local_ranks[rank];
        if (rank != comm->rank) wf_comm_run_unobserved(&coll);
    }
    coll.kind = WEFT_COLL_RECV;
    for (int rank = 0; rank < comm->size; rank++) {
        coll.peer = local_ranks[rank];
        coll.recv = &numbers[rank];
        if (rank != comm->rank) wf_comm_run_unobserved(&coll);
    }
}

bool wf_shm_attach_engine(struct wf_comm *comm, struct wf_comm_node *node)
{
    int *local_ranks = wf_malloc((size_t)comm->size * sizeof *local_ranks);
    int64_t *offsets = wf_malloc((size_t)comm->size * sizeof *offsets),
            mine = allocate_control_memory(node, comm->size);
    bool ok;

    for (int rank = 0; rank < comm->size; rank++)
        local_ranks[rank] = node->places[comm->world_ranks[rank]].rank;
    offsets[comm->rank] = mine;
    exchange_numbers(comm, node, local_ranks, offsets);
    ok = attach_engine(comm, node, local_ranks, offsets);
    if (!ok) free_control_memory(node, mine, comm->size);
    wf_free(local_ranks);
    wf_free(offsets);
    return ok;
}

void wf_shm_open_node_comm(struct wf_comm_node *node, const struct wf_comm *world)
{
    int *all = wf_malloc((size_t)node->size * sizeof *all), me = world->rank;
    int64_t *offsets = wf_malloc((size_t)node->size * sizeof *offsets), mine;
    int *locals = wf_malloc((size_t)node->size * sizeof *locals);

    wf_mpi_allgather_bytes(node->comm, &me, all, sizeof me);
    for (int rank = 0; rank < node->size; rank++) locals[rank] = rank;
    node->node_comm = wf_comm_alloc(all, node->size, node->rank, "");
    mine = allocate_control_memory(node, node->size);
    wf_mpi_allgather_bytes(node->comm, &mine, offsets, sizeof mine);
    if (!attach_engine(node->node_comm, node, locals, offsets))
        WF_DIE("no room in shared memory for %d ranks", node->size);
    wf_free(all);
    wf_free(offsets);
    wf_free(locals);
}

static void close_engine(struct wf_comm *comm)
{
    struct wf_shm_engine *engine = comm->state;
    struct wf_comm_node *node = wf_comm_thread_state.node;

    free_control_memory(node, engine->ring[engine->rank] - node->arena.base, engine->size);
    wf_shm_engine_free(engine);
}

void wf_shm_close_node_comm(struct wf_comm_node *node)
{
    if (node->node_comm) wf_comm_free(node->node_comm);
    node->node_comm = NULL;
}

/* ---- which backend a communicator gets; all members decide alike ---- */

static bool is_on_one_node(const struct wf_comm *comm, const struct wf_comm_node *node)
{
    for (int rank = 1; rank < comm->size; rank++)
        if (node->places[comm->world_ranks[rank]].node != node->places[comm->world_ranks[0]].node)
            return false;
    return true;
}

void wf_comm_choose_backend(struct wf_comm *comm)
{
    struct wf_comm_node *node = wf_comm_thread_state.node;

    if (node && is_on_one_node(comm, node)) {
        if (node->level > WF_SHARING_NONE && wf_shm_attach_engine(comm, node)) return;
        if (node->level > WF_SHARING_NONE && comm->rank == 0)
            WF_LOG(WF_LOG_WARN, "shm",
                   "%d ranks of one node communicate by plain MPI, which is slower: a rank has no "
                   "room left in its shared memory (WEFT_ARENA_MIB)",
                   comm->size);
    } else if (node && wf_multi_node_open(comm)) {
        return;
    }
    comm->backend = &wf_backend_mpi;
    comm->state = wf_mpi_comm_new_for_ranks(wf_comm_thread_state.net, comm->world_ranks, comm->size,
                                            comm->world_ranks[0]);
}

static void shm_open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    (void)world;
    wf_comm_choose_backend(comm);
}

const struct wf_backend wf_backend_shm = {
    .name = "shm",
    .start = wf_shm_engine_start,
    .step = wf_shm_engine_progress,
    .missing = wf_shm_engine_describe_missing_ranks,
    .open = shm_open_comm,
    .close = close_engine,
};
