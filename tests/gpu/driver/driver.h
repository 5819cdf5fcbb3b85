/* driver.h: what the files of the test driver share: the tables that it offers. */
#pragma once

#include "kernels/device_kernels.h"

extern const struct wf_device_driver test_driver;
extern const struct wf_device_kernels test_kernels;

/** What is given to the compute stream next runs now: first what it waits for. */
void test_driver_begin_compute(void);

/** Once: choose instruction sets, and leave out the kernels that WEFT_TEST_DEVICE_LACKS names. */
void test_kernels_init(void);
