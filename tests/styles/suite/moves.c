/*
 * moves.c: what a style should send, from layouts and sizes alone.
 *
 * A tensor of n bytes that goes from one layout to another over t ranks takes one collective or
 * none. What a rank sends of it, of which m bytes are its own shard:
 *
 *     P -> R     all-reduce        payload n    sent 2 (t-1)/t n
 *     P -> S     reduce-scatter            n         n - m
 *     S -> R     all-gather                n         (t-1) m
 *     S -> S'    all-to-all                m         m less what stays
 *     R -> S, S -> P, or no change: none
 */
#include <string.h>

#include "suite.h"

const char *const ws_kind_names[WS_KINDS] = {"all-reduce", "all-gather", "reduce-scatter",
                                             "all-to-all"};

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL };

static const weft_coll kinds[WS_KINDS] = {WEFT_COLL_ALL_REDUCE, WEFT_COLL_ALL_GATHER,
                                          WEFT_COLL_REDUCE_SCATTER, WEFT_COLL_ALL_TO_ALL};

/* Where a tensor is moved, and how large it is. */
struct place {
    weft_mesh *mesh;
    int ways, ndim;
    int64_t shape[WEFT_MAX_DIMS], element;
};

enum { BOXES = 16 };

static int64_t numel(const struct place *at)
{
    int64_t n = 1;

    for (int d = 0; d < at->ndim; d++) n *= at->shape[d];
    return n;
}

/* The boxes that this rank holds where the tensor is placed so. */
static int boxes_of(weft_chunk boxes[BOXES], const struct place *at, weft_placement p)
{
    weft_layout layout;

    if (weft_layout_make(&layout, at->mesh, &p, 1, at->shape, at->ndim) != WEFT_OK) return 0;
    return (int)weft_layout_chunks(&layout, NULL, boxes, BOXES);
}

/* Elements that two boxes have in common. */
static int64_t common(const struct place *at, const weft_chunk *a, const weft_chunk *b)
{
    int64_t n = 1;

    for (int d = 0; d < at->ndim; d++) {
        int64_t first = a->offset[d] > b->offset[d] ? a->offset[d] : b->offset[d];
        int64_t end_a = a->offset[d] + a->size[d], end_b = b->offset[d] + b->size[d];
        int64_t end = end_a < end_b ? end_a : end_b;

        n *= end > first ? end - first : 0;
    }
    return n;
}

/* Elements that this rank holds in both placements. */
static int64_t kept(const struct place *at, weft_placement from, weft_placement to)
{
    weft_chunk a[BOXES], b[BOXES];
    int n_a = boxes_of(a, at, from), n_b = boxes_of(b, at, to);
    int64_t n = 0;

    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++) n += common(at, &a[i], &b[j]);
    return n;
}

static int64_t part(const struct place *at, weft_placement p) { return kept(at, p, p); }

static void add(struct ws_tally *tally, int kind, int64_t bytes, int64_t sent)
{
    tally->count[kind]++;
    tally->bytes[kind] += bytes;
    tally->sent[kind] += sent;
}

static void reduce_all(struct ws_tally *tally, int64_t n, int64_t element, int ways)
{
    if (ways > 1) add(tally, ALL_REDUCE, n * element, 2 * n * (ways - 1) / ways * element);
}

static void move(struct ws_tally *tally, const struct place *at, weft_placement from,
                 weft_placement to)
{
    int64_t n = numel(at), e = at->element;

    if (at->ways == 1 || weft_placement_equal(from, to) || weft_is_replicate(from)) return;
    if (weft_is_shard(from) && weft_is_partial(to)) return;
    if (weft_is_partial(from) && weft_is_replicate(to)) {
        reduce_all(tally, n, e, at->ways);
    } else if (weft_is_partial(from)) {
        add(tally, REDUCE_SCATTER, n * e, (n - part(at, to)) * e);
    } else if (weft_is_replicate(to)) {
        add(tally, ALL_GATHER, n * e, part(at, from) * (at->ways - 1) * e);
    } else {
        int64_t own = part(at, from);

        add(tally, ALL_TO_ALL, own * e, (own - kept(at, from, to)) * e);
    }
}

