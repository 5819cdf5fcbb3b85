/* text.c: see text.h. The grammar is that of RFC 8259. */
#include "debug/text.h"

#include <ctype.h>
#include <string.h>

void wt_text_begin(struct wt_text *t) { t->out = open_memstream(&t->text, &t->bytes); }

const char *wt_text_end(struct wt_text *t)
{
    fclose(t->out);
    return t->text;
}

int wt_occurrences(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
    return count;
}

static const char *blank(const char *c) { return c + strspn(c, " \t\r\n"); }

static const char *string(const char *c)
{
    if (*c++ != '"') return NULL;
    for (; *c != '"'; c++) {
        if ((unsigned char)*c < 0x20) return NULL;
        if (*c != '\\') continue;
        c++;
        if (!*c || !strchr("\"\\/bfnrtu", *c)) return NULL;
        for (int i = 0; *c == 'u' && i < 4; i++)
            if (!isxdigit((unsigned char)c[i + 1])) return NULL;
        if (*c == 'u') c += 4;
    }
    return c + 1;
}

static const char *digits(const char *c)
{
    size_t n = strspn(c, "0123456789");

    return n ? c + n : NULL;
}

static const char *number(const char *c)
{
    if (*c == '-') c++;
    c = *c == '0' ? c + 1 : digits(c);
    if (c && *c == '.') c = digits(c + 1);
    if (c && (*c == 'e' || *c == 'E')) {
        c++;
        if (*c == '+' || *c == '-') c++;
        c = digits(c);
    }
    return c;
}

static const char *value(const char *c);

static const char *items(const char *c, bool object)
{
    char end = object ? '}' : ']';

    c = blank(c + 1);
    if (*c == end) return c + 1;
    for (;;) {
        if (object) {
            c = string(blank(c));
            if (!c) return NULL;
            c = blank(c);
            if (*c++ != ':') return NULL;
        }
        c = value(c);
        if (!c) return NULL;
        if (*c == end) return c + 1;
        if (*c++ != ',') return NULL;
    }
}

static const char *word(const char *c)
{
    static const char *const words[] = {"true", "false", "null"};

    for (int i = 0; i < 3; i++)
        if (strncmp(c, words[i], strlen(words[i])) == 0) return c + strlen(words[i]);
    return number(c);
}

static const char *value(const char *c)
{
    c = blank(c);
    if (*c == '{' || *c == '[')
        c = items(c, *c == '{');
    else if (*c == '"')
        c = string(c);
    else
        c = word(c);
    return c ? blank(c) : NULL;
}

bool wt_is_json(const char *text)
{
    const char *end = value(text);

    return end && *end == '\0';
}
