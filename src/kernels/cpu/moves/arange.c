/*
 * arange.c: elements that are a function of their place in the whole tensor: arange, linspace,
 * band.
 *
 * They are computed as f64 or i64, a chunk at a time, and cast.
 */
#include "base/mem.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/pointwise/pointwise.h"
#include "kernels/cpu/random/rng_index.h"

enum { CHUNK = 512 };

union chunk {
    double real[CHUNK];
    int64_t whole[CHUNK];
};

struct ramp {
    struct wf_rng_index places;
    /* n elements from global index `index` on */
    void (*fill)(const struct ramp *p, int64_t index, int64_t n, const struct wf_scalars *scalars,
                 union chunk *values);
    wf_elementwise_loop *store;
    int64_t bytes;
    int64_t rows, columns; /* of the last two dims, whole */
};

static void fill_arange_real(const struct ramp *p, int64_t index, int64_t n,
                             const struct wf_scalars *scalars, union chunk *values)
{
    (void)p;
    for (int64_t i = 0; i < n; i++)
        values->real[i] = scalars->s[0] + (double)(index + i) * scalars->s[1];
}

static void fill_arange_int(const struct ramp *p, int64_t index, int64_t n,
                            const struct wf_scalars *scalars, union chunk *values)
{
    (void)p;
    for (int64_t i = 0; i < n; i++) values->whole[i] = scalars->v[0] + (index + i) * scalars->v[1];
}

/* From the nearer end, so that both ends are exact and the middle is symmetric. */
static void fill_linspace(const struct ramp *p, int64_t index, int64_t n,
                          const struct wf_scalars *scalars, union chunk *values)
{
    int64_t last = p->columns - 1;
    double step = last > 0 ? (scalars->s[1] - scalars->s[0]) / (double)last : 0;

    for (int64_t i = 0; i < n; i++) {
        double ahead = (double)(index + i), behind = (double)(last - index - i);

        values->real[i] = 2 * ahead < (double)last || last == 0 ? scalars->s[0] + ahead * step
                                                                : scalars->s[1] - behind * step;
    }
}

/* 1 where v[0] <= column - row <= v[1]. */
static void fill_ones_in_band(const struct ramp *p, int64_t index, int64_t n,
                              const struct wf_scalars *scalars, union chunk *values)
{
    int64_t column = index % p->columns, row = index / p->columns % p->rows;

    for (int64_t i = 0; i < n; i++) {
        int64_t distance = column - row;

        values->whole[i] = scalars->v[0] <= distance && distance <= scalars->v[1];
        if (++column < p->columns) continue;
        column = 0;
        row = row + 1 < p->rows ? row + 1 : 0;
    }
}

static void run_fill_by_index(const struct wf_kernel_call *k, void *const *out,
                              const void *const *in, const struct wf_scalars *scalars)
{
    const struct ramp *p = k->prep;
    union chunk values;
    const void *from = &values;
    char *y = out[0];
    int64_t size;

    (void)in;
    for (struct wf_rng_index_cursor c = wf_rng_index_cursor_begin(&p->places); c.left > 0;
         wf_rng_index_cursor_advance(&c, size)) {
        int64_t index = wf_rng_index_cursor_peek(&c, &size);

        if (size > CHUNK) size = CHUNK;
        p->fill(p, index, size, scalars, &values);
        p->store(size, y, &from, NULL);
        y += size * p->bytes;
    }
}

static void free_fill(void *prep)
{
    struct ramp *p = prep;

    wf_rng_index_free(&p->places);
    wf_free(p);
}

static struct ramp *prepare_fill(struct wf_kernel_call *k, weft_dtype from)
{
    const struct wf_tensor_desc *y = k->out[0];
    struct ramp *p = WF_NEW(struct ramp);

    k->prep = p;
    k->drop = free_fill;
    k->run = y->numel ? run_fill_by_index : wf_kernel_run_noop;
    p->bytes = (int64_t)weft_dtype_size((weft_dtype)y->dtype);
    p->store = WF_ISA_PICK(wf_cast_where_fill_loops)->cast[from][y->dtype];
    p->rows = y->ndim > 1 ? y->global[y->ndim - 2] : 1;
    p->columns = y->ndim > 0 ? y->global[y->ndim - 1] : 1;
    wf_rng_index_make(&p->places, y);
    return p;
}

weft_status wf_cpu_arange(struct wf_kernel_call *k)
{
    bool real = weft_dtype_is_float((weft_dtype)k->out[0]->dtype);

    prepare_fill(k, real ? WEFT_F64 : WEFT_I64)->fill = real ? fill_arange_real : fill_arange_int;
    return WEFT_OK;
}

weft_status wf_cpu_linspace(struct wf_kernel_call *k)
{
    if (!wf_dtype_is_float(k->out[0]->dtype)) return wf_fail_no_kernel(k, k->out[0]->dtype);
    prepare_fill(k, WEFT_F64)->fill = fill_linspace;
    return WEFT_OK;
}

weft_status wf_cpu_fill_band(struct wf_kernel_call *k)
{
    prepare_fill(k, WEFT_I64)->fill = fill_ones_in_band;
    return WEFT_OK;
}
