/*
 * owned.h: what a case makes and need not release, and the rows of a case over a table.
 *
 * What a case owns is released when it ends, however it ends, the last thing first.
 *
 *     WT_TEST(products__equal_one_device)
 *     {
 *         weft_mesh *mesh = wt_own(weft_mesh_new(WEFT_CPU, "tp=%d", wt_ranks()));
 *
 *         for (int i = 0; i < ROWS; i++) {
 *             wt_row("%s", rows[i].name);
 *             check(wt_own(make(&rows[i])), mesh);
 *         }
 *     }
 */
#pragma once

#include <weft/weft.h>

/** The case owns a module, mesh, optimizer, plan, ledger, ... from now on; gives it back. */
#define wt_own(object)                                                                             \
    _Generic((object), weft_module *                                                               \
             : wt_own_module, weft_mesh *                                                          \
             : wt_own_mesh, weft_optim *                                                           \
             : wt_own_optim, weft_plan *                                                           \
             : wt_own_plan, weft_ledger *                                                          \
             : wt_own_ledger, weft_generator *                                                     \
             : wt_own_generator, weft_state *                                                      \
             : wt_own_state, weft_step_graph *                                                     \
             : wt_own_step_graph, weft_compiled *                                                  \
             : wt_own_compiled, weft_weights *                                                     \
             : wt_own_weights)(object)

weft_module *wt_own_module(weft_module *m);
weft_mesh *wt_own_mesh(weft_mesh *mesh);
weft_optim *wt_own_optim(weft_optim *optim);
weft_plan *wt_own_plan(weft_plan *plan);
weft_ledger *wt_own_ledger(weft_ledger *ledger);
weft_generator *wt_own_generator(weft_generator *g);
weft_state *wt_own_state(weft_state *state);
weft_step_graph *wt_own_step_graph(weft_step_graph *graph);
weft_compiled *wt_own_compiled(weft_compiled *compiled);
weft_weights *wt_own_weights(weft_weights *weights);

/** The same for anything else. gives: its place, for wt_owns and wt_release_owned */
int wt_own_with(void *object, void (*release)(void *object));
/** Is it still owned, at this place? */
bool wt_owns(const void *object, int place);
/** Release what is owned from this place on. */
void wt_release_owned(int place);

/**
 * Begin a row: what the case has come to own since its first row is released, and so are tensors
 * that were made since. Until the next row, or the end of the case, failures are reported with this
 * text. Rows do not nest.
 */
void wt_row(const char *format, ...) WEFT_PRINTF(1, 2);

/** For mpi_check.c: the row, "" before the first; and that a case begins. */
const char *wt_row_name(void);
void wt_rows_begin(void);
