/* stream_ordered.h: what a communicator has on a device: the backend that was chosen, and its
 * state. */
#pragma once

#include "comm/backend.h"
#include "comm/device_collectives.h"

/* The same ranks under two labels share one. */
struct wf_device_comm {
    const struct wf_backend *backend; /* NULL: not chosen yet */
    const struct wf_device_collectives *library;
    void *state;      /* the library's; NULL: not open */
    unsigned capture; /* in which it was used last */
};

extern const struct wf_backend wf_backend_stream_ordered;

/** Open the library's communicator for the ranks of `comm`, which said this; a failure ends the
 * job. */
void wf_stream_ordered_open(struct wf_comm *comm, const struct wf_peer_info *all);
/** If it is open: take leave of the peers when what it was given has ended / close it then.
 * Collective. */
void wf_stream_ordered_finish(struct wf_comm *comm);
void wf_stream_ordered_close(struct wf_comm *comm);

/** The backend for a collective on a device. */
const struct wf_backend *wf_comm_device_backend(struct wf_comm *comm, const struct wf_coll *coll);
