/*
 * library.c: the one function of libweft-test-device.so, which tests load in the place of
 * libweft-cuda.so (WEFT_CUDA_LIBRARY): all that the library does for a GPU, on memory that the host
 * cannot touch.
 */
#include "device/cuda/library_calls.h"
#include "device/device_driver.h"
#include "driver.h"

WEFT_API wf_device_library_open weft_device_library;

const struct wf_device_library *weft_device_library(const struct wf_library_calls *calls)
{
    static const struct wf_device_library library = {.tables = WF_DEVICE_TABLES,
                                                     .version = WEFT_VERSION,
                                                     .driver = &test_driver,
                                                     .kernels = &test_kernels};

    wf_library_calls_set(calls);
    test_driver_init();
    test_kernels_init();
    return &library;
}
