/*
 * test_buffers.c: who shares memory with whom, and when memory may be used again. Traps 18 and 22:
 * a caller's tensor is never written to, and a transfer that is in flight keeps what it reads.
 */
/* mpi: 4 */
#include "support/worlds.h"

static bool is_all(weft_tensor *t, float value)
{
    const float *data = weft_data(t);

    for (int64_t i = 0; i < weft_numel(t); i++)
        if (data[i] != value) return false;
    return true;
}

/* ---- trap 18 ---- */

WT_TEST(distribute__neither_writes_to_nor_shares_its_source)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "P"};

    for (int source = -1; source <= 0; source++)
        for (int i = 0; i < 4; i++) {
            struct wt_world w = wt_world_open();
            weft_tensor *mine = wt_constant(4, 3, wt_rank() + 1), *t;
            weft_placement p;

            weft_placements_parse(&p, 1, layouts[i]);
            t = weft_distribute_tensor(mine, w.mesh, &p, source);
            WT_ALL(is_all(mine, (float)(wt_rank() + 1)));
            WT_ALL(weft_fill_(t, 9) == WEFT_OK && is_all(mine, (float)(wt_rank() + 1)));
            wt_world_close(&w);
        }
}

WT_TEST(redistribute__does_not_write_to_what_it_reads)
{
    static const char *const layouts[] = {"R", "S(0)", "S(1)", "P"};

    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++) {
            struct wt_world w = wt_world_open();
            weft_tensor *t = wt_spread(&w, wt_constant(4, 6, 1), layouts[i]), *before, *y;

            before = weft_contiguous(weft_mul_scalar(weft_to_local(t, NULL), 1));
            y = wt_to(t, layouts[j]);
            WT_ALL(wt_near_tensors(weft_to_local(t, NULL), before, WT_EXACT));
            WT_ALL(wt_near_tensors(y, wt_constant(4, 6, 1), WT_EXACT));
            wt_world_close(&w);
        }
}

/* What costs nothing shares: the part in, the part out, and a layout that stays. */
WT_TEST_IN_WORLD(wrapping__shares_memory, w)
{
    weft_placement rows = weft_shard(0);
    weft_tensor *mine = wt_constant(2, 3, 1), *t = weft_from_local(mine, w->mesh, &rows, NULL);

    WT_ALL(weft_data(t) == weft_data(mine) && weft_data(weft_to_local(t, NULL)) == weft_data(mine));
    WT_ALL(wt_to(t, "S(0)") == t);
    WT_STILL(w);
}

/* ---- trap 22 ---- */

/* Everything that a transfer needs is let go, and its memory would be handed out again at once. */
WT_TEST(async__source_may_go_before_it_has_arrived)
{
    static const weft_redistribute_options async = {.async = true};
    static const char *const layouts[] = {"S(0)", "P", "S(1)"};
    weft_placement whole = weft_replicate();

    for (int i = 0; i < 3; i++)
        for (int round = 0; round < 4; round++) {
            struct wt_world w = wt_world_open();
            weft_scope *scope = weft_scope_open();
            weft_tensor *t = wt_spread(&w, wt_whole(WEFT_F32, 0, 65, 33), layouts[i]), *y;

            y = weft_scope_return(scope, weft_redistribute_with(t, &whole, &async));
            for (int k = 0; k < 8; k++) weft_full(WEFT_F32, (int64_t[]){65, 33}, 2, -1);
            WT_ALL(wt_near_tensors(y, wt_whole(WEFT_F32, 0, 65, 33), WT_EXACT));
            wt_world_close(&w);
        }
}

int main(int argc, char **argv) { return wt_main(argc, argv, "buffers"); }
