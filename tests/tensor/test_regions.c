/* test_regions.c: regions are closed as often as they were opened, and placements come from text.
 */
/* ranks: 1 2 4 */
#include "support/worlds.h"

/* A close without an open changes nothing: what is opened next holds. */
WT_TEST(region__that_is_not_open_cannot_be_closed)
{
    weft_tensor *leaf = weft_set_requires_grad(wt_constant(2, 2, 1), true);

    WT_FAILS(weft_no_grad_close(), WEFT_ERR_STATE, "no_grad_close: no region is open");
    WT_FAILS(weft_local_random_close(), WEFT_ERR_STATE, "local_random_close: no region is open");
    WT_EQ(weft_default_generator_close(), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "default_generator_close: no region is open");
    WT_FAILS(weft_guard_close(), WEFT_ERR_STATE, "guard_close: no region is open");
    WT_EQ(weft_implicit_replication_close(), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "implicit_replication_close: no region is open");
    weft_no_grad_open();
    WT_ALL(!weft_requires_grad(weft_neg(leaf)));
    WT_EQ(weft_no_grad_close(), WEFT_OK);
    WT_ALL(weft_requires_grad(weft_neg(leaf)));
}

WT_TEST(region__is_closed_once)
{
    weft_ledger *ledger = weft_ledger_open(), *other = weft_ledger_open();
    weft_trace *trace = weft_trace_open(NULL);
    weft_scope *scope = weft_scope_open();

    WT_EQ(weft_scope_close(scope), WEFT_OK);
    WT_FAILS(weft_scope_close(scope), WEFT_ERR_STATE, "scope_close");
    WT_EQ(weft_ledger_close(ledger), WEFT_OK);
    WT_FAILS(weft_ledger_close(ledger), WEFT_ERR_STATE, "ledger_close");
    WT_EQ(weft_ledger_close(other), WEFT_OK);
    WT_EQ(weft_trace_close(trace), WEFT_OK);
    WT_FAILS(weft_trace_close(trace), WEFT_ERR_STATE, "trace_close");
}

WT_TEST(guard__regions_are_as_deep_as_said)
{
    for (int i = 0; i < 64; i++) WT_EQ(weft_guard_open(WEFT_GUARD_WARN), WEFT_OK);
    WT_EQ(weft_guard_open(WEFT_GUARD_ERROR), WEFT_ERR_STATE);
    WT_FAILED(WEFT_ERR_STATE, "guard_open: 64 regions are open");
    WT_EQ(weft_guard_current(), WEFT_GUARD_WARN);
    for (int i = 0; i < 64; i++) WT_EQ(weft_guard_close(), WEFT_OK);
    WT_EQ(weft_guard_current(), WEFT_GUARD_OFF);
}

WT_TEST_IN_WORLD(placements__come_from_text, w)
{
    const weft_placement *rows = weft_placements(w->mesh, "S(0)");
    weft_tensor *t = weft_distribute_tensor(wt_whole(WEFT_F32, 0, 4, 3), w->mesh, rows, -1);

    WT_ALL(rows == weft_placements(w->mesh, "S(0)") && rows != weft_placements(w->mesh, "S(1)"));
    WT_ALL(wt_is_placed(t, "S(0)"));
    WT_ALL(wt_is_placed(weft_redistribute(t, weft_placements(w->mesh, "R")), "R"));
    WT_ALL(wt_is_placed(
        weft_make_zeros((weft_spec){.ndim = 1, .shape = {8}, .mesh = w->mesh, .placed = "S(0)"}),
        "S(0)"));
}

/* Text that is refused never means "replicated". */
WT_TEST_IN_WORLD(placements__that_are_refused_are_refused_where_they_are_used, w)
{
    weft_tensor *t = wt_spread(w, wt_whole(WEFT_F32, 0, 4, 3), "S(0)");
    const weft_placement *wrong = weft_placements(w->mesh, "S(0),R");

    WT_FAILED(WEFT_ERR_ARG, "must have the same length, not 2 and 1");
    WT_ALL(wrong && !weft_redistribute(t, wrong));
    WT_FAILED(WEFT_ERR_ARG, "the text of the placements was refused");
    WT_ALL(!weft_redistribute(t, weft_placements(w->mesh, "X")));
    WT_FAILED(WEFT_ERR_ARG, "at character 0");
    WT_FAILS(
        weft_make_zeros((weft_spec){.ndim = 1, .shape = {8}, .mesh = w->mesh, .placed = "S(0),R"}),
        WEFT_ERR_ARG, "must have the same length, not 2 and 1");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "regions"); }
