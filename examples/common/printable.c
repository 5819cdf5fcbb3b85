/* printable.c: see printable.h. Control characters are left out because a terminal obeys them. */
#include "printable.h"

#include <stdbool.h>
#include <stdint.h>

/* How many bytes a character has that begins like this; 0 for what begins none. */
static int character_bytes(unsigned char first)
{
    if (first >= 0xC2 && first < 0xE0) return 2;
    if (first >= 0xE0 && first < 0xF0) return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

static bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/* Not for control characters, halves of UTF-16, and what a shorter form exists for. */
static bool is_shown(const unsigned char *bytes, int count)
{
    static const uint32_t least[] = {0, 0, 0xA0, 0x800, 0x10000};
    uint32_t c = bytes[0] & (0x7Fu >> count);

    for (int i = 1; i < count; i++) c = c << 6 | (bytes[i] & 0x3F);
    return c >= least[count] && c <= 0x10FFFF && !(c >= 0xD800 && c < 0xE000);
}

static void write_byte(struct printable *p, unsigned char byte)
{
    if (p->expected && !is_continuation(byte)) printable_end(p);
    if (p->expected) {
        p->bytes[p->count++] = byte;
        if (p->count < p->expected) return;
        if (is_shown(p->bytes, p->count))
            fwrite(p->bytes, 1, (size_t)p->count, p->out);
        else
            putc('?', p->out);
        p->expected = 0;
    } else if ((byte >= ' ' && byte < 0x7F) || byte == '\n' || byte == '\t') {
        putc(byte, p->out);
    } else if (character_bytes(byte)) {
        p->expected = character_bytes(byte);
        p->bytes[0] = byte;
        p->count = 1;
    } else {
        putc('?', p->out);
    }
}

void printable_write(struct printable *p, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) write_byte(p, ((const unsigned char *)bytes)[i]);
}

void printable_end(struct printable *p)
{
    if (p->expected) putc('?', p->out);
    p->expected = 0;
}
