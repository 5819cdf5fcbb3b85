/*
 * driver_kernels.h: what layers below the kernels do to device memory: moving, filling and scaling
 * elements. They are functions of the device driver (device/device_driver.h) and run on the compute
 * stream.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <weft/dtype.h>

#include "base/elements/strided_copy.h"

/** wf_strided_copy_run of device memory. */
void wf_cuda_strided_copy(const struct wf_strided_copy *copy, void *to, const void *from);

/** `count` times the element, which the host has, of 1, 2, 4 or 8 bytes. */
void wf_cuda_fill_elements(void *to, const void *element, size_t element_bytes, size_t count);

/** x / divisor, of any dtype; |x| ^ p, of floats. With the CPU's bits, but for powers other than
 *  1/2 and 2. */
void wf_cuda_divide_elements(weft_dtype dtype, size_t count, void *x, int divisor);
void wf_cuda_power_elements(weft_dtype dtype, size_t count, void *x, double p);

/** Integers in the order of floats, and back (base/elements/float_key.h). */
void wf_cuda_keys_of_floats(weft_dtype dtype, bool nan_is_largest, size_t count, void *keys,
                            const void *x);
void wf_cuda_floats_of_keys(weft_dtype dtype, size_t count, void *x, const void *keys);
