/*
 * comm_node.c: tries the ways of sharing memory, the best first, until one works for all ranks of
 * the node; the arena then becomes the pool's source of shared memory. node_memory.c has the ways.
 */
#include "comm/shm/comm_node.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "device/pool.h"

enum { WINDOW_BYTES = 16 << 20 };

static const char *const level_names[] = {
    [WF_SHARING_NONE] = "plain MPI",
    [WF_SHARING_WINDOW] = "a staging window",
    [WF_SHARING_SHM_OPEN] = "shm_open",
    [WF_SHARING_MEMFD] = "memfd",
};

/* A node goes by the world rank of its first rank. */
static void find_ranks_on_node(struct wf_comm_node *node, MPI_Comm world,
                               struct wf_rank_location *place)
{
    int me, *members;

    WF_MPI(MPI_Comm_rank(world, &me));
    node->comm = wf_mpi_comm_of_node(world);
    WF_MPI(MPI_Comm_rank(node->comm, &node->rank));
    WF_MPI(MPI_Comm_size(node->comm, &node->size));
    members = wf_malloc((size_t)node->size * sizeof *members);
    wf_mpi_allgather_bytes(node->comm, &me, members, sizeof me);
    *place = (struct wf_rank_location){.node = members[0], .rank = node->rank};
    wf_free(members);
}

static bool try_sharing_level(struct wf_comm_node *node, int level)
{
    size_t bytes = (size_t)wf_knobs.arena_mib << 20;

    node->refusal[0] = '\0';
    switch (level) {
    case WF_SHARING_MEMFD:
        return wf_comm_node_map_memfd(node, bytes);
    case WF_SHARING_SHM_OPEN:
        return wf_comm_node_map_shm_open(node, bytes);
    default:
        return wf_comm_node_map_window(node, WINDOW_BYTES);
    }
}

static void report_refusal(const struct wf_comm_node *node, int refused)
{
    const char *next = level_names[refused - 1];

    if (refused - 1 > WF_SHARING_NONE)
        WF_LOG(WF_LOG_WARN, "shm", "%s is refused on this node; trying %s (%s)",
               level_names[refused], next, node->refusal);
    else
        WF_LOG(WF_LOG_WARN, "shm",
               "%s is refused on this node; its %d ranks communicate by %s, which is slower (%s)",
               level_names[refused], node->size, next, node->refusal);
}

/* All ranks of the node take the same steps: try_sharing_level answers alike on all of them. */
static void choose_sharing_level(struct wf_comm_node *node, int level)
{
    int wanted = level;

    while (level > WF_SHARING_NONE && !try_sharing_level(node, level)) {
        wf_comm_node_unmap(node);
        if (node->rank == 0) report_refusal(node, level);
        level--;
    }
    node->level = (enum wf_memory_sharing_level)level;
    if (node->rank == 0 && wanted == level)
        WF_LOG(WF_LOG_INFO, "shm", "%d ranks share memory by %s", node->size, level_names[level]);
}

static void *pool_map(void *self, size_t bytes) { return wf_arena_alloc_pages(self, bytes); }

static void pool_unmap(void *self, void *p, size_t bytes) { wf_arena_free_pages(self, p, bytes); }

struct wf_comm_node *wf_comm_node_open(MPI_Comm world, int level)
{
    struct wf_comm_node *node = WF_NEW(struct wf_comm_node);
    struct wf_rank_location place;
    int n_world;

    node->window = MPI_WIN_NULL;
    node->arena.fd = -1;
    find_ranks_on_node(node, world, &place);
    node->base = wf_calloc((size_t)node->size, sizeof *node->base);
    if (node->size > 1)
        choose_sharing_level(node, level < WF_SHARING_MEMFD ? level : WF_SHARING_MEMFD);
    /* The window is for staging only; tensors live in arenas. */
    if (node->level >= WF_SHARING_SHM_OPEN)
        wf_pool_set_shared_source(&(struct wf_mem_source){pool_map, pool_unmap, &node->arena});
    place.shares = node->level > WF_SHARING_NONE;
    WF_MPI(MPI_Comm_size(world, &n_world));
    node->places = wf_calloc((size_t)n_world, sizeof *node->places);
    wf_mpi_allgather_bytes(world, &place, node->places, sizeof place);
    return node;
}

void wf_comm_node_close(struct wf_comm_node *node)
{
    if (node->level >= WF_SHARING_SHM_OPEN) wf_pool_set_shared_source(NULL);
    if (node->level > WF_SHARING_NONE) wf_comm_node_unmap(node);
    WF_MPI(MPI_Comm_free(&node->comm));
    wf_free(node->base);
    wf_free(node->places);
    wf_free(node);
}
