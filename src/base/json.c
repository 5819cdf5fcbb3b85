/* json.c: JSON, written as it comes. */
#include "base/json.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void quote(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

static void begin(struct wf_json *json, const char *key)
{
    if (json->filled[json->depth]) fputc(',', json->out);
    json->filled[json->depth] = true;
    if (!key) {
        if (json->depth <= 2) fputc('\n', json->out); /* a line per item of the outer lists */
        return;
    }
    quote(json->out, key);
    fputc(':', json->out);
}

void wf_json_open(struct wf_json *json, const char *key, char bracket)
{
    if (json->depth) begin(json, key);
    fputc(bracket, json->out);
    json->depth++;
    WF_ASSERT(json->depth < WF_JSON_DEPTH);
    json->filled[json->depth] = false;
}

void wf_json_close(struct wf_json *json, char bracket)
{
    fputc(bracket, json->out);
    json->depth--;
    if (json->depth == 0) fputc('\n', json->out);
}

void wf_json_text(struct wf_json *json, const char *key, const char *text)
{
    begin(json, key);
    quote(json->out, text);
}

void wf_json_int(struct wf_json *json, const char *key, int64_t value)
{
    begin(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void wf_json_real(struct wf_json *json, const char *key, double value)
{
    begin(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.12g", value);
    else
        fputs("null", json->out);
}

void wf_json_exact(struct wf_json *json, const char *key, double value)
{
    double size = fabs(value);
    int least = size >= 1 && size < 1e15 ? (int)log10(size) + 1 : 1; /* 50.0, not 5e+01 */
    char text[40];

    if (!isfinite(value)) {
        wf_json_null(json, key);
        return;
    }
    for (int digits = least; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    for (char *c = text; *c; c++) /* the point is another character in some locales */
        if (!strchr("0123456789+-e", *c)) *c = '.';
    begin(json, key);
    fprintf(json->out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

void wf_json_null(struct wf_json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->out);
}

void wf_json_bool(struct wf_json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}
