/* decoder.c: see decoder.h. */
#include "decoder.h"

#include <stdio.h>

const struct decoder decoder_usual = {.vocab = 256, .layers = 6, .width = 384, .heads = 6};

/* What wants to be a multiple of what. */
static const char *no_multiple(const char *what, int size, const char *of, int unit)
{
    static char text[96];

    if (unit == 0 || size % unit == 0) return NULL;
    snprintf(text, sizeof text, "--%s %d is no multiple of --%s %d", what, size, of, unit);
    return text;
}

const char *decoder_problem(const struct decoder *d)
{
    const char *problem = no_multiple("width", d->width, "heads", d->heads);

    return problem ? problem : no_multiple("heads", d->heads, "kv-heads", d->kv_heads);
}

weft_status decoder_gpt(const struct decoder *d, int context, const char *path,
                        weft_gpt_config *config)
{
    weft_status status = WEFT_OK;

    *config = (weft_gpt_config){.vocab = d->vocab,
                                .context = context,
                                .width = d->width,
                                .heads = d->heads,
                                .layers = d->layers,
                                .hidden = d->hidden,
                                .act = WEFT_GELU_TANH,
                                .dropout = d->dropout,
                                .tied = d->tied};
    if (path) status = weft_gpt_config_read(config, path);
    config->dtype = (weft_dtype)d->dtype;
    config->recompute = (weft_recompute)d->recompute;
    return status;
}

weft_status decoder_llama(const struct decoder *d, const char *path, weft_llama_config *config)
{
    weft_status status = WEFT_OK;

    *config = (weft_llama_config){.vocab = d->vocab,
                                  .width = d->width,
                                  .heads = d->heads,
                                  .kv_heads = d->kv_heads,
                                  .layers = d->layers,
                                  .hidden = d->hidden,
                                  .tied = d->tied};
    if (path) status = weft_llama_config_read(config, path);
    config->dtype = (weft_dtype)d->dtype;
    config->recompute = (weft_recompute)d->recompute;
    return status;
}
