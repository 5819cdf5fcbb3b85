/*
 * copy.c: kernels that only move elements: copy, fill, cat.
 *
 * A copy is memcpy where both sides have stride 1, goes in square tiles where one side runs along
 * another dim than the other, and element by element otherwise.
 */
#include "kernels/cpu/moves/copy.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/pointwise/pointwise.h"

enum { TILE = 8 };

static void copy_nothing(const struct wf_strided_copy_plan *c, char *to, const char *from)
{
    (void)c, (void)to, (void)from;
}

static void copy_contiguous(const struct wf_strided_copy_plan *c, char *to, const char *from)
{
    memcpy(to, from, (size_t)(c->line.size * c->bytes));
}

static void copy_rows(const struct wf_strided_copy_plan *c, char *to, const char *from)
{
    struct wf_loop_walk walk = {.at = {to, from}};

    do memcpy(to + (walk.at[0] - to), walk.at[1], (size_t)(c->line.size * c->bytes));
    while (wf_loop_walk_next(&c->nest, &walk));
}

#define COPY_STRIDED(type)                                                                         \
    for (int64_t i = 0; i < c->line.size; i++)                                                     \
    *(type *)(void *)(to + i * c->line.step[0]) =                                                  \
        *(const type *)(const void *)(from + i * c->line.step[1])

static void copy_strided_line(const struct wf_strided_copy_plan *c, char *to, const char *from)
{
    if (c->bytes == 4)
        COPY_STRIDED(uint32_t);
    else if (c->bytes == 8)
        COPY_STRIDED(uint64_t);
    else if (c->bytes == 2)
        COPY_STRIDED(uint16_t);
    else
        COPY_STRIDED(uint8_t);
}

static void copy_strided_lines(const struct wf_strided_copy_plan *c, char *to, const char *from)
{
    struct wf_loop_walk walk = {.at = {to, from}};

    do copy_strided_line(c, to + (walk.at[0] - to), walk.at[1]);
    while (wf_loop_walk_next(&c->nest, &walk));
}

/*
 * `to` has stride 1 along the line and `from` along the rows: to[r][i] = from[i][r] in tiles, which
 * are small because rows a power of two apart fall into the same few places of the cache.
 */
#define COPY_TILE(type)                                                                            \
    for (int64_t r = 0; r < rows; r++)                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
    *(type *)(void *)(to + r * c->rows.step[0] + i * (int64_t)sizeof(type)) =                      \
        *(const type *)(const void *)(from + i * c->line.step[1] + r * (int64_t)sizeof(type))

static void copy_tile(const struct wf_strided_copy_plan *c, int64_t rows, int64_t n, char *to,
                      const char *from)
{
    if (c->bytes == 4)
        COPY_TILE(uint32_t);
    else if (c->bytes == 8)
        COPY_TILE(uint64_t);
    else if (c->bytes == 2)
        COPY_TILE(uint16_t);
    else
        COPY_TILE(uint8_t);
}

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

static void copy_transposed(const struct wf_strided_copy_plan *c, char *to, const char *from)
{
    struct wf_loop_walk walk = {.at = {to, from}};
    int64_t rows = c->rows.size, n = c->line.size;

    do {
        char *y = to + (walk.at[0] - to);

        for (int64_t i = 0; i < n; i += TILE)
            for (int64_t r = 0; r < rows; r += TILE)
                copy_tile(c, min_i64(TILE, rows - r), min_i64(TILE, n - i),
                          y + r * c->rows.step[0] + i * c->bytes,
                          walk.at[1] + i * c->line.step[1] + r * c->bytes);
    } while (wf_loop_walk_next(&c->nest, &walk));
}

/* The outer dim along which `from` has stride 1, or -1. */
static int transposed_dim(const struct wf_strided_copy_plan *c)
{
    for (int d = 0; d < c->nest.n_dims; d++)
        if (c->nest.dim[d].step[1] == c->bytes) return d;
    return -1;
}

