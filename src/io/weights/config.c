/* config.c: reading config.json, and refusing by name what it must not say. */
#include "io/weights/config.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array_grow.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/file_map.h"

enum { CONFIG_BYTES = 1 << 26 }; /* what is larger is another file */

/* Several times what the largest model has: what is beyond is a mistake, or meant to take all
 * memory. */
enum { MOST_LAYERS = 10000 };
static const double MOST_PARAMETERS = 1e13;

static bool read_config_item(struct wf_json_reader *r, const char *key, void *payload)
{
    struct wf_model_config *c = payload;
    struct wf_model_config_item item = {.type = wf_json_peek_type(r)};
    const char *from = r->at; /* after blanks */

    if (item.type == WF_JSON_STRING) {
        item.text = wf_json_read_string(r);
        if (!item.text) return false;
    } else {
        if (!wf_json_skip_value(r)) return false;
        item.text = wf_format("%.*s", (int)(r->at - from), from);
    }
    item.key = wf_strdup(key);
    c->items = wf_array_grow(c->items, c->count, sizeof *c->items);
    c->items[c->count++] = item;
    return true;
}

static void free_config_items(struct wf_model_config *c)
{
    for (int64_t i = 0; i < c->count; i++) {
        wf_free(c->items[i].key);
        wf_free(c->items[i].text);
    }
    wf_free(c->items);
    c->items = NULL;
    c->count = 0;
}

weft_status wf_model_config_open(struct wf_model_config *c, const char *path)
{
    struct wf_json_reader r;
    struct wf_file_map map;

    *c = (struct wf_model_config){.path = path};
    WF_NEED(path, WEFT_ERR_ARG, "config: the path is NULL");
    WF_TRY_LOCAL(wf_file_map(&map, path));
    wf_json_reader_init(&r, map.bytes ? map.bytes : "", map.size);
    if (map.size > CONFIG_BYTES)
        wf_json_reader_fail(&r, "%zu bytes are no config", map.size);
    else if (wf_json_read_object(&r, read_config_item, c))
        wf_json_reader_expect_end(&r);
    wf_file_unmap(&map);
    if (!r.failed) return WEFT_OK;
    free_config_items(c);
    return WF_FAIL(WEFT_ERR_IO, "%s: %s", path, r.problem);
}

weft_status wf_model_config_close(struct wf_model_config *c)
{
    for (int64_t i = 0; i < c->count && c->status == WEFT_OK; i++)
        if (!c->items[i].asked)
            WF_LOG(WF_LOG_WARN, "io", "%s: \"%s\" is not known here and not used", c->path,
                   c->items[i].key);
    free_config_items(c);
    return c->status;
}

void wf_config_refuse_key(struct wf_model_config *c, const char *key, const char *format, ...)
{
    char why[256];
    va_list args;

    if (c->status != WEFT_OK) return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    c->status = WF_FAIL(WEFT_ERR_ARG, "%s: \"%s\" %s", c->path, key, why);
}

static struct wf_model_config_item *find_config_item(struct wf_model_config *c, const char *key)
{
    for (int64_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].key, key) == 0) return &c->items[i];
    return NULL;
}

/* The value; NULL for a missing one and for null. */
static struct wf_model_config_item *find_value_and_mark_used(struct wf_model_config *c,
                                                             const char *key)
{
    struct wf_model_config_item *item = find_config_item(c, key);

    if (item) item->asked = true;
    return item && item->type != WF_JSON_NULL ? item : NULL;
}

static void refuse_wrong_type(struct wf_model_config *c, const struct wf_model_config_item *item,
                              const char *wanted)
{
    wf_config_refuse_key(c, item->key, "is %s, not %s", wf_json_type_name(item->type), wanted);
}

static int64_t parse_positive_size(struct wf_model_config *c,
                                   const struct wf_model_config_item *item)
{
    struct wf_json_reader r;
    int64_t size = 0;

    wf_json_reader_init(&r, item->text, strlen(item->text));
    if (item->type != WF_JSON_NUMBER || !wf_json_read_integer(&r, &size))
        refuse_wrong_type(c, item, "an integer");
    else if (size < 1 || size > INT32_MAX)
        wf_config_refuse_key(c, item->key, "is %lld", (long long)size);
    return size;
}

int64_t wf_config_read_size(struct wf_model_config *c, const char *key, int64_t standard)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);

    if (item) return parse_positive_size(c, item);
    if (!standard) wf_config_refuse_key(c, key, "is missing");
    return standard;
}

int64_t wf_config_read_optional_size(struct wf_model_config *c, const char *key)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);

    return item ? parse_positive_size(c, item) : 0;
}

int64_t wf_config_read_padding_idx(struct wf_model_config *c, const char *key, int64_t standard)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);
    struct wf_json_reader r;
    int64_t row = 0;

    if (!item) return find_config_item(c, key) ? 0 : standard;
    wf_json_reader_init(&r, item->text, strlen(item->text));
    if (item->type != WF_JSON_NUMBER || !wf_json_read_integer(&r, &row))
        refuse_wrong_type(c, item, "an integer");
    else if (row < -INT32_MAX || row > INT32_MAX)
        wf_config_refuse_key(c, item->key, "is %lld", (long long)row);
    return row ? row : WEFT_PADDING_ZERO;
}

