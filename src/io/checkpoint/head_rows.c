/* head_rows.c: which rows of a group of heads each parameter of attention has, packed or by heads,
 * and copying them. */
#include "io/checkpoint/head_rows.h"

#include <string.h>

#include "base/mem.h"
#include "io/element_type.h"
#include "tensor/tensor.h"

enum { APART = 2 };

/* A packed parameter, and those that have its rows otherwise. */
struct wf_heads_entry {
    int at;
    struct wf_head_rows packed, apart[APART];
};

static const struct wf_heads_entry table[] = {
    {0,
     {"qkv.weight", 2, true, true},
     {{"qkv.q_weight", 1, true, false}, {"qkv.kv_weight", 2, false, true}}},
    {0,
     {"qkv.bias", 2, true, true},
     {{"qkv.q_bias", 1, true, false}, {"qkv.kv_bias", 2, false, true}}},
    {1, {"proj.weight", 2, true, false}, {{"proj.weight", 1, true, false}}},
};
enum { ENTRIES = sizeof table / sizeof *table, WAYS = 1 + APART };

/* ---- names ---- */

/* The last place in a name of `part`, whole names separated by dots; NULL: nowhere. */
static const char *find_last_name_in_module_path(const char *name, const char *part)
{
    size_t length = strlen(part);
    const char *last = NULL;

    for (const char *at = strstr(name, part); at; at = strstr(at + 1, part))
        if ((at == name || at[-1] == '.') && (at[length] == '.' || at[length] == '\0')) last = at;
    return last;
}

static void add_head_source(struct wf_head_sources *sources, const struct wf_head_rows *rows,
                            const char *name, const char *at)
{
    sources->saved[sources->n] = rows;
    sources->names[sources->n++] = wf_format("%.*s%s%s", (int)(at - name), name, rows->name,
                                             at + strlen(sources->wanted->name));
}

void wf_head_sources_free(struct wf_head_sources *sources)
{
    while (sources->n) wf_free(sources->names[--sources->n]);
}

bool wf_head_sources_next(struct wf_head_sources *sources, const char *name)
{
    wf_head_sources_free(sources);
    while (sources->next < ENTRIES * WAYS) {
        const struct wf_heads_entry *entry = &table[sources->next / WAYS];
        int way = sources->next++ % WAYS; /* the packed one, or one of those apart */
        const char *at;

        sources->entry = entry;
        sources->wanted = way ? &entry->apart[way - 1] : &entry->packed;
        at = sources->wanted->name ? find_last_name_in_module_path(name, sources->wanted->name)
                                   : NULL;
        if (!at) continue;
        if (way) add_head_source(sources, &entry->packed, name, at);
        for (int i = 0; !way && i < APART && entry->apart[i].name; i++)
            add_head_source(sources, &entry->apart[i], name, at);
        return true;
    }
    return false;
}

/* ---- shapes ---- */

static int64_t first_head_row(const struct wf_head_rows *rows, int64_t sharers)
{
    return rows->queries ? 0 : sharers;
}

static int64_t count_head_rows(const struct wf_head_rows *rows, int64_t sharers)
{
    return (rows->queries ? sharers : 0) + (rows->shared ? 2 : 0);
}