void wf_strided_copy_plan_make(struct wf_strided_copy_plan *c, int ndim, const int64_t *shape,
                               const struct wf_operand_strides *to,
                               const struct wf_operand_strides *from)
{
    struct wf_operand_strides operands[2] = {*to, *from};
    bool empty, to_dense, from_dense;
    int d;

    memset(c, 0, sizeof *c);
    c->bytes = to->bytes;
    wf_loop_nest_make(&c->nest, ndim, shape, 2, operands);
    empty = c->nest.count == 0;
    c->line = wf_loop_nest_remove_dim(&c->nest, c->nest.n_dims - 1);
    to_dense = c->line.size == 1 || c->line.step[0] == c->bytes;
    from_dense = c->line.size == 1 || c->line.step[1] == c->bytes;
    d = transposed_dim(c);
    if (empty)
        c->run = copy_nothing;
    else if (to_dense && from_dense)
        c->run = c->nest.n_dims ? copy_rows : copy_contiguous;
    else if (to_dense && d >= 0)
        c->rows = wf_loop_nest_remove_dim(&c->nest, d), c->run = copy_transposed;
    else
        c->run = copy_strided_lines;
}

static void run_copy(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct wf_strided_copy_plan *copy = k->prep;

    (void)scalars;
    copy->run(copy, out[0], in[0]);
}

weft_status wf_cpu_copy(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *x = k->in[0], *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->ndim, y->shape);
    struct wf_operand_strides from = wf_strides_broadcast(x, y->ndim, y->shape);

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = WF_NEW(struct wf_strided_copy_plan);
    wf_strided_copy_plan_make(k->prep, y->ndim, y->shape, &to, &from);
    k->run = run_copy;
    return WEFT_OK;
}

struct fill {
    wf_elementwise_loop *line;
    int64_t n, bytes;
    void (*store)(void *element, double value);
    struct wf_strided_copy_plan spread; /* of one element over a strided output */
};

static void run_fill_strided(const struct wf_kernel_call *k, void *const *out,
                             const void *const *in, const struct wf_scalars *scalars)
{
    const struct fill *p = k->prep;
    char element[8];

    (void)in;
    p->store(element, scalars->s[0]);
    p->spread.run(&p->spread, out[0], element);
}

static void run_fill(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct fill *p = k->prep;
    uint64_t element = 0;
    const void *value = &element;

    (void)in;
    p->store(&element, scalars->s[0]);
    if (element)
        p->line(p->n, out[0], &value, scalars);
    else
        memset(out[0], 0, (size_t)(p->n * p->bytes));
}

weft_status wf_cpu_fill(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    const struct wf_dtype_info *info = &wf_dtypes[y->dtype];
    struct wf_operand_strides one = {.bytes = info->size},
                              to = wf_strides_broadcast(y, y->ndim, y->shape);
    struct fill *p = k->prep = WF_NEW(struct fill);

    p->n = y->numel;
    p->bytes = info->size;
    p->store = info->store;
    p->line = WF_ISA_PICK(wf_cast_where_fill_loops)->fill[info->size];
    if (!y->contiguous) wf_strided_copy_plan_make(&p->spread, y->ndim, y->shape, &to, &one);
    k->run = p->n == 0 ? wf_kernel_run_noop : y->contiguous ? run_fill : run_fill_strided;
    return WEFT_OK;
}

struct cat {
    struct wf_strided_copy_plan piece[WF_MAX_IN];
    int64_t at[WF_MAX_IN]; /* bytes into the output */
};

static void run_cat(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                    const struct wf_scalars *scalars)
{
    const struct cat *p = k->prep;

    (void)scalars;
    for (int i = 0; i < k->n_in; i++)
        p->piece[i].run(&p->piece[i], (char *)out[0] + p->at[i], in[i]);
}

weft_status wf_cpu_cat(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct wf_operand_strides to =
        wf_strides_row_major(wf_dtypes[y->dtype].size, y->ndim, y->shape);
    int64_t dim = k->attr[0], at = 0;
    struct cat *p;

    WF_TRY(wf_check_input_dtypes(k, 0, y->dtype));
    k->prep = p = WF_NEW(struct cat);
    for (int i = 0; i < k->n_in; i++) {
        const struct wf_tensor_desc *x = k->in[i];
        struct wf_operand_strides from = wf_strides_broadcast(x, x->ndim, x->shape);

        p->at[i] = at * to.stride[dim] * to.bytes;
        at += x->shape[dim];
        wf_strided_copy_plan_make(&p->piece[i], x->ndim, x->shape, &to, &from);
    }
    k->run = run_cat;
    return WEFT_OK;
}
