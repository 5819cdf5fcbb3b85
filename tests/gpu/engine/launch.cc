/* launch.cc: which launches the runtime takes, and those of the host build, which run at once. */
#include <map>
#include <mutex>

#include "multiprocessor.h"

namespace engine
{

static std::mutex lock;
static std::map<const void *, size_t> &allowed()
{
    static std::map<const void *, size_t> bytes;

    return bytes;
}

cudaError_t allow_shared(const void *kernel, size_t bytes)
{
    std::lock_guard<std::mutex> locked(lock);

    if (bytes > most_shared_bytes) return cudaErrorInvalidValue;
    allowed()[kernel] = bytes;
    return cudaSuccess;
}

static size_t allowed_shared(const void *kernel)
{
    std::lock_guard<std::mutex> locked(lock);
    auto found = allowed().find(kernel);

    return found == allowed().end() ? shared_without_leave : found->second;
}

cudaError_t check_launch(dim3 grid, dim3 block, size_t shared, size_t most_shared)
{
    uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;

    if (!grid.x || !grid.y || !grid.z || !threads) return cudaErrorInvalidConfiguration;
    if (threads > most_threads || block.z > 64) return cudaErrorInvalidConfiguration;
    if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    return shared <= most_shared ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared,
                   const kernel_body &body)
{
    cudaError_t error = check_launch(grid, block, shared, allowed_shared(kernel));

    if (error == cudaSuccess) run_grid(grid, block, shared, body);
    return error;
}

} // namespace engine
