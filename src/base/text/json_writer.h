/* json_writer.h: writes JSON to a stream; nesting, commas and escapes are handled here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { WF_JSON_DEPTH = 16 };

struct wf_json_writer {
    FILE *out;
    int depth;
    bool filled[WF_JSON_DEPTH]; /* something stands at this depth: a comma comes first */
};

/** Open '{' or '['; `key` names it inside an object, NULL inside a list. */
void wf_json_begin_container(struct wf_json_writer *json, const char *key, char bracket);
/** Close '}' or ']'. */
void wf_json_end_container(struct wf_json_writer *json, char bracket);

void wf_json_write_string(struct wf_json_writer *json, const char *key, const char *text);
void wf_json_write_int(struct wf_json_writer *json, const char *key, int64_t value);
/** To 12 digits; not finite: null. */
void wf_json_write_real(struct wf_json_writer *json, const char *key, double value);
/** The shortest text that reads back as the same number, always with a point or exponent. */
void wf_json_write_exact_real(struct wf_json_writer *json, const char *key, double value);
void wf_json_write_null(struct wf_json_writer *json, const char *key);
void wf_json_write_bool(struct wf_json_writer *json, const char *key, bool value);
