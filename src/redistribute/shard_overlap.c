/* shard_overlap.c: a merge of two growing lists of runs; what repeats evenly is one span. */
#include "redistribute/shard_overlap.h"

#include "base/int_math.h"
#include "base/mem.h"

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

void wf_overlap_compute(struct wf_overlap *o, const struct wf_shard *a, const struct wf_shard *b)
{
    struct wf_index_range in_a = {0}, in_b = {0};
    int64_t at_a = 0, at_b = 0; /* where the runs start in their shards */

    o->n = 0;
    o->total = 0;
    if (a->size == 0 || b->size == 0) return;
    in_a = wf_shard_range_at(a, 0);
    in_b = wf_shard_range_at(b, 0);
    for (;;) {
        int64_t end_a = in_a.offset + in_a.size, end_b = in_b.offset + in_b.size;
        int64_t begin = in_a.offset > in_b.offset ? in_a.offset : in_b.offset;
        int64_t end = wf_min_i64(end_a, end_b);

        if (begin < end)
            append_overlap(o, at_a + begin - in_a.offset, at_b + begin - in_b.offset, end - begin);
        if (end_a <= end_b) {
            at_a += in_a.size;
            if (at_a >= a->size) return;
            in_a = wf_shard_range_at(a, at_a);
        } else {
            at_b += in_b.size;
            if (at_b >= b->size) return;
            in_b = wf_shard_range_at(b, at_b);
        }
    }
}

void wf_overlap_free(struct wf_overlap *overlap) { wf_free(overlap->spans); }
