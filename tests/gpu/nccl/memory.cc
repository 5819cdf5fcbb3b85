/*
 * memory.cc: NCCL's allocator, and memory that is registered with a communicator. Registered memory
 * is one live allocation's; it is registered once, and not freed before it is deregistered.
 */
#include "nccl_stand_in.h"

#include <list>

namespace nccl_stand_in
{

struct registration {
    ncclComm_t comm;
    const char *first;
    size_t bytes;
};
static std::list<registration> registrations; /* whose elements stay where they are */
static thread_local long made, given;         /* by this rank; to it, regions */

bool is_registered(ncclComm_t comm, const void *p)
{
    const char *at = static_cast<const char *>(p);

    for (auto &r : registrations)
        if (r.comm == comm && at >= r.first && at < r.first + r.bytes) return true;
    return false;
}

void forget_registered(ncclComm_t comm)
{
    for (auto &r : registrations)
        if (r.comm == comm) stand_in::device_keep(r.first, false);
    registrations.remove_if([=](const registration &r) { return r.comm == comm; });
}

} // namespace nccl_stand_in

using namespace nccl_stand_in;

extern "C" {

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    return nccl_call(__func__, [&](locked &) {
        *p = bytes ? stand_in::device_reserve(stand_in::current_device, bytes) : nullptr;
        if (!*p) return ncclUnhandledCudaError;
        stand_in::device_make_live(*p);
        stand_in::device_mark_of_library(*p);
        given++;
        return ncclSuccess;
    });
}

ncclResult_t ncclMemFree(void *p)
{
    return nccl_call(__func__, [&](locked &lock) {
        if (!stand_in::is_device_address(p) || !stand_in::device_begin_free(p, true))
            refuse("ncclMemFree: this is no memory of ncclMemAlloc's, or it was freed");
        stand_in::run_until_empty(stand_in::device_of_address(p), lock);
        stand_in::device_end_free(p);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *p, size_t bytes, void **handle)
{
    return nccl_call(__func__, [&](locked &) {
        check_usable(comm, "ncclCommRegister");
        if (!stand_in::is_device_address(p)) refuse("ncclCommRegister: %p is no device memory", p);
        if (stand_in::device_of_address(p) != comm->device)
            refuse("ncclCommRegister: the memory is of device %d, the communicator's device is %d",
                   stand_in::device_of_address(p), comm->device);
        (void)stand_in::device_bytes(p, bytes, "ncclCommRegister");
        if (is_registered(comm, p)) refuse("ncclCommRegister: %p is registered already", p);
        registrations.push_back({comm, static_cast<char *>(p), bytes});
        stand_in::device_keep(p, true);
        made++;
        *handle = &registrations.back();
        return ncclSuccess;
    });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    return nccl_call(__func__, [&](locked &) {
        check_usable(comm, "ncclCommDeregister");
        for (auto r = registrations.begin(); r != registrations.end(); ++r) {
            if (&*r != handle) continue;
            if (r->comm != comm) refuse("ncclCommDeregister: a handle of another communicator");
            stand_in::device_keep(r->first, false);
            registrations.erase(r);
            return ncclSuccess;
        }
        refuse("ncclCommDeregister: no handle, or one that was deregistered");
    });
}

/** For tests: how often this rank has registered memory. */
long wt_cuda_registrations_made(void) { return made; }
/** How often ncclMemAlloc has given it any. */
long wt_cuda_nccl_memory_given(void) { return given; }
}
