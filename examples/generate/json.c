/* json.c: see json.h. Broken text ends a walk early, and never reads beyond its end. */
#include "json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char next(const char **at)
{
    *at += strspn(*at, " \t\r\n");
    return **at;
}

bool json_enter(const char **at, char open)
{
    if (next(at) != open) return false;
    ++*at;
    return true;
}

bool json_more(const char **at)
{
    char c = next(at);

    if (c == ',') {
        ++*at;
        return true;
    }
    if (c == '}' || c == ']') ++*at;
    return c && c != '}' && c != ']';
}

static size_t put_utf8(uint32_t c, char out[4])
{
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The four digits behind \u. */
static uint32_t hex(const char **at)
{
    char digits[5] = {0};

    for (int i = 0; i < 4 && **at; i++) digits[i] = *(*at)++;
    return (uint32_t)strtoul(digits, NULL, 16);
}

static size_t escaped(const char **at, char out[4])
{
    static const char letters[] = "bfnrt", means[] = "\b\f\n\r\t";
    char c = *(*at)++;
    const char *plain = c ? strchr(letters, c) : NULL;
    uint32_t code, low;

    if (c != 'u') return out[0] = plain ? means[plain - letters] : c, 1;
    code = hex(at);
    if (code >= 0xd800 && code < 0xdc00 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        *at += 2;
        low = hex(at);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(code, out);
}

bool json_string(const char **at, char *out, size_t room)
{
    size_t used = 0;

    if (!json_enter(at, '"')) return false;
    while (**at && **at != '"') {
        char piece[4];
        size_t n = 1;

        piece[0] = *(*at)++;
        if (piece[0] == '\\' && **at) n = escaped(at, piece);
        for (size_t i = 0; i < n && used + 1 < room; i++) out[used++] = piece[i];
    }
    if (room) out[used] = 0;
    if (**at) ++*at;
    return true;
}

bool json_key(const char **at, char *out, size_t room)
{
    return json_string(at, out, room) && json_enter(at, ':');
}

long json_number(const char **at)
{
    char *end;
    long value;

    next(at);
    value = strtol(*at, &end, 10);
    *at = end;
    return value;
}

bool json_skip(const char **at)
{
    int depth = 0;

    do {
        char c = next(at);

        if (c == '"')
            json_string(at, NULL, 0);
        else if (c)
            ++*at;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (!c) return false;
    } while (depth > 0);
    *at += strcspn(*at, ",]} \t\r\n"); /* the rest of a number or word */
    return true;
}

const char *json_find(const char *json, const char *name)
{
    char key[64];

    if (!json || !json_enter(&json, '{')) return NULL;
    while (json_more(&json) && json_key(&json, key, sizeof key)) {
        if (!strcmp(key, name)) return json;
        json_skip(&json);
    }
    return NULL;
}
