/* given.h: inputs by the fill rule of the acceptance cases, and the meshes and parts of this
 * folder.
 */
#pragma once

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/near.h"

/** A mesh with one axis "tp" of all ranks. */
weft_mesh *given_mesh(void);

/** ((i * 37 + 11) mod 101) / 50 - 1 (`which` 0) or ((i * 53 + 7) mod 97) / 48 - 1, f64, the same on
 *  every rank. Sizes end with 0. */
weft_tensor *given(int which, int64_t a, int64_t b, int64_t c);

/** Another of the second kind, shaped like t. */
weft_tensor *given_like(const weft_tensor *t);

/** Distribute a tensor that every rank holds / the plain part of this rank. `layout`: "S(0)". */
weft_tensor *given_spread(weft_tensor *whole, weft_mesh *mesh, const char *layout);
weft_tensor *given_part(weft_tensor *whole, weft_mesh *mesh, const char *layout);

/** True when t is distributed over one axis like this. */
bool given_is(const weft_tensor *t, const char *layout);

/** Collectives since the ledger was opened or last asked: exactly these (none on one rank). */
#define GIVEN_MOVED(ledger, kind, count)                                                           \
    given_moved((ledger), (kind), (count), #kind " " #count, __FILE__, __LINE__)
#define GIVEN_STILL(ledger)                                                                        \
    given_moved((ledger), WEFT_COLL_COUNT, 0, "no collective", __FILE__, __LINE__)
void given_moved(weft_ledger *ledger, weft_coll kind, int count, const char *text, const char *file,
                 int line);

/** A parameter-free module that gives back its one input. */
weft_module *given_identity(void);
