/* training.h: the training step of a model, for programs that measure it. */
#pragma once

#include <weft/weft.h>

struct bench_training {
    weft_module *model;
    weft_optim *adam;
    weft_tensor *in[2];               /* input and target */
    weft_compiled_function *function; /* one step of this struct, its state, on `in` */
    weft_compiled *compiled;          /* NULL: as it is */
    double loss;                      /* of the last step */
};

/** Backward from out[0], the loss, and the step of the optimizer. */
weft_status bench_finish_step(const struct bench_training *t, weft_tensor *const *out);
/** A function: the step of a GPT. */
weft_status bench_train_gpt(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                            void *state);

/** A step of a struct bench_training, for bench_steps. */
void bench_take_step(void *training);
/** Release the compiled step, the optimizer and the model. */
void bench_training_release(struct bench_training *t);
