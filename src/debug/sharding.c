/* sharding.c: where shards begin and end, for all ranks of a mesh. Pure. */
#include "debug/sharding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "mesh/mesh.h"

static void coordinates_of_rank(const weft_mesh *mesh, int index, int *coordinates)
{
    for (int a = weft_mesh_ndim(mesh) - 1; a >= 0; a--) {
        coordinates[a] = index % weft_mesh_axis_size(mesh, a);
        index /= weft_mesh_axis_size(mesh, a);
    }
}

static struct wf_shard *shards_of_all_ranks(const struct wf_sharding *s, int dim)
{
    const struct wf_layout *l = s->layout;
    struct wf_shard *shards = wf_malloc((size_t)s->n_ranks * sizeof *shards);
    int coordinates[WEFT_MAX_AXES];

    for (int r = 0; r < s->n_ranks; r++) {
        coordinates_of_rank(l->mesh, r, coordinates);
        wf_shard_init(&shards[r], dim, l->desc.global[dim], wf_mesh_sizes(l->mesh), coordinates,
                      l->placements, l->n_axes);
    }
    return shards;
}

static int compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Sorted, each once. */
static int sort_unique(int64_t *values, size_t n)
{
    int count = 0;

    qsort(values, n, sizeof *values, compare_int64);
    for (size_t i = 0; i < n; i++)
        if (!count || values[count - 1] != values[i]) values[count++] = values[i];
    return count;
}

static void collect_shard_bounds(struct wf_sharding_dim *dim, const struct wf_shard *shards,
                                 int n_ranks)
{
    size_t n = 2, room = 64;
    struct wf_index_range run;

    dim->bounds = wf_malloc(room * sizeof *dim->bounds);
    dim->bounds[0] = 0;
    dim->bounds[1] = shards[0].global;
    for (int r = 0; r < n_ranks; r++)
        for (int64_t at = 0; at < shards[r].size; at += run.size) {
            run = wf_shard_range_at(&shards[r], at);
            if (n + 2 > room) {
                n = (size_t)sort_unique(dim->bounds, n); /* most ranks have the same */
                room = 2 * n + 64;
                dim->bounds = wf_realloc(dim->bounds, room * sizeof *dim->bounds);
            }
            dim->bounds[n++] = run.offset;
            dim->bounds[n++] = run.offset + run.size;
        }
    dim->n = sort_unique(dim->bounds, n) - 1;
}

static void mark_ranks_holding_intervals(struct wf_sharding_dim *dim, const struct wf_shard *shards,
                                         int n_ranks)
{
    dim->holds = wf_malloc((size_t)dim->n * (size_t)n_ranks * sizeof *dim->holds);
    for (int i = 0; i < dim->n; i++)
        for (int r = 0; r < n_ranks; r++)
            dim->holds[i * n_ranks + r] = wf_shard_to_local(&shards[r], dim->bounds[i]) >= 0;
}

struct wf_sharding *wf_sharding_new(const struct wf_layout *layout)
{
    struct wf_sharding *s = WF_NEW(struct wf_sharding);

    s->layout = layout;
    s->ndim = layout->desc.ndim;
    s->n_ranks = weft_mesh_size(layout->mesh);
    s->numbers = wf_malloc((size_t)s->n_ranks * sizeof *s->numbers);
    weft_mesh_ranks(layout->mesh, s->numbers, s->n_ranks);
    for (int d = 0; d < s->ndim; d++) {
        struct wf_shard *shards = shards_of_all_ranks(s, d);

        collect_shard_bounds(&s->dims[d], shards, s->n_ranks);
        mark_ranks_holding_intervals(&s->dims[d], shards, s->n_ranks);
        wf_free(shards);
    }
    return s;
}

void wf_sharding_free(struct wf_sharding *s)
{
    for (int d = 0; d < s->ndim; d++) {
        wf_free(s->dims[d].bounds);
        wf_free(s->dims[d].holds);
    }
    wf_free(s->numbers);
    wf_free(s);
}

int wf_sharding_cell_ranks(const struct wf_sharding *s, const int *interval, int *ranks)
{
    int n = 0;

    for (int r = 0; r < s->n_ranks; r++) {
        bool holds = true;

        for (int d = 0; d < s->ndim && holds; d++)
            holds = s->dims[d].holds[interval[d] * s->n_ranks + r];
        if (holds) ranks[n++] = r;
    }
    return n;
}

void wf_sharding_ranks_text(const struct wf_sharding *s, const int *ranks, int n, char *text,
                            size_t bytes)
{
    int64_t *numbers = wf_malloc(((size_t)n + 1) * sizeof *numbers);
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < n; i++) numbers[i] = s->numbers[ranks[i]];
    n = sort_unique(numbers, (size_t)n);
    for (int i = 0, last; i < n; i = last + 1) {
        char item[48];
        size_t length;

        for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1;) last++;
        length = (size_t)snprintf(item, sizeof item, last > i + 1 ? "%s%lld-%lld" : "%s%lld",
                                  i ? "," : "", (long long)numbers[i], (long long)numbers[last]);
        if (last == i + 1) last = i; /* two in a row are no range */
        if (used + length + 3 > bytes) {
            memcpy(text + used, "..", 3);
            break;
        }
        memcpy(text + used, item, length + 1);
        used += length;
    }
    wf_free(numbers);
}

bool wf_sharding_next_slice(const struct wf_sharding *s, int *interval)
{
    for (int d = s->ndim - 3; d >= 0; d--) {
        if (++interval[d] < s->dims[d].n) return true;
        interval[d] = 0;
    }
    return false;
}

void wf_sharding_slice_text(const struct wf_sharding *s, const int *interval, char *text,
                            size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "[");

    for (int d = 0; d < s->ndim && used < bytes; d++) {
        const int64_t *bounds = &s->dims[d].bounds[interval[d]];
        const char *comma = d ? ", " : "";

        if (d < s->ndim - 2)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld:%lld", comma,
                                     (long long)bounds[0], (long long)bounds[1]);
        else
            used += (size_t)snprintf(text + used, bytes - used, "%s:", comma);
    }
    if (used < bytes) snprintf(text + used, bytes - used, "]");
}

bool wf_sharding_drawn_by_this_rank(const struct wf_layout *layout)
{
    if (weft_mesh_is_fake(layout->mesh)) return true;
    for (int a = 0; a < layout->n_axes; a++)
        if (weft_mesh_coordinate(layout->mesh, a) != 0) return false;
    return true;
}
