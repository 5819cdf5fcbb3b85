/* training.c: see the header. */
#include "support/training.h"

#include "support/bench.h"

weft_status bench_finish_step(const struct bench_training *t, weft_tensor *const *out)
{
    if (!out[0] || weft_backward(out[0]) != WEFT_OK) return weft_error_status();
    return weft_step(t->adam);
}

weft_status bench_train_gpt(weft_tensor *const *in, int n, weft_tensor **out, int n_out,
                            void *state)
{
    const struct bench_training *t = state;

    (void)n, (void)n_out;
    out[0] = weft_gpt_loss(t->model, in[0], in[1]);
    return bench_finish_step(t, out);
}

void bench_take_step(void *training)
{
    struct bench_training *t = training;
    weft_scope *scope = weft_scope_open();

    t->loss = weft_item(bench_call(t->compiled, t->function, t->in, 2, t));
    weft_scope_close(scope);
}

void bench_training_release(struct bench_training *t)
{
    weft_compiled_release(t->compiled);
    weft_optim_release(t->adam);
    weft_module_release(t->model);
}
