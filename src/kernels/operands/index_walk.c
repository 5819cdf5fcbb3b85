/* index_walk.c: see the header. */
#include "kernels/operands/index_walk.h"

#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"

/* The trailing dims that no index tensor has and that lie alike, without gaps, on both sides. */
static int first_dim_of_row(const struct wf_index_operands *o, const struct wf_index_walk *walk)
{
    int d = o->rows->ndim;
    int64_t expected = 1;

    for (; d > 0; d--) {
        if (o->rows->shape[d - 1] != 1) {
            if (o->table_stride[d - 1] != expected) return d;
            for (int i = 0; i < o->n_indices; i++)
                if (walk->index[i].step[d - 1] != 0) return d;
        }
        expected *= o->rows->shape[d - 1];
    }
    return d;
}

static void place_index(const struct wf_index_operands *o, int i, struct wf_walked_index *to)
{
    const struct wf_tensor_desc *index = o->index[i], *table = o->table;
    int counted = o->counted_dim[i];
    int64_t bytes = wf_dtypes[index->dtype].size;

    to->wide = index->dtype == WEFT_I64;
    for (int d = 0; d < index->ndim; d++)
        if (index->shape[d] != 1) to->step[o->first_dim[i] + d] = index->stride[d] * bytes;
    to->global = table->global[counted];
    to->offset = table->offset[counted];
    to->size = table->shape[counted];
    to->table_step = table->stride[counted] * wf_dtypes[table->dtype].size;
    if (!table->runs || table->runs->count[counted] == 0) return;
    to->runs = table->runs->of[counted];
    to->n_runs = table->runs->count[counted];
    to->first_local = wf_calloc((size_t)to->n_runs, sizeof *to->first_local);
    for (int64_t r = 1; r < to->n_runs; r++)
        to->first_local[r] = to->first_local[r - 1] + to->runs[r - 1].size;
}

void wf_index_walk_free(struct wf_index_walk *walk)
{
    for (int i = 0; i < walk->n_indices; i++) wf_free(walk->index[i].first_local);
}

weft_status wf_index_walk_make(const struct wf_kernel_call *k, struct wf_index_walk *walk,
                               const struct wf_index_operands *o)
{
    int64_t bytes = wf_dtypes[o->table->dtype].size;
    int row;

    walk->n_indices = o->n_indices;
    walk->wrap = o->wrap;
    for (int i = 0; i < o->n_indices; i++) {
        uint8_t dtype = o->index[i]->dtype;

        WF_NEED(dtype == WEFT_I32 || dtype == WEFT_I64, WEFT_ERR_DTYPE,
                "%s: indices are %s, not i32 or i64", k->op, weft_dtype_name((weft_dtype)dtype));
        place_index(o, i, &walk->index[i]);
    }
    row = first_dim_of_row(o, walk);
    walk->row_elements = walk->count = 1;
    for (int d = 0; d < o->rows->ndim; d++) {
        if (d >= row) {
            walk->row_elements *= o->rows->shape[d];
            continue;
        }
        walk->shape[d] = o->rows->shape[d];
        walk->table_step[d] = o->table_stride[d] * bytes;
        walk->count *= walk->shape[d];
    }
    walk->n_dims = row;
    if (row == 0) walk->shape[walk->n_dims++] = 1;
    walk->row_bytes = walk->row_elements * (int64_t)wf_dtypes[o->rows->dtype].size;
    return WEFT_OK;
}

/* The local index of global element `at` in a shard of several runs; -1: another rank's. */
static int64_t local_index_in_runs(const struct wf_walked_index *index, int64_t at)
{
    int64_t low = 0, high = index->n_runs;

    while (high - low > 1) {
        int64_t middle = (low + high) / 2;

        if (index->runs[middle].offset <= at)
            low = middle;
        else
            high = middle;
    }
    at -= index->runs[low].offset;
    return at >= 0 && at < index->runs[low].size ? index->first_local[low] + at : -1;
}

