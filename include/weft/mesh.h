/*
 * mesh.h: ranks as a grid with named axes (docs/concepts/mesh.md).
 *
 * Meshes that are equal (sizes, names and ranks) are one object per rank, so `==` compares them.
 * Making a mesh, cutting one and asking one sends nothing; the communicators of its lines are made
 * when something is first sent along them, and equal lines of different meshes share one.
 *
 * Where a function names an axis by text, NULL or "" stands for the only axis of a 1-D mesh.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/error.h>
#include <weft/export.h>
#include <weft/types.h>

/**
 * The device called `text`: "cpu", "meta" or "cuda".
 *
 * ranks: any; local
 * fails: WEFT_ERR_ARG for an unknown one, and for one with an index ("cpu:0"): a mesh says which
 *        kind of device, a rank has one of it
 */
WEFT_API weft_status weft_device_parse(weft_device *device, const char *text);

/** This rank's number among all ranks of the program, and how many there are. ranks: any; local */
WEFT_API int weft_world_rank(void);
WEFT_API int weft_world_size(void);

/* ---- constructors ---- */

/**
 * A grid of the first ranks of the world, described by text: "tp=4" or "dp=2,tp=4".
 *
 * The last axis varies fastest: in "dp=2,tp=4" rank 5 has dp 1, tp 1. Axis names are letters,
 * digits and '_', each used once. The format takes printf arguments. The library is started when
 * weft_init has not been called yet, and the first mesh on WEFT_CUDA takes this rank's GPU.
 * ranks: all of the mesh, and any others, pass the same text; with WEFT_CHECK=2 all of the world
 *        do, and what they pass is compared
 * gives: a mesh owned by the caller (weft_mesh_release); tensors and layouts retain it
 * fails: WEFT_ERR_ARG when the text is malformed, WEFT_ERR_COMM when the world has too few ranks,
 *        WEFT_ERR_NOT_FOUND where this rank has no such device (which ends a job of several)
 */
WEFT_API weft_mesh *weft_mesh_new(weft_device device, const char *format, ...) WEFT_PRINTF(2, 3);

/**
 * A grid of any ranks in any order: `ranks` holds their world numbers, the last axis varying
 * fastest; NULL: the first of the world.
 *
 * `names` is "dp,tp", one name per axis, or NULL for axes without names.
 *
 * ranks: as weft_mesh_new
 * gives: a mesh owned by the caller
 * fails: WEFT_ERR_ARG for a size below 1, a bad name, a number of names that is not the
 *        number of axes, a rank that is outside the world or listed twice; WEFT_ERR_COMM when the
 *        world has too few ranks
 */
WEFT_API weft_mesh *weft_mesh_from_ranks(weft_device device, const int *sizes, int n_axes,
                                         const char *names, const int *ranks);

/**
 * A grid of the members of a communicator of MPI, in its order. `comm` is MPI_Comm_c2f of it.
 *
 * `sizes` NULL: one axis of all members. The communicator is not kept: messages travel on the
 * library's own.
 * ranks: members of the communicator; with WEFT_CHECK=2 they compare what they make
 * fails: WEFT_ERR_STATE without MPI, WEFT_ERR_ARG when a member is not in the world or the sizes
 *        do not multiply to the number of members; else as weft_mesh_from_ranks
 */
WEFT_API weft_mesh *weft_mesh_from_mpi(weft_device device, int comm, const int *sizes, int n_axes,
                                       const char *names);

/**
 * A mesh whose lines through this rank are given: `groups` are 1-D meshes, one per axis.
 *
 * `ranks` is the whole grid as in weft_mesh_from_ranks; it may be NULL for one group. `names` is as
 * there too: NULL makes axes without names, whatever the groups' axes are called.
 *
 * ranks: all of the new mesh; with WEFT_CHECK=2 they compare what they make, along the groups: a
 *        rank that hands in another group than the others on its line is waited for
 * gives: a mesh owned by the caller; it communicates over the groups' communicators
 * fails: as weft_mesh_from_ranks. Of several groups one that has other ranks than this rank's line
 *        of the grid ends the job, since other ranks' groups may fit; in a world of one rank, and
 *        for a single group, it is WEFT_ERR_ARG
 */
