/* bpe.c: see bpe.h; where text is cut first is in words.c. */
#include "bpe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "words.h"

enum { BYTES = 256, TOKEN_BYTES = 1024, PATH = 4096 };

struct token {
    char *bytes; /* NULL: no token has this number */
    int length;
};

/* What joins two neighbouring tokens; in a table by their numbers. */
struct merge {
    int32_t left, right, joined;
    int32_t rank; /* -1: an empty place */
};

struct bpe {
    struct token *tokens;
    int64_t n_tokens;
    int32_t *by_bytes; /* token numbers in a table by their bytes; -1: an empty place */
    struct merge *merges;
    uint64_t places; /* of both tables: a power of two */
    int32_t n_merges;
    int32_t byte[BYTES]; /* the tokens of single bytes */
};

/* ---- tables ---- */

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 0x9E3779B97F4A7C15ull; }

static uint64_t hash(const char *bytes, int length)
{
    uint64_t h = (uint64_t)length;

    for (int i = 0; i < length; i++) h = mix(h, (unsigned char)bytes[i]);
    return h >> 20;
}

/* Where these bytes are in by_bytes, or would be. */
static int32_t *place_of(const struct bpe *b, const char *bytes, int length)
{
    uint64_t at = hash(bytes, length) & (b->places - 1);

    for (;; at = (at + 1) & (b->places - 1)) {
        int32_t id = b->by_bytes[at];

        if (id < 0) return &b->by_bytes[at];
        if (b->tokens[id].length == length && !memcmp(b->tokens[id].bytes, bytes, (size_t)length))
            return &b->by_bytes[at];
    }
}

static struct merge *merge_of(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t at = (mix(mix(1, (uint64_t)left), (uint64_t)right) >> 20) & (b->places - 1);

    while (b->merges[at].rank >= 0 && (b->merges[at].left != left || b->merges[at].right != right))
        at = (at + 1) & (b->places - 1);
    return &b->merges[at];
}

/* ---- the alphabet of the files: every byte as a character that can be seen ---- */

static bool is_itself(int c) { return (c >= 33 && c <= 126) || (c >= 161 && c != 173); }

/* From characters to bytes, in place; returns how many, -1 for a character that is no byte. */
static int to_bytes(char *text)
{
    int used = 0;

    for (const unsigned char *c = (unsigned char *)text; *c; c++) {
        int code = *c, hidden = 0;

        if (code >= 0xe0) return -1;
        if (code >= 0xc0) code = (code & 31) << 6 | (*++c & 63);
        if (code < BYTES ? !is_itself(code) : code - BYTES >= 68) return -1;
        if (code >= BYTES) /* 256 + n is the n-th byte that cannot be seen */
            for (hidden = code - BYTES, code = 0; is_itself(code) || hidden--; code++) continue;
        text[used++] = (char)code;
        if (!*c) break;
    }
    return used;
}

/* ---- reading ---- */

static char *read_file(const char *folder, const char *name)
{
    char path[PATH], *text = NULL;
    long size;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (!file) return NULL;
    if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 && !fseek(file, 0, SEEK_SET))
        text = calloc((size_t)size + 1, 1);
    if (text && fread(text, 1, (size_t)size, file) != (size_t)size) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* How many entries an object has, and the largest number in it. */
static int64_t count(const char *vocab, int64_t *largest)
{
    int64_t n = 0;

    *largest = -1;
    for (json_enter(&vocab, '{'); json_more(&vocab) && json_key(&vocab, NULL, 0); n++) {
        long id = json_number(&vocab);

        if (id > *largest) *largest = id;
    }
    return n;
}

static bool make_tables(struct bpe *b, int64_t entries, int64_t tokens)
{
    for (b->places = 1024; b->places < 4 * (uint64_t)entries;) b->places *= 2;
    b->n_tokens = tokens;
    b->tokens = calloc((size_t)tokens, sizeof *b->tokens);
    b->by_bytes = malloc(b->places * sizeof *b->by_bytes);
    b->merges = malloc(b->places * sizeof *b->merges);
    if (!b->tokens || !b->by_bytes || !b->merges) return false;
    for (uint64_t i = 0; i < b->places; i++) {
        b->by_bytes[i] = -1;
        b->merges[i].rank = -1;
    }
    return true;
}

static bool add_token(struct bpe *b, char *text, long id)
{
    int length = to_bytes(text);
    struct token *token;

    if (length < 0 || id < 0 || id >= b->n_tokens) return length < 0; /* no byte-level token */
    token = &b->tokens[id];
    if (token->bytes) return false;
    token->bytes = malloc((size_t)length + 1);
    if (!token->bytes) return false;
    memcpy(token->bytes, text, (size_t)length);
    token->length = length;
    *place_of(b, token->bytes, length) = (int32_t)id;
    return true;
}

static bool read_vocab(struct bpe *b, const char *vocab)
{
    char text[TOKEN_BYTES];

    for (json_enter(&vocab, '{'); json_more(&vocab) && json_key(&vocab, text, sizeof text);)
        if (!add_token(b, text, json_number(&vocab))) return false;
    for (int i = 0; i < BYTES; i++) {
        char byte = (char)i;

        b->byte[i] = *place_of(b, &byte, 1);
        if (b->byte[i] < 0) return false;
    }
    return true;
}

