/* placement.c: placements as text, and which lists of placements make sense for a tensor. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "placement/layout.h"

static const char *const reduce_names[WEFT_REDUCE_COUNT] = {
    [WEFT_SUM] = "sum", [WEFT_AVG] = "avg",       [WEFT_PRODUCT] = "product", [WEFT_MAX] = "max",
    [WEFT_MIN] = "min", [WEFT_MASKED] = "masked", [WEFT_NORM] = "norm",
};

/* ---- reading ---- */

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

/* "(2)" after an S. gives: the character behind it, NULL when malformed */
static const char *read_dim(weft_placement *p, const char *at)
{
    char *end;
    long dim;

    if (*at != '(') return NULL;
    dim = strtol(at + 1, &end, 10);
    if (end == at + 1 || *end != ')' || dim < -WEFT_MAX_DIMS || dim >= WEFT_MAX_DIMS) return NULL;
    *p = weft_shard((int)dim);
    return end + 1;
}

/* "(max)" after a P, or nothing. gives: the character behind it, NULL when malformed */
static const char *read_reduce(weft_placement *p, const char *at)
{
    *p = weft_partial(WEFT_SUM);
    if (*at != '(') return at;
    at++;
    for (int r = 0; r < WEFT_REDUCE_COUNT; r++) {
        size_t length = strlen(reduce_names[r]);

        if (strncmp(at, reduce_names[r], length) != 0 || at[length] != ')') continue;
        p->reduce = (uint8_t)r;
        return at + length + 1;
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
        return read_dim(p, at + 1);
    case 'P':
        return read_reduce(p, at + 1);
    default:
        return NULL;
    }
}

int weft_placements_parse(weft_placement *out, int room, const char *text)
{
    const char *at = text;

    for (int count = 0;; count++) {
        const char *start = skip_blanks(at);
        weft_placement p;

        at = read_placement(&p, start);
        if (at) at = skip_blanks(at);
        if (!at || (*at != ',' && *at != '\0')) {
            WF_FAIL(WEFT_ERR_ARG,
                    "placements \"%s\": \"%s\" at character %d is not S(dim), R, P or P(reduction)",
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
        at++;
    }
}

/* ---- printing ---- */

static int print_placement(weft_placement p, char *text, size_t bytes)
{
    if (p.kind == WEFT_KIND_SHARD) return snprintf(text, bytes, "S(%d)", p.dim);
    if (p.kind == WEFT_KIND_REPLICATE) return snprintf(text, bytes, "R");
    if (p.reduce == WEFT_SUM) return snprintf(text, bytes, "P");
    return snprintf(text, bytes, "P(%s)",
                    p.reduce < WEFT_REDUCE_COUNT ? reduce_names[p.reduce] : "?");
}

int weft_placements_print(const weft_placement *placements, int count, char *text, size_t bytes)
{
    int length = 0;

    if (bytes) text[0] = '\0';
    for (int i = 0; i < count; i++) {
        char one[24];

        print_placement(placements[i], one, sizeof one);
        length += snprintf((size_t)length < bytes ? text + length : NULL,
                           (size_t)length < bytes ? bytes - (size_t)length : 0, "%s%s",
                           i ? "," : "", one);
    }
    return length;
}

/* ---- checking ---- */

static weft_status normalize_shard(weft_placement *p, int ndim, int axis, const char *who)
{
    int dim = p->dim < 0 ? p->dim + ndim : p->dim;

    WF_NEED(dim >= 0 && dim < ndim, WEFT_ERR_LAYOUT,
            "%s: S(%d) on mesh axis %d, but the tensor has %d dims", who, p->dim, axis, ndim);
    *p = weft_shard(dim);
    return WEFT_OK;
}

static bool commute(uint8_t a, uint8_t b)
{
    bool sums = (a == WEFT_SUM || a == WEFT_AVG) && (b == WEFT_SUM || b == WEFT_AVG);

    return a == b || sums;
}

/* A sum of maxima is not a maximum of sums, and a list does not say which is meant. */
static weft_status check_reductions(const weft_placement *p, int n_axes, const char *who)
{
    int first = -1;

    for (int a = 0; a < n_axes; a++) {
        if (p[a].kind != WEFT_KIND_PARTIAL) continue;
        if (first < 0) first = a;
        WF_NEED(
            commute(p[first].reduce, p[a].reduce), WEFT_ERR_LAYOUT,
            "%s: P(%s) on mesh axis %d and P(%s) on axis %d: mixed reductions have no one meaning",
            who, reduce_names[p[first].reduce], first, reduce_names[p[a].reduce], a);
    }
    return WEFT_OK;
}

weft_status wf_placements_normalize(weft_placement *out, const weft_placement *in, int n_axes,
                                    int ndim, const char *who)
{
    WF_NEED(in, WEFT_ERR_ARG, "%s: no placements given", who);
    for (int a = 0; a < n_axes; a++) {
        out[a] = in[a];
        switch (in[a].kind) {
        case WEFT_KIND_REPLICATE:
            out[a] = weft_replicate();
            break;
        case WEFT_KIND_SHARD:
            WF_TRY(normalize_shard(&out[a], ndim, a, who));
            break;
        case WEFT_KIND_PARTIAL:
            WF_NEED(in[a].reduce < WEFT_REDUCE_COUNT, WEFT_ERR_ARG,
                    "%s: unknown reduction %d on mesh axis %d", who, in[a].reduce, a);
            out[a] = weft_partial((weft_reduce)in[a].reduce);
            break;
        default:
            return WF_FAIL(WEFT_ERR_ARG, "%s: unknown placement kind %d on mesh axis %d", who,
                           in[a].kind, a);
        }
    }
    return check_reductions(out, n_axes, who);
}
