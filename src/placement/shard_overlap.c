/* shard_overlap.c: a merge of two ascending lists of ranges; what repeats evenly is one span. */
#include "placement/shard_overlap.h"

#include "base/mem.h"

/* ---- the overlap of one dim ---- */

static bool continues_span(const struct wf_overlap_span *s, int64_t a, int64_t b)
{
    return s->count == 1 && a == s->a + s->size && b == s->b + s->size;
}

/* A second one says how far apart they lie, the others have to agree. */
static bool repeats_span(struct wf_overlap_span *s, int64_t a, int64_t b, int64_t size)
{
    if (s->size != size) return false;
    if (s->count == 1) {
        s->a_step = a - s->a;
        s->b_step = b - s->b;
        return true;
    }
    return a == s->a + s->count * s->a_step && b == s->b + s->count * s->b_step;
}

static void append_overlap(struct wf_overlap *o, int64_t a, int64_t b, int64_t size)
{
    struct wf_overlap_span *last = o->n ? &o->spans[o->n - 1] : NULL;

    if (last && continues_span(last, a, b)) {
        last->size += size;
    } else if (last && repeats_span(last, a, b, size)) {
        last->count++;
    } else {
        if (o->n == o->room) {
            o->room = o->room ? 2 * o->room : 4;
            o->spans = wf_realloc(o->spans, (size_t)o->room * sizeof *o->spans);
        }
        o->spans[o->n++] =
            (struct wf_overlap_span){.count = 1, .size = size, .a = a, .b = b, .shared = o->total};
    }
    o->total += size;
}

/* A walk along the ranges of a shard, or of an array of `n` of them. */
struct range_cursor {
    const struct wf_shard *shard;
    const struct wf_index_range *of;
    int64_t n;
    int64_t local; /* elements before the range */
    struct wf_index_range range;
};

static bool read_range(struct range_cursor *c)
{
    if (c->shard) {
        if (c->local >= c->shard->size) return false;
        c->range = wf_shard_range_at(c->shard, c->local);
        return true;
    }
    if (c->n-- == 0) return false;
    c->range = *c->of++;
    return true;
}

static bool next_range(struct range_cursor *c)
{
    c->local += c->range.size;
    return read_range(c);
}

static void merge_ranges(struct wf_overlap *o, struct range_cursor *a, struct range_cursor *b)
{
    bool more = read_range(a) && read_range(b);

    o->n = 0;
    o->total = 0;
    while (more) {
        struct wf_index_range both = wf_index_range_intersect(a->range, b->range);

        if (both.size > 0)
            append_overlap(o, a->local + both.offset - a->range.offset,
                           b->local + both.offset - b->range.offset, both.size);
        if (a->range.offset + a->range.size <= b->range.offset + b->range.size)
            more = next_range(a);
        else
            more = next_range(b);
    }
}

void wf_overlap_compute(struct wf_overlap *o, const struct wf_shard *a, const struct wf_shard *b)
{
    merge_ranges(o, &(struct range_cursor){.shard = a}, &(struct range_cursor){.shard = b});
}

void wf_overlap_compute_ranges(struct wf_overlap *o, const struct wf_index_range *a, int64_t n_a,
                               const struct wf_index_range *b, int64_t n_b)
{
    merge_ranges(o, &(struct range_cursor){.of = a, .n = n_a},
                 &(struct range_cursor){.of = b, .n = n_b});
}

void wf_overlap_free(struct wf_overlap *overlap) { wf_free(overlap->spans); }

/* ---- copies ---- */

static int64_t span_start(const struct wf_overlap_span *s, enum wf_copy_side_kind kind)
{
    return kind == WF_SIDE_FIRST_SHARD ? s->a : kind == WF_SIDE_SECOND_SHARD ? s->b : s->shared;
}

static int64_t span_step(const struct wf_overlap_span *s, enum wf_copy_side_kind kind)
{
    return kind == WF_SIDE_FIRST_SHARD    ? s->a_step
           : kind == WF_SIDE_SECOND_SHARD ? s->b_step
                                          : s->size;
}

/* One copy of one span per dim: a repeated span is two loops. */
static void init_copy_of_spans(const struct wf_overlap_copies *all, struct wf_strided_copy *copy)
{
    const struct wf_copy_side *src = &all->src, *dst = &all->dst;
    int64_t shape[WF_COPY_LOOPS], from[WF_COPY_LOOPS], to[WF_COPY_LOOPS];
    int64_t src_at = src->offset, dst_at = dst->offset;
    int n = 0;

    for (int d = 0; d < all->ndim; d++) {
        const struct wf_overlap_span *s = &all->overlap[d].spans[all->choice[d]];

        src_at += span_start(s, src->kind) * src->stride[d];
        dst_at += span_start(s, dst->kind) * dst->stride[d];
        if (s->count > 1) {
            shape[n] = s->count;
            from[n] = span_step(s, src->kind) * src->stride[d];
            to[n++] = span_step(s, dst->kind) * dst->stride[d];
        }
        shape[n] = s->size;
        from[n] = src->stride[d];
        to[n++] = dst->stride[d];
    }
    wf_strided_copy_init(copy, shape, from, to, n, all->element);
    copy->src_offset = src_at * (int64_t)all->element;
    copy->dst_offset = dst_at * (int64_t)all->element;
}

/* The first choice of a span per dim; none where a dim has no overlap. */
static bool choose_first_spans(struct wf_overlap_copies *all)
{
    all->begun = true;
    for (int d = 0; d < all->ndim; d++)
        if (all->overlap[d].total == 0) return false;
    return true;
}

/* The next one, the last dim's first. */
static bool choose_next_spans(struct wf_overlap_copies *all)
{
    for (int d = all->ndim - 1; d >= 0; d--) {
        if (++all->choice[d] < all->overlap[d].n) return true;
        all->choice[d] = 0;
    }
    return false;
}

bool wf_overlap_next_copy(struct wf_overlap_copies *all, struct wf_strided_copy *copy)
{
    if (all->begun ? !choose_next_spans(all) : !choose_first_spans(all)) return false;
    init_copy_of_spans(all, copy);
    return true;
}

void wf_shard_copy(void *dst, const struct wf_shard *to, const void *src,
                   const struct wf_shard *from, int ndim, size_t element,
                   wf_strided_copy_runner *run)
{
    struct wf_overlap overlap[WEFT_MAX_DIMS] = {{0}};
    struct wf_overlap_copies all = {.ndim = ndim,
                                    .overlap = overlap,
                                    .src = {.kind = WF_SIDE_FIRST_SHARD},
                                    .dst = {.kind = WF_SIDE_SECOND_SHARD},
                                    .element = element};
    int64_t shape[2][WEFT_MAX_DIMS];
    struct wf_strided_copy copy;

    for (int d = 0; d < ndim; d++) {
        wf_overlap_compute(&overlap[d], &from[d], &to[d]);
        shape[0][d] = from[d].size;
        shape[1][d] = to[d].size;
    }
    wf_row_major_strides(all.src.stride, shape[0], ndim);
    wf_row_major_strides(all.dst.stride, shape[1], ndim);
    while (wf_overlap_next_copy(&all, &copy)) run(&copy, dst, src);
    for (int d = 0; d < ndim; d++) wf_overlap_free(&overlap[d]);
}
