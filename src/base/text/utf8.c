#include "base/text/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

size_t wf_utf8_sequence_length(const char *text, size_t room)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code;
    size_t n;

    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    n = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (room < n) return 0;
    code = s[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3Fu);
    }
    return code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : n;
}

size_t wf_utf8_valid_prefix(const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        size_t n = wf_utf8_sequence_length(text + at, bytes - at);

        if (n == 0) break;
        at += n;
    }
    return at;
}

/* C0, DEL, and C1, which is two bytes from 0xC2 0x80 on. */
static int is_control(const char *text)
{
    unsigned char first = (unsigned char)text[0];

    return first < 0x20 || first == 0x7F || (first == 0xC2 && (unsigned char)text[1] < 0xA0);
}

/* What stands for one byte; gives its length. */
static size_t escape_byte(char *out, char byte)
{
    static const char from[] = "\n\t\r", names[] = "ntr";
    const char *found = strchr(from, byte);

    if (found)
        snprintf(out, 5, "\\%c", names[found - from]);
    else
        snprintf(out, 5, "\\x%02x", (unsigned)(unsigned char)byte);
    return strlen(out);
}

char *wf_utf8_escape_control(char *out, size_t room, const char *text)
{
    size_t at = 0, left = strlen(text);

    while (left) {
        size_t n = wf_utf8_sequence_length(text, left), length = n;
        char piece[8];

        if (n == 0 || is_control(text)) {
            n = 1;
            length = escape_byte(piece, *text);
        } else {
            memcpy(piece, text, n);
        }
        if (at + length >= room) break;
        memcpy(out + at, piece, length);
        at += length;
        text += n;
        left -= n;
    }
    out[at] = '\0';
    return out;
}
