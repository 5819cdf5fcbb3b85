/* compare.c: tensors against arrays, element by element on the rank that holds them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

void ws_fail(struct ws_run *run, const char *format, ...)
{
    va_list arguments;

    if (run->failure[0]) return;
    va_start(arguments, format);
    vsnprintf(run->failure, sizeof run->failure, format, arguments);
    va_end(arguments);
}

bool ws_spoils(struct ws_run *run, enum ws_spoil spoil)
{
    if (spoil == WS_SPOIL_NOTHING || run->spoil != spoil) return false;
    run->spoiled = true;
    return true;
}

uint64_t ws_hash(const weft_tensor *t, uint64_t before)
{
    int64_t n = t ? weft_local_numel(t) : 0;
    double *of = malloc((size_t)(n + 1) * sizeof *of);
    uint64_t hash = before ^ 0xcbf29ce484222325u;

    if (!of) abort();
    if (n && weft_read_f64(t, of, n) != WEFT_OK) n = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;

        memcpy(&bits, &of[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    free(of);
    return hash;
}

/* ---- bounds ---- */

/*
 * A result may be off by some roundings of itself and of the terms that it is a sum of. Reductions
 * in f32 and f64 have more of them than those of 16-bit floats, which are made in f32.
 */
static double bound(weft_dtype dtype, int depth, const struct ws_numbers *want, double element)
{
    double unit = dtype == WEFT_BF16  ? ldexp(1, -8)
                  : dtype == WEFT_F16 ? ldexp(1, -11)
                                      : ldexp(32, dtype == WEFT_F64 ? -53 : -24);

    return unit * depth * (want->largest + fabs(element)) + 1e-30;
}

/* ---- elements ---- */

/* Which elements this rank holds: boxes that differ in one dim only, in their order. */
struct held {
    weft_chunk boxes[16];
    int64_t n;
};

static int64_t along(const struct held *held, int dim, int64_t i)
{
    int64_t box = 0;

    while (box + 1 < held->n && held->boxes[box].offset[dim] != held->boxes[box + 1].offset[dim] &&
           i >= held->boxes[box].size[dim])
        i -= held->boxes[box++].size[dim];
    return held->boxes[box].offset[dim] + i;
}

/* The index of this rank's element i in the whole tensor. */
static int64_t global_index(const struct held *held, const weft_tensor *t, int64_t i,
                            int64_t *index)
{
    int64_t at = 0, weight = 1;

    for (int d = weft_ndim(t); d-- > 0;) {
        int64_t size = weft_local_size(t, d);

        index[d] = along(held, d, i % size);
        i /= size;
        at += index[d] * weight;
        weight *= weft_size(t, d);
    }
    return at;
}

static void find_held(struct held *held, const weft_tensor *t)
{
    weft_layout layout;

    *held = (struct held){.n = 1};
    if (weft_tensor_mesh(t) && weft_layout_of(&layout, t) == WEFT_OK)
        held->n = weft_layout_chunks(&layout, NULL, held->boxes, 16);
}

static void complain(struct ws_run *run, const char *what, const int64_t *index, int ndim,
                     double got, double expected, double allowed)
{
    char place[128] = "";
    size_t used = 0;

    for (int d = 0; d < ndim; d++)
        used += (size_t)snprintf(place + used, sizeof place - used, "%s%lld", d ? "," : "",
                                 (long long)index[d]);
    ws_fail(run, "%s[%s]: got %.9g, expected %.9g, within %.2g", what, place, got, expected,
            allowed);
}

static bool same_shape(const weft_tensor *t, const struct ws_numbers *want)
{
    bool same = weft_ndim(t) == want->ndim;

    for (int d = 0; same && d < want->ndim; d++) same = weft_size(t, d) == want->shape[d];
    return same;
}

static void compare_shard(struct ws_run *run, const char *what, const weft_tensor *t,
                          const struct ws_numbers *want, int depth, bool spoiled)
{
    int64_t n = weft_local_numel(t), index[WEFT_MAX_DIMS];
    double *got = malloc((size_t)(n + 1) * sizeof *got);
    struct held held;

    if (!got) abort();
    find_held(&held, t);
    if (weft_read_f64(t, got, n) != WEFT_OK) n = 0; /* the error is recorded */
    for (int64_t i = 0; i < n; i++) {
        double expected = want->of[global_index(&held, t, i, index)] + (spoiled && i == 0 ? 8 : 0);
        double allowed = bound(weft_tensor_dtype(t), depth, want, expected);

        if (fabs(got[i] - expected) <= allowed) continue; /* not a NaN */
        complain(run, what, index, weft_ndim(t), got[i], expected, allowed);
        break;
    }
    free(got);
}

bool ws_check_layout(struct ws_run *run, const char *what, weft_tensor *t, weft_placement layout)
{
    char is[96] = "nothing", should[32];

    if (t && weft_tensor_mesh(t) && weft_placement_equal(weft_tensor_placement(t, 0), layout))
        return true;
    if (t) weft_tensor_format(t, is, sizeof is);
    weft_placements_format(&layout, 1, should, sizeof should);
    ws_fail(run, "%s is %s, expected [%s]", what, is, should);
    return false;
}

void ws_compare(struct ws_run *run, const char *what, weft_tensor *t, weft_placement layout,
                const struct ws_numbers *want, int depth, enum ws_spoil spoil)
{
    if (!ws_check_layout(run, what, t, layout)) return;
    if (!same_shape(t, want)) {
        ws_fail(run, "%s has another shape than on one device", what);
        return;
    }
    if (weft_is_partial(layout)) t = weft_full_tensor(t);
    if (t)
        compare_shard(run, what, t, want, depth, weft_local_numel(t) > 0 && ws_spoils(run, spoil));
}
