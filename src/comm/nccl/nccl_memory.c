/*
 * nccl_memory.c: the memory of the GPU's pool as NCCL wants it: allocated by ncclMemAlloc, and each
 * region registered with a communicator before the first collective that reads or writes it there,
 * so that NCCL moves bytes from where they lie to where they go, without buffers of its own
 * between. NCCL asks that of a collective's buffers all are registered or none, on all its ranks:
 * so every region is, and the first use decides when. Versions before 2.28.9 and machines without
 * NCCL have cudaMalloc's memory, unregistered, and so has a rank whose first ncclMemAlloc fails.
 * That first call decides for good: two kinds side by side would be mixed. Communicators with a
 * rank of the other kind register nothing.
 *
 * A region is deregistered before it is unmapped, or before the communicator is finished.
 */
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "comm/nccl/nccl_comm.h"
#include "device/device_driver.h"

enum {
    WHY_BYTES = 512,
    /* ncclMemAlloc of older ones rounds each region up to what multicast recommends: on GPUs behind
     * an NVSwitch hundreds of MiB */
    LEAST_FOR_MEMORY = 22809
};

struct registration {
    struct registration *next;
    struct wf_nccl_comm *comm;
    void *handle;
};

struct region {
    char *base;
    size_t bytes;
    struct registration *registrations;
};

/* This rank's regions of ncclMemAlloc, in the order of their addresses. */
static _Thread_local struct {
    struct region *items;
    int n;
} regions;

/* Which gives this rank's memory, from the first region on. */
static _Thread_local enum { UNDECIDED, FROM_NCCL, FROM_CUDA } source;

/* The driver's own; written once, when the shared object is opened. */
static void *(*cuda_map)(size_t bytes);
static void (*cuda_unmap)(void *p, size_t bytes);

static bool nccl_registers(void)
{
    char why[WHY_BYTES];

    return wf_nccl_load(why, sizeof why) >= LEAST_FOR_MEMORY && wf_nccl.MemAlloc &&
           wf_nccl.MemFree && wf_nccl.CommRegister && wf_nccl.CommDeregister;
}

/* ---- the list ---- */

/* Number of the first region behind p. */
static int regions_up_to(const void *p)
{
    int low = 0, high = regions.n;

    while (low < high) {
        int middle = (low + high) / 2;

        if ((uintptr_t)regions.items[middle].base <= (uintptr_t)p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: p is in none. */
static struct region *region_of(const void *p)
{
    int after = regions_up_to(p);
    struct region *r = after ? &regions.items[after - 1] : NULL;

    return r && (size_t)((const char *)p - r->base) < r->bytes ? r : NULL;
}

static void insert_region(void *base, size_t bytes)
{
    int at = regions_up_to(base);

    regions.items = wf_array_grow(regions.items, regions.n, sizeof *regions.items);
    memmove(&regions.items[at + 1], &regions.items[at],
            (size_t)(regions.n - at) * sizeof *regions.items);
    regions.items[at] = (struct region){base, bytes, NULL};
    regions.n++;
}

static void remove_region(struct region *r)
{
    size_t behind = (size_t)(&regions.items[regions.n] - (r + 1));

    memmove(r, r + 1, behind * sizeof *r);
    if (--regions.n) return;
    wf_free(regions.items);
    regions.items = NULL;
}

/* ---- registering ---- */

void wf_nccl_register_region_of(struct wf_nccl_comm *comm, const void *p)
{
    struct region *r = p && comm->registers ? region_of(p) : NULL;
    struct registration *one;

    if (!r) return;
    for (one = r->registrations; one; one = one->next)
        if (one->comm == comm) return;
    one = WF_NEW(struct registration);
    one->comm = comm;
    one->next = r->registrations;
    r->registrations = one;
    WF_NCCL(comm, CommRegister(comm->comm, r->base, r->bytes, &one->handle));
}

static void deregister(struct registration *one)
{
    ncclResult_t result = wf_nccl.CommDeregister(one->comm->comm, one->handle);

    if (result != ncclSuccess) WF_DIE("ncclCommDeregister: %s", wf_nccl.GetErrorString(result));
    wf_free(one);
}

void wf_nccl_deregister_all(struct wf_nccl_comm *comm)
{
    for (int i = 0; i < regions.n; i++)
        for (struct registration **at = &regions.items[i].registrations, *one; (one = *at);) {
            if (one->comm != comm) {
                at = &one->next;
                continue;
            }
            *at = one->next;
            deregister(one);
        }
}

/* ---- the driver's ---- */

bool wf_nccl_gives_memory(void) { return source == FROM_NCCL; }

/* The first one may fail for want of memory, which NCCL calls an error like others: then CUDA says
 * so, and nothing is decided. */
static void *cuda_malloc_instead(size_t bytes, ncclResult_t refused)
{
    void *p = cuda_map(bytes);

    if (!p) return NULL;
    WF_LOG(WF_LOG_WARN, "comm", "memory of collectives is cudaMalloc's: ncclMemAlloc: %s",
           wf_nccl.GetErrorString(refused));
    source = FROM_CUDA;
    return p;
}

/* NULL: the pool gives back what is idle, and asks again. */
static void *map(size_t bytes)
{
    ncclResult_t result;
    void *p = NULL;

    if (source == FROM_CUDA || !nccl_registers()) return cuda_map(bytes);
    result = wf_nccl.MemAlloc(&p, bytes);
    if (result != ncclSuccess) {
        (void)cudaGetLastError();
        return source == FROM_NCCL ? NULL : cuda_malloc_instead(bytes, result);
    }
    source = FROM_NCCL;
    insert_region(p, bytes);
    return p;
}

static void unmap(void *p, size_t bytes)
{
    struct region *r = region_of(p);
    ncclResult_t result;

    if (!r) {
        cuda_unmap(p, bytes);
        return;
    }
    while (r->registrations) {
        struct registration *one = r->registrations;

        r->registrations = one->next;
        deregister(one);
    }
    remove_region(r);
    result = wf_nccl.MemFree(p);
    if (result != ncclSuccess) WF_DIE("ncclMemFree: %s", wf_nccl.GetErrorString(result));
}

void wf_nccl_add_memory(struct wf_device_driver *driver)
{
    if (!wf_knobs.nccl || !wf_knobs.nccl_register) return;
    cuda_map = driver->map;
    cuda_unmap = driver->unmap;
    driver->map = map;
    driver->unmap = unmap;
}
