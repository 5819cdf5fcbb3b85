/*
 * ramps.c: elements that are a function of their place in the whole tensor: arange, linspace, band.
 *
 * They are computed as f64 or i64, a chunk at a time, and cast.
 */
#include "base/mem.h"
#include "kernels/cpu/lines.h"
#include "kernels/cpu/places.h"
#include "kernels/cpu/pointwise.h"

enum { CHUNK = 512 };

union chunk {
    double real[CHUNK];
    int64_t whole[CHUNK];
};

struct ramp {
    struct wf_places places;
    /* n elements from global index `index` on */
    void (*fill)(const struct ramp *p, int64_t index, int64_t n, const struct wf_scalars *scalars,
                 union chunk *values);
    wf_line *store;
    int64_t bytes;
    int64_t rows, columns; /* of the last two dims, whole */
};

static void fill_reals(const struct ramp *p, int64_t index, int64_t n,
                       const struct wf_scalars *scalars, union chunk *values)
{
    (void)p;
    for (int64_t i = 0; i < n; i++)
        values->real[i] = scalars->s[0] + (double)(index + i) * scalars->s[1];
}

static void fill_wholes(const struct ramp *p, int64_t index, int64_t n,
                        const struct wf_scalars *scalars, union chunk *values)
{
    (void)p;
    for (int64_t i = 0; i < n; i++) values->whole[i] = scalars->v[0] + (index + i) * scalars->v[1];
}

/* From the nearer end, so that both ends are exact and the middle is symmetric. */
static void fill_between(const struct ramp *p, int64_t index, int64_t n,
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
static void fill_band(const struct ramp *p, int64_t index, int64_t n,
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

static void run_ramp(const struct wf_kcall *k, void *const *out, const void *const *in,
                     const struct wf_scalars *scalars)
{
    const struct ramp *p = k->prep;
    union chunk values;
    const void *from = &values;
    char *y = out[0];
    int64_t size;

    (void)in;
    for (struct wf_place_cursor c = wf_places_begin(&p->places); c.left > 0;
         wf_places_advance(&c, size)) {
        int64_t index = wf_places_next(&c, &size);

        if (size > CHUNK) size = CHUNK;
        p->fill(p, index, size, scalars, &values);
        p->store(size, y, &from, NULL);
        y += size * p->bytes;
    }
}

static void drop(void *prep)
{
    struct ramp *p = prep;

    wf_places_drop(&p->places);
    wf_free(p);
}

static struct ramp *prepare(struct wf_kcall *k, weft_dtype from)
{
    const struct wf_desc *y = k->out[0];
    struct ramp *p = WF_NEW(struct ramp);

    k->prep = p;
    k->drop = drop;
    k->run = y->numel ? run_ramp : wf_run_nothing;
    p->bytes = (int64_t)weft_dtype_size((weft_dtype)y->dtype);
    p->store = WF_ISA_PICK(wf_moves)->cast[from][y->dtype];
    p->rows = y->ndim > 1 ? y->global[y->ndim - 2] : 1;
    p->columns = y->ndim > 0 ? y->global[y->ndim - 1] : 1;
    wf_places_make(&p->places, y);
    return p;
}

weft_status wf_cpu_arange(struct wf_kcall *k)
{
    bool real = weft_dtype_is_float((weft_dtype)k->out[0]->dtype);

    prepare(k, real ? WEFT_F64 : WEFT_I64)->fill = real ? fill_reals : fill_wholes;
    return WEFT_OK;
}

weft_status wf_cpu_linspace(struct wf_kcall *k)
{
    if (k->out[0]->dtype > WEFT_BF16) return wf_no_kernel(k, k->out[0]->dtype);
    prepare(k, WEFT_F64)->fill = fill_between;
    return WEFT_OK;
}

weft_status wf_cpu_band(struct wf_kcall *k)
{
    prepare(k, WEFT_I64)->fill = fill_band;
    return WEFT_OK;
}
