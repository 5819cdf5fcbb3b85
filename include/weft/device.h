/*
 * device.h: the devices of this machine, for a program that chooses or waits for one. Which one a
 * tensor is on is its mesh's or its spec's matter (mesh.h, tensor.h).
 */
#pragma once

#include <stdint.h>

#include <weft/error.h>
#include <weft/types.h>

/**
 * How many of these devices this machine has for a program: of WEFT_CUDA the GPUs that can be used,
 * 0 where there is no driver, no GPU, or no libweft-cuda.so; WEFT_CPU and WEFT_META are one.
 *
 * ranks: any, before weft_init too; local. Machines may differ: agree before a mesh is made
 * fails: never; weft_mesh_new says what is missing
 */
WEFT_API int weft_device_count(weft_device device);

/**
 * Bytes of this rank's device that nobody uses, and all that it has, whoever holds them.
 *
 * ranks: any, after weft_init; local. Opens the device, as a mesh on it does
 * gives: 0 in both for WEFT_CPU and WEFT_META; what Weft holds is weft_memory_on's
 *        (weft/extend/memory.h)
 * fails: WEFT_ERR_NOT_FOUND where there is no such device, WEFT_ERR_ARG without room for a result,
 *        WEFT_ERR_STATE for WEFT_CUDA before weft_init
 */
WEFT_API weft_status weft_device_memory(weft_device device, int64_t *unused, int64_t *total);

/**
 * Wait until this rank's device has done all that it was given, collectives too. Ops and
 * collectives are ordered without it: it is for measuring time and for libraries beside Weft.
 *
 * ranks: any; local, but ends only when what peers must do in collectives is done. Nothing to wait
 *        for on WEFT_CPU, on WEFT_META and before the device is used
 */
WEFT_API void weft_device_synchronize(weft_device device);
