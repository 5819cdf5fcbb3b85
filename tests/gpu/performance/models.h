/* models.h: the models whose kernels docs/gpu-performance.md has. */
#pragma once

#include <weft/weft.h>

/** Sizes of a model and of the tokens of a step on each rank. */
struct model_sizes {
    const char *name;
    int64_t batch, context, width, heads, kv_heads, head_dim, hidden, vocab;
    int layers;
    weft_module *(*whole)(const struct model_sizes *s, int layers);
    /** What a rank of a tensor-parallel group has of one layer and of both ends, as plain tensors:
     *  `s` is cut already. */
    weft_status (*run_part)(const struct model_sizes *s);
};

extern const struct model_sizes models[];
extern const int model_count;

/** A rank's part of the sizes that tensor parallelism cuts; the first rank of uneven ones. */
struct model_sizes model_part(const struct model_sizes *s, int ranks);

weft_status run_gpt_part(const struct model_sizes *s);
weft_status run_llama_part(const struct model_sizes *s);
weft_status train_step(weft_module *model, const struct model_sizes *s);
/** [batch, context] of class numbers on the GPU. */
weft_tensor *tokens_of(const struct model_sizes *s, int64_t factor);
