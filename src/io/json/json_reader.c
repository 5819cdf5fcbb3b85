/* json_reader.c: values, one after another. What a string may contain is in json_string.c, how keys
 * are remembered in name_set.c. */
#include "io/json/json_reader.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text/utf8.h"
#include "io/name_set.h"

enum { NUMBER_TEXT = 400 };

void wf_json_reader_init(struct wf_json_reader *r, const char *text, size_t bytes)
{
    size_t good = wf_utf8_valid_prefix(text, bytes);

    *r = (struct wf_json_reader){.text = text, .at = text, .end = text + bytes};
    if (good == bytes) return;
    r->at = text + good;
    wf_json_reader_fail(r, "not UTF-8");
}

bool wf_json_reader_fail(struct wf_json_reader *r, const char *format, ...)
{
    va_list args;
    int used;

    if (r->failed) return false;
    r->failed = true;
    used = snprintf(r->problem, sizeof r->problem, "byte %lld: ", (long long)(r->at - r->text));
    va_start(args, format);
    vsnprintf(r->problem + used, sizeof r->problem - (size_t)used, format, args);
    va_end(args);
    return false;
}

static void skip_blanks(struct wf_json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

bool wf_json_reader_expect_end(struct wf_json_reader *r)
{
    if (r->failed) return false;
    skip_blanks(r);
    return r->at == r->end ? true : wf_json_reader_fail(r, "something follows the value");
}

/* The next character after blanks, 0 at the end. */
static char peek_char(struct wf_json_reader *r)
{
    skip_blanks(r);
    return r->at < r->end ? *r->at : '\0';
}

static bool accept_char(struct wf_json_reader *r, char wanted)
{
    if (r->failed || peek_char(r) != wanted) return false;
    r->at++;
    return true;
}

static bool expect_char(struct wf_json_reader *r, char wanted)
{
    return accept_char(r, wanted) ? true : wf_json_reader_fail(r, "'%c' is missing", wanted);
}

enum wf_json_type wf_json_peek_type(struct wf_json_reader *r)
{
    char c = r->failed ? '\0' : peek_char(r);

    switch (c) {
    case '{':
        return WF_JSON_OBJECT;
    case '[':
        return WF_JSON_ARRAY;
    case '"':
        return WF_JSON_STRING;
    case 't':
        return WF_JSON_TRUE;
    case 'f':
        return WF_JSON_FALSE;
    case 'n':
        return WF_JSON_NULL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? WF_JSON_NUMBER : WF_JSON_NOTHING;
    }
}

const char *wf_json_type_name(enum wf_json_type type)
{
    static const char *const names[] = {"an object", "an array", "a string", "a number",
                                        "true",      "false",    "null",     "no value"};

    return names[type];
}

static bool expect_type(struct wf_json_reader *r, enum wf_json_type wanted)
{
    enum wf_json_type found = wf_json_peek_type(r);

    if (found == wanted) return !r->failed;
    return wf_json_reader_fail(r, "%s where %s should be", wf_json_type_name(found),
                               wf_json_type_name(wanted));
}

/* ---- objects and arrays ---- */

static bool enter_container(struct wf_json_reader *r, enum wf_json_type type)
{
    if (!expect_type(r, type)) return false;
    if (++r->depth > WF_JSON_NESTING)
        return wf_json_reader_fail(r, "nested deeper than %d", WF_JSON_NESTING);
    r->at++;
    return true;
}

/* `keys` NULL: none is remembered. */
static bool read_one_member(struct wf_json_reader *r, struct wf_name_set *keys,
                            wf_json_member_fn *member, void *payload)
{
    char *key;
    bool ok;

    if (wf_json_peek_type(r) != WF_JSON_STRING) return wf_json_reader_fail(r, "a key is missing");
    key = wf_json_read_string(r);
    if (!key) return false;
    if (keys && !wf_name_set_add(keys, key)) {
        wf_json_reader_fail(r, "key \"%s\" stands twice", key);
        wf_free(key);
        return false;
    }
    ok = expect_char(r, ':') && member(r, key, payload) && !r->failed;
    if (!keys) wf_free(key);
    return ok;
}

static bool read_object_members(struct wf_json_reader *r, struct wf_name_set *keys,
                                wf_json_member_fn *member, void *payload)
{
    bool ok = enter_container(r, WF_JSON_OBJECT);

    if (ok && !accept_char(r, '}')) {
        do ok = read_one_member(r, keys, member, payload);
        while (ok && accept_char(r, ','));
        ok = ok && expect_char(r, '}');
    }
    r->depth--;
    return ok;
}

bool wf_json_read_object(struct wf_json_reader *r, wf_json_member_fn *member, void *payload)
{
    struct wf_name_set keys = {0};
    bool ok = read_object_members(r, &keys, member, payload);

    wf_name_set_free(&keys);
    return ok;
}

bool wf_json_read_large_object(struct wf_json_reader *r, wf_json_member_fn *member, void *payload)
{
    return read_object_members(r, NULL, member, payload);
}

bool wf_json_read_array(struct wf_json_reader *r, wf_json_element_fn *element, void *payload)
{
    bool ok = enter_container(r, WF_JSON_ARRAY);

    if (ok && !accept_char(r, ']')) {
        int64_t index = 0;

        do ok = element(r, index++, payload) && !r->failed;
        while (ok && accept_char(r, ','));
        ok = ok && expect_char(r, ']');
    }
    r->depth--;
    return ok;
}

/* ---- numbers and words ---- */

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

/* The end of a number in JSON's grammar; NULL when it is none. `whole`: no fraction, no exponent.
 */
static const char *find_number_end(const char *at, const char *end, bool *whole)
{
    const char *first;

    *whole = true;
    if (at < end && *at == '-') at++;
    first = at;
    at = skip_digits(at, end);
    if (at == first || (*first == '0' && at > first + 1)) return NULL;
    if (at < end && *at == '.') {
        first = ++at;
        *whole = false;
        at = skip_digits(at, end);
        if (at == first) return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        *whole = false;
        if (++at < end && (*at == '+' || *at == '-')) at++;
        first = at;
        at = skip_digits(at, end);
        if (at == first) return NULL;
    }
    return at;
}

/* A number's text, NUL-terminated; the caller frees. A longer one is a mistake, and cutting it
 * would change it. */
static char *read_number_text(struct wf_json_reader *r, bool *whole)
{
    const char *stop;
    char *text;

    if (!expect_type(r, WF_JSON_NUMBER)) return NULL;
    stop = find_number_end(r->at, r->end, whole);
    if (!stop) return wf_json_reader_fail(r, "a malformed number"), NULL;
    if (stop - r->at > NUMBER_TEXT)
        return wf_json_reader_fail(r, "a number of %lld characters", (long long)(stop - r->at)),
               NULL;
    text = wf_format("%.*s", (int)(stop - r->at), r->at);
    r->at = stop;
    return text;
}

bool wf_json_read_integer(struct wf_json_reader *r, int64_t *value)
{
    bool whole;
    char *text = read_number_text(r, &whole);
    bool ok = text && whole;

    if (!text) return false;
    if (!whole) wf_json_reader_fail(r, "%.40s is no integer", text);
    errno = 0;
    *value = ok ? strtoll(text, NULL, 10) : 0;
    if (ok && errno) ok = wf_json_reader_fail(r, "%.40s does not fit 64 bits", text);
    wf_free(text);
    return ok;
}

double wf_json_parse_double(const char *number)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    double value = strtod_l(number, NULL, plain);

    freelocale(plain);
    return value;
}

