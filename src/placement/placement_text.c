/* placement_text.c: placements as text, both ways. The grammar stands in weft/placement.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/text_line.h"
#include "placement/layout.h"

static const char *const reduce_names[WEFT_REDUCE_COUNT] = {
    [WEFT_SUM] = "sum", [WEFT_AVG] = "avg",       [WEFT_PRODUCT] = "product", [WEFT_MAX] = "max",
    [WEFT_MIN] = "min", [WEFT_MASKED] = "masked", [WEFT_NORM] = "norm",
};

/* ---- reading: each function gives the character behind what it read, NULL when malformed; and
 * NULL for NULL ---- */

static const char *skip_blanks(const char *at)
{
    while (at && isspace((unsigned char)*at)) at++;
    return at;
}

static const char *match_word(const char *at, const char *word)
{
    size_t length = strlen(word);

    return at && strncmp(at, word, length) == 0 ? at + length : NULL;
}

static const char *read_number(const char *at, long least, long most, long *number)
{
    char *end;

    if (!at || !(isdigit((unsigned char)*at) || *at == '-')) return NULL;
    *number = strtol(at, &end, 10);
    return end > at && *number >= least && *number <= most ? end : NULL;
}

/* "|4,1,1", or nothing */
static const char *read_segments(const char *at, int64_t *sizes, int *count)
{
    *count = 0;
    if (!at || *at != '|') return at;
    do {
        long size;

        if (*count == WEFT_MAX_SEGMENTS) return NULL;
        at = read_number(at + 1, 1, UINT16_MAX, &size);
        sizes[(*count)++] = size;
    } while (at && *at == ',');
    return at;
}

/* "[1]", or nothing */
static const char *read_shard_order(const char *at, long *turn)
{
    *turn = 0;
    if (!at || *at != '[') return at;
    return match_word(read_number(at + 1, 0, WEFT_MAX_AXES - 1, turn), "]");
}

/* "(0)", "(0,balanced|4,1,1)[1]" */
static const char *read_shard(weft_placement *p, const char *at)
{
    int64_t sizes[WEFT_MAX_SEGMENTS];
    const char *balanced;
    long dim = 0, turn;
    int count;

    at = read_number(match_word(at, "("), -WEFT_MAX_DIMS, WEFT_MAX_DIMS - 1, &dim);
    balanced = match_word(at, ",balanced");
    at = read_segments(balanced ? balanced : at, sizes, &count);
    at = read_shard_order(match_word(at, ")"), &turn);
    *p = weft_in_turn(weft_shard_segments((int)dim, sizes, count), (int)turn);
    if (balanced) p->cut = WEFT_CUT_BALANCED;
    return at;
}

/* "(0,2)" */
static const char *read_strided(weft_placement *p, const char *at)
{
    long dim = 0, factor = 1;

    at = read_number(match_word(at, "("), -WEFT_MAX_DIMS, WEFT_MAX_DIMS - 1, &dim);
    at = read_number(match_word(at, ","), 1, INT32_MAX, &factor);
    *p = weft_strided_shard((int)dim, (int)factor);
    return match_word(at, ")");
}

/* "(max)", "(norm 2)", or nothing */
static const char *read_partial(weft_placement *p, const char *at)
{
    const char *norm = match_word(at, "(norm ");

    *p = weft_partial(WEFT_SUM);
    if (norm) {
        char *end;

        *p = weft_norm_partial(strtof(norm, &end));
        return end > norm ? match_word(end, ")") : NULL;
    }
    if (*at != '(') return at;
    for (int r = 0; r < WEFT_NORM; r++) {
        const char *end = match_word(match_word(at + 1, reduce_names[r]), ")");

        *p = weft_partial((weft_reduce)r);
        if (end) return end;
    }
    return NULL;
}

static const char *read_placement(weft_placement *p, const char *at)
{
    switch (*at) {
    case 'R':
        *p = weft_replicate();
        return at + 1;
    case 'S':
        return at[1] == 'S' ? read_strided(p, at + 2) : read_shard(p, at + 1);
    case 'P':
        return read_partial(p, at + 1);
    default:
        return NULL;
    }
}

