/*
 * near_modules.h: is a distributed module what the same module on one device is?
 *
 * Parameters are paired by path. Each is an assertion of its own, which names the parameter; it is
 * collective over the meshes of both modules, so all ranks must reach it.
 */
#pragma once

#include <weft/module.h>

#include "support/near.h"

/** Every parameter that is trained has a gradient, and it is near that of `want`'s parameter; one
 * that is not has none in both. */
#define WT_NEAR_GRADIENTS(got, want, tolerance)                                                    \
    wt_near_modules((got), (want), true, (tolerance), __FILE__, __LINE__)
/** Every parameter is near `want`'s. */
#define WT_NEAR_PARAMETERS(got, want, tolerance)                                                   \
    wt_near_modules((got), (want), false, (tolerance), __FILE__, __LINE__)

/** Both give nearly the same, each for its input, and nearly the same gradients of parameters in a
 * backward from the sum in which every element of the output counts differently. Gives the output
 * of the first. */
#define WT_NEAR_STEPS(got, x, want, x_want, tolerance)                                             \
    wt_near_steps((got), (x), (want), (x_want), (tolerance), __FILE__, __LINE__)

weft_tensor *wt_near_steps(weft_module *got, weft_tensor *x, weft_module *want, weft_tensor *x_want,
                           struct wt_tolerance tolerance, const char *file, int line);
void wt_near_modules(weft_module *got, weft_module *want, bool gradients,
                     struct wt_tolerance tolerance, const char *file, int line);
