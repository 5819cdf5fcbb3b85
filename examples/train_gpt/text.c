/* text.c: reading a file as bytes, and a counter-based order of batches. */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/random.h>

enum { VALIDATION_SHARE = 10 }; /* one part in ten */

/* All bytes of the file; NULL with errno set. */
static unsigned char *read_all(const char *path, int64_t *count)
{
    FILE *in = fopen(path, "rb");
    unsigned char *bytes = NULL;
    size_t room = 0, got;

    *count = 0;
    if (!in) return NULL;
    do {
        unsigned char *more = realloc(bytes, room = room ? 2 * room : 1 << 16);

        if (!more) break;
        bytes = more;
        got = fread(bytes + *count, 1, room - (size_t)*count, in);
        *count += (int64_t)got;
    } while (got > 0);
    if (ferror(in) || (size_t)*count == room) {
        free(bytes);
        bytes = NULL;
    }
    fclose(in);
    return bytes;
}

bool text_load(struct text *text, const char *path, int context, char *problem, int room)
{
    int64_t count;

    errno = 0;
    text->bytes = read_all(path, &count);
    if (!text->bytes) {
        snprintf(problem, (size_t)room, "cannot read %s: %s", path, strerror(errno ? errno : EIO));
        return false;
    }
    if (count < context + 1) {
        snprintf(problem, (size_t)room, "%s has %lld bytes; a context of %d needs %d", path,
                 (long long)count, context, context + 1);
        text_free(text);
        return false;
    }
    text->validation = count / VALIDATION_SHARE;
    if (text->validation < context + 1 || count - text->validation < context + 1)
        text->validation = 0;
    text->train = count - text->validation;
    return true;
}

void text_free(struct text *text)
{
    free(text->bytes);
    text->bytes = NULL;
}

/* A number below `range` for row `row` of batch `step`. */
static int64_t draw(uint64_t seed, enum part part, int64_t step, int row, int64_t range)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[4] = {(uint32_t)step, (uint32_t)(step >> 32), (uint32_t)row, (uint32_t)part};
    uint32_t word[4];

    weft_philox(word, counter, key);
    return (int64_t)(((uint64_t)word[0] << 31 | word[1] >> 1) % (uint64_t)range);
}

void text_batch(const struct text *text, enum part part, uint64_t seed, int64_t step, int batch,
                int context, int32_t *tokens, int32_t *targets)
{
    const unsigned char *from = text->bytes + (part == TRAIN ? 0 : text->train);
    int64_t count = part == TRAIN ? text->train : text->validation;

    for (int row = 0; row < batch; row++) {
        const unsigned char *at = from + draw(seed, part, step, row, count - context);

        for (int i = 0; i < context; i++) {
            *tokens++ = at[i];
            *targets++ = at[i + 1];
        }
    }
}
