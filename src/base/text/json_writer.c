/* json_writer.c: writes JSON to a stream. */
#include "base/text/json_writer.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void write_quoted(FILE *out, const char *text)
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

static void write_comma_and_key(struct wf_json_writer *json, const char *key)
{
    if (json->filled[json->depth]) fputc(',', json->out);
    json->filled[json->depth] = true;
    if (!key) {
        if (json->depth <= 2) fputc('\n', json->out); /* a line per item of the outer lists */
        return;
    }
    write_quoted(json->out, key);
    fputc(':', json->out);
}

void wf_json_begin_container(struct wf_json_writer *json, const char *key, char bracket)
{
    if (json->depth) write_comma_and_key(json, key);
    fputc(bracket, json->out);
    json->depth++;
    WF_ASSERT(json->depth < WF_JSON_DEPTH);
    json->filled[json->depth] = false;
}

void wf_json_end_container(struct wf_json_writer *json, char bracket)
{
    fputc(bracket, json->out);
    json->depth--;
    if (json->depth == 0) fputc('\n', json->out);
}

void wf_json_write_string(struct wf_json_writer *json, const char *key, const char *text)
{
    write_comma_and_key(json, key);
    write_quoted(json->out, text);
}

void wf_json_write_int(struct wf_json_writer *json, const char *key, int64_t value)
{
    write_comma_and_key(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void wf_json_write_real(struct wf_json_writer *json, const char *key, double value)
{
    write_comma_and_key(json, key);
    if (isfinite(value))
        fprintf(json->out, "%.12g", value);
    else
        fputs("null", json->out);
}

void wf_json_write_exact_real(struct wf_json_writer *json, const char *key, double value)
{
    double size = fabs(value);
    int least = size >= 1 && size < 1e15 ? (int)log10(size) + 1 : 1; /* 50.0, not 5e+01 */
    char text[40];

    if (!isfinite(value)) {
        wf_json_write_null(json, key);
        return;
    }
    for (int digits = least; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    for (char *c = text; *c; c++) /* the point is another character in some locales */
        if (!strchr("0123456789+-e", *c)) *c = '.';
    write_comma_and_key(json, key);
    fprintf(json->out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

void wf_json_write_null(struct wf_json_writer *json, const char *key)
{
    write_comma_and_key(json, key);
    fputs("null", json->out);
}

void wf_json_write_bool(struct wf_json_writer *json, const char *key, bool value)
{
    write_comma_and_key(json, key);
    fputs(value ? "true" : "false", json->out);
}
