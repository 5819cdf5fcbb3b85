/* kv_cache.h: what generation remembers of one attention or position layer (weft_module_cache). */
#pragma once

#include "nn/module.h"

/** Keys and values of the tokens seen so far, positions first so that a step is one run of rows. */
struct wf_kv_cache {
    int64_t room; /* tokens; 0: nothing is remembered */
    int64_t used;
    weft_tensor *k_lbgd, *v_lbgd; /* made by the first call */
};

/** WEFT_ERR_SHAPE unless `tokens` more fit, or nothing is remembered anyway. */
weft_status wf_kv_cache_check_room(const struct wf_kv_cache *cache, const char *layer,
                                   int64_t tokens);

/** Where tokens go is a number of the program, which no list has. */
void wf_kv_cache_leave_list(const struct wf_kv_cache *cache, const char *layer);

/** Write k and v [B,T,G,D] behind what is there; their tokens count when the call has succeeded. */
weft_status wf_kv_cache_append(struct wf_kv_cache *cache, weft_tensor *k, weft_tensor *v);

void wf_kv_cache_clear(struct wf_kv_cache *cache);

/** Tokens for which the layers of a tree have room; 0: nothing is remembered. */
int64_t wf_kv_cache_capacity(weft_module *m);

/** The cache of a layer that can have one, else NULL; part of the layer's payload. */
struct wf_kv_cache *wf_attention_kv_cache(weft_module *m);
struct wf_kv_cache *wf_position_cache(weft_module *m);
