/*
 * node.c: finds the ranks of this machine and steps down until a way of sharing memory works for
 * all of them; the arena then becomes the pool's source of shared memory. How is in node_map.c.
 */
#include "comm/node.h"

#include "base/knob.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/pool.h"

enum { WINDOW_BYTES = 16 << 20 };

static const char *const level_names[] = {
    [WF_NODE_NONE] = "plain MPI",
    [WF_NODE_WINDOW] = "a staging window",
    [WF_NODE_SHM_OPEN] = "shm_open",
    [WF_NODE_MEMFD] = "memfd",
};

/* A node goes by the world rank of its first rank. */
static void find_node(struct wf_node *node, MPI_Comm world, struct wf_place *place)
{
    int me, *members;

    WF_MPI(MPI_Comm_rank(world, &me));
    WF_MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &node->comm));
    WF_MPI(MPI_Comm_rank(node->comm, &node->rank));
    WF_MPI(MPI_Comm_size(node->comm, &node->size));
    members = wf_malloc((size_t)node->size * sizeof *members);
    wf_net_share(node->comm, &me, members, sizeof me);
    *place = (struct wf_place){.node = members[0], .rank = node->rank};
    wf_free(members);
}

static bool try_level(struct wf_node *node, int level)
{
    size_t bytes = (size_t)wf_knobs.arena_mib << 20;

    switch (level) {
    case WF_NODE_MEMFD:
        return wf_node_map_memfd(node, bytes);
    case WF_NODE_SHM_OPEN:
        return wf_node_map_shm_open(node, bytes);
    default:
        return wf_node_map_window(node, WINDOW_BYTES);
    }
}

/* All ranks of the node take the same steps: try_level answers alike on all of them. */
static void step_down(struct wf_node *node, int level)
{
    int wanted = level;

    while (level > WF_NODE_NONE && !try_level(node, level)) {
        wf_node_unmap(node);
        level--;
        if (node->rank == 0)
            WF_LOG(WF_LOG_WARN, "shm", "%s is refused on this node; trying %s",
                   level_names[level + 1], level_names[level]);
    }
    node->level = (enum wf_node_level)level;
    if (node->rank == 0 && wanted == level)
        WF_LOG(WF_LOG_INFO, "shm", "%d ranks share memory by %s", node->size, level_names[level]);
}

static void *pool_map(void *self, size_t bytes) { return wf_arena_map(self, bytes); }

static void pool_unmap(void *self, void *p, size_t bytes) { wf_arena_unmap(self, p, bytes); }

/* The window is for staging only; tensors live in arenas. */
static void offer_to_pool(struct wf_node *node)
{
    struct wf_mem_source source = {pool_map, pool_unmap, &node->arena};

    if (node->level >= WF_NODE_SHM_OPEN) wf_pool_set_shared(&source);
}

struct wf_node *wf_node_open(MPI_Comm world, int level)
{
    struct wf_node *node = WF_NEW(struct wf_node);
    struct wf_place place;
    int n_world;

    node->window = MPI_WIN_NULL;
    node->arena.fd = -1;
    find_node(node, world, &place);
    node->base = wf_calloc((size_t)node->size, sizeof *node->base);
    if (node->size > 1) step_down(node, level < WF_NODE_MEMFD ? level : WF_NODE_MEMFD);
    offer_to_pool(node);
    place.shares = node->level > WF_NODE_NONE;
    WF_MPI(MPI_Comm_size(world, &n_world));
    node->places = wf_calloc((size_t)n_world, sizeof *node->places);
    wf_net_share(world, &place, node->places, sizeof place);
    return node;
}

void wf_node_close(struct wf_node *node)
{
    if (node->level >= WF_NODE_SHM_OPEN) wf_pool_set_shared(NULL);
    if (node->level > WF_NODE_NONE) wf_node_unmap(node);
    WF_MPI(MPI_Comm_free(&node->comm));
    wf_free(node->base);
    wf_free(node->places);
    wf_free(node);
}
