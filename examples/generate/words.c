/*
 * words.c: GPT-2's pattern,
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * written out: which kind of character it is comes from the C library.
 */
#include "words.h"

#include <ctype.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>
#include <wctype.h>

enum kind { END, SPACE, LETTER, DIGIT, OTHER };

static int length_of(const char *at)
{
    unsigned char c = (unsigned char)*at;
    int wanted = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4, n = 1;

    while (n < wanted && ((unsigned char)at[n] & 0xc0) == 0x80) n++;
    return n;
}

static uint32_t code_of(const char *at, int length)
{
    uint32_t code = (unsigned char)*at;

    if (length > 1) code &= 0x7fu >> length;
    for (int i = 1; i < length; i++) code = code << 6 | ((unsigned char)at[i] & 63);
    return code;
}

static enum kind wide_kind(uint32_t c)
{
    static _Thread_local locale_t unicode;

    if (c == 0x85 || c == 0xa0 || c == 0x2007 || c == 0x202f) return SPACE; /* iswspace: no break */
    if (!unicode) unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!unicode) return LETTER;
    if (iswspace_l((wint_t)c, unicode)) return SPACE;
    return iswalpha_l((wint_t)c, unicode) ? LETTER : OTHER;
}

static enum kind kind_of(const char *at, int *length)
{
    unsigned char c = (unsigned char)*at;

    *length = c ? length_of(at) : 0;
    if (!c) return END;
    if (c >= 0x80) return wide_kind(code_of(at, *length));
    if (isspace(c)) return SPACE;
    return isalpha(c) ? LETTER : isdigit(c) ? DIGIT : OTHER;
}

static const char *contraction_end(const char *at)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

    for (int i = 0; i < 7; i++)
        if (!strncmp(at, endings[i], strlen(endings[i]))) return at + strlen(endings[i]);
    return NULL;
}

/* Blanks; the last of several goes with the word behind them. */
static const char *blanks_end(const char *at)
{
    const char *start = at, *last = at;
    int length;

    while (kind_of(at, &length) == SPACE) {
        last = at;
        at += length;
    }
    return *at && last > start ? last : at;
}

const char *word_end(const char *at)
{
    const char *end = *at == '\'' ? contraction_end(at) : NULL;
    const char *first = *at == ' ' ? at + 1 : at;
    int length;
    enum kind kind = kind_of(first, &length);

    if (end) return end;
    if (kind == SPACE || kind == END) return blanks_end(at);
    while (kind_of(first, &length) == kind) first += length;
    return first;
}
