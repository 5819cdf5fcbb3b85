/*
 * checkpoint.h: saving what a training run is, and going on from there on any mesh.
 *
 * A state is a list of named things: tensors, optimizers, generators, numbers. The same list saves
 * and loads: loading writes into what it names. A checkpoint is a folder: a safetensors file per
 * rank that had something to write, with the rank's shards of tensors, and checkpoint.json, which
 * is written last. So it can be loaded by any number of ranks in any layout, and a save that is
 * interrupted leaves the checkpoint that was there.
 */
#pragma once

#include <weft/module.h>
#include <weft/optim.h>
#include <weft/random.h>

typedef struct weft_state weft_state;

/* ---- the list ---- */

/** An empty list.
 *  ranks: any; local
 *  gives: released by weft_state_release, which frees the list and keeps what it names */
WEFT_API weft_state *weft_state_new(void);
WEFT_API void weft_state_release(weft_state *state);

/**
 * Name one thing. Names are compared as they are; those of several things differ.
 *
 * ranks: any; local, all alike. Numbers, bytes and generators are taken to be the same on all ranks
 *        when they are saved; whatever a pointer points to must live as long as the list
 * fails: WEFT_ERR_ARG for an empty name, one in use or not UTF-8, or without a thing;
 *        WEFT_ERR_LAYOUT for a partial result, of which no rank has the value
 */
WEFT_API weft_status weft_state_add_tensor(weft_state *state, const char *name, weft_tensor *t);
WEFT_API weft_status weft_state_add_int(weft_state *state, const char *name, int64_t *value);
WEFT_API weft_status weft_state_add_real(weft_state *state, const char *name, double *value);
WEFT_API weft_status weft_state_add_bytes(weft_state *state, const char *name, void *bytes,
                                          size_t count);
/** NULL: the current generator. ranks: any; local, all alike */
WEFT_API weft_status weft_state_add_generator(weft_state *state, const char *name,
                                              weft_generator *g);

/**
 * Name many things at once, their names after `prefix` and a dot: all parameters and buffers of a
 * module by their paths (but for unsaved ones); of an optimizer its state tensors
 * ("optim.net1.weight.exp_avg"), how often each parameter was updated, steps taken and learning
 * rate; all of another list.
 *
 * `module` is the optimizer's.
 *
 * ranks: any; local, all alike
 * fails: as above, and the list is what it was
 */
WEFT_API weft_status weft_state_add_module(weft_state *state, const char *prefix,
                                           weft_module *module);
WEFT_API weft_status weft_state_add_optim(weft_state *state, const char *prefix, weft_optim *optim,
                                          weft_module *module);
WEFT_API weft_status weft_state_add_state(weft_state *state, const char *prefix,
                                          const weft_state *other);

/** How many things, the name of one in the order they were added (NULL: none of that number), and
 *  the tensor of a name (NULL: none).
 *  ranks: any; local
 *  gives: borrowed */
WEFT_API int64_t weft_state_count(const weft_state *state);
WEFT_API const char *weft_state_name(const weft_state *state, int64_t index);
WEFT_API weft_tensor *weft_state_tensor(const weft_state *state, const char *name);

/**
 * A list of the same things with every distributed tensor whole and plain, on some ranks of the
 * world (`ranks` NULL: on all); on the others an empty list.
 *
 * ranks: collective over the tensors' meshes
 * gives: released by the caller; whole tensors belong to the list
 */
WEFT_API weft_state *weft_state_gather(const weft_state *state, const int *ranks, int count);

/* ---- saving and loading ---- */

/**
 * Save to a folder, which is made when it is not there; a checkpoint in it is replaced when the new
 * one is complete and on disk.
 *
 * Nothing is gathered: each rank writes what it holds, of replicas the rank with the least to
 * write does. Numbers are rank 0's. Every tensor has checksums.
 * ranks: all of the world, with equal lists, on one file system
 * fails: WEFT_ERR_ARG for a path with a scheme ("s3://..."), WEFT_ERR_LAYOUT for a partial
 *        reduction, WEFT_ERR_STATE for tensors without elements, WEFT_ERR_IO; on all ranks
 */
WEFT_API weft_status weft_checkpoint_save(const char *path, const weft_state *state);

/**
 * Load into what the list names. The checkpoint may have more, which stays where it is.
 *
 * Names, shapes and checksums are checked before anything is written to; numbers are converted as
 * weft_weights_read_into does.
 * Attention saved packed loads into attention made with `by_heads`, and the reverse, with states
 * of optimizers that have their parameter's shape.
 * ranks: all of the world
 * fails: WEFT_ERR_NOT_FOUND without a complete checkpoint, and for names that it lacks (all in one
 *        message); WEFT_ERR_SHAPE, WEFT_ERR_DTYPE for things that differ; WEFT_ERR_IO for damaged
 *        files; WEFT_ERR_STATE for tensors without elements, results of ops, and two numbers of
 *        updates where there is one parameter now; on all ranks
 */
WEFT_API weft_status weft_checkpoint_load(const char *path, weft_state *state);
