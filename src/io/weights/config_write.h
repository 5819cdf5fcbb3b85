/* config_write.h: a model's config.json as it is written: key by key, refusing by name what a
 * reader would refuse. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/nn.h>

#include "base/text/json_writer.h"

struct wf_config_writer {
    struct wf_json_writer json; /* of the outermost object, or one in it */
    const char *path;           /* borrowed */
    char *text;
    size_t bytes;
    weft_status status; /* the first failure */
};

/** `config` NULL is refused at the end. */
void wf_config_write_begin(struct wf_config_writer *c, const char *path, const void *config);
/** Write the file, on rank 0. ranks: all of the world. fails: what was refused; WEFT_ERR_IO */
weft_status wf_config_write_end(struct wf_config_writer *c);

void wf_config_write_text(struct wf_config_writer *c, const char *key, const char *text);
/** The model's class in the transformers package. */
void wf_config_write_architecture(struct wf_config_writer *c, const char *name);
/** From 1 on. */
void wf_config_write_size(struct wf_config_writer *c, const char *key, int64_t size);
/** What is 0 means 4 times the width. */
void wf_config_write_hidden_size(struct wf_config_writer *c, const char *key, int64_t hidden,
                                 int64_t width);
/** A size as a number with a fraction, which it must not have. */
void wf_config_write_whole_number(struct wf_config_writer *c, const char *key, double size);
/** 0: null. */
void wf_config_write_optional_size(struct wf_config_writer *c, const char *key, int64_t size);
/** A row as weft_embedding_config's padding_idx; 0: null. */
void wf_config_write_padding_idx(struct wf_config_writer *c, const char *key, int64_t row);
void wf_config_write_bool(struct wf_config_writer *c, const char *key, bool value);
/** Refused outside of [least, most]. */
void wf_config_write_real(struct wf_config_writer *c, const char *key, double value, double least,
                          double most);
void wf_config_write_probability(struct wf_config_writer *c, const char *key, double value);
/** A norm's epsilon; 0 means `standard`. */
void wf_config_write_eps(struct wf_config_writer *c, const char *key, double value,
                         double standard);
void wf_config_write_activation(struct wf_config_writer *c, const char *key,
                                weft_activation_kind act);
void wf_config_write_dtype(struct wf_config_writer *c, weft_dtype dtype);

/** The first refusal counts. */
void wf_config_write_refuse(struct wf_config_writer *c, const char *key, const char *format, ...)
    WEFT_PRINTF(3, 4);

/** weft_NAME_config_write: what `write_model` puts. */
#define WF_CONFIG_WRITER(NAME, write_model)                                                        \
    weft_status weft_##NAME##_config_write(const weft_##NAME##_config *config, const char *path)   \
    {                                                                                              \
        struct wf_config_writer c;                                                                 \
                                                                                                   \
        wf_config_write_begin(&c, path, config);                                                   \
        if (config) write_model(&c, config);                                                       \
        return wf_config_write_end(&c);                                                            \
    }
