/*
 * test_lists.c: a call of a compiled function that replays asks malloc for nothing, also where
 * ranks tell each other first which list fits: of uneven shards each rank has its own strides.
 */
#include <weft/compile.h>

#include "support/malloc_count.h"
#include "support/worlds.h"

enum { WARM = 6, CALLS = 8 };

static weft_status formula(weft_tensor *const *in, int n, weft_tensor **out, int n_out, void *state)
{
    (void)n;
    (void)n_out;
    (void)state;
    out[0] = weft_relu(weft_add_scalar(in[0], 1));
    return out[0] ? WEFT_OK : weft_error_status();
}

static bool call(weft_compiled *compiled, weft_tensor *x)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *out = NULL;
    weft_status status = weft_compiled_call(compiled, &x, 1, &out, 1);

    weft_scope_close(scope);
    return status == WEFT_OK;
}

/* All ranks are threads of this process and counted together. */
WT_TEST_IN_WORLD(replay__that_ranks_agree_on_asks_malloc_for_nothing, w)
{
    weft_tensor *x = wt_spread(w, wt_whole(WEFT_F32, 1, 2 * wt_ranks() + 1, 3), "S(0)");
    weft_compiled *compiled = weft_compile(formula, NULL, (weft_compile_config){.fullgraph = true});
    int64_t calls;
    bool good = true;

    weft_ledger_close(w->ledger); /* it keeps a book that grows */
    for (int i = 0; i < WARM; i++) good &= call(compiled, x);
    WT_ALL(good);
    calls = malloc_count();
    for (int i = 0; i < CALLS; i++) good &= call(compiled, x);
    calls = malloc_count() - calls;
    WT_ALL(good);
    WT_EQ(calls, 0);
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    w->ledger = weft_ledger_open();
    weft_compiled_release(compiled);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "lists"); }
