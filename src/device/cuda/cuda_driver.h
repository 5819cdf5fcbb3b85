/*
 * cuda_driver.h: the driver's functions (device/device_driver.h) by CUDA's runtime, without the
 * loops over elements, which are kernels.
 */
#pragma once

#include "device/device_driver.h"

struct wf_device_driver wf_cuda_driver_without_loops(void);