static struct place place_of(const struct ws_case *c, const char *dims, weft_mesh *mesh)
{
    bool is_index = strlen(dims) == 2 && ws_subject_of(c)->layer == WS_EMBEDDING;
    struct place at = {.mesh = mesh, .ways = weft_mesh_size(mesh)};

    at.ndim = ws_shape(at.shape, dims, (enum ws_size)c->at[WS_SIZE_COLUMN], at.ways);
    at.element = (int64_t)weft_dtype_size(is_index ? WEFT_I64 : ws_dtype_of(c));
    return at;
}

/* ---- phases ---- */

/* A distributed leaf that is replicated keeps a partial gradient until somebody reads it. */
static bool input_waits(const struct ws_case *c, const struct ws_layouts *l)
{
    return ws_input_of(c)->distributed && l->has_back && weft_is_replicate(l->given) &&
           weft_is_replicate(l->wants) && weft_is_partial(l->back);
}

static void forward(struct ws_tally *tally, const struct ws_case *c, const struct ws_layouts *l,
                    const struct place *x, const struct place *y)
{
    int64_t tokens = numel(x) / (x->ndim ? x->shape[x->ndim - 1] : 1);

    move(tally, x, l->given, l->wants);
    if (ws_subject_of(c)->own == WS_SUMS) { /* the largest logit; then the sum and the target's */
        reduce_all(tally, tokens, x->element, x->ways);
        reduce_all(tally, 2 * tokens, x->element < 4 ? 4 : x->element, x->ways);
    }
    move(tally, y, l->gives, l->out);
}

static void backward(struct ws_tally *tally, const struct ws_case *c, const struct ws_layouts *l,
                     const struct place *x, const struct place *y)
{
    move(tally, y, ws_gradient_of(l->out), ws_gradient_of(l->gives));
    if (ws_subject_of(c)->own == WS_GATHER && !ws_is_frozen(c)) { /* of the table's gradient */
        struct place table = *y;

        memmove(table.shape, y->shape + 1, 2 * sizeof *y->shape);
        table.ndim = 2;
        move(tally, &table, weft_shard(0), weft_replicate());
    }
    if (l->has_back && !input_waits(c, l)) move(tally, x, l->back, ws_gradient_of(l->given));
}

/* Gradients that wait lie one after another in one buffer, each in whole cache lines. */
static void later(struct ws_tally *tally, const struct ws_case *c, const struct ws_layouts *l,
                  const struct place *x, const struct ws_parameters *p)
{
    const int64_t line = 64 / x->element;
    int64_t n = 0;

    for (int i = 0; i < p->n && !ws_is_frozen(c); i++) {
        int64_t elements = weft_numel(p->at[i].tensor);
        weft_placement layout;
        bool waits;

        ws_parameter_layout(&layout, &waits, c, p->at[i].name, p->at[i].tensor, x->ways);
        if (waits) n += (elements + line - 1) / line * line;
    }
    if (input_waits(c, l)) n += (numel(x) + line - 1) / line * line;
    if (n) reduce_all(tally, n, x->element, x->ways);
}

struct ws_tally ws_expected(const struct ws_case *c, enum ws_phase phase,
                            const struct ws_parameters *parameters, weft_mesh *mesh)
{
    struct place x = place_of(c, ws_layer_of(c)->input, mesh);
    struct place y = place_of(c, ws_layer_of(c)->output, mesh);
    struct ws_tally tally = {.others = 0};
    struct ws_layouts l;

    ws_layouts_of(&l, c);
    if (phase == WS_LATER) {
        later(&tally, c, &l, &x, parameters);
        return tally;
    }
    for (int i = 0; i < ws_subject_of(c)->times; i++)
        (phase == WS_FORWARD ? forward : backward)(&tally, c, &l, &x, &y);
    return tally;
}

struct ws_tally ws_heard(const weft_ledger *ledger, weft_direction direction)
{
    struct ws_tally tally = {
        .others = weft_ledger_count(ledger, WEFT_COLL_COUNT, WEFT_DIRECTION_ANY, NULL)};

    for (int k = 0; k < WS_KINDS; k++) {
        weft_ledger_sum sum = weft_ledger_total(ledger, kinds[k], direction, NULL);

        tally.count[k] = sum.count;
        tally.bytes[k] = sum.bytes;
        tally.sent[k] = sum.sent;
        tally.others -= sum.count;
    }
    return tally;
}