static bool are_sizes_equal(const int64_t *a, const int64_t *b, int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

bool wf_head_row_map_init(struct wf_head_row_map *map, const struct wf_head_sources *sources,
                          int source, const int64_t *shape, int ndim, const int64_t *saved_shape,
                          int saved_ndim)
{
    const struct wf_head_rows *packed = &sources->entry->packed, *apart = sources->saved[source];
    const int64_t *whole = shape, *other = saved_shape;
    int at = sources->entry->at, n_whole = ndim, n_other = saved_ndim, rest;
    int64_t groups, rows;

    *map = (struct wf_head_row_map){.to = sources->wanted, .from = apart, .at = at};
    if (sources->wanted != packed) {
        apart = sources->wanted;
        whole = saved_shape;
        other = shape;
        n_whole = saved_ndim;
        n_other = ndim;
    }
    rest = n_whole - at - packed->n_dims;
    if (rest < 0 || n_other - at - apart->n_dims != rest) return false;
    groups = whole[at];
    map->sharers = whole[at + 1] - (packed->shared ? 2 : 0);
    /* [3,3,..] may also be queries, keys and values of three heads that share nothing */
    if (map->sharers < 1 || (packed->shared && groups == 3 && map->sharers == 1)) return false;
    rows = count_head_rows(apart, map->sharers);
    if (apart->n_dims == 1 ? other[at] != groups * rows
                           : other[at] != groups || other[at + 1] != rows)
        return false;
    return are_sizes_equal(whole, other, at) &&
           are_sizes_equal(whole + at + packed->n_dims, other + at + apart->n_dims, rest);
}

/* ---- copying ---- */

struct rows_copy {
    const struct wf_head_row_map *map;
    weft_tensor *t;
    const struct wf_local_runs *local;
    const struct wf_file_slice *piece;
    int ndim;
};

/* The row of the saved tensor that has these indices in its mapped dims, `offset` elements after
 * its shard's first, to its place. */
static bool read_mapped_row(const struct rows_copy *copy, const int64_t *index, int64_t offset)
{
    const struct wf_head_row_map *map = copy->map;
    const struct wf_head_rows *from = map->from, *to = map->to;
    int64_t n_from = count_head_rows(from, map->sharers), n_to = count_head_rows(to, map->sharers);
    int64_t group = from->n_dims == 1 ? index[0] / n_from : index[0];
    int64_t row = (from->n_dims == 1 ? index[0] % n_from : index[1]) +
                  first_head_row(from, map->sharers) - first_head_row(to, map->sharers);
    struct wf_index_range runs[2] = {{to->n_dims == 1 ? group * n_to + row : group, 1}, {row, 1}};
    struct wf_file_slice piece = {.type = copy->piece->type};

    if (row < 0 || row >= n_to) return true; /* another tensor's */
    piece.data = (const char *)copy->piece->data +
                 offset * (wf_element_type_info(copy->piece->type)->bits / 8);
    for (int d = 0; d < copy->ndim - from->n_dims + to->n_dims; d++) {
        bool mapped = d >= map->at && d < map->at + to->n_dims;
        int saved = d < map->at ? d : d - to->n_dims + from->n_dims;

        piece.n_runs[d] = mapped ? 1 : copy->piece->n_runs[saved];
        piece.runs[d] = mapped ? &runs[d - map->at] : copy->piece->runs[saved];
        /* of one element: larger than all others, so that it is no inner loop */
        piece.stride[d] = mapped ? INT32_MAX : copy->piece->stride[saved];
    }
    return wf_file_slice_read(copy->t, copy->local, &piece);
}

/* All rows with the first `done` mapped indices given. */
static bool read_mapped_rows(const struct rows_copy *copy, int done, int64_t *index, int64_t offset)
{
    const struct wf_file_slice *piece = copy->piece;
    int d = copy->map->at + done;
    bool ok = true;

    if (done == copy->map->from->n_dims) return read_mapped_row(copy, index, offset);
    for (int64_t i = 0; i < piece->n_runs[d]; i++)
        for (int64_t k = 0; k < piece->runs[d][i].size; k++) {
            index[done] = piece->runs[d][i].offset + k;
            ok &= read_mapped_rows(copy, done + 1, index, offset);
            offset += piece->stride[d];
        }
    return ok;
}

bool wf_head_row_map_read(const struct wf_head_row_map *map, weft_tensor *t,
                          const struct wf_local_runs *local, const struct wf_file_slice *piece,
                          int ndim)
{
    const struct rows_copy copy = {map, t, local, piece, ndim};
    int64_t index[2];

    return map->to ? read_mapped_rows(&copy, 0, index, 0) : wf_file_slice_read(t, local, piece);
}
