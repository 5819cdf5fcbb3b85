/*
 * weft.h: everything a program needs; ARCHITECTURE.md says where to read on.
 *
 * include/weft/ has what models are written, trained and saved with. What extends the library or
 * looks into it is in include/weft/extend/; it is included too, so that one include serves, and
 * none of it is needed by the headers that stand here. docs/concepts/conventions.md has the rules
 * that all names follow.
 *
 *     WEFT_CHECK(weft_init(&argc, &argv));
 *     weft_mesh *mesh = weft_mesh_new(WEFT_CPU, "tp=%d", weft_world_size());
 *     ... build a module, weft_parallelize_module, train ...
 *     return weft_finalize();
 */
#pragma once

#include <weft/autograd.h>
#include <weft/checkpoint.h>
#include <weft/compile.h>
#include <weft/data_parallel.h>
#include <weft/device.h>
#include <weft/dtensor.h>
#include <weft/dtype.h>
#include <weft/error.h>
#include <weft/factory.h>
#include <weft/generator.h>
#include <weft/mesh.h>
#include <weft/module.h>
#include <weft/nn.h>
#include <weft/ops.h>
#include <weft/optim.h>
#include <weft/parallel.h>
#include <weft/placement.h>
#include <weft/random.h>
#include <weft/tensor.h>
#include <weft/types.h>
#include <weft/weights.h>

#include <weft/extend/extend.h>

/**
 * Start the library: under mpiexec every process is a rank, otherwise there is one rank.
 *
 * ranks: all of the program, once, from the main thread
 * fails: WEFT_ERR_COMM when MPI cannot start
 */
WEFT_API weft_status weft_init(int *argc, char ***argv);

/**
 * The same where MPI runs already and the members of one communicator are to be the world; `comm`
 * is MPI_Comm_c2f of it. weft_finalize leaves MPI running.
 *
 * ranks: all members of the communicator, once, from the main thread
 * fails: WEFT_ERR_STATE when MPI is not running or the library has begun already
 */
WEFT_API weft_status weft_init_mpi(int comm);

/** End the library and report leaked tensors.
 *  ranks: all
 *  gives: the exit status for main: 0, or 1 when any rank holds an error */
WEFT_API int weft_finalize(void);

/**
 * Run `body` on `ranks` threads of this process, each one rank of a world of its own.
 *
 * ranks: call from a thread that is not such a rank; weft_init is not needed
 * fails: WEFT_ERR_ARG, as a result, without body and for ranks beyond 1 to 4096
 * gives: the first non-zero result in rank order, with that rank's error message
 */
WEFT_API int weft_run(int ranks, int (*body)(void *payload), void *payload);
