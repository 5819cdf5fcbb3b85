/* text.c: reading a file as bytes, and a counter-based order of batches. */
#include "common/text.h"

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

int32_t text_token(const struct text *text, int64_t index)
{
    const unsigned char *at = text->bytes + index * text->token_bytes;
    uint32_t token = 0;

    for (int i = text->token_bytes - 1; i >= 0; i--) token = token << 8 | at[i];
    return (int32_t)token;
}

/* The first token that is none of the vocabulary's; `count` when there is none. */
static int64_t first_unknown(const struct text *text, int64_t count, int64_t vocab)
{
    for (int64_t i = 0; i < count; i++)
        if (text_token(text, i) < 0 || text_token(text, i) >= vocab) return i;
    return count;
}

bool text_load(struct text *text, const char *path, int token_bytes, int64_t vocab, int context,
               char *problem, int room)
{
    int64_t count, unknown;

    errno = 0;
    text->token_bytes = token_bytes;
    text->bytes = read_all(path, &count);
    if (!text->bytes) {
        snprintf(problem, (size_t)room, "cannot read %s: %s", path, strerror(errno ? errno : EIO));
        return false;
    }
    count /= token_bytes;
    unknown = first_unknown(text, count, vocab);
    if (unknown < count)
        snprintf(problem, (size_t)room, "%s has token %ld; the model knows those below %lld", path,
                 (long)text_token(text, unknown), (long long)vocab);
    else if (count < context + 1)
        snprintf(problem, (size_t)room, "%s has %lld tokens; a context of %d needs %d", path,
                 (long long)count, context, context + 1);
    if (unknown < count || count < context + 1) {
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

/* A number below `range` for one row of a batch. */
static int64_t draw(struct piece p, int row, int64_t range)
{
    uint32_t key[2] = {(uint32_t)p.seed, (uint32_t)(p.seed >> 32)};
    uint32_t counter[4] = {(uint32_t)p.step, (uint32_t)(p.step >> 32), (uint32_t)row,
                           (uint32_t)p.part};
    uint32_t word[4];

    weft_philox(word, counter, key);
    return (int64_t)(((uint64_t)word[0] << 31 | word[1] >> 1) % (uint64_t)range);
}

void text_batch(const struct text *text, struct piece piece, int32_t *tokens, int32_t *targets)
{
    int64_t from = piece.part == TRAIN ? 0 : text->train;
    int64_t count = piece.part == TRAIN ? text->train : text->validation;

    for (int row = piece.first_row; row < piece.first_row + piece.rows; row++) {
        int64_t at = from + draw(piece, row, count - piece.context);

        for (int i = 0; i < piece.context; i++) {
            *tokens++ = text_token(text, at + i);
            *targets++ = text_token(text, at + i + 1);
        }
    }
}
