/* embedding.c: rows of a table, by index and by position. */
#include <weft/ops.h>

#include "nn/attention/kv_cache.h"
#include "nn/layer_construction.h"

/* ---- by index ---- */

struct embedding {
    struct wf_features features;
    weft_embedding_options options;
};

static weft_tensor *embedding_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    const struct embedding *e = m->payload;

    (void)n;
    return weft_embedding_with(m->parameters[0].tensor, inputs[0], e->options);
}

const weft_module_class wf_class_embedding = {
    .type = "embedding", .forward = embedding_forward, .free = wf_free};

static weft_status add_embedding_table(weft_module *m, const weft_embedding_config *c)
{
    int64_t shape[] = {c->rows, c->width};
    int64_t row = c->padding_idx == WEFT_PADDING_ZERO ? 0 : c->padding_idx;

    WF_NEED(row >= -c->rows && row < c->rows, WEFT_ERR_ARG,
            "embedding: padding_idx is %lld; there are %lld rows", (long long)row,
            (long long)c->rows);
    WF_TRY(wf_parameter_add_normal(m, "weight", c->dtype, shape, 2, c->std > 0 ? c->std : 1));
    if (c->padding_idx == 0) return WEFT_OK;
    return wf_parameter_zero_row(m, row < 0 ? row + c->rows : row);
}

weft_module *weft_embedding_new(weft_embedding_config config)
{
    struct embedding *e;
    weft_module *m;

    WF_TRY_PTR(wf_check_positive_size("embedding", "rows", config.rows));
    WF_TRY_PTR(wf_check_positive_size("embedding", "width", config.width));
    m = wf_layer_new(&wf_class_embedding, sizeof *e);
    e = m->payload;
    e->features = (struct wf_features){.weight_out = 1, .weight_in = 0, .output_dim = -1};
    e->options.padding_idx = config.padding_idx;
    m->features = &e->features;
    return wf_layer_finish(m, add_embedding_table(m, &config));
}

/* ---- by position ---- */

static weft_tensor *position_embedding_forward(weft_module *m, weft_tensor *const *inputs, int n)
{
    weft_tensor *x_btd = inputs[0], *table_ld = m->parameters[0].tensor, *y_btd;
    struct wf_kv_cache *cache = m->payload;
    int64_t first = cache->used, end;

    WF_NEED_PTR(weft_ndim(x_btd) >= 2, WEFT_ERR_SHAPE, "position embedding: the input has %d dims",
                weft_ndim(x_btd));
    end = first + weft_size(x_btd, -2);
    WF_NEED_PTR(end <= weft_size(table_ld, 0), WEFT_ERR_SHAPE,
                "position embedding: %lld positions, the table has %lld", (long long)end,
                (long long)weft_size(table_ld, 0));
    WF_TRY_PTR(wf_kv_cache_check_room(cache, "position embedding", end - first));
    wf_kv_cache_leave_list(cache, "position embedding");
    y_btd = weft_add(x_btd, n > 1 ? weft_embedding(table_ld, inputs[1])
                                  : weft_slice(table_ld, 0, first, end));
    if (y_btd && cache->room) cache->used = end;
    return y_btd;
}

const weft_module_class wf_class_position = {.type = "position embedding",
                                             .forward = position_embedding_forward,
                                             .free = wf_free,
                                             .optional = 1};

struct wf_kv_cache *wf_position_cache(weft_module *m)
{
    return m->kind == &wf_class_position ? m->payload : NULL;
}

weft_module *weft_position_new(weft_position_config config)
{
    int64_t shape[] = {config.length, config.width};
    weft_module *m;

    WF_TRY_PTR(wf_check_positive_size("position embedding", "length", config.length));
    WF_TRY_PTR(wf_check_positive_size("position embedding", "width", config.width));
    m = wf_layer_new(&wf_class_position, sizeof(struct wf_kv_cache));
    return wf_layer_finish(m, wf_parameter_add_normal(m, "weight", config.dtype, shape, 2,
                                                      config.std > 0 ? config.std : 1));
}
