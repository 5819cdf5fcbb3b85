/* near.c: comparisons that name the worst element. */
#include "support/near.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/dtensor.h>

#include "support/mpi_check.h"
#include "tensor/tensor.h"

enum { INDEX_BYTES = 128 };

/* How far x is beyond its tolerance around y, as a multiple of that tolerance; <= 1 is near. */
static double excess(double x, double y, struct wt_tolerance tolerance)
{
    double allowed = tolerance.absolute + tolerance.relative * fabs(y);
    double difference = fabs(x - y);

    if (x == y || (isnan(x) && isnan(y))) return 0;
    if (isnan(difference) || isinf(difference) || allowed == 0) return INFINITY;
    return difference / allowed;
}

/* The position of the worst pair, or -1 when all are near. `worst` of several infinite: the first.
 */
static int64_t worst_of(const double *got, const double *want, int64_t n,
                        struct wt_tolerance tolerance)
{
    double most = 1;
    int64_t at = -1;

    for (int64_t i = 0; i < n; i++) {
        double e = excess(got[i], want[i], tolerance);

        if (e > most) {
            most = e;
            at = i;
        }
    }
    return at;
}

bool wt_near(const double *got, const double *want, int64_t n, struct wt_tolerance tolerance)
{
    int64_t at = worst_of(got, want, n, tolerance);

    if (at >= 0)
        wt_note("worst of %lld is element %lld: %.9g, not %.9g", (long long)n, (long long)at,
                got[at], want[at]);
    return at < 0;
}

/* Where the element with this index in the rank's shard is in the whole; parts need not be boxes.
 */
static int64_t global_index(const weft_tensor *t, int dim, int64_t index)
{
    const struct wf_index_ranges *runs = t->layout->desc.runs;
    const struct wf_index_range *run;

    if (!runs) return index + weft_local_offset(t, dim);
    for (run = runs->of[dim]; index >= run->size; run++) index -= run->size;
    return run->offset + index;
}

/* "[1,0,3]" for a row-major position in a box of `t`'s local or global shape. */
static void print_index(char *text, const weft_tensor *t, int64_t at, bool local)
{
    int64_t index[WEFT_MAX_DIMS] = {0};
    int used = 0, ndim = weft_ndim(t);

    for (int d = ndim - 1; d >= 0; d--) {
        int64_t size = local ? weft_local_size(t, d) : weft_size(t, d);

        index[d] = local ? global_index(t, d, at % size) : at % size;
        at /= size;
    }
    for (int d = 0; d < ndim; d++)
        used += snprintf(text + used, (size_t)(INDEX_BYTES - used), "%s%lld", d ? "," : "[",
                         (long long)index[d]);
    snprintf(text + used, (size_t)(INDEX_BYTES - used), ndim ? "]" : "[]");
}

static bool near_tensor(const weft_tensor *t, const double *got, const double *want, int64_t n,
                        struct wt_tolerance tolerance, bool local)
{
    int64_t at = worst_of(got, want, n, tolerance);
    char index[INDEX_BYTES], what[256];

    if (at < 0) return true;
    print_index(index, t, at, local);
    weft_tensor_format(t, what, sizeof what);
    wt_note("%s: worst of %lld elements is %s: %.9g, not %.9g", what, (long long)n, index, got[at],
            want[at]);
    return false;
}

static double *new_array(int64_t n)
{
    double *array = malloc(((size_t)n + 1) * sizeof *array);

    if (!array) abort();
    return array;
}

static double *read_local(const weft_tensor *t)
{
    int64_t n = weft_local_numel(t);
    double *values = new_array(n);

    if (weft_read_f64(t, values, n) == WEFT_OK) return values;
    free(values);
    return NULL;
}

double *wt_values(weft_tensor *t)
{
    weft_scope *scope;
    weft_tensor *full;
    double *values = NULL;

    if (!t) return NULL;
    scope = weft_scope_open();
    full = weft_tensor_mesh(t) ? weft_full_tensor(t) : t;
    if (full) values = read_local(full);
    weft_scope_close(scope);
    return values;
}

bool wt_near_full(weft_tensor *t, const double *want, struct wt_tolerance tolerance)
{
    double *got = wt_values(t);
    bool near = got && near_tensor(t, got, want, weft_numel(t), tolerance, false);

    free(got);
    return near;
}

/* Position in the global row-major array of the i-th element of this rank's shard. */
static int64_t global_position(const weft_tensor *t, int64_t i)
{
    int64_t position = 0, stride = 1;

    for (int d = weft_ndim(t) - 1; d >= 0; d--) {
        int64_t size = weft_local_size(t, d);

        position += global_index(t, d, i % size) * stride;
        stride *= weft_size(t, d);
        i /= size;
    }
    return position;
}

bool wt_near_local(const weft_tensor *t, const double *want_global, struct wt_tolerance tolerance)
{
    double *got = t ? read_local(t) : NULL;
    double *want;
    int64_t n;
    bool near;

    if (!got) return false;
    n = weft_local_numel(t);
    want = new_array(n);
    for (int64_t i = 0; i < n; i++) want[i] = want_global[global_position(t, i)];
    near = near_tensor(t, got, want, n, tolerance, true);
    free(want);
    free(got);
    return near;
}

static bool same_shape(const weft_tensor *a, const weft_tensor *b)
{
    bool same = weft_ndim(a) == weft_ndim(b);

    for (int d = 0; same && d < weft_ndim(a); d++) same = weft_size(a, d) == weft_size(b, d);
    if (!same) {
        char a_text[256], b_text[256];

        weft_tensor_format(a, a_text, sizeof a_text);
        weft_tensor_format(b, b_text, sizeof b_text);
        wt_note("shapes differ: %s and %s", a_text, b_text);
    }
    return same;
}

bool wt_near_tensors(weft_tensor *got, weft_tensor *want, struct wt_tolerance tolerance)
{
    double *values;
    bool near;

    if (!got || !want || !same_shape(got, want)) return false;
    values = wt_values(want);
    near = wt_near_full(got, values, tolerance) && values;
    free(values);
    return near;
}

bool wt_has_shape(const weft_tensor *t, int ndim, ...)
{
    bool same = t && weft_ndim(t) == ndim;
    va_list sizes;

    va_start(sizes, ndim);
    for (int d = 0; same && d < ndim; d++) same = weft_size(t, d) == va_arg(sizes, int);
    va_end(sizes);
    if (!same && t) {
        char what[256];

        weft_tensor_format(t, what, sizeof what);
        wt_note("it is %s", what);
    }
    return same;
}

bool wt_near_shard(const weft_tensor *t, weft_tensor *whole, struct wt_tolerance tolerance)
{
    double *want = wt_values(whole);
    bool near = want && wt_near_local(t, want, tolerance);

    free(want);
    return near;
}
