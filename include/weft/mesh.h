/* mesh.h: ranks as a grid with named axes. */
#pragma once

#include <weft/error.h>
#include <weft/export.h>

typedef struct weft_mesh weft_mesh;

/** Where the elements of a tensor are. */
typedef enum weft_device {
    WEFT_CPU,
    WEFT_META, /* nowhere: shape, dtype and placements only (docs/concepts/ownership.md) */
    WEFT_DEVICES
} weft_device;

/** This rank's number among all ranks of the program, and how many there are. ranks: any; local */
WEFT_API int weft_world_rank(void);
WEFT_API int weft_world_size(void);

/**
 * A grid of the first ranks of the world, described by text: "tp=4" or "dp=2,tp=4".
 *
 * The last axis varies fastest: in "dp=2,tp=4" rank 5 has dp 1, tp 1. Axis names are letters,
 * digits and '_', each used once. The format takes printf arguments.
 * ranks: collective over the world; every rank passes the same text
 * gives: a mesh owned by the caller (weft_mesh_release); tensors and layouts retain it
 * fails: WEFT_ERR_ARG when the text is malformed, WEFT_ERR_COMM when the world has too few ranks
 */
WEFT_API weft_mesh *weft_mesh_new(weft_device device, const char *format, ...) WEFT_PRINTF(2, 3);

/** One more owner / one owner less; NULL is allowed. ranks: any; local */
WEFT_API weft_mesh *weft_mesh_retain(weft_mesh *mesh);
WEFT_API void weft_mesh_release(weft_mesh *mesh);

/** Number of axes. ranks: any; local */
WEFT_API int weft_mesh_ndim(const weft_mesh *mesh);

/** Ranks along an axis, its name, and this rank's place on it (-1 outside the mesh). ranks: any;
 * local */
WEFT_API int weft_mesh_axis_size(const weft_mesh *mesh, int axis);
WEFT_API const char *weft_mesh_axis_name(const weft_mesh *mesh, int axis);
WEFT_API int weft_mesh_coordinate(const weft_mesh *mesh, int axis);

/** The axis with this name, -1 when there is none. ranks: any; local */
WEFT_API int weft_mesh_axis(const weft_mesh *mesh, const char *name);

/** All ranks of the mesh. ranks: any; local */
WEFT_API int weft_mesh_size(const weft_mesh *mesh);

/**
 * The one-axis mesh of the ranks that share this rank's other coordinates.
 *
 * ranks: local; every member calls it before it communicates over the result
 * gives: a mesh owned by the caller; the same communicator serves it and the parent's axis
 * fails: WEFT_ERR_NOT_FOUND when no axis has the name
 */
WEFT_API weft_mesh *weft_mesh_sub(weft_mesh *mesh, const char *name);

/** "(dp:2, tp:4)" into `text`; returns the length as snprintf does. ranks: any; local */
WEFT_API int weft_mesh_print(const weft_mesh *mesh, char *text, size_t bytes);
