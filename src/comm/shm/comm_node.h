/*
 * comm_node.h: the memory that the ranks of one machine show each other
 * (docs/concepts/communication.md), and who is on which machine.
 */
#pragma once

#include "comm/mpi/mpi_comm.h"
#include "comm/shm/arena.h"
#include "comm/shm/shm_engine.h"

enum wf_memory_sharing_level {
    WF_SHARING_NONE,
    WF_SHARING_WINDOW,
    WF_SHARING_SHM_OPEN,
    WF_SHARING_MEMFD
};

/* Where a world rank runs. */
struct wf_rank_location {
    int node;    /* the same number for all ranks of a machine */
    int rank;    /* among them */
    bool shares; /* they see each other's memory */
};

struct wf_comm_node {
    MPI_Comm comm; /* the ranks of this machine */
    int rank, size;
    struct wf_rank_location *places; /* per world rank */
    enum wf_memory_sharing_level level;
    uintptr_t *base; /* per local rank: its arena, as seen here */
    struct wf_arena arena;
    MPI_Win window;
    char refusal[160]; /* why the last level was refused: the first rank's reason, on all ranks */
    struct wf_comm *node_comm; /* all ranks of the node: how members of a new communicator meet */
};

/** Collective over the world. The node's memory is at the best level that all its ranks can use, at
 *  most `level`; WF_SHARING_NONE leaves plain MPI. */
struct wf_comm_node *wf_comm_node_open(MPI_Comm world, int level);
void wf_comm_node_close(struct wf_comm_node *node);

/** Map arenas of this level on all ranks of the node; false on all of them, with node->refusal, if
 *  one cannot. */
bool wf_comm_node_map_memfd(struct wf_comm_node *node, size_t bytes);
bool wf_comm_node_map_shm_open(struct wf_comm_node *node, size_t bytes);
bool wf_comm_node_map_window(struct wf_comm_node *node, size_t bytes);
void wf_comm_node_unmap(struct wf_comm_node *node);