double wf_config_read_real(struct wf_model_config *c, const char *key, double standard,
                           double least, double most)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);
    double value;

    if (!item) return standard;
    if (item->type != WF_JSON_NUMBER) refuse_wrong_type(c, item, "a number");
    value = wf_json_parse_double(item->text);
    if (value >= least && value <= most) return value;
    wf_config_refuse_key(c, key, "is %.40s; it must lie in [%g, %g]", item->text, least, most);
    return standard;
}

double wf_config_read_probability(struct wf_model_config *c, const char *key, double standard)
{
    return wf_config_read_real(c, key, standard, 0, 1);
}

double wf_config_read_eps(struct wf_model_config *c, const char *key, double standard)
{
    return wf_config_read_real(c, key, standard, WF_CONFIG_LEAST_EPS, 1);
}

int wf_config_read_layer_count(struct wf_model_config *c, const char *key)
{
    int64_t layers = wf_config_read_size(c, key, 0);

    if (layers > MOST_LAYERS)
        wf_config_refuse_key(c, key, "is %lld; at most %d are possible", (long long)layers,
                             MOST_LAYERS);
    return (int)layers;
}

void wf_config_check_model_size(struct wf_model_config *c, const char *key, double parameters)
{
    if (parameters > MOST_PARAMETERS)
        wf_config_refuse_key(c, key,
                             "and the other sizes make a model of %g parameters; at most %g "
                             "are possible",
                             parameters, MOST_PARAMETERS);
}

bool wf_config_read_bool(struct wf_model_config *c, const char *key, bool standard)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);

    if (!item) return standard;
    if (item->type != WF_JSON_TRUE && item->type != WF_JSON_FALSE)
        refuse_wrong_type(c, item, "true or false");
    return item->type == WF_JSON_TRUE;
}

const char *wf_config_read_text(struct wf_model_config *c, const char *key, const char *standard)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);

    if (item && item->type != WF_JSON_STRING) refuse_wrong_type(c, item, "a string");
    return item ? item->text : standard;
}

static const struct {
    const char *name;
    weft_activation_kind kind;
} activations[] = {
    {"gelu", WEFT_GELU}, {"gelu_new", WEFT_GELU_TANH}, {"gelu_pytorch_tanh", WEFT_GELU_TANH},
    {"relu", WEFT_RELU}, {"silu", WEFT_SILU},          {"swish", WEFT_SILU}};

weft_activation_kind wf_config_read_activation(struct wf_model_config *c, const char *key,
                                               const char *standard)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);
    const char *name = item ? item->text : standard;

    if (item && item->type != WF_JSON_STRING) refuse_wrong_type(c, item, "a string");
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (strcmp(activations[i].name, name) == 0) return activations[i].kind;
    wf_config_refuse_key(c, key, "is \"%.80s\", an activation that is not supported", name);
    return WEFT_GELU;
}

const char *wf_config_activation_name(weft_activation_kind kind)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++)
        if (activations[i].kind == kind) return activations[i].name;
    return NULL;
}

void wf_config_require_bool(struct wf_model_config *c, const char *key, bool value)
{
    if (wf_config_read_bool(c, key, value) != value)
        wf_config_refuse_key(c, key, "is %s, which is not supported", value ? "false" : "true");
}

void wf_config_require_real(struct wf_model_config *c, const char *key, double value)
{
    double got = wf_config_read_real(c, key, value, -DBL_MAX, DBL_MAX);

    if (got != value) wf_config_refuse_key(c, key, "is %g, which is not supported", got);
}

void wf_config_require_text(struct wf_model_config *c, const char *key, const char *value)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);

    if (!item) return;
    if (item->type != WF_JSON_STRING)
        refuse_wrong_type(c, item, "a string");
    else if (strcmp(item->text, value) != 0)
        wf_config_refuse_key(c, key, "is \"%.80s\", not \"%s\"", item->text, value);
}

bool wf_config_open_object(struct wf_model_config *inner, struct wf_model_config *c,
                           const char *key)
{
    const struct wf_model_config_item *item = find_value_and_mark_used(c, key);
    struct wf_json_reader r;

    if (!item) return false;
    *inner = (struct wf_model_config){.path = c->path};
    wf_json_reader_init(&r, item->text, strlen(item->text));
    if (item->type != WF_JSON_OBJECT)
        refuse_wrong_type(c, item, "an object");
    else
        wf_json_read_object(&r, read_config_item, inner); /* it was read before, so it can be */
    return true;
}

void wf_config_close_object(struct wf_model_config *inner, struct wf_model_config *c)
{
    weft_status status = wf_model_config_close(inner);

    if (c->status == WEFT_OK) c->status = status;
}

void wf_config_ignore_keys(struct wf_model_config *c, const char *const *keys)
{
    for (int i = 0; keys[i]; i++) find_value_and_mark_used(c, keys[i]);
}
