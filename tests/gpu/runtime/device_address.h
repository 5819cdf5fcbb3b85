/* device_address.h: from the address that a kernel has to the byte; for translated kernels. */
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace stand_in
{

const size_t device_range_bytes = size_t{1} << 35;

extern char *device_base, *device_behind;
extern thread_local int running_device;

/** The same for all other cases: a peer's memory, pinned memory of the host; refuses the rest. */
char *kernel_bytes(uint64_t address, size_t bytes);

inline char *global_at(uint64_t address, size_t bytes)
{
    uint64_t offset = address - reinterpret_cast<uint64_t>(device_base);

    if (offset / device_range_bytes == static_cast<uint64_t>(running_device))
        return device_behind + offset;
    return kernel_bytes(address, bytes);
}

} // namespace stand_in