WEFT_API weft_mesh *weft_mesh_from_groups(weft_mesh *const *groups, int n_groups, const char *names,
                                          const int *ranks);

/**
 * A mesh of any size without ranks behind it, for planning: this process takes the role of rank
 * `rank`.
 *
 * Layouts and plans are those of the real mesh, and tensors on WEFT_META go through whole programs:
 * shapes, memory and the ledger come out as they would. What has elements cannot communicate.
 * ranks: any; local
 * gives: a mesh owned by the caller
 * fails: WEFT_ERR_ARG when the text is malformed or has no such rank
 */
WEFT_API weft_mesh *weft_mesh_new_fake(int rank, const char *format, ...) WEFT_PRINTF(2, 3);

/** Add / drop a reference; NULL is allowed. ranks: any; local */
WEFT_API weft_mesh *weft_mesh_retain(weft_mesh *mesh);
WEFT_API void weft_mesh_release(weft_mesh *mesh);

/* ---- properties. The mesh must not be NULL, unless failures are listed. An axis that does not
 * exist has size 0, name "" and coordinate -1 ---- */

/** Number of axes. ranks: any; local */
WEFT_API int weft_mesh_ndim(const weft_mesh *mesh);

/** Ranks along an axis, its name ("" without), and this rank's place on it (-1 outside the mesh).
 * ranks: any; local */
WEFT_API int weft_mesh_axis_size(const weft_mesh *mesh, int axis);
WEFT_API const char *weft_mesh_axis_name(const weft_mesh *mesh, int axis);
WEFT_API int weft_mesh_coordinate(const weft_mesh *mesh, int axis);

/** The axis with this name, -1 when there is none. ranks: any; local */
WEFT_API int weft_mesh_axis(const weft_mesh *mesh, const char *name);

/** All ranks of the mesh. ranks: any; local */
WEFT_API int weft_mesh_size(const weft_mesh *mesh);

/** Where the elements of tensors over the mesh are; weft_from_local and weft_distribute_tensor
 *  bring them there. Cut and merged meshes are where the mesh is.
 *  ranks: any; local */
WEFT_API weft_device weft_mesh_device(const weft_mesh *mesh);

/** True when this rank is one of them, and when the mesh was made by weft_mesh_new_fake.
 *  ranks: any; local */
WEFT_API bool weft_mesh_is_member(const weft_mesh *mesh);
WEFT_API bool weft_mesh_is_fake(const weft_mesh *mesh);

/** The world numbers of all ranks, the last axis varying fastest, into `ranks` while there is room;
 *  returns how many there are.
 *  ranks: any; local */
WEFT_API int weft_mesh_ranks(const weft_mesh *mesh, int *ranks, int room);

/** The coordinates of a rank of the world; false when it is outside. ranks: any; local */
WEFT_API bool weft_mesh_find(const weft_mesh *mesh, int world_rank, int *coordinates);

/** The same for meshes that are equal, on every rank. ranks: any; local */
WEFT_API uint64_t weft_mesh_hash(const weft_mesh *mesh);

/**
 * This rank's place on the axis of that name.
 *
 * ranks: any; local
 * fails: -1, with WEFT_ERR_ARG when no axis is named although there are several, WEFT_ERR_NOT_FOUND
 *        when none has the name, WEFT_ERR_COMM on a rank outside the mesh
 */
WEFT_API int weft_mesh_local_rank(const weft_mesh *mesh, const char *name);

/**
 * The world numbers of the ranks on this rank's line along an axis, in their order.
 *
 * Written into `ranks` while there is room; returns how many there are. By index or by name.
 * ranks: any; local
 * fails: -1, as weft_mesh_local_rank, and with WEFT_ERR_COMM for a fake mesh, which has no groups
 */
WEFT_API int weft_mesh_group_ranks(const weft_mesh *mesh, int axis, int *ranks, int room);
WEFT_API int weft_mesh_group_ranks_of(const weft_mesh *mesh, const char *name, int *ranks,
                                      int room);

/** The world numbers of any line along an axis; lines count with the last of the other axes
 * fastest. Written as weft_mesh_group_ranks does; 0 for an axis or line that is not there.
 * ranks: any; local
 */
