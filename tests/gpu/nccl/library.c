/*
 * library.c: libweft-test-nccl.so: CUDA's driver and NCCL's collectives as libweft-cuda.so has
 * them, without nvcc's kernels, so that none is needed to test them: loops run on the CPU (loops.c,
 * key_kernels.c).
 */
#include "comm/nccl/nccl_comm.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/kernel_services.h"
#include "device/cuda/library_calls.h"
#include "kernels/device_kernels.h"
#include "loops.h"

void wf_cuda_die_on_fault(void) {}

static wf_kernel_prepare *const none[WF_KERNEL_COUNT];
static const struct wf_device_kernels kernels = {
    .count = WF_KERNEL_COUNT, .prepare = none, .optimizer = &optimizer_loops};
static struct wf_device_driver driver;
static const struct wf_device_library library = {
    .tables = WF_DEVICE_TABLES,
    .version = WEFT_VERSION,
    .driver = &driver,
    .kernels = &kernels,
    .collectives = &wf_nccl_collectives,
};

WEFT_API wf_device_library_open weft_device_library;

const struct wf_device_library *weft_device_library(const struct wf_library_calls *calls)
{
    wf_library_calls_set(calls);
    driver = wf_cuda_driver_without_loops();
    wf_nccl_add_memory(&driver);
    add_loops(&driver);
    add_key_kernels(&driver);
    return &library;
}
