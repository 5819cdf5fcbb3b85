/* models.c: sizes, and one step of each model. */
#include "models.h"

#include <stdlib.h>

static weft_module *whole_gpt(const struct model_sizes *s, int layers)
{
    return weft_gpt((weft_gpt_config){.vocab = s->vocab,
                                      .context = s->context,
                                      .width = s->width,
                                      .heads = s->heads,
                                      .layers = layers,
                                      .act = WEFT_GELU_TANH,
                                      .dtype = WEFT_BF16});
}

static weft_module *whole_llama(const struct model_sizes *s, int layers)
{
    return weft_llama((weft_llama_config){.vocab = s->vocab,
                                          .width = s->width,
                                          .heads = s->heads,
                                          .kv_heads = s->kv_heads,
                                          .head_dim = s->head_dim,
                                          .hidden = s->hidden,
                                          .layers = layers,
                                          .dtype = WEFT_BF16});
}

const struct model_sizes models[] = {
    {"GPT-2 124M", 8, 1024, 768, 12, 12, 64, 3072, 50257, 12, whole_gpt, run_gpt_part},
    {"Llama 8B", 1, 4096, 4096, 32, 8, 128, 14336, 128256, 32, whole_llama, run_llama_part}};
const int model_count = sizeof models / sizeof *models;

static int64_t part(int64_t n, int ranks) { return (n + ranks - 1) / ranks; }

struct model_sizes model_part(const struct model_sizes *s, int ranks)
{
    struct model_sizes cut = *s;

    cut.heads = part(s->heads, ranks);
    cut.kv_heads = part(s->kv_heads, ranks);
    cut.hidden = part(s->hidden, ranks);
    cut.vocab = part(s->vocab, ranks);
    return cut;
}

weft_tensor *tokens_of(const struct model_sizes *s, int64_t factor)
{
    int64_t shape[] = {s->batch, s->context}, n = s->batch * s->context;
    int64_t *values = malloc((size_t)n * sizeof *values);
    weft_tensor *t;

    if (!values) abort();
    for (int64_t i = 0; i < n; i++) values[i] = i * factor % s->vocab;
    t = weft_from_data(WEFT_I64, shape, 2, values);
    free(values);
    return t;
}

weft_status train_step(weft_module *model, const struct model_sizes *s)
{
    return weft_backward(weft_gpt_loss(model, tokens_of(s, 7919), tokens_of(s, 104729)));
}

weft_status run_llama_part(const struct model_sizes *s)
{
    weft_module *model = whole_llama(s, 1);
    weft_status status = model ? train_step(model, s) : weft_error_status();

    weft_module_release(model);
    return status;
}

/* ---- GPT: heads that are cut keep their size, which weft_gpt's width would not ---- */

static weft_tensor *leaf(int ndim, int64_t a, int64_t b)
{
    weft_tensor *t = weft_empty(WEFT_BF16, (int64_t[]){a, b}, ndim);

    return weft_set_requires_grad(t, true);
}

static weft_tensor *linear(weft_tensor *x, int64_t to, int64_t from, bool bias)
{
    return weft_linear(x, leaf(2, to, from), bias ? leaf(1, to, 0) : NULL, 1);
}

static weft_tensor *norm(weft_tensor *x, int64_t width)
{
    return weft_layer_norm(x, leaf(1, width, 0), leaf(1, width, 0), 1e-5);
}

static weft_tensor *attention(weft_tensor *x, const struct model_sizes *s)
{
    int64_t width = s->heads * s->head_dim;
    int64_t packed[] = {s->batch, s->context, 3, s->heads, s->head_dim};
    int64_t flat[] = {s->batch, s->context, width};

    x = weft_reshape(linear(x, 3 * width, s->width, true), packed, 5);
    x = weft_reshape(weft_attention_packed(x, true, 0), flat, 3);
    return linear(x, s->width, width, true);
}

weft_status run_gpt_part(const struct model_sizes *s)
{
    weft_tensor *x = weft_embedding(leaf(2, s->vocab, s->width), tokens_of(s, 7919));

    x = weft_add(x, leaf(2, s->context, s->width));
    x = weft_add(x, attention(norm(x, s->width), s));
    x = weft_add(x, linear(weft_gelu_tanh(linear(norm(x, s->width), s->hidden, s->width, true)),
                           s->width, s->hidden, true));
    x = linear(norm(x, s->width), s->vocab, s->width, false);
    return weft_backward(weft_cross_entropy(x, tokens_of(s, 104729), -100));
}
