/*
 * test_clipping.c: a whole step whose gradients are clipped, by their norm as a tensor or each
 * element by itself, is one list, with the bits of the step as it is.
 */
/* ranks: 1 2 3 4 */
/* mpi: 2 */
#include <math.h>
#include <string.h>

#include "as_immediate.h"
#include "small_gpt.h"
#include "support/near_modules.h"

enum { STEPS = 5 };

enum clipping { BY_NORM, BY_LARGEST, BY_VALUE, NUMBER };

struct training {
    weft_module *gpt;
    weft_optim *optim;
    enum clipping clipping;
};

/* The loss and the norm. */
FUNCTION(clipped_step)
{
    struct training *t = state;
    double norm;

    out[0] = weft_gpt_loss(t->gpt, in[0], in[1]);
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    out[1] = out[0];
    if (t->clipping == BY_VALUE) {
        if (weft_clip_grad_value(t->gpt, 1e-3) != WEFT_OK) return weft_error_status();
    } else if (t->clipping == NUMBER) {
        if (weft_clip_grad_norm(t->gpt, 0.05, &norm) != WEFT_OK) return weft_error_status();
    } else {
        out[1] = weft_clip_grad_norm_tensor(t->gpt, t->clipping == BY_NORM ? 0.05 : 0.01,
                                            t->clipping == BY_NORM ? 2 : INFINITY);
        if (!out[1]) return weft_error_status();
    }
    return weft_step(t->optim);
}

static struct training new_training(struct wt_world *w, enum clipping clipping)
{
    struct training t = {.clipping = clipping};

    t.gpt = given_small_gpt(w, 0);
    t.optim = wt_own(weft_sgd(t.gpt, (weft_sgd_config){.lr = 0.5, .momentum = 0.9}));
    return t;
}

static void take_step(weft_compiled *compiled, struct training *t, int step, double value[2])
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *in[] = {given_gpt_tokens(7 + step, 3), given_gpt_tokens(5, step)},
                *out[2] = {NULL, NULL};

    WT_ALL((compiled ? weft_compiled_call(compiled, in, 2, out, 2)
                     : clipped_step(in, 2, out, 2, t)) == WEFT_OK);
    for (int i = 0; i < 2; i++) value[i] = weft_item(out[i]);
    weft_scope_close(scope);
}

/* SGD, to which the size of gradients matters; the norms are above the limit. */
WT_TEST_TIMES_IN_WORLD(clipped_training__is_bit_by_bit_as_immediate, w, i, 2 * NUMBER)
{
    enum clipping clipping = (enum clipping)(i / 2);
    struct training plain = new_training(w, clipping), t = new_training(w, clipping);
    weft_compiled *compiled = wt_compile(clipped_step, &t, i % 2);

    for (int step = 0; step < STEPS; step++) {
        double want[2], got[2];

        take_step(NULL, &plain, step, want);
        take_step(compiled, &t, step, got);
        wt_note("step %d: %s; norm %g", step, weft_compiled_reason(compiled), got[1]);
        WT_EQ(memcmp(got, want, sizeof got), 0);
        WT_ALL(clipping == BY_VALUE || want[1] > (clipping == BY_NORM ? 0.05 : 0.01));
        WT_NEAR_PARAMETERS(t.gpt, plain.gpt, WT_EXACT);
    }
    WT_EQ(weft_compiled_get_counts(compiled).captures, 1);
    WT_EQ(weft_compiled_get_counts(compiled).replays, STEPS - 1);
    WT_EQ(weft_compiled_get_counts(compiled).plain, 0);
}

/* The norm as a number breaks a whole list, and says what does not. */
WT_TEST_IN_WORLD(norm_as_a_number__is_a_break, w)
{
    struct training t = new_training(w, NUMBER);
    weft_compiled *compiled = wt_compile(clipped_step, &t, true);
    weft_tensor *in[] = {given_gpt_tokens(7, 3), given_gpt_tokens(5, 0)}, *out[2];

    WT_FAILS(weft_compiled_call(compiled, in, 2, out, 2), WEFT_ERR_STATE,
             "weft_clip_grad_norm_tensor leaves it a tensor");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "clipping"); }
