/* tokens.c: the vocabulary, words, and pieces of words. */
#include "tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "characters.h"

enum {
    WORD_CHARACTERS = 100, /* longer ones are [UNK] */
    WORD_BYTES = 3 * CHARACTER_BYTES * (WORD_CHARACTERS + 1),
    PIECE_BYTES = WORD_BYTES + 3
};

struct piece {
    const char *text;
    int32_t id;
};

struct vocabulary {
    char *text;
    struct piece *pieces; /* by text */
    size_t count;
    int32_t unknown, begin, end;
};

/* Numbers of a line as they come; full ones take no more. */
struct output {
    const struct vocabulary *vocabulary;
    int32_t *ids;
    int count, room;
};

/* ---- the vocabulary ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct piece *)a)->text, ((const struct piece *)b)->text);
}

static int32_t find(const struct vocabulary *vocabulary, const char *text)
{
    struct piece wanted = {.text = text};
    const struct piece *found =
        bsearch(&wanted, vocabulary->pieces, vocabulary->count, sizeof wanted, by_text);

    return found ? found->id : -1;
}

/* The whole file, ended by 0; NULL with errno. */
static char *read_text(const char *path)
{
    FILE *in = fopen(path, "rb");
    char *text = NULL;
    size_t room = 0, count = 0;
    ssize_t got;

    if (!in) return NULL;
    got = getdelim(&text, &room, '\0', in);
    count = got < 0 ? 0 : (size_t)got;
    if (count == 0) {
        free(text);
        text = NULL;
        errno = errno ? errno : EINVAL;
    }
    fclose(in);
    return text;
}

/* Cut the text into lines. */
static bool cut(struct vocabulary *v)
{
    size_t lines = 1;

    for (const char *at = v->text; *at; at++) lines += *at == '\n';
    v->pieces = malloc(lines * sizeof *v->pieces);
    if (!v->pieces) return false;
    for (char *at = v->text; *at;) {
        char *end = at + strcspn(at, "\r\n"), *next = end + strspn(end, "\r\n");

        v->pieces[v->count] = (struct piece){at, (int32_t)v->count};
        v->count++;
        *end = '\0';
        at = next;
    }
    return true;
}

struct vocabulary *vocabulary_read(const char *path, char *problem, int room)
{
    struct vocabulary *v = calloc(1, sizeof *v);

    errno = 0;
    if (v) v->text = read_text(path);
    if (!v || !v->text || !cut(v)) {
        snprintf(problem, (size_t)room, "cannot read %s: %s", path, strerror(errno));
        vocabulary_free(v);
        return NULL;
    }
    qsort(v->pieces, v->count, sizeof *v->pieces, by_text);
    v->unknown = find(v, "[UNK]");
    v->begin = find(v, "[CLS]");
    v->end = find(v, "[SEP]");
    if (v->unknown >= 0 && v->begin >= 0 && v->end >= 0) return v;
    snprintf(problem, (size_t)room, "%s lacks one of [UNK], [CLS], [SEP]", path);
    vocabulary_free(v);
    return NULL;
}

void vocabulary_free(struct vocabulary *vocabulary)
{
    if (!vocabulary) return;
    free(vocabulary->text);
    free(vocabulary->pieces);
    free(vocabulary);
}

/* ---- pieces of a word ---- */

static void put(struct output *out, int32_t id)
{
    if (out->count < out->room) out->ids[out->count++] = id;
}

/* The longest piece that the word goes on with from `at`; -1 when none does. */
static int32_t longest(const struct vocabulary *v, const char *word, size_t at, size_t *bytes)
{
    char piece[PIECE_BYTES];
    size_t prefix = at ? 2 : 0, length = strlen(word) - at;

    memcpy(piece, "##", prefix);
    memcpy(piece + prefix, word + at, length + 1);
    for (*bytes = length; *bytes > 0; --*bytes) {
        int32_t id;

        piece[prefix + *bytes] = '\0';
        id = find(v, piece);
        if (id >= 0) return id;
    }
    return -1;
}

/* A word's pieces, or [UNK] for all of it. */
static void put_word(struct output *out, const char *word, int characters)
{
    int before = out->count;
    size_t at = 0, bytes;

    if (characters == 0) return;
    while (characters <= WORD_CHARACTERS && word[at]) {
        int32_t id = longest(out->vocabulary, word, at, &bytes);

        if (id < 0) break;
        put(out, id);
        at += bytes;
    }
    if (characters <= WORD_CHARACTERS && !word[at]) return;
    out->count = before;
    put(out, out->vocabulary->unknown);
}

/* ---- words of a line ---- */

struct word {
    char text[WORD_BYTES];
    int bytes, characters; /* those beyond WORD_CHARACTERS are counted and not kept */
};

static void word_add(struct word *word, uint32_t c)
{
    if (word->characters++ < WORD_CHARACTERS)
        word->bytes += character_put(word->text + word->bytes, c);
    word->text[word->bytes] = '\0';
}

static void word_end(struct word *word, struct output *out)
{
    put_word(out, word->text, word->characters);
    word->bytes = word->characters = 0;
}

int tokenize(const struct vocabulary *vocabulary, const char *line, int32_t *ids, int room)
{
    struct output out = {.vocabulary = vocabulary, .ids = ids, .room = room - 1};
    struct word word = {.bytes = 0};
    uint32_t c;

    put(&out, vocabulary->begin);
    while ((c = character_next(&line))) {
        uint32_t folded[3];
        int n = character_is_dropped(c) ? 0 : character_fold(c, folded);
        bool alone = character_is_punctuation(c) || character_is_ideograph(c);

        if (alone || character_is_space(c)) word_end(&word, &out);
        for (int i = 0; i < n && !character_is_space(c); i++) word_add(&word, folded[i]);
        if (alone) word_end(&word, &out);
    }
    word_end(&word, &out);
    out.room = room;
    put(&out, vocabulary->end);
    return out.count;
}
