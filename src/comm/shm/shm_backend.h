/* shm_backend.h: how the backends that share memory are made. Read shm_backend.c. */
#pragma once

#include "comm/shm/comm_node.h"

/** The node communicator: an engine over all ranks of a node, used to make other communicators. */
void wf_shm_open_node_comm(struct wf_comm_node *node, const struct wf_comm *world);
void wf_shm_close_node_comm(struct wf_comm_node *node);

/** Give a communicator of ranks of this node an engine; false on all of them when a rank has no
 *  room left. comm->backend and comm->state are set on success. */
bool wf_shm_attach_engine(struct wf_comm *comm, struct wf_comm_node *node);

/** Set backend and state of a communicator whose world runs under mpiexec: `shm` within a node,
 *  `nodes` for equal blocks of ranks on several, `mpi` for the rest. */
void wf_comm_choose_backend(struct wf_comm *comm);

/** The same for equal blocks on several nodes (multi_node.c); false on all ranks where it cannot
 * be. */
bool wf_multi_node_open(struct wf_comm *comm);
