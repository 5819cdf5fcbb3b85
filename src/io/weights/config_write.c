/* config_write.c: writing config.json. */
#include "io/weights/config_write.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/agree_on_status.h"
#include "io/file_write.h"
#include "io/weights/config.h"

void wf_config_write_begin(struct wf_config_writer *c, const char *path, const void *config)
{
    *c = (struct wf_config_writer){.path = path};
    c->json.out = open_memstream(&c->text, &c->bytes);
    if (!c->json.out) WF_DIE("no memory for a config");
    if (!path || !config)
        c->status = WF_FAIL(WEFT_ERR_ARG, "config: %s", path ? "nothing to write" : "no path");
    wf_json_begin_container(&c->json, NULL, '{');
}

static weft_status write_config_file(const struct wf_config_writer *c)
{
    WF_TRY(wf_agree_status(c->status));
    WF_TRY(wf_agree_same_number("config: what is written", wf_hash_bytes(c->text, c->bytes)));
    return wf_agree_status(
        weft_world_rank() == 0 ? wf_file_write_atomically(c->path, c->text, c->bytes) : WEFT_OK);
}

weft_status wf_config_write_end(struct wf_config_writer *c)
{
    weft_status status;

    wf_json_end_container(&c->json, '}');
    fclose(c->json.out);
    status = write_config_file(c);
    wf_free(c->text);
    return status;
}

void wf_config_write_refuse(struct wf_config_writer *c, const char *key, const char *format, ...)
{
    char why[200];
    va_list args;

    if (c->status != WEFT_OK) return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    c->status = WF_FAIL(WEFT_ERR_ARG, "%s: \"%s\" %s", c->path, key, why);
}

void wf_config_write_text(struct wf_config_writer *c, const char *key, const char *text)
{
    wf_json_write_string(&c->json, key, text);
}

void wf_config_write_architecture(struct wf_config_writer *c, const char *name)
{
    wf_json_begin_container(&c->json, "architectures", '[');
    wf_json_write_string(&c->json, NULL, name);
    wf_json_end_container(&c->json, ']');
}

void wf_config_write_size(struct wf_config_writer *c, const char *key, int64_t size)
{
    if (size < 1 || size > INT32_MAX) wf_config_write_refuse(c, key, "is %lld", (long long)size);
    wf_json_write_int(&c->json, key, size);
}

void wf_config_write_hidden_size(struct wf_config_writer *c, const char *key, int64_t hidden,
                                 int64_t width)
{
    if (width < 0 || width > INT32_MAX) width = 0; /* refused under its own key */
    wf_config_write_size(c, key, hidden ? hidden : 4 * width);
}

void wf_config_write_whole_number(struct wf_config_writer *c, const char *key, double size)
{
    if (size >= 1 && size <= INT32_MAX && size == floor(size))
        wf_json_write_int(&c->json, key, (int64_t)size);
    else
        wf_config_write_refuse(c, key, "is %g", size);
}

void wf_config_write_optional_size(struct wf_config_writer *c, const char *key, int64_t size)
{
    if (size)
        wf_config_write_size(c, key, size);
    else
        wf_json_write_null(&c->json, key);
}

void wf_config_write_padding_idx(struct wf_config_writer *c, const char *key, int64_t row)
{
    if (row == 0) {
        wf_json_write_null(&c->json, key);
        return;
    }
    if (row == WEFT_PADDING_ZERO) row = 0;
    if (row < -INT32_MAX || row > INT32_MAX)
        wf_config_write_refuse(c, key, "is %lld", (long long)row);
    wf_json_write_int(&c->json, key, row);
}

void wf_config_write_bool(struct wf_config_writer *c, const char *key, bool value)
{
    wf_json_write_bool(&c->json, key, value);
}

void wf_config_write_real(struct wf_config_writer *c, const char *key, double value, double least,
                          double most)
{
    if (!(value >= least && value <= most))
        wf_config_write_refuse(c, key, "is %g; it must lie in [%g, %g]", value, least, most);
    wf_json_write_exact_real(&c->json, key, value);
}

void wf_config_write_probability(struct wf_config_writer *c, const char *key, double value)
{
    wf_config_write_real(c, key, value, 0, 1);
}

void wf_config_write_eps(struct wf_config_writer *c, const char *key, double value, double standard)
{
    wf_config_write_real(c, key, value == 0 ? standard : value, WF_CONFIG_LEAST_EPS, 1);
}

void wf_config_write_activation(struct wf_config_writer *c, const char *key,
                                weft_activation_kind act)
{
    const char *name = wf_config_activation_name(act);

    if (!name) wf_config_write_refuse(c, key, "has no word for activation %d", (int)act);
    wf_json_write_string(&c->json, key, name ? name : "");
}

void wf_config_write_dtype(struct wf_config_writer *c, weft_dtype dtype)
{
    static const char *const names[WEFT_DTYPE_COUNT] = {[WEFT_F32] = "float32",
                                                        [WEFT_F64] = "float64",
                                                        [WEFT_BF16] = "bfloat16",
                                                        [WEFT_F16] = "float16"};
    const char *name = (unsigned)dtype < WEFT_DTYPE_COUNT ? names[dtype] : NULL;

    if (!name) wf_config_write_refuse(c, "dtype", "has no word for dtype %d", (int)dtype);
    wf_json_write_string(&c->json, "dtype", name ? name : "");
}
