/*
 * shard.c: one dim of a rank's shard: local to global indices and back.
 *
 * Each mesh axis that shards the dim keeps a subset of what the axis before it kept, so a shard is
 * a list of cuts. A cut keeps the order of elements; hence so does the list.
 */
#include "placement/shard.h"

#include "placement/layout.h"

/* ---- one axis ---- */

static struct wf_strided_span span_of_rank(int64_t begin, int64_t n, uint8_t rule, int ways, int me)
{
    bool balanced = rule == WEFT_CUT_BALANCED;
    struct wf_strided_span span = {
        .start = begin + (balanced ? weft_balanced_offset : weft_chunk_offset)(n, ways, me),
        .size = (balanced ? weft_balanced_size : weft_chunk_size)(n, ways, me),
        .count = 1,
    };

    span.step = span.size;
    return span;
}

static int rank_owning_index(int64_t at, int64_t n, uint8_t rule, int ways)
{
    int64_t small = n / ways, large = n % ways;

    if (rule == WEFT_CUT_CHUNKS) return (int)(at / ((n + ways - 1) / ways));
    if (at < large * (small + 1)) return (int)(at / (small + 1));
    return (int)(large + (at - large * (small + 1)) / small);
}

/* Elements per piece of a strided shard; the last piece may have fewer, or there are none left. */
static int64_t strided_piece_size(int64_t n, int factor)
{
    return n > factor ? (n - 1) / factor + 1 : 1;
}

/* Where segment i begins in n elements. Of a cut in the same segments: where its shards do. */
static int64_t first_index_of_segment(const struct wf_shard_cut *before, const weft_placement *p,
                                      int64_t n, int i)
{
    int64_t sum = 0, upto = 0, at = 0;

    if (before && before->n == p->n_segments) {
        for (int s = 0; s < i; s++) at += before->span[s].count * before->span[s].size;
        return at;
    }
    for (int s = 0; s < p->n_segments; s++) {
        sum += p->segments[s];
        if (s < i) upto += p->segments[s];
    }
    return n / sum * upto + n % sum * upto / sum;
}

static const struct wf_shard_cut *last_cut(const struct wf_shard *shard)
{
    return shard->n_cuts ? &shard->cuts[shard->n_cuts - 1] : NULL;
}

/* An axis of one rank keeps everything. */
static void cut_by_axis(struct wf_shard *shard, const weft_placement *p, int ways, int me)
{
    struct wf_shard_cut *cut = &shard->cuts[shard->n_cuts];
    int64_t n = shard->size;

    if (ways == 1) return;
    if (p->kind == WEFT_KIND_STRIDED) { /* whole pieces, and what is left */
        int64_t piece = strided_piece_size(n, p->factor), whole = n / piece;

        cut->n = 2;
        cut->span[0] = span_of_rank(0, piece, WEFT_CUT_CHUNKS, ways, me);
        cut->span[0].step = piece;
        cut->span[0].count = whole;
        cut->span[1] = span_of_rank(whole * piece, n % piece, WEFT_CUT_CHUNKS, ways, me);
    } else if (p->n_segments) {
        cut->n = p->n_segments;
        for (int s = 0; s < cut->n; s++) {
            int64_t begin = first_index_of_segment(last_cut(shard), p, n, s),
                    end = first_index_of_segment(last_cut(shard), p, n, s + 1);

            cut->span[s] = span_of_rank(begin, end - begin, p->cut, ways, me);
        }
    } else {
        cut->n = 1;
        cut->span[0] = span_of_rank(0, n, p->cut, ways, me);
    }
    shard->size = 0;
    for (int s = 0; s < cut->n; s++) shard->size += cut->span[s].count * cut->span[s].size;
    shard->n_cuts++;
}

/* Which rank of the axis keeps element `at` of what the shard is now. */
static int rank_owning_element(const struct wf_shard *shard, const weft_placement *p, int ways,
                               int64_t at)
{
    int64_t begin = 0, end = shard->size, n = shard->size;

    if (p->kind == WEFT_KIND_STRIDED) {
        int64_t piece = strided_piece_size(n, p->factor);

        begin = at / piece * piece;
        if (end > begin + piece) end = begin + piece;
    }
    for (int s = 0; s < p->n_segments; s++) {
        begin = first_index_of_segment(last_cut(shard), p, n, s);
        end = first_index_of_segment(last_cut(shard), p, n, s + 1);
        if (at < end) break;
    }
    return rank_owning_index(at - begin, end - begin, p->cut, ways);
}

/* ---- all axes ---- */

int wf_axes_sharding_dim(int *axes, int dim, const weft_placement *placements, int n_axes)
{
    int n = 0;

    for (int a = 0; a < n_axes; a++) {
        int at = n;

        if (!weft_shards(placements[a], dim)) continue;
        for (; at > 0 && placements[axes[at - 1]].order > placements[a].order; at--)
            axes[at] = axes[at - 1];
        axes[at] = a;
        n++;
    }
    return n;
}

bool wf_placements_give_one_box(const weft_placement *placements, int n_axes)
{
    for (int a = 0; a < n_axes; a++)
        if (placements[a].kind == WEFT_KIND_STRIDED || placements[a].n_segments) return false;
    return true;
}

