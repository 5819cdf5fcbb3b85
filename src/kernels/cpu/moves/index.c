/*
 * index.c: elements of a table taken by index tensors.
 *
 *   index    y[a.., i.., b..] = x[a.., with index[k][i..] in the dims that are counted, b..]
 *   gather   y[i..] = x[i.. with index[i..] in one dim]
 *
 * What lies outside this rank's box of the table is 0, so that the ranks' results add up.
 */
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/stream_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/operands/index_operands.h"
#include "kernels/operands/operand_checks.h"

struct take {
    struct wf_index_walk walk;
    bool far, streamed; /* a table beyond the caches; rows that go past them */
};

/* How many rows before its turn a row of a large table is asked for. */
enum { AHEAD = 4 };

static void take_rows(const struct wf_index_walk *walk, const void *with, char *table, int64_t n,
                      const int64_t *place, char *rows)
{
    const struct take *p = with;
    int64_t step = n > 1 ? place[1] - place[0] : 0;
    /* rows that lie beside each other the processor foresees, and asking only takes time */
    bool beside = llabs(step) == walk->row_bytes, ask = p->far && !beside;

    for (int64_t i = 0; i < n; i++, rows += walk->row_bytes) {
        if (ask && i + AHEAD < n && place[i + AHEAD] >= 0)
            wf_prefetch(table + place[i + AHEAD], walk->row_bytes);
        if (place[i] < 0)
            memset(rows, 0, (size_t)walk->row_bytes);
        else if (p->streamed && beside && step < 0)
            wf_stream_copy_backward(rows, table + place[i], (size_t)walk->row_bytes);
        else if (p->streamed)
            wf_stream_copy(rows, table + place[i], (size_t)walk->row_bytes);
        else
            wf_copy_row(rows, table + place[i], (size_t)walk->row_bytes);
    }
}

/* Rows of one element. */
#define TAKE_ELEMENTS(name, type)                                                                  \
    static void name(const struct wf_index_walk *walk, const void *with, char *table, int64_t n,   \
                     const int64_t *place, char *rows)                                             \
    {                                                                                              \
        type *to = (type *)(void *)rows;                                                           \
                                                                                                   \
        (void)walk, (void)with;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = place[i] < 0 ? 0 : *(const type *)(const void *)(table + place[i]);            \
    }                                                                                              \
    static void name##_plain(const struct wf_kernel_call *k, const struct wf_index_walk *walk,     \
                             const void *with, char *table, int64_t n, const int64_t *at,          \
                             char *rows)                                                           \
    {                                                                                              \
        (void)with;                                                                                \
        WF_EACH_INDEXED_ELEMENT(type, type, *row = *to)                                            \
    }
TAKE_ELEMENTS(take_2_bytes, uint16_t)
TAKE_ELEMENTS(take_4_bytes, uint32_t)
TAKE_ELEMENTS(take_8_bytes, uint64_t)

static struct wf_index_visits visits_of_rows(const struct wf_index_walk *walk)
{
    switch (walk->row_elements == 1 ? walk->row_bytes : 0) {
    case 2:
        return (struct wf_index_visits){take_2_bytes, take_2_bytes_plain};
    case 4:
        return (struct wf_index_visits){take_4_bytes, take_4_bytes_plain};
    case 8:
        return (struct wf_index_visits){take_8_bytes, take_8_bytes_plain};
    }
    return (struct wf_index_visits){take_rows, NULL};
}

static void run_take(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct take *p = k->prep;

    (void)scalars;
    wf_index_walk_run(k, &p->walk, (char *)in[0], out[0], (const char *const *)(in + 1),
                      visits_of_rows(&p->walk), p);
    if (p->streamed) wf_stream_end();
}

static void free_take(void *prep)
{
    struct take *p = prep;

    wf_index_walk_free(&p->walk);
    wf_free(p);
}

static weft_status prepare_take(struct wf_kernel_call *k, const struct wf_index_operands *operands)
{
    const struct wf_tensor_desc *x = k->in[0];
    struct take *p = WF_NEW(struct take);

    k->prep = p;
    k->drop = free_take;
    if (x->dtype != k->out[0]->dtype) return wf_fail_no_kernel(k, x->dtype);
    WF_TRY(wf_index_walk_make(k, &p->walk, operands));
    p->far = x->numel * (int64_t)wf_dtypes[x->dtype].size > WF_FAR_TABLE;
    p->streamed = wf_is_streamed(p->walk.count * p->walk.row_bytes, p->walk.row_bytes);
    k->run = k->out[0]->numel ? run_take : wf_kernel_run_noop;
    return WEFT_OK;
}

weft_status wf_cpu_index(struct wf_kernel_call *k)
{
    struct wf_index_operands o = wf_index_operands_of_dims(k->in[0], k->in[0]->stride, k->out[0],
                                                           k->attrs->index.at, k->attrs->index.dim);

    o.wrap = k->attrs->index.wrap;
    o.n_indices = k->n_in - 1;
    for (int i = 0; i < o.n_indices; i++) o.index[i] = k->in[i + 1];
    wf_index_operands_align(&o, (int)k->attrs->index.at);
    return prepare_take(k, &o);
}

weft_status wf_cpu_gather(struct wf_kernel_call *k)
{
    struct wf_index_operands o = {.rows = k->out[0],
                                  .table = k->in[0],
                                  .n_indices = 1,
                                  .index = {k->in[1]},
                                  .counted_dim = {(int)k->attrs->dim.dim}};

    for (int d = 0; d < o.rows->ndim; d++)
        o.table_stride[d] = d == k->attrs->dim.dim ? 0 : k->in[0]->stride[d];
    return prepare_take(k, &o);
}