static inline int64_t read_index(const struct wf_walked_index *index, const char *at)
{
    return index->wide ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

static void die_of_index(const struct wf_kernel_call *k, int64_t v, int64_t global)
{
    WF_DIE("%s: index %lld is outside a dim of %lld elements", k->op, (long long)v,
           (long long)global);
}

/* Bytes from the table's first element to where the indices point; -1: not on this rank. */
static inline int64_t place_in_table(const struct wf_kernel_call *k,
                                     const struct wf_index_walk *walk, const char *const *at)
{
    int64_t place = 0;
    bool here = true;

    for (int i = 0; i < walk->n_indices; i++) {
        const struct wf_walked_index *index = &walk->index[i];
        int64_t v = read_index(index, at[i]);
        int64_t local = v < 0 && walk->wrap ? v + index->global : v;

        if (local < 0 || local >= index->global) die_of_index(k, v, index->global);
        local = index->runs ? local_index_in_runs(index, local) : local - index->offset;
        here &= local >= 0 && local < index->size;
        place += local * index->table_step;
    }
    return here ? place : -1;
}

int64_t wf_index_from_end(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                          int64_t v)
{
    const int64_t global = walk->index[0].global;

    if (v >= 0 || v < -global || !walk->wrap) die_of_index(k, v, global);
    return v + global;
}

/* Places of `n` rows, whose index is i64 in a row and counts a dim that this rank has whole. */
static void place_by_one_index(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                               const int64_t *at, int64_t n, int64_t *place)
{
    const int64_t step = walk->index[0].table_step, along = walk->table_step[walk->n_dims - 1];
    const uint64_t global = (uint64_t)walk->index[0].global;

    for (int64_t j = 0; j < n; j++) {
        int64_t v = at[j], local = (uint64_t)v < global ? v : wf_index_from_end(k, walk, v);

        place[j] = local * step + j * along;
    }
}

static bool is_one_plain_index(const struct wf_index_walk *walk)
{
    const struct wf_walked_index *index = &walk->index[0];

    return walk->n_indices == 1 && index->wide && !index->runs && index->size == index->global &&
           index->step[walk->n_dims - 1] == sizeof(int64_t);
}

static void place_rows(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                       const char **at, int64_t n, int64_t *place)
{
    int last = walk->n_dims - 1;

    for (int64_t j = 0; j < n; j++) {
        int64_t own = place_in_table(k, walk, at);

        place[j] = own < 0 ? -1 : own + j * walk->table_step[last];
        for (int i = 0; i < walk->n_indices; i++) at[i] += walk->index[i].step[last];
    }
}

struct index_cursor {
    char *table;
    const char *index[WF_MAX_INDICES];
    int64_t at[WEFT_MAX_DIMS];
};

/* To the next index of the walked dims but the last; false after the last of them. */
static bool advance(const struct wf_index_walk *walk, struct index_cursor *c)
{
    for (int d = walk->n_dims - 2; d >= 0; d--) {
        int64_t back = 0;

        if (++c->at[d] == walk->shape[d]) back = walk->shape[d], c->at[d] = 0;
        c->table += walk->table_step[d] * (1 - back);
        for (int i = 0; i < walk->n_indices; i++)
            c->index[i] += walk->index[i].step[d] * (1 - back);
        if (!back) return true;
    }
    return false;
}

/* The innermost walked dim, a block of rows after the other. */
static void visit_blocks(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                         struct index_cursor *c, bool plain, char *rows, wf_index_visit *visit,
                         const void *with)
{
    int last = walk->n_dims - 1;
    const char *at[WF_MAX_INDICES];
    int64_t place[WF_INDEX_BLOCK];

    for (int i = 0; i < walk->n_indices; i++) at[i] = c->index[i];
    for (int64_t j = 0; j < walk->shape[last]; j += WF_INDEX_BLOCK) {
        int64_t left = walk->shape[last] - j, n = left < WF_INDEX_BLOCK ? left : WF_INDEX_BLOCK;

        if (plain)
            place_by_one_index(k, walk, (const int64_t *)(const void *)at[0] + j, n, place);
        else
            place_rows(k, walk, at, n, place);
        visit(walk, with, c->table + j * walk->table_step[last], n, place, rows);
        rows += n * walk->row_bytes;
    }
}

void wf_index_walk_run(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                       char *table, char *rows, const char *const *index,
                       struct wf_index_visits visits, const void *with)
{
    struct index_cursor c = {.table = table};
    int64_t n = walk->shape[walk->n_dims - 1];
    bool plain = is_one_plain_index(walk);

    if (walk->count == 0) return;
    for (int i = 0; i < walk->n_indices; i++) c.index[i] = index[i];
    do {
        if (plain && visits.plain && walk->row_elements == 1)
            visits.plain(k, walk, with, c.table, n, (const int64_t *)(const void *)c.index[0],
                         rows);
        else
            visit_blocks(k, walk, &c, plain, rows, visits.rows, with);
        rows += n * walk->row_bytes;
    } while (advance(walk, &c));
}