void wf_shard_init(struct wf_shard *shard, int dim, int64_t global, const int *axis_sizes,
                   const int *coordinates, const weft_placement *placements, int n_axes)
{
    int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, dim, placements, n_axes);

    shard->global = shard->size = global;
    shard->n_cuts = 0;
    for (int a = 0; a < n_axes; a++)
        if (coordinates[a] < 0) shard->size = 0;
    for (int i = 0; shard->size > 0 && i < n; i++)
        cut_by_axis(shard, &placements[axes[i]], axis_sizes[axes[i]], coordinates[axes[i]]);
}

int64_t wf_shard_locate_owner(int *coordinates, int64_t index, int dim, int64_t global,
                              const int *axis_sizes, const weft_placement *placements, int n_axes)
{
    int axes[WEFT_MAX_AXES], n = wf_axes_sharding_dim(axes, dim, placements, n_axes);
    struct wf_shard shard = {.global = global, .size = global};
    int64_t local = index;

    for (int i = 0; i < n; i++) {
        const weft_placement *p = &placements[axes[i]];
        int ways = axis_sizes[axes[i]];

        coordinates[axes[i]] = rank_owning_element(&shard, p, ways, local);
        cut_by_axis(&shard, p, ways, coordinates[axes[i]]);
        local = wf_shard_to_local(&shard, index);
    }
    return local;
}

/* ---- local and global indices ---- */

/* Element `at` of what a cut keeps, in what it was cut from. `together`: so many follow it. */
static int64_t index_before_cut(const struct wf_shard_cut *cut, int64_t at, int64_t *together)
{
    const struct wf_strided_span *span = cut->span;
    int64_t inside;

    for (; at >= span->count * span->size; span++) at -= span->count * span->size;
    inside = at % span->size;
    if (*together > span->size - inside) *together = span->size - inside;
    return span->start + at / span->size * span->step + inside;
}

static int64_t index_within_cut(const struct wf_shard_cut *cut, int64_t at)
{
    int64_t before = 0;

    for (int s = 0; s < cut->n; s++) {
        const struct wf_strided_span *span = &cut->span[s];
        int64_t from = at - span->start;

        if (span->size > 0 && from >= 0 && from / span->step < span->count &&
            from % span->step < span->size)
            return before + from / span->step * span->size + from % span->step;
        before += span->count * span->size;
    }
    return -1;
}

static struct wf_index_range range_within_span(const struct wf_shard *shard, int64_t local)
{
    struct wf_index_range run = {.offset = local, .size = shard->size - local};

    for (int c = shard->n_cuts - 1; c >= 0; c--)
        run.offset = index_before_cut(&shard->cuts[c], run.offset, &run.size);
    return run;
}

/* Two stretches may meet, where a strided shard's pieces are so short that one rank gets all. */
struct wf_index_range wf_shard_range_at(const struct wf_shard *shard, int64_t local)
{
    struct wf_index_range run = range_within_span(shard, local), next;

    while (local + run.size < shard->size) {
        next = range_within_span(shard, local + run.size);
        if (next.offset != run.offset + run.size) break;
        run.size += next.size;
    }
    return run;
}

int64_t wf_shard_ranges(const struct wf_shard *shard, struct wf_index_range *runs, int64_t room)
{
    int64_t count = 0, at = 0;

    for (; at < shard->size; count++) {
        struct wf_index_range run = wf_shard_range_at(shard, at);

        if (count < room) runs[count] = run;
        at += run.size;
    }
    return count;
}

int64_t wf_shard_to_global(const struct wf_shard *shard, int64_t local)
{
    return range_within_span(shard, local).offset;
}

int64_t wf_shard_offset(const struct wf_shard *shard)
{
    return shard->size > 0 ? wf_shard_to_global(shard, 0) : shard->global;
}

int64_t wf_shard_to_local(const struct wf_shard *shard, int64_t global)
{
    int64_t local = shard->size > 0 ? global : -1;

    for (int c = 0; local >= 0 && c < shard->n_cuts; c++)
        local = index_within_cut(&shard->cuts[c], local);
    return local;
}

/* ---- boxes ---- */

void wf_local_box(int64_t *shape, int64_t *offset, const int64_t *global, int ndim,
                  const int *axis_sizes, const int *coordinates, const weft_placement *placements,
                  int n_axes)
{
    for (int d = 0; d < ndim; d++) {
        struct wf_shard shard;

        wf_shard_init(&shard, d, global[d], axis_sizes, coordinates, placements, n_axes);
        shape[d] = shard.size;
        offset[d] = wf_shard_offset(&shard);
    }
}

bool wf_shards_equal(const struct wf_shard *a, const struct wf_shard *b)
{
    if (a->size != b->size) return false;
    for (int64_t at = 0; at < a->size;) {
        struct wf_index_range x = wf_shard_range_at(a, at), y = wf_shard_range_at(b, at);

        if (x.offset != y.offset || x.size != y.size) return false;
        at += x.size;
    }
    return true;
}
