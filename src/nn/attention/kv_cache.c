/*
 * kv_cache.c: keys and values of past tokens, for generation.
 *
 * Each attention has its own, laid out as its keys are, so heads that are split over ranks are
 * cached where they are. Attention reads the whole buffer, with a mask for what is unused: a step
 * of generation has the shapes of the one before, so its op plans are cached.
 */
#include "nn/attention/kv_cache.h"

#include <weft/ops.h>

#include "base/recorder.h"
#include "nn/layer_construction.h"

static const int positions_first[] = {1, 0, 2, 3};

void wf_kv_cache_clear(struct wf_kv_cache *cache)
{
    weft_release(cache->k_lbgd);
    weft_release(cache->v_lbgd);
    *cache = (struct wf_kv_cache){0};
}

/* Room like x [B,T,G,D] for `room` tokens. */
static weft_tensor *new_cache_tensor_like(weft_tensor *x, int64_t room)
{
    int64_t shape[] = {room, weft_size(x, 0), weft_size(x, 2), weft_size(x, 3)};
    weft_tensor *one = weft_slice(weft_permute(x, positions_first), 0, 0, 1);
    weft_tensor *all = weft_expand(one, shape, 4), *made;

    if (!all) return NULL;
    made = weft_empty_like(all, weft_tensor_device(x));
    return made ? weft_retain(made) : NULL;
}

static weft_status write_cache_rows(weft_tensor *room, int64_t at, weft_tensor *x)
{
    weft_tensor *rows = weft_slice(room, 0, at, at + weft_size(x, 1));

    return weft_copy_(rows, weft_permute(x, positions_first));
}

static weft_status alloc_kv_tensors(struct wf_kv_cache *cache, weft_tensor *k, weft_tensor *v)
{
    if (!cache->k_lbgd) cache->k_lbgd = new_cache_tensor_like(k, cache->room);
    if (!cache->v_lbgd) cache->v_lbgd = new_cache_tensor_like(v, cache->room);
    return cache->k_lbgd && cache->v_lbgd ? WEFT_OK : weft_error_status();
}

weft_status wf_kv_cache_check_room(const struct wf_kv_cache *cache, const char *layer,
                                   int64_t tokens)
{
    WF_NEED(!cache->room || cache->used + tokens <= cache->room, WEFT_ERR_SHAPE,
            "%s: %lld tokens behind %lld in a cache for %lld", layer, (long long)tokens,
            (long long)cache->used, (long long)cache->room);
    return WEFT_OK;
}

void wf_kv_cache_leave_list(const struct wf_kv_cache *cache, const char *layer)
{
    if (cache->room) wf_recorder_leave("%s: a cache counts its tokens on the host", layer);
}

weft_status wf_kv_cache_append(struct wf_kv_cache *cache, weft_tensor *k, weft_tensor *v)
{
    int64_t tokens;

    if (!k || !v) return weft_error_status();
    wf_kv_cache_leave_list(cache, "attention");
    tokens = weft_size(k, 1);
    WF_TRY(wf_kv_cache_check_room(cache, "attention", tokens));
    WF_TRY(alloc_kv_tensors(cache, k, v));
    WF_NEED(weft_size(k, 0) == weft_size(cache->k_lbgd, 1), WEFT_ERR_SHAPE,
            "attention: a batch of %lld, the cache was begun with %lld", (long long)weft_size(k, 0),
            (long long)weft_size(cache->k_lbgd, 1));
    WF_TRY(write_cache_rows(cache->k_lbgd, cache->used, k));
    return write_cache_rows(cache->v_lbgd, cache->used, v);
}

/* ---- all of a tree ---- */

static struct wf_kv_cache *kv_cache_of_module(weft_module *m)
{
    struct wf_kv_cache *cache = wf_attention_kv_cache(m);

    return cache ? cache : wf_position_cache(m);
}

/* The first that has room; NULL. */
static const struct wf_kv_cache *find_first_kv_cache(weft_module *m)
{
    const struct wf_kv_cache *cache = kv_cache_of_module(m);

    if (cache && !cache->room) cache = NULL;
    for (int i = 0; i < m->n_children && !cache; i++) cache = find_first_kv_cache(m->children[i]);
    return cache;
}

int64_t wf_kv_cache_capacity(weft_module *m)
{
    const struct wf_kv_cache *cache = find_first_kv_cache(m);

    return cache ? cache->room : 0;
}

static void set_cache_size_below(weft_module *m, int64_t room)
{
    struct wf_kv_cache *cache = kv_cache_of_module(m);

    if (cache) {
        wf_kv_cache_clear(cache);
        cache->room = room;
    }
    for (int i = 0; i < m->n_children; i++) set_cache_size_below(m->children[i], room);
}

static void rewind_caches_below(weft_module *m, int64_t tokens)
{
    struct wf_kv_cache *cache = kv_cache_of_module(m);

    if (cache && cache->used > tokens) cache->used = tokens;
    for (int i = 0; i < m->n_children; i++) rewind_caches_below(m->children[i], tokens);
}

weft_status weft_module_cache(weft_module *m, int64_t tokens)
{
    WF_NEED_GIVEN(m, "cache: the module is NULL");
    WF_NEED(tokens >= 0, WEFT_ERR_ARG, "cache: room for %lld tokens", (long long)tokens);
    set_cache_size_below(m, tokens);
    return WEFT_OK;
}

int64_t weft_module_cached(weft_module *m)
{
    const struct wf_kv_cache *cache = m ? find_first_kv_cache(m) : NULL;

    return cache ? cache->used : 0;
}

weft_status weft_module_cache_rewind(weft_module *m, int64_t tokens)
{
    WF_NEED(m && tokens >= 0 && tokens <= weft_module_cached(m), WEFT_ERR_ARG,
            "cache rewind: to %lld of %lld tokens", (long long)tokens,
            (long long)weft_module_cached(m));
    rewind_caches_below(m, tokens);
    return WEFT_OK;
}