bool wf_json_read_number(struct wf_json_reader *r, double *value)
{
    bool whole;
    char *text = read_number_text(r, &whole);

    if (!text) return false;
    *value = wf_json_parse_double(text);
    wf_free(text);
    return true;
}

static bool expect_word(struct wf_json_reader *r, const char *wanted)
{
    size_t n = strlen(wanted);

    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, wanted, n) != 0)
        return wf_json_reader_fail(r, "no value of JSON");
    r->at += n;
    return true;
}

bool wf_json_read_bool(struct wf_json_reader *r, bool *value)
{
    enum wf_json_type type = wf_json_peek_type(r);

    if (type != WF_JSON_TRUE && type != WF_JSON_FALSE)
        return wf_json_reader_fail(r, "%s where true or false should be", wf_json_type_name(type));
    *value = type == WF_JSON_TRUE;
    return expect_word(r, *value ? "true" : "false");
}

static bool skip_member(struct wf_json_reader *r, const char *key, void *payload)
{
    (void)key;
    (void)payload;
    return wf_json_skip_value(r);
}

static bool skip_element(struct wf_json_reader *r, int64_t index, void *payload)
{
    (void)index;
    (void)payload;
    return wf_json_skip_value(r);
}

bool wf_json_skip_value(struct wf_json_reader *r)
{
    double number;
    bool truth;
    char *text;

    switch (wf_json_peek_type(r)) {
    case WF_JSON_OBJECT:
        return wf_json_read_object(r, skip_member, NULL);
    case WF_JSON_ARRAY:
        return wf_json_read_array(r, skip_element, NULL);
    case WF_JSON_STRING:
        text = wf_json_read_string(r);
        wf_free(text);
        return text != NULL;
    case WF_JSON_NUMBER:
        return wf_json_read_number(r, &number);
    case WF_JSON_NULL:
        return expect_word(r, "null");
    case WF_JSON_NOTHING:
        return wf_json_reader_fail(r, "a value is missing");
    default:
        return wf_json_read_bool(r, &truth);
    }
}
