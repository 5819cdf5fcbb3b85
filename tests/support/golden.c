/* golden.c: golden files as a list of named number rows. */
#include "support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/error.h>

#include "support/mpi_check.h"

enum { NAME_BYTES = 96, DIGEST = 11, DIGEST_HEAD = 8 };

struct entry {
    char kind[8], name[NAME_BYTES];
    int index, ndim; /* index, scale, offset: of a parameter's formula */
    double scale, offset;
    int64_t shape[WEFT_MAX_DIMS], count;
    double *values; /* NULL for param */
};

struct wt_golden {
    struct entry *entries;
    int n;
};

static bool read_shape(FILE *in, struct entry *e)
{
    e->count = 1;
    if (fscanf(in, "%d", &e->ndim) != 1 || e->ndim < 0 || e->ndim > WEFT_MAX_DIMS) return false;
    for (int d = 0; d < e->ndim; d++) {
        long long size;

        if (fscanf(in, "%lld", &size) != 1) return false;
        e->shape[d] = size;
        e->count *= size;
    }
    return true;
}

static bool read_values(FILE *in, struct entry *e)
{
    int64_t n = strcmp(e->kind, "digest") == 0 ? DIGEST : e->count;

    e->values = calloc((size_t)n + 1, sizeof *e->values);
    for (int64_t i = 0; i < n; i++)
        if (fscanf(in, "%lf", &e->values[i]) != 1) return false;
    return true;
}

static bool read_entry(FILE *in, struct entry *e)
{
    if (fscanf(in, "%95s", e->name) != 1) return false;
    if (strcmp(e->kind, "param") == 0)
        return fscanf(in, "%d %lf %lf", &e->index, &e->scale, &e->offset) == 3 && read_shape(in, e);
    return read_shape(in, e) && read_values(in, e);
}

static bool read_all(FILE *in, struct wt_golden *golden)
{
    char kind[8];

    if (fscanf(in, "#%*[^\n]") == EOF) return false;
    while (fscanf(in, "%7s", kind) == 1) {
        struct entry *e;

        if (strcmp(kind, "end") == 0) return true;
        golden->entries =
            realloc(golden->entries, (size_t)(golden->n + 1) * sizeof *golden->entries);
        e = &golden->entries[golden->n++];
        memset(e, 0, sizeof *e);
        memcpy(e->kind, kind, sizeof e->kind);
        if (!read_entry(in, e)) return false;
    }
    return false;
}

struct wt_golden *wt_golden_open(const char *name)
{
    struct wt_golden *golden = calloc(1, sizeof *golden);
    char path[512];
    FILE *in;
    bool ok;

    snprintf(path, sizeof path, "%s/tests/golden/%s.txt", WT_SOURCE_DIR, name);
    in = fopen(path, "r");
    ok = in && read_all(in, golden);
    if (in) fclose(in);
    if (ok) return golden;
    wt_golden_close(golden);
    return NULL;
}

void wt_golden_close(struct wt_golden *golden)
{
    if (!golden) return;
    for (int i = 0; i < golden->n; i++) free(golden->entries[i].values);
    free(golden->entries);
    free(golden);
}

static const struct entry *find(const struct wt_golden *golden, const char *name, bool param)
{
    for (int i = 0; i < golden->n; i++)
        if ((strcmp(golden->entries[i].kind, "param") == 0) == param &&
            strcmp(golden->entries[i].name, name) == 0)
            return &golden->entries[i];
    return NULL;
}

double wt_golden_formula(int64_t i, int index, double scale, double offset)
{
    return offset + scale * ((double)((37 * i + 11 + 97 * (int64_t)index) % 101) / 50 - 1);
}

static bool same_shape(const struct entry *e, const weft_tensor *t)
{
    if (weft_ndim(t) != e->ndim) return false;
    for (int d = 0; d < e->ndim; d++)
        if (weft_size(t, d) != e->shape[d]) return false;
    return true;
}

struct loading {
    const struct wt_golden *golden;
    int found;
};

static weft_status load_one(weft_module *m, const char *name, weft_tensor *parameter, void *payload)
{
    struct loading *loading = payload;
    char path[NAME_BYTES];
    const struct entry *e;
    double *values = weft_data(parameter);

    snprintf(path, sizeof path, "%s%s%s", weft_module_path(m), weft_module_path(m)[0] ? "." : "",
             name);
    e = find(loading->golden, path, true);
    if (!e || !same_shape(e, parameter) || weft_tensor_dtype(parameter) != WEFT_F64) {
        wt_note("%s", path);
        return WEFT_ERR_NOT_FOUND;
    }
    for (int64_t i = 0; i < e->count; i++)
        values[i] = wt_golden_formula(i, e->index, e->scale, e->offset);
    loading->found++;
    return WEFT_OK;
}

bool wt_golden_load(const struct wt_golden *golden, weft_module *m)
{
    struct loading loading = {golden, 0};
    int params = 0;

    for (int i = 0; i < golden->n; i++) params += strcmp(golden->entries[i].kind, "param") == 0;
    return weft_module_each_parameter(m, load_one, &loading) == WEFT_OK && loading.found == params;
}

/* sum x, sum |x|, sum x w with w[i] = (37 i + 11) mod 101, then the first elements. */
static void digest(double *out, const double *x, int64_t n)
{
    memset(out, 0, DIGEST * sizeof *out);
    for (int64_t i = 0; i < n; i++) {
        out[0] += x[i];
        out[1] += fabs(x[i]);
        out[2] += x[i] * (double)((37 * i + 11) % 101);
    }
    for (int i = 0; i < DIGEST_HEAD && i < n; i++) out[3 + i] = x[i];
}

bool wt_golden_matches(const struct wt_golden *golden, const char *name, weft_tensor *t,
                       struct wt_tolerance tolerance)
{
    const struct entry *e = find(golden, name, false);
    double *values = t ? wt_values(t) : NULL, sums[DIGEST];
    bool ok;

    if (!e || !values || !same_shape(e, t)) {
        wt_note("%s: %s", name, e ? "missing or of another shape" : "not in the golden file");
        free(values);
        return false;
    }
    if (strcmp(e->kind, "digest") == 0) {
        digest(sums, values, e->count);
        ok = wt_near(sums, e->values, DIGEST, tolerance);
    } else {
        ok = wt_near(values, e->values, e->count, tolerance);
    }
    free(values);
    if (!ok) wt_note("in %s", name);
    return ok;
}
