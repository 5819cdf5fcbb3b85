/*
 * recompute.c: part of a forward whose inner results are made again in backward, with the random
 * numbers it drew the first time.
 */
#include <weft/autograd.h>
#include <weft/random.h>

#include "nn/layer.h"

struct replay {
    wf_part *part;
    void *payload; /* of the part, which belongs to a module and outlives the tape */
    bool again;
    unsigned char state[WEFT_GENERATOR_BYTES]; /* of the current generator, before the first run */
};

static weft_tensor *run(weft_tensor *const *in, int n, void *payload)
{
    struct replay *replay = payload;
    weft_generator *g = weft_generator_current();
    unsigned char now[WEFT_GENERATOR_BYTES];
    weft_tensor *out;

    weft_generator_state(g, replay->again ? now : replay->state);
    if (replay->again) WF_TRY_PTR(weft_generator_set_state(g, replay->state));
    out = replay->part(in, n, replay->payload);
    if (replay->again) WF_TRY_PTR(weft_generator_set_state(g, now));
    replay->again = true;
    return out;
}

weft_tensor *wf_recomputed(wf_part *part, weft_tensor *const *in, int n, void *payload)
{
    struct replay *replay = WF_NEW(struct replay);

    *replay = (struct replay){.part = part, .payload = payload};
    return weft_recomputed(run, in, n, replay, wf_free);
}
