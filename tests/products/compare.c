/* compare.c: see the header. */
#include "products/compare.h"

weft_tensor *vector(int which, int64_t n)
{
    return weft_reshape(wt_whole(WEFT_F32, which, 1, n), &n, 1);
}

weft_tensor *leaf(weft_tensor *t) { return weft_set_requires_grad(t, true); }

/* With the gradients of the elements' sum. */
weft_tensor *compare(struct wt_world *w, product *f, weft_tensor *const *whole,
                     const char *const *layouts, int n, int wanted)
{
    weft_tensor *one[4] = {NULL}, *many[4] = {NULL}, *y, *want;

    for (int i = 0; i < n; i++) {
        one[i] = weft_detach(whole[i]);
        many[i] = wt_spread(w, weft_detach(whole[i]), layouts[i]);
        if (i >= wanted) continue;
        leaf(one[i]);
        leaf(many[i]);
    }
    want = f(one);
    weft_ledger_reset(w->ledger);
    y = f(many);
    WT_ALL(y != NULL);
    LIKE(y, want);
    if (!wanted) return y;
    WT_EQ(weft_backward(weft_sum_all(want)), WEFT_OK);
    WT_EQ(weft_backward(weft_sum_all(y)), WEFT_OK);
    for (int i = 0; i < wanted; i++) {
        wt_note("gradient %d", i);
        WT_ALL(weft_grad(many[i]) != NULL);
        LIKE(weft_grad(many[i]), weft_grad(one[i]));
    }
    return y;
}
