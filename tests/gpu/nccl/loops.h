/* loops.h: loops over elements on copies in host memory (loops.c), and two kernels (key_kernels.c).
 */
#pragma once

#include "device/device_driver.h"
#include "kernels/optimizer_kernels.h"

void add_loops(struct wf_device_driver *driver);
/** Once in a process. */
void add_key_kernels(struct wf_device_driver *driver);
extern const struct wf_optimizer_kernels optimizer_loops;
