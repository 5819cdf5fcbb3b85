/* load_library.h: the shared object of a device, which a process loads once. */
#pragma once

#include "device/device_driver.h"

/**
 * What libweft-cuda.so offers; loaded on the first call, by whichever thread comes first.
 * gives: NULL and the reason in `why`, the same on every call
 */
const struct wf_device_library *wf_device_library_load(char *why, size_t room);
