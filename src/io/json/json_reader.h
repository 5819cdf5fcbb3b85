/*
 * json_reader.h: strict JSON, read once from front to back; nothing is built but what is asked for.
 *
 * Stricter than a parser for documents, because files come from anywhere: the text must be UTF-8,
 * a key may stand in an object once, integers are exact or refused, nesting is bounded. Every
 * function returns false at the first problem, which is recorded with its position in the text, and
 * all later calls return false too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/export.h>

enum { WF_JSON_NESTING = 64 };

enum wf_json_type {
    WF_JSON_OBJECT,
    WF_JSON_ARRAY,
    WF_JSON_STRING,
    WF_JSON_NUMBER,
    WF_JSON_TRUE,
    WF_JSON_FALSE,
    WF_JSON_NULL,
    WF_JSON_NOTHING /* the text ends, or goes on with what is no value */
};

struct wf_json_reader {
    const char *text, *at, *end;
    int depth;
    bool failed;
    char problem[384]; /* "byte 17: a key stands twice: \"x\"" */
};

void wf_json_reader_init(struct wf_json_reader *r, const char *text, size_t bytes);
/** True when nothing but blanks is left and nothing failed. */
bool wf_json_reader_expect_end(struct wf_json_reader *r);

/** Record a problem at the present place (the first one stays); false. */
bool wf_json_reader_fail(struct wf_json_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);

enum wf_json_type wf_json_peek_type(struct wf_json_reader *r);
/** "a string", "an object", ... for messages. */
const char *wf_json_type_name(enum wf_json_type type);

/** Called with each key of an object (decoded; only for the call) and has to read its value. */
typedef bool wf_json_member_fn(struct wf_json_reader *r, const char *key, void *payload);
/** Called for each element of an array, and has to read it. */
typedef bool wf_json_element_fn(struct wf_json_reader *r, int64_t index, void *payload);

bool wf_json_read_object(struct wf_json_reader *r, wf_json_member_fn *member, void *payload);
/** The same without remembering keys, for objects of very many: the caller compares them. */
bool wf_json_read_large_object(struct wf_json_reader *r, wf_json_member_fn *member, void *payload);
bool wf_json_read_array(struct wf_json_reader *r, wf_json_element_fn *element, void *payload);

/** A string without NUL, decoded; wf_malloc'ed, NULL when it fails. */
char *wf_json_read_string(struct wf_json_reader *r);
/** The same into `to`, which has room for the string as it is written, quotes included. gives: what
 * follows its NUL, NULL when it fails */
char *wf_json_read_string_into(struct wf_json_reader *r, char *to);
/** An integer written as one: no fraction, no exponent, in range. */
bool wf_json_read_integer(struct wf_json_reader *r, int64_t *value);
bool wf_json_read_number(struct wf_json_reader *r, double *value);
/** The value of a number's text. The program's locale may have another decimal point. */
double wf_json_parse_double(const char *number);
bool wf_json_read_bool(struct wf_json_reader *r, bool *value);
/** Any value, checked and forgotten. */
bool wf_json_skip_value(struct wf_json_reader *r);
