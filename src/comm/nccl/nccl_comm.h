/* nccl_comm.h: a communicator of NCCL, as the files of this folder share it. */
#pragma once

#include "comm/device_collectives.h"
#include "comm/nccl/nccl_library.h"

struct wf_nccl_comm {
    ncclComm_t comm;
    int size, rank;
    bool registers;      /* memory: all its ranks have NCCL's */
    ncclResult_t failed; /* ncclSuccess: nothing has */
    const char *call;    /* that did */
};

/** Keep the first failure of a call; ncclInProgress is none. */
void wf_nccl_note(struct wf_nccl_comm *comm, ncclResult_t result, const char *call);
#define WF_NCCL(comm, call) wf_nccl_note((comm), wf_nccl.call, "nccl" #call)

/** Give the collective to the communication stream. */
void wf_nccl_issue(void *state, const struct wf_coll *coll);

/* ---- nccl_memory.c ---- */

/** What this rank has on the GPU is NCCL's; false also where it has nothing there yet. */
bool wf_nccl_gives_memory(void);
/** Before a collective that reads or writes at p, which may be NULL: its region is registered, with
 * a communicator that registers. */
void wf_nccl_register_region_of(struct wf_nccl_comm *comm, const void *p);
/** No region is any longer. Nothing that the communicator was given uses one. */
void wf_nccl_deregister_all(struct wf_nccl_comm *comm);
struct wf_device_driver;
/** From now on the driver's memory is NCCL's, unless WEFT_NCCL_REGISTER is 0. */
void wf_nccl_add_memory(struct wf_device_driver *driver);

/** The table that libweft-cuda.so offers. */
extern const struct wf_device_collectives wf_nccl_collectives;
