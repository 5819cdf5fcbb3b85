/* config.h: a model's config.json: the values of its outermost object, asked for by key. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/nn.h>

#include "base/error.h"
#include "io/json/json_reader.h"

/** What a norm's epsilon may be at least. */
#define WF_CONFIG_LEAST_EPS 1e-30

struct wf_model_config {
    const char *path; /* borrowed */
    struct wf_model_config_item {
        char *key, *text; /* a string's characters, else the value as it is written */
        enum wf_json_type type;
        bool asked;
    } * items;
    int64_t count;
    weft_status status; /* the first failure; later questions do nothing */
};

/** fails: WEFT_ERR_NOT_FOUND, WEFT_ERR_IO */
weft_status wf_model_config_open(struct wf_model_config *c, const char *path);

/** Log the keys that were not used, and close. gives: the first failure */
weft_status wf_model_config_close(struct wf_model_config *c);

/* Values: `standard` is what a missing key or null means; without (0, NULL) the key must be there.
 */
int64_t wf_config_read_size(struct wf_model_config *c, const char *key, int64_t standard);
/** null and missing are 0. */
int64_t wf_config_read_optional_size(struct wf_model_config *c, const char *key);
/** A row as weft_embedding_config's padding_idx: null is none, and a missing key `standard`. */
int64_t wf_config_read_padding_idx(struct wf_model_config *c, const char *key, int64_t standard);
/** Refused outside of [least, most]. */
double wf_config_read_real(struct wf_model_config *c, const char *key, double standard,
                           double least, double most);
/** A probability, and a norm's epsilon, which is above 0. */
double wf_config_read_probability(struct wf_model_config *c, const char *key, double standard);
double wf_config_read_eps(struct wf_model_config *c, const char *key, double standard);
/** How many blocks a model has; the key must be there. */
int wf_config_read_layer_count(struct wf_model_config *c, const char *key);
/** Refuse a model of more parameters than any has, before memory is taken for one; `key` is the one
 * that is named. */
void wf_config_check_model_size(struct wf_model_config *c, const char *key, double parameters);
bool wf_config_read_bool(struct wf_model_config *c, const char *key, bool standard);
/** Borrowed from the config, or `standard`. */
const char *wf_config_read_text(struct wf_model_config *c, const char *key, const char *standard);
weft_activation_kind wf_config_read_activation(struct wf_model_config *c, const char *key,
                                               const char *standard);
/** The first name of an activation, NULL: there is none. */
const char *wf_config_activation_name(weft_activation_kind kind);

/** The key is missing, null or has this value; anything else is refused as not supported. */
void wf_config_require_bool(struct wf_model_config *c, const char *key, bool value);
void wf_config_require_real(struct wf_model_config *c, const char *key, double value);
void wf_config_require_text(struct wf_model_config *c, const char *key, const char *value);

/** An object that is a value, as a config of its own; false when it is missing or null. */
bool wf_config_open_object(struct wf_model_config *inner, struct wf_model_config *c,
                           const char *key);
/** Close it; its failure is the outer one's. */
void wf_config_close_object(struct wf_model_config *inner, struct wf_model_config *c);

/** Keys that say nothing about what is computed; ended by NULL. */
void wf_config_ignore_keys(struct wf_model_config *c, const char *const *keys);

/** Refuse: records a failure that names file and key. */
void wf_config_refuse_key(struct wf_model_config *c, const char *key, const char *format, ...)
    WEFT_PRINTF(3, 4);

/** weft_NAME_config_read: what `read_model` asks, put into *config when nothing is refused. */
#define WF_CONFIG_READER(NAME, read_model)                                                         \
    weft_status weft_##NAME##_config_read(weft_##NAME##_config *config, const char *path)          \
    {                                                                                              \
        weft_##NAME##_config read = {0};                                                           \
        struct wf_model_config c;                                                                  \
                                                                                                   \
        WF_NEED(config, WEFT_ERR_ARG, "config: nowhere to put it");                                \
        WF_TRY(wf_model_config_open(&c, path));                                                    \
        read_model(&read, &c);                                                                     \
        WF_TRY(wf_model_config_close(&c));                                                         \
        *config = read;                                                                            \
        return WEFT_OK;                                                                            \
    }