int weft_placements_parse(weft_placement *out, int room, const char *text)
{
    const char *at;

    if (!text || (!out && room > 0)) {
        WF_FAIL(WEFT_ERR_ARG, "placements: no %s", text ? "array" : "text");
        return -1;
    }
    at = skip_blanks(text);
    for (int count = 0;; count++) {
        const char *start = at;
        weft_placement p;

        at = skip_blanks(read_placement(&p, start));
        if (!at) {
            WF_FAIL(WEFT_ERR_ARG,
                    "placements \"%s\": \"%s\" at character %d is not S(dim), SS(dim,factor), R, P "
                    "or P(reduction)",
                    text, start, (int)(start - text));
            return -1;
        }
        if (count == room) {
            WF_FAIL(WEFT_ERR_ARG, "placements \"%s\": more than %d, from character %d on", text,
                    room, (int)(start - text));
            return -1;
        }
        out[count] = p;
        if (*at == '\0') return count + 1;
        if (*at == ',') at = skip_blanks(at + 1);
    }
}

/* ---- printing ---- */

static void print_shard(weft_placement p, char *text, size_t bytes)
{
    int at = snprintf(text, bytes, "S(%d%s", p.dim, p.cut == WEFT_CUT_BALANCED ? ",balanced" : "");

    for (int s = 0; s < p.n_segments && s < WEFT_MAX_SEGMENTS; s++)
        at +=
            snprintf(text + at, bytes - (size_t)at, "%c%u", s ? ',' : '|', (unsigned)p.segments[s]);
    snprintf(text + at, bytes - (size_t)at, ")");
}

/* As few digits as read back to the same number. */
static void print_norm(weft_placement p, char *text, size_t bytes)
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, bytes, "P(norm %.*g)", digits, (double)p.p);
        if (strtof(text + strlen("P(norm "), NULL) == p.p) return;
    }
}

static void print_placement(weft_placement p, char *text, size_t bytes)
{
    switch (p.kind) {
    case WEFT_KIND_REPLICATE:
        snprintf(text, bytes, "R");
        return;
    case WEFT_KIND_SHARD:
        print_shard(p, text, bytes);
        return;
    case WEFT_KIND_STRIDED:
        snprintf(text, bytes, "SS(%d,%d)", p.dim, (int)p.factor);
        return;
    default:
        break;
    }
    if (p.reduce == WEFT_NORM)
        print_norm(p, text, bytes);
    else if (p.reduce == WEFT_SUM)
        snprintf(text, bytes, "P");
    else
        snprintf(text, bytes, "P(%s)", p.reduce < WEFT_REDUCE_COUNT ? reduce_names[p.reduce] : "?");
}

/* An order left to right is not printed; of any other, every turn is. */
static bool has_default_order(const weft_placement *placements, int count, int dim)
{
    for (int i = 0; i < count; i++)
        if (weft_shards(placements[i], dim) && placements[i].order) return false;
    return true;
}

static int print_placement_list(const weft_placement *placements, int count, const char *between,
                                char *text, size_t bytes)
{
    struct wf_text_line line = wf_text_line_begin(text, bytes);

    if (!placements) count = 0;
    for (int i = 0; i < count; i++) {
        char one[WF_PLACEMENT_TEXT], turn[8] = "";

        print_placement(placements[i], one, sizeof one);
        if (weft_is_shard(placements[i]) &&
            !has_default_order(placements, count, placements[i].dim))
            snprintf(turn, sizeof turn, "[%u]", (unsigned)placements[i].order);
        wf_text_line_append(&line, "%s%s%s", i ? between : "", one, turn);
    }
    return line.length;
}

int weft_placements_format(const weft_placement *placements, int count, char *text, size_t bytes)
{
    return print_placement_list(placements, count, ",", text, bytes);
}

int weft_placements_brief_format(const weft_placement *placements, int count, char *text,
                                 size_t bytes)
{
    return print_placement_list(placements, count, "", text, bytes);
}
