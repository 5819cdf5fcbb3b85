/*
 * reference.h: a model of one's own beside files of what transformers computed with it
 * (golden/make_encoders.py): result, gradients, losses and weights after a few steps.
 */
#pragma once

#include <weft/weft.h>

#include "support/given.h"

/** Collectives of a training step with a mesh of several ranks; none otherwise. */
struct reference_count {
    int64_t forward, backward; /* of all kinds */
    int64_t optim;
};

struct reference_model {
    const char *folder; /* of tests/golden */
    const weft_weight_names *names;
    weft_module *(*make)(void);
    /** Logits, or with `loss` the mean loss, of the inputs in a file. */
    weft_tensor *(*call)(weft_module *m, weft_weights *inputs, bool loss);
};

/** The tensor of inputs with this name: as whole numbers, or in f64. */
weft_tensor *reference_numbers(weft_weights *inputs, const char *name);
weft_tensor *reference_reals(weft_weights *inputs, const char *name);

/** Under a plan over all ranks everything is as in the files, and a step sends so much. */
void reference_check(const struct reference_model *model, const weft_plan *plan,
                     struct reference_count count);
