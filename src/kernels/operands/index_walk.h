/*
 * index_walk.h: elements of a table by index tensors, as ops of indexing read and write them.
 *
 * A walk goes over the elements on the other side, the rows: for each, its place in the table is
 * the sum of strides over the walked dims (those that rows and table share) and, for each index
 * tensor, of the index times the stride of the dim that it counts. Of the dims that are counted a
 * rank may have some elements: indices that count others have no place here.
 */
#pragma once

#include "kernels/kernels.h"

enum { WF_MAX_INDICES = WF_MAX_IN - 1 };

struct wf_walked_index {
    bool wide;                    /* i64, not i32 */
    int64_t step[WEFT_MAX_DIMS];  /* bytes from one index to the next, 0 where it has no such dim */
    int64_t global, offset, size; /* of the dim that it counts, and of this rank's box of it */
    const struct wf_index_range *runs; /* NULL: a box; else what this rank has of the dim */
    int64_t n_runs, *first_local;      /* local index at which each run begins */
    int64_t table_step;                /* bytes in the table */
};

struct wf_index_walk {
    int n_dims; /* walked dims, the last of which is the inner loop; at least 1 */
    int64_t shape[WEFT_MAX_DIMS];
    int64_t table_step[WEFT_MAX_DIMS]; /* bytes */
    /* what lies together on both sides behind the walked dims; bytes of the rows' dtype */
    int64_t row_elements, row_bytes;
    int n_indices;
    struct wf_walked_index index[WF_MAX_INDICES];
    bool wrap;     /* negative indices count from the end */
    int64_t count; /* rows */
};

/** What a kernel says of its operands before the walk is made. `table_stride`: of the dims of
 *  `rows`, in elements, 0 for dims that the table lacks. */
struct wf_index_operands {
    const struct wf_tensor_desc *rows, *table;
    int64_t table_stride[WEFT_MAX_DIMS];
    int n_indices;
    const struct wf_tensor_desc *index[WF_MAX_INDICES];
    int first_dim[WF_MAX_INDICES];   /* dim of the rows that is the index tensor's first */
    int counted_dim[WF_MAX_INDICES]; /* dim of the table */
    bool wrap;
};

/** The rows are row-major. fails: WEFT_ERR_DTYPE for indices that are not i32 or i64 */
weft_status wf_index_walk_make(const struct wf_kernel_call *k, struct wf_index_walk *walk,
                               const struct wf_index_operands *operands);

void wf_index_walk_free(struct wf_index_walk *walk);

/** Elements of a block of rows. */
enum { WF_INDEX_BLOCK = 256 };

/** What is done with `n` rows that follow each other: row i belongs to `table` + place[i], in
 * bytes; place[i] is -1 where this rank has none of it. */
typedef void wf_index_visit(const struct wf_index_walk *walk, const void *with, char *table,
                            int64_t n, const int64_t *place, char *rows);

/** The same where rows are single elements, indices i64, each after the other, and count one dim
 * that this rank has whole. */
typedef void wf_index_visit_plain(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                                  const void *with, char *table, int64_t n, const int64_t *at,
                                  char *rows);

/** What an index that is not within [0, global) stands for; ends the job where that is nothing. */
int64_t wf_index_from_end(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                          int64_t v);

/** The loop of a wf_index_visit_plain: `to` is the element of the table, `*row` what lies on the
 * other side. Index, check and element in one pass take half as long as one after the other. */
#define WF_EACH_INDEXED_ELEMENT(row_type, type, statement)                                         \
    {                                                                                              \
        const uint64_t global = (uint64_t)walk->index[0].global;                                   \
        const int64_t step = walk->index[0].table_step,                                            \
                      along = walk->table_step[walk->n_dims - 1];                                  \
        row_type *row = (row_type *)(void *)rows;                                                  \
                                                                                                   \
        for (int64_t j = 0; j < n; j++, row++, table += along) {                                   \
            const int64_t v = at[j],                                                               \
                          local = (uint64_t)v < global ? v : wf_index_from_end(k, walk, v);        \
            type *to = (type *)(void *)(table + local * step);                                     \
                                                                                                   \
            statement;                                                                             \
        }                                                                                          \
    }

struct wf_index_visits {
    wf_index_visit *rows;
    wf_index_visit_plain *plain; /* NULL: none for such elements */
};

/** Visit the rows in their order. An index outside its dim ends the job. */
void wf_index_walk_run(const struct wf_kernel_call *k, const struct wf_index_walk *walk,
                       char *table, char *rows, const char *const *index,
                       struct wf_index_visits visits, const void *with);
