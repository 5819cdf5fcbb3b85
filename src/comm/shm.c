/*
 * shm.c: the backend whose ranks are processes of one node. The collectives are the engine's; here
 * its control memory is laid into the arenas, and members of a new communicator tell each other
 * where, over the node's desk instead of MPI.
 */
#include "comm/shm.h"

#include <string.h>

#include "base/mem.h"

enum { NO_ROOM = -1 };

static struct wf_engine *new_engine(const struct wf_comm *comm, const struct wf_node *node)
{
    struct wf_engine *engine = wf_engine_new(comm->rank, comm->size, true);

    engine->low = (uintptr_t)node->arena.base;
    engine->high = engine->low + node->arena.bytes;
    return engine;
}

/* This rank's control memory: its offset in the arena. The staging part needs no zeros. */
static int64_t lay_ring(struct wf_node *node, int size)
{
    char *ring = wf_arena_map(&node->arena, wf_engine_ring_bytes(size, true));

    if (!ring) return NO_ROOM;
    memset(ring, 0, wf_engine_ring_bytes(size, false));
    return ring - node->arena.base;
}

static void free_ring(struct wf_node *node, int64_t offset, int size)
{
    if (offset != NO_ROOM)
        wf_arena_unmap(&node->arena, node->arena.base + offset, wf_engine_ring_bytes(size, true));
}

/* local_ranks: of the members, on the node */
static bool attach(struct wf_comm *comm, struct wf_node *node, const int *local_ranks,
                   const int64_t *offsets)
{
    struct wf_engine *engine = new_engine(comm, node);

    for (int rank = 0; rank < comm->size; rank++) {
        if (offsets[rank] == NO_ROOM) {
            wf_engine_free(engine);
            return false;
        }
        engine->base[rank] = node->base[local_ranks[rank]];
        engine->ring[rank] = (char *)(engine->base[rank] + (uintptr_t)offsets[rank]);
    }
    comm->backend = &wf_backend_shm;
    comm->state = engine;
    return true;
}

/* Every member tells every other one number over the desk. */
static void meet(const struct wf_comm *comm, struct wf_node *node, const int *local_ranks,
                 int64_t *numbers)
{
    struct wf_coll coll = {.comm = node->desk, .dtype = WEFT_I64, .count = 1};

    coll.kind = WEFT_COLL_SEND;
    coll.send = &numbers[comm->rank];
    for (int rank = 0; rank < comm->size; rank++) {
        coll.peer = local_ranks[rank];
        if (rank != comm->rank) wf_comm_run_quiet(&coll);
    }
    coll.kind = WEFT_COLL_RECV;
    for (int rank = 0; rank < comm->size; rank++) {
        coll.peer = local_ranks[rank];
        coll.recv = &numbers[rank];
        if (rank != comm->rank) wf_comm_run_quiet(&coll);
    }
}

bool wf_shm_open(struct wf_comm *comm, struct wf_node *node)
{
    int *local_ranks = wf_malloc((size_t)comm->size * sizeof *local_ranks);
    int64_t *offsets = wf_malloc((size_t)comm->size * sizeof *offsets),
            mine = lay_ring(node, comm->size);
    bool ok;

    for (int rank = 0; rank < comm->size; rank++)
        local_ranks[rank] = node->places[comm->world_ranks[rank]].rank;
    offsets[comm->rank] = mine;
    meet(comm, node, local_ranks, offsets);
    ok = attach(comm, node, local_ranks, offsets);
    if (!ok) free_ring(node, mine, comm->size);
    wf_free(local_ranks);
    wf_free(offsets);
    return ok;
}

void wf_shm_open_desk(struct wf_node *node, const struct wf_comm *world)
{
    int *all = wf_malloc((size_t)node->size * sizeof *all), me = world->rank;
    int64_t *offsets = wf_malloc((size_t)node->size * sizeof *offsets), mine;
    int *locals = wf_malloc((size_t)node->size * sizeof *locals);

    wf_net_share(node->comm, &me, all, sizeof me);
    for (int rank = 0; rank < node->size; rank++) locals[rank] = rank;
    node->desk = wf_comm_make(all, node->size, node->rank, "");
    mine = lay_ring(node, node->size);
    wf_net_share(node->comm, &mine, offsets, sizeof mine);
    if (!attach(node->desk, node, locals, offsets))
        WF_DIE("no room in shared memory for %d ranks", node->size);
    wf_free(all);
    wf_free(offsets);
    wf_free(locals);
}

static void close_engine(struct wf_comm *comm)
{
    struct wf_engine *engine = comm->state;
    struct wf_node *node = wf_comm_thread.node;

    free_ring(node, engine->ring[engine->rank] - node->arena.base, engine->size);
    wf_engine_free(engine);
}

void wf_shm_close_desk(struct wf_node *node)
{
    if (node->desk) wf_comm_unmake(node->desk);
    node->desk = NULL;
}

/* ---- which backend a communicator gets; all members decide alike ---- */

static bool on_one_node(const struct wf_comm *comm, const struct wf_node *node)
{
    for (int rank = 1; rank < comm->size; rank++)
        if (node->places[comm->world_ranks[rank]].node != node->places[comm->world_ranks[0]].node)
            return false;
    return true;
}

void wf_shm_choose(struct wf_comm *comm)
{
    struct wf_node *node = wf_comm_thread.node;

    if (node && on_one_node(comm, node)) {
        if (node->level > WF_NODE_NONE && wf_shm_open(comm, node)) return;
    } else if (node && wf_nodes_open(comm)) {
        return;
    }
    comm->backend = &wf_backend_mpi;
    comm->state =
        wf_net_sub(wf_comm_thread.net, comm->world_ranks, comm->size, comm->world_ranks[0]);
}

static void open_comm(struct wf_comm *comm, const struct wf_comm *world)
{
    (void)world;
    wf_shm_choose(comm);
}

const struct wf_backend wf_backend_shm = {
    .name = "shm",
    .start = wf_engine_start,
    .step = wf_engine_step,
    .missing = wf_engine_missing,
    .reads = wf_engine_reads,
    .open = open_comm,
    .close = close_engine,
};
