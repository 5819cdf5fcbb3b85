/* text.c: see text.h; how text is cut into tokens is in bpe.c. */
#include "text.h"

#include <stdlib.h>
#include <string.h>

#include "bpe.h"

enum { BYTES = 256 };

struct text {
    struct bpe *bpe; /* NULL: tokens are bytes */
};

struct text *text_open(const char *folder, char *problem, int room)
{
    struct text *text = calloc(1, sizeof *text);

    *problem = 0;
    if (!text) return NULL;
    text->bpe = folder ? bpe_read(folder, problem, room) : NULL;
    if (!*problem) return text;
    text_close(text);
    return NULL;
}

void text_close(struct text *text)
{
    if (text) bpe_free(text->bpe);
    free(text);
}

static int64_t bytes_of(const char *words, int32_t **ids)
{
    size_t n = strlen(words);

    *ids = malloc((n + 1) * sizeof **ids);
    if (!*ids) return -1;
    for (size_t i = 0; i < n; i++) (*ids)[i] = (unsigned char)words[i];
    return (int64_t)n;
}

static int64_t check(const int32_t *ids, int64_t n, int64_t vocab, char *problem, int room)
{
    if (n == 0) snprintf(problem, (size_t)room, "the prompt is empty");
    if (n < 0) snprintf(problem, (size_t)room, "no memory for the prompt");
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab) {
            snprintf(problem, (size_t)room, "token %d is none of the model's %lld", ids[i],
                     (long long)vocab);
            return -1;
        }
    return n > 0 ? n : -1;
}

int64_t text_tokens(const struct text *text, const char *words, int64_t vocab, int32_t **ids,
                    char *problem, int room)
{
    int64_t n = text->bpe ? bpe_encode(text->bpe, words, ids) : bytes_of(words, ids);

    return check(*ids, n, vocab, problem, room);
}

int64_t text_numbers(const char *numbers, int64_t vocab, int32_t **ids, char *problem, int room)
{
    int64_t n = 0;
    char *end = NULL;

    *ids = malloc((strlen(numbers) / 2 + 1) * sizeof **ids);
    while (*ids && *(numbers += strspn(numbers, " ,"))) {
        long id = strtol(numbers, &end, 10);

        if (end == numbers || id < 0 || id > INT32_MAX) {
            snprintf(problem, (size_t)room, "--tokens: '%s' is no token number", numbers);
            return -1;
        }
        (*ids)[n++] = (int32_t)id;
        numbers = end;
    }
    return check(*ids, *ids ? n : -1, vocab, problem, room);
}

void text_print(const struct text *text, int32_t id, struct printable *out)
{
    const char *bytes;
    size_t count;

    if (text->bpe) {
        count = bpe_bytes(text->bpe, id, &bytes);
        printable_write(out, bytes, count);
    } else if (id < BYTES) {
        printable_write(out, &(unsigned char){(unsigned char)id}, 1);
    } else {
        fprintf(out->out, "<%d>", id);
    }
}
