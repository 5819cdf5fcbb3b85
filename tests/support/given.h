/* given.h: what tests of modules and styles start from: whole inputs, a rank's plain shard of them.
 * Meshes, scopes and ledgers are their own, where worlds.h opens all three. */
#pragma once

#include <weft/weft.h>

#include "support/worlds.h"

/** A mesh with one axis "tp" of all ranks. */
weft_mesh *given_mesh(void);

/** Elements wt_element(which, i), f64, the same on every rank. Sizes end with 0. */
weft_tensor *given(int which, int64_t a, int64_t b, int64_t c);

/** Another of the second kind, shaped like t. */
weft_tensor *given_like(const weft_tensor *t);

/** Distribute a tensor that every rank holds / the plain shard of this rank. `layout`: "S(0)". */
weft_tensor *given_spread(weft_tensor *whole, weft_mesh *mesh, const char *layout);
weft_tensor *given_shard(weft_tensor *whole, weft_mesh *mesh, const char *layout);

/** True when t is distributed over one axis like this. */
bool given_is(const weft_tensor *t, const char *layout);

/** Collectives since the ledger was opened or last asked: as WT_MOVED and WT_STILL. */
#define GIVEN_MOVED(ledger, kind, count)                                                           \
    wt_moved_only((ledger), (kind), (count), __FILE__, __LINE__)
#define GIVEN_STILL(ledger) wt_moved_only((ledger), WEFT_COLL_COUNT, 0, __FILE__, __LINE__)

/** What weft_plan_print says, in `text` (`bytes` are enough). */
void given_plan_text(char *text, size_t bytes, weft_module *m, weft_mesh *mesh,
                     const weft_plan *plan);

/** A parameter-free module that gives back its one input. */
weft_module *given_identity(void);

/** Numbers below `vocab`, [rows, columns] of i64: 5 i + shift, modulo it. */
weft_tensor *given_tokens(int64_t rows, int64_t columns, int64_t vocab, int64_t shift);