/* "A B": tokens A and B are joined, after all pairs that were added before. */
static bool add_merge(struct bpe *b, char *pair)
{
    char *right = strchr(pair, ' '), joined[2 * TOKEN_BYTES];
    int32_t left_id, right_id, joined_id;
    struct merge *merge;
    int left_length, right_length;

    if (!right) return false;
    *right++ = 0;
    left_length = to_bytes(pair);
    right_length = to_bytes(right);
    if (left_length < 0 || right_length < 0) return false;
    memcpy(joined, pair, (size_t)left_length);
    memcpy(joined + left_length, right, (size_t)right_length);
    left_id = *place_of(b, pair, left_length);
    right_id = *place_of(b, right, right_length);
    joined_id = *place_of(b, joined, left_length + right_length);
    if (left_id < 0 || right_id < 0 || joined_id < 0 || (uint64_t)b->n_merges * 2 >= b->places)
        return false;
    merge = merge_of(b, left_id, right_id);
    if (merge->rank < 0) *merge = (struct merge){left_id, right_id, joined_id, b->n_merges++};
    return true;
}

/* A list of "A B" or of ["A", "B"]. */
static bool read_merges(struct bpe *b, const char *list)
{
    char pair[2 * TOKEN_BYTES], right[TOKEN_BYTES];

    for (json_enter(&list, '['); json_more(&list);) {
        if (json_enter(&list, '[')) {
            json_string(&list, pair, TOKEN_BYTES);
            json_more(&list);
            json_string(&list, right, sizeof right);
            json_more(&list);
            strcat(strcat(pair, " "), right);
        } else if (!json_string(&list, pair, sizeof pair)) {
            return false;
        }
        if (!add_merge(b, pair)) return false;
    }
    return true;
}

static bool read_merge_lines(struct bpe *b, char *text)
{
    for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n"))
        if (strncmp(line, "#version", 8) && !add_merge(b, line)) return false;
    return true;
}

/* tokenizer.json; `problem` says when it is another kind of tokenizer. */
static bool read_tokenizer(struct bpe *b, const char *json)
{
    const char *model = json_find(json, "model"), *cut = json_find(json, "pre_tokenizer");
    const char *vocab = json_find(model, "vocab"), *merges = json_find(model, "merges");
    const char *type = json_find(cut, "type");
    int64_t largest, entries = vocab ? count(vocab, &largest) : 0;
    char name[32] = "";

    if (type) json_string(&type, name, sizeof name);
    return !strcmp(name, "ByteLevel") && merges && entries &&
           make_tables(b, entries, largest + 1) && read_vocab(b, vocab) && read_merges(b, merges);
}

static bool read_pair(struct bpe *b, const char *vocab, char *merges)
{
    int64_t largest, entries = count(vocab, &largest);

    return merges && entries && make_tables(b, entries, largest + 1) && read_vocab(b, vocab) &&
           read_merge_lines(b, merges);
}

struct bpe *bpe_read(const char *folder, char *problem, int room)
{
    char *whole = read_file(folder, "tokenizer.json");
    char *vocab = whole ? NULL : read_file(folder, "vocab.json");
    char *merges = vocab ? read_file(folder, "merges.txt") : NULL;
    struct bpe *b = whole || vocab ? calloc(1, sizeof *b) : NULL;
    const char *json = whole ? whole : vocab;
    bool usable =
        b && json_skip(&json) && (whole ? read_tokenizer(b, whole) : read_pair(b, vocab, merges));

    if (!usable && (whole || vocab))
        snprintf(problem, (size_t)room,
                 "%s/%s: no byte-level tokenizer as GPT-2's; give --tokens and --ids", folder,
                 whole ? "tokenizer.json" : "vocab.json");
    if (!usable) {
        bpe_free(b);
        b = NULL;
    }
    free(whole);
    free(vocab);
    free(merges);
    return b;
}

void bpe_free(struct bpe *bpe)
{
    if (!bpe) return;
    for (int64_t i = 0; bpe->tokens && i < bpe->n_tokens; i++) free(bpe->tokens[i].bytes);
    free(bpe->tokens);
    free(bpe->by_bytes);
    free(bpe->merges);
    free(bpe);
}

/* ---- encoding ---- */

/* The place of the pair that was learned first; -1 when none of them was. */
static int64_t first_learned(const struct bpe *b, const int32_t *ids, int64_t n)
{
    int64_t best = -1;
    int32_t rank = INT32_MAX;

    for (int64_t i = 0; i + 1 < n; i++) {
        const struct merge *merge = merge_of(b, ids[i], ids[i + 1]);

        if (merge->rank < 0 || merge->rank >= rank) continue;
        rank = merge->rank;
        best = i;
    }
    return best;
}

/* A word's bytes as tokens, joined as long as that goes; returns how many are left. */
static int64_t encode_word(const struct bpe *b, const char *word, int64_t n, int32_t *ids)
{
    int64_t at;

    for (int64_t i = 0; i < n; i++) ids[i] = b->byte[(unsigned char)word[i]];
    while ((at = first_learned(b, ids, n)) >= 0) {
        ids[at] = merge_of(b, ids[at], ids[at + 1])->joined;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
    }
    return n;
}

int64_t bpe_encode(const struct bpe *bpe, const char *text, int32_t **ids)
{
    int64_t used = 0;

    *ids = malloc((strlen(text) + 1) * sizeof **ids);
    if (!*ids) return -1;
    while (*text) {
        const char *end = word_end(text);

        used += encode_word(bpe, text, end - text, *ids + used);
        text = end;
    }
    return used;
}

size_t bpe_bytes(const struct bpe *bpe, int32_t id, const char **bytes)
{
    bool known = id >= 0 && id < bpe->n_tokens && bpe->tokens[id].bytes;

    *bytes = known ? bpe->tokens[id].bytes : "";
    return known ? (size_t)bpe->tokens[id].length : 0;
}
