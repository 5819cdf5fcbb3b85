/* config_write.c: writing config.json. */
#include "io/config_write.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/agree.h"
#include "io/config.h"
#include "io/file_write.h"

void wf_config_begin(struct wf_config_out *c, const char *path, const void *config)
{
    *c = (struct wf_config_out){.path = path};
    c->json.out = open_memstream(&c->text, &c->bytes);
    if (!c->json.out) WF_DIE("no memory for a config");
    if (!path || !config)
        c->status = WF_FAIL(WEFT_ERR_ARG, "config: %s", path ? "nothing to write" : "no path");
    wf_json_open(&c->json, NULL, '{');
}

static weft_status write_file(const struct wf_config_out *c)
{
    WF_TRY(wf_agree(c->status));
    WF_TRY(wf_agree_same("config: what is written", wf_hash_bytes(c->text, c->bytes)));
    return wf_agree(weft_world_rank() == 0 ? wf_file_write(c->path, c->text, c->bytes) : WEFT_OK);
}

weft_status wf_config_end(struct wf_config_out *c)
{
    weft_status status;

    wf_json_close(&c->json, '}');
    fclose(c->json.out);
    status = write_file(c);
    wf_free(c->text);
    return status;
}

void wf_config_refuse_value(struct wf_config_out *c, const char *key, const char *format, ...)
{
    char why[200];
    va_list args;

    if (c->status != WEFT_OK) return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    c->status = WF_FAIL(WEFT_ERR_ARG, "%s: \"%s\" %s", c->path, key, why);
}

void wf_config_put_text(struct wf_config_out *c, const char *key, const char *text)
{
    wf_json_text(&c->json, key, text);
}

void wf_config_put_architecture(struct wf_config_out *c, const char *name)
{
    wf_json_open(&c->json, "architectures", '[');
    wf_json_text(&c->json, NULL, name);
    wf_json_close(&c->json, ']');
}

void wf_config_put_size(struct wf_config_out *c, const char *key, int64_t size)
{
    if (size < 1 || size > INT32_MAX) wf_config_refuse_value(c, key, "is %lld", (long long)size);
    wf_json_int(&c->json, key, size);
}

void wf_config_put_hidden(struct wf_config_out *c, const char *key, int64_t hidden, int64_t width)
{
    if (width < 0 || width > INT32_MAX) width = 0; /* refused under its own key */
    wf_config_put_size(c, key, hidden ? hidden : 4 * width);
}

void wf_config_put_whole(struct wf_config_out *c, const char *key, double size)
{
    if (size >= 1 && size <= INT32_MAX && size == floor(size))
        wf_json_int(&c->json, key, (int64_t)size);
    else
        wf_config_refuse_value(c, key, "is %g", size);
}

void wf_config_put_optional_size(struct wf_config_out *c, const char *key, int64_t size)
{
    if (size)
        wf_config_put_size(c, key, size);
    else
        wf_json_null(&c->json, key);
}

void wf_config_put_padding(struct wf_config_out *c, const char *key, int64_t row)
{
    if (row == 0) {
        wf_json_null(&c->json, key);
        return;
    }
    if (row == WEFT_PADDING_ZERO) row = 0;
    if (row < -INT32_MAX || row > INT32_MAX)
        wf_config_refuse_value(c, key, "is %lld", (long long)row);
    wf_json_int(&c->json, key, row);
}

void wf_config_put_flag(struct wf_config_out *c, const char *key, bool value)
{
    wf_json_bool(&c->json, key, value);
}

void wf_config_put_real(struct wf_config_out *c, const char *key, double value, double least,
                        double most)
{
    if (!(value >= least && value <= most))
        wf_config_refuse_value(c, key, "is %g; it must lie in [%g, %g]", value, least, most);
    wf_json_exact(&c->json, key, value);
}

void wf_config_put_chance(struct wf_config_out *c, const char *key, double value)
{
    wf_config_put_real(c, key, value, 0, 1);
}

void wf_config_put_eps(struct wf_config_out *c, const char *key, double value, double standard)
{
    wf_config_put_real(c, key, value == 0 ? standard : value, WF_CONFIG_LEAST_EPS, 1);
}

void wf_config_put_activation(struct wf_config_out *c, const char *key, weft_activation_kind act)
{
    const char *name = wf_config_activation_name(act);

    if (!name) wf_config_refuse_value(c, key, "has no word for activation %d", (int)act);
    wf_json_text(&c->json, key, name ? name : "");
}

void wf_config_put_dtype(struct wf_config_out *c, weft_dtype dtype)
{
    static const char *const names[WEFT_DTYPE_COUNT] = {
        [WEFT_F32] = "float32", [WEFT_F64] = "float64", [WEFT_BF16] = "bfloat16"};
    const char *name = (unsigned)dtype < WEFT_DTYPE_COUNT ? names[dtype] : NULL;

    if (!name) wf_config_refuse_value(c, "dtype", "has no word for dtype %d", (int)dtype);
    wf_json_text(&c->json, "dtype", name ? name : "");
}
