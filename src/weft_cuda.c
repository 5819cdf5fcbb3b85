/*
 * weft_cuda.c: the top of libweft-cuda.so: the one function that it exports, and the tables that it
 * gives: CUDA's driver, the kernels that kernels.def says CUDA has, the optimizers' kernels, NCCL.
 */
#include "comm/nccl/nccl_comm.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/library_calls.h"
#include "kernels/cuda/driver_kernels.h"
#include "kernels/device_kernels.h"

#define OF_CPU(name)
#define OF_CPU_CUDA(name) wf_kernel_prepare wf_cuda_##name;
#define WF_KERNEL(name, devices) OF_##devices(name)
#include "kernels/kernels.def"
#undef WF_KERNEL
#undef OF_CPU_CUDA

#define OF_CPU_CUDA(name) [WF_KERNEL_##name] = wf_cuda_##name,
#define WF_KERNEL(name, devices) OF_##devices(name)
static wf_kernel_prepare *const prepare[WF_KERNEL_COUNT] = {
#include "kernels/kernels.def"
};
#undef WF_KERNEL

extern const struct wf_optimizer_kernels wf_cuda_optimizer_kernels;

static const struct wf_device_kernels kernels = {
    .count = WF_KERNEL_COUNT, .prepare = prepare, .optimizer = &wf_cuda_optimizer_kernels};

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
    driver.strided_copy = wf_cuda_strided_copy;
    driver.fill = wf_cuda_fill_elements;
    driver.divide = wf_cuda_divide_elements;
    driver.power = wf_cuda_power_elements;
    driver.keys_of_floats = wf_cuda_keys_of_floats;
    driver.floats_of_keys = wf_cuda_floats_of_keys;
    return &library;
}
