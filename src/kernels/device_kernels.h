/*
 * device_kernels.h: the kernels of a device: tables that its shared object offers, and the choice
 * between these and the CPU's. Plans choose when they are made; a call of a planned op is the same
 * on any device.
 */
#pragma once

#include <weft/types.h>

#include "kernels/kernels.h"
#include "kernels/optimizer_kernels.h"

struct wf_device_kernels {
    int count;                         /* WF_KERNEL_COUNT of its build */
    wf_kernel_prepare *const *prepare; /* by number; NULL: there is none */
    const struct wf_optimizer_kernels *optimizer;
};

/**
 * Prepare a kernel for operands that are on `device`, which this rank has. Where the device has
 * none, or none for their dtypes, the CPU's runs on copies in host memory, and the log has a
 * warning, once per op.
 */
weft_status wf_prepare_kernel_on(weft_device device, enum wf_kernel kernel,
                                 struct wf_kernel_call *k);

/** Prepare `prepare`'s kernel, which reads and writes host memory, for operands on a device. Each
 * call waits for the device. */
weft_status wf_prepare_through_host(wf_kernel_prepare *prepare, struct wf_kernel_call *k);

const struct wf_optimizer_kernels *wf_optimizer_kernels_on(weft_device device);
