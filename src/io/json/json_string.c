/* json_string.c: the strings of JSON. */
#include <string.h>

#include "base/mem.h"
#include "io/json/json_reader.h"

static char *encode_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xE0 | code >> 12);
        } else {
            *to++ = (char)(0xF0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3F));
        }
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
    }
    *to++ = (char)(0x80 | (code & 0x3F));
    return to;
}

/* Four hexadecimal digits after "\u". */
static bool read_four_hex_digits(struct wf_json_reader *r, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char c = r->at < r->end ? *r->at : '\0';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0) return wf_json_reader_fail(r, "\\u takes four hexadecimal digits");
        *code = *code << 4 | (uint32_t)digit;
        r->at++;
    }
    return true;
}

/* What follows "\u": one unit, or two surrogates. */
static bool decode_unicode_escape(struct wf_json_reader *r, char **to)
{
    uint32_t code, low;

    if (!read_four_hex_digits(r, &code)) return false;
    if (code == 0) return wf_json_reader_fail(r, "a string contains \\u0000");
    if (code >= 0xD800 && code < 0xDC00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return wf_json_reader_fail(r, "half of a surrogate pair");
        r->at += 2;
        if (!read_four_hex_digits(r, &low)) return false;
        if (low < 0xDC00 || low >= 0xE000)
            return wf_json_reader_fail(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
        return wf_json_reader_fail(r, "half of a surrogate pair");
    }
    *to = encode_utf8(*to, code);
    return true;
}

static bool decode_escape(struct wf_json_reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *found;
    char c = r->at < r->end ? *r->at : '\0';

    if (c == 'u') {
        r->at++;
        return decode_unicode_escape(r, to);
    }
    found = c ? strchr(from, c) : NULL;
    if (!found) return wf_json_reader_fail(r, "an unknown escape in a string");
    *(*to)++ = into[found - from];
    r->at++;
    return true;
}

/* Decode up to the closing quote into `to`, which has room for the rest of the string. */
static char *decode_string(struct wf_json_reader *r, char *to)
{
    while (r->at < r->end && *r->at != '"') {
        if (*r->at == '\\') {
            r->at++;
            if (!decode_escape(r, &to)) return NULL;
        } else if ((unsigned char)*r->at < 0x20) {
            return wf_json_reader_fail(r, "a control character in a string"), NULL;
        } else {
            *to++ = *r->at++;
        }
    }
    if (r->at == r->end) return wf_json_reader_fail(r, "a string without end"), NULL;
    r->at++;
    *to = '\0';
    return to + 1;
}

/* Bytes up to the closing quote, or to the end: what a decoded string takes at most. */
static size_t raw_string_length(const struct wf_json_reader *r)
{
    const char *at = r->at;

    while (at < r->end && *at != '"') at += *at == '\\' && at + 1 < r->end ? 2 : 1;
    return (size_t)(at - r->at);
}

static bool expect_open_quote(struct wf_json_reader *r)
{
    enum wf_json_type type = wf_json_peek_type(r);

    if (type != WF_JSON_STRING)
        return wf_json_reader_fail(r, "%s where a string should be", wf_json_type_name(type));
    r->at++;
    return true;
}

char *wf_json_read_string_into(struct wf_json_reader *r, char *to)
{
    return expect_open_quote(r) ? decode_string(r, to) : NULL;
}

char *wf_json_read_string(struct wf_json_reader *r)
{
    char *text;

    if (!expect_open_quote(r)) return NULL;
    text = wf_malloc(raw_string_length(r) + 1);
    if (decode_string(r, text)) return text;
    wf_free(text);
    return NULL;
}