WEFT_API int weft_mesh_line_ranks(const weft_mesh *mesh, int axis, int line, int *ranks, int room);

/** Communicators made on this rank so far; what shares one is not counted again.
 *  ranks: any; local */
WEFT_API int weft_mesh_communicator_count(void);

/** "(dp:2, tp:4)" into `text`, "(2, 4)" without names; returns the length as snprintf does.
 * ranks: any; local */
WEFT_API int weft_mesh_format(const weft_mesh *mesh, char *text, size_t bytes);

/* ---- other meshes over the same ranks ---- */

/**
 * The mesh of the named axes, "tp" or "dp,tp" in any order, through this rank: the ranks that share
 * its other coordinates. A rank outside gets the first such mesh and is outside that too.
 *
 * A name that weft_mesh_flatten gave to merged axes of the root counts as well.
 * ranks: any; local
 * gives: a mesh owned by the caller; its lines have the communicators of the mesh it was cut from
 * fails: WEFT_ERR_NOT_FOUND when no axis has a name, WEFT_ERR_ARG for a mesh without names or an
 *        axis taken twice
 */
WEFT_API weft_mesh *weft_mesh_sub(weft_mesh *mesh, const char *names);

/** The same with the names one by one. ranks: any; local. gives, fails: as weft_mesh_sub */
WEFT_API weft_mesh *weft_mesh_slice(weft_mesh *mesh, const char *const *names, int n_names);

/**
 * The mesh that this one was last cut from by weft_mesh_sub and its kin, at the top; the mesh
 * itself when it was not cut.
 *
 * ranks: any; local
 * gives: borrowed
 */
WEFT_API weft_mesh *weft_mesh_root(weft_mesh *mesh);

/** The root's axis that this axis is; -1 for merged axes and axes without names.
 *  ranks: any; local */
WEFT_API int weft_mesh_root_axis(const weft_mesh *mesh, int axis);

/**
 * All ranks of the mesh as one axis, in their order; slice first to merge some axes only.
 *
 * The root remembers `name` (NULL: the axes' names joined by '_'): weft_mesh_sub finds it, and
 * redistribution may then use one collective for the merged axes. Meshes equal to the root that are
 * made later on this rank have it too; plans made before are made anew.
 * ranks: any; local; all of the mesh do it alike
 * gives: a mesh owned by the caller; the mesh itself when it has one axis of that name
 * fails: WEFT_ERR_ARG when the name is malformed, missing, or taken for other axes
 */
WEFT_API weft_mesh *weft_mesh_flatten(weft_mesh *mesh, const char *name);

/**
 * One axis split in several; the product of `sizes` is its size.
 *
 * ranks: any; local
 * gives: a mesh owned by the caller; only the new axes will need new communicators
 * fails: WEFT_ERR_ARG for other sizes, bad names, or names where the mesh has none
 */
WEFT_API weft_mesh *weft_mesh_unflatten(weft_mesh *mesh, int axis, const int *sizes, int n_sizes,
                                        const char *names);

/**
 * Meshes cut from one root, side by side: "dp" and "tp" give "dp,tp".
 *
 * ranks: any; local
 * gives: a mesh owned by the caller
 * fails: WEFT_ERR_ARG when they were not cut from one mesh or have an axis in common
 */
WEFT_API weft_mesh *weft_mesh_concatenate(weft_mesh *const *meshes, int n_meshes);

/* ---- the mesh that is meant when none is given ---- */

/**
 * Functions given NULL for a mesh take this one until the region is closed; regions nest. Each
 * thread has its own. Close names the mesh that was opened.
 *
 * ranks: any; local; all ranks of the mesh do it alike
 * fails: open: WEFT_ERR_ARG without a mesh; close: WEFT_ERR_STATE when the mesh is not the
 *        innermost or none is open, which changes nothing
 */
WEFT_API weft_status weft_default_mesh_open(weft_mesh *mesh);
WEFT_API weft_status weft_default_mesh_close(weft_mesh *mesh);

/** The innermost. ranks: any; local. gives: borrowed. fails: WEFT_ERR_STATE when there is none */
WEFT_API weft_mesh *weft_default_mesh(void);
