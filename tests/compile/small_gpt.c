/* small_gpt.c: the model and its tokens. */
#include "small_gpt.h"

static weft_module *new_small_gpt(struct wt_world *w, double dropout, bool tied)
{
    weft_module *gpt;

    weft_manual_seed(5);
    gpt = wt_own(weft_gpt((weft_gpt_config){.vocab = SMALL_GPT_VOCAB,
                                            .context = SMALL_GPT_CONTEXT,
                                            .width = 24,
                                            .heads = 6,
                                            .layers = 2,
                                            .act = WEFT_GELU_TANH,
                                            .dropout = dropout,
                                            .tied = tied,
                                            .dtype = WEFT_F32}));
    WT_ALL(weft_parallelize_module(gpt, w->mesh, weft_gpt_plan()) == WEFT_OK);
    return gpt;
}

weft_module *given_small_gpt(struct wt_world *w, double dropout)
{
    return new_small_gpt(w, dropout, false);
}

weft_module *given_tied_small_gpt(struct wt_world *w, double dropout)
{
    return new_small_gpt(w, dropout, true);
}

weft_tensor *given_gpt_tokens(int64_t step, int64_t start)
{
    int64_t values[SMALL_GPT_BATCH * SMALL_GPT_CONTEXT],
        shape[] = {SMALL_GPT_BATCH, SMALL_GPT_CONTEXT};

    for (int64_t i = 0; i < SMALL_GPT_BATCH * SMALL_GPT_CONTEXT; i++)
        values[i] = (step * i * i + start) % SMALL_GPT_VOCAB;
    return weft_from_data(WEFT_I64, shape, 2, values);
}
