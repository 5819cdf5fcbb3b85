/*
 * nccl_library.h: NCCL's functions, found when memory for collectives is first wanted, or a
 * communicator: libnccl is no dependency of libweft-cuda.so, so that machines without it use their
 * GPUs all the same.
 */
#pragma once

#include <stddef.h>

#include <nccl.h>

#define WF_NCCL_FUNCTIONS(F)                                                                       \
    F(GetVersion, (int *version))                                                                  \
    F(GetUniqueId, (ncclUniqueId * id))                                                            \
    F(CommInitRankConfig,                                                                          \
      (ncclComm_t * comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config))              \
    F(CommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                                  \
    F(CommFinalize, (ncclComm_t comm))                                                             \
    F(CommDestroy, (ncclComm_t comm))                                                              \
    F(GroupStart, (void))                                                                          \
    F(GroupEnd, (void))                                                                            \
    F(AllReduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, \
                  ncclComm_t comm, cudaStream_t stream))                                           \
    F(AllGather, (const void *send, void *recv, size_t count, ncclDataType_t type,                 \
                  ncclComm_t comm, cudaStream_t stream))                                           \
    F(ReduceScatter, (const void *send, void *recv, size_t count, ncclDataType_t type,             \
                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))                       \
    F(Reduce, (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,    \
               int root, ncclComm_t comm, cudaStream_t stream))                                    \
    F(Broadcast, (const void *send, void *recv, size_t count, ncclDataType_t type, int root,       \
                  ncclComm_t comm, cudaStream_t stream))                                           \
    F(Send, (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,       \
             cudaStream_t stream))                                                                 \
    F(Recv, (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,             \
             cudaStream_t stream))

/** What is NULL in versions before 2.19. */
#define WF_NCCL_LATER_FUNCTIONS(F)                                                                 \
    F(MemAlloc, (void **p, size_t bytes))                                                          \
    F(MemFree, (void *p))                                                                          \
    F(CommRegister, (const ncclComm_t comm, void *buffer, size_t bytes, void **handle))            \
    F(CommDeregister, (const ncclComm_t comm, void *handle))

/** NCCL's functions without their prefix, as `nccl.AllReduce`. */
struct wf_nccl_functions {
#define F(name, arguments) ncclResult_t(*name) arguments;
    WF_NCCL_FUNCTIONS(F)
    WF_NCCL_LATER_FUNCTIONS(F)
#undef F
    const char *(*GetErrorString)(ncclResult_t result);
    const char *(*GetLastError)(ncclComm_t comm);
};

extern struct wf_nccl_functions wf_nccl;

/** Find them, once per process; later calls give the same. gives: the version, as 22809; 0: `why`
 * says why not */
int wf_nccl_load(char *why, size_t room);
