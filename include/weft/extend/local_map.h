/*
 * local_map.h: run a function on this rank's shards, and wrap its results as shards of distributed
 * tensors again (docs/concepts/local-map.md).
 *
 *     static weft_status product(weft_tensor *const *in, weft_tensor **out, void *context)
 *     {
 *         out[0] = weft_mesh_all_reduce(weft_matmul(in[0], in[1]), WEFT_SUM, context, 0);
 *         return WEFT_OK;
 *     }
 *
 *     const weft_placement columns[] = {weft_shard(1)}, rows[] = {weft_shard(0)};
 *     const weft_placement all[] = {weft_replicate()};
 *     const weft_placement *in[] = {columns, rows}, *out[] = {all};
 *     weft_local_map map = {.function = product, .context = mesh,
 *                           .n_in = 2, .n_out = 1, .in = in, .out = out};
 *
 *     weft_local_map_call(&map, (weft_tensor *[]){x, w}, &y);
 */
#pragma once

#include <weft/tensor.h>

/**
 * Sees plain tensors and sets `out`, owned by the open scope; entries may stay NULL. Whatever else
 * it takes or gives goes through `context`. A status that is not WEFT_OK, or an error recorded,
 * ends the call with it.
 */
typedef weft_status weft_local_function(weft_tensor *const *in, weft_tensor **out, void *context);

/** A function and what it expects and gives; lives as long as it is used. */
typedef struct weft_local_map {
    weft_local_function *function;
    void *context;
    weft_mesh *mesh; /* of arguments and results; NULL: that of the first distributed argument */
    int n_in, n_out; /* at most WEFT_LOCAL_MAP_TENSORS each */
    /** A list of placements per argument, one per mesh axis. An entry NULL: a plain tensor is
     *  expected. All NULL: arguments come as they are. */
    const weft_placement *const *in;
    /** The same per result. An entry NULL, or all: the result is handed on as it is. */
    const weft_placement *const *out;
    /** Global shapes of results, for uneven shards; NULL, or an entry NULL: even ones. */
    const int64_t *const *out_shapes;
    /** Per argument what its local gradient will be: P when each rank computes a term of it (the
     *  argument is replicated and ranks use it differently), R when each computes all of it. NULL,
     *  or an entry NULL: as the argument, replicated where that is partial. */
    const weft_placement *const *in_grad;
    /** A mesh per argument and per result that is not on `mesh` (experts on one, the rest of the
     *  model on another); an entry NULL, or all: it is. Placements are those on its own mesh. */
    weft_mesh *const *in_meshes, *const *out_meshes;
    /** An argument that is placed otherwise is redistributed, instead of refused. */
    bool redistribute_inputs;
    /** Check that gradients and results are what they are said to be: see weft_local_map_call. */
    bool typed;
} weft_local_map;

enum { WEFT_LOCAL_MAP_TENSORS = 8 };

/**
 * Unwrap the arguments (weft_to_local), run the function, wrap the results (weft_from_local).
 *
 * A plain argument is passed on unchanged, whatever its placements entry. When no argument is
 * distributed, neither are the results. Everything is checked before anything is sent.
 *
 * Without `typed` nothing tells apart a replicated argument that all ranks use alike from one that
 * each uses for its own share. The gradient of the second is a sum over ranks, and is wrong,
 * silently, unless in_grad says P. With `typed`, an argument that wants a gradient and is
 * replicated has to say which (P or R), a sharded one has its own gradient, a partial one a
 * replicated one; and inside the function and for its results the table of gradient types holds
 * (docs/concepts/autograd.md): a result must not be declared replicated when it follows from what
 * differs between ranks, nor partial or sharded when it is the same on all.
 *
 * Backward comes to the arguments in one order on all ranks, however the function computed with
 * them there, and to the exchanges in it that have a gradient (weft_mesh_all_to_all_single): what a
 * rank did not use has zeros for its gradient there. For that to hold, what wants a gradient has to
 * come in as an argument, not through `context`. When any argument wants one, every floating-point
 * result does. What the function reads is this rank's own: when some of it was written in place
 * before backward, the job ends, for the others may not have read it.
 *
 * ranks: as the function and the redistributions; all ranks of the meshes alike
 * gives: out[0 .. n_out), owned by the open scope
 * fails: WEFT_ERR_ARG for a distributed argument whose entry is NULL, or a result NULL that has
 *        placements; WEFT_ERR_LAYOUT for one on another mesh than said, or placed otherwise
 *        without redistribute_inputs; with `typed`, naming both placements, and for a second mesh;
 *        and as the function
 * grad:  to every argument, as in_grad says
 */
WEFT_API weft_status weft_local_map_call(const weft_local_map *map, weft_tensor *const *in,
                                         weft_tensor **out);
