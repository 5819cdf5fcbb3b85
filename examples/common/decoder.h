/*
 * decoder.h: a GPT-2 or Llama as options say, or as a config.json does; decoder.def has the
 * options.
 */
#pragma once

#include <weft/weft.h>

struct decoder {
    /* where no file describes it */
    int vocab, layers, width, heads, kv_heads, hidden;
    bool tied;
    double dropout;
    /* in any case */
    int dtype;     /* a weft_dtype */
    int recompute; /* a weft_recompute */
};

/* The sizes that decoder.def names as usual. */
extern const struct decoder decoder_usual;

/** What is wrong with the sizes together; NULL when nothing is. Not for several threads at once. */
const char *decoder_problem(const struct decoder *d);

/**
 * The model's configuration: what the file at `path` says, without one (NULL) the sizes. A GPT-2
 * that no file describes sees `context` tokens.
 */
weft_status decoder_gpt(const struct decoder *d, int context, const char *path,
                        weft_gpt_config *config);
weft_status decoder_llama(const struct decoder *d, const char *path, weft_llama_config *config);
