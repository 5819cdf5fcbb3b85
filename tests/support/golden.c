/* golden.c: golden files as a list of named number rows. */
#include "support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "support/mpi_check.h"
#include "support/owned.h"
#include "tensor/host_copy.h"

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

static void close_golden(void *of)
{
    struct wt_golden *golden = of;

    for (int i = 0; i < golden->n; i++) free(golden->entries[i].values);
    free(golden->entries);
    free(golden);
}

struct wt_golden *wt_golden_open(const char *name)
{
    struct wt_golden *golden = calloc(1, sizeof *golden);
    char path[512];
    FILE *in;
    bool good;

    snprintf(path, sizeof path, "%s/tests/golden/%s.txt", WT_SOURCE_DIR, name);
    in = fopen(path, "r");
    good = in && read_all(in, golden);
    if (in) fclose(in);
    wt_own_with(golden, close_golden);
    if (!good) wt_note("%s", path);
    WT_ALL(good);
    return golden;
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
    weft_tensor *host;
    double *values;

    snprintf(path, sizeof path, "%s%s%s", weft_module_path(m), weft_module_path(m)[0] ? "." : "",
             name);
    e = find(loading->golden, path, true);
    if (!e || !same_shape(e, parameter) || weft_tensor_dtype(parameter) != WEFT_F64) {
        wt_note("%s", path);
        return WEFT_ERR_NOT_FOUND;
    }
    host = wf_tensor_on_host(parameter, "test");
    values = weft_data(host);
    for (int64_t i = 0; i < e->count; i++)
        values[i] = wt_golden_formula(i, e->index, e->scale, e->offset);
    loading->found++;
    return wf_tensor_write_back_from_host(parameter, host);
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

/* ---- training ---- */

struct comparison {
    const struct wt_golden *golden;
    const char *prefix;
    double bound;
};

static weft_status compare(const weft_module_tensor *it, void *payload)
{
    const struct comparison *c = payload;
    bool gradient = strcmp(c->prefix, "grad") == 0, trained = weft_requires_grad(it->tensor);
    weft_tensor *t = gradient ? weft_grad(it->tensor) : it->tensor;
    char key[NAME_BYTES];

    if (it->buffer) return WEFT_OK;
    WT_ALL(trained || !gradient || !t);
    if (!trained) return WEFT_OK;
    snprintf(key, sizeof key, "%s.%s", c->prefix, it->path);
    WT_ALL(wt_golden_matches(c->golden, key, t, WT_WITHIN(c->bound)));
    return WEFT_OK;
}

void wt_golden_parameters(const struct wt_golden *golden, weft_module *m, const char *prefix,
                          double bound)
{
    struct comparison c = {golden, prefix, bound};

    WT_EQ(weft_module_each_tensor(m, compare, &c), WEFT_OK);
}

double wt_step_on_loss(weft_scope *scope, weft_tensor *loss, weft_optim *optim)
{
    double value;

    WT_ALL(loss != NULL);
    value = weft_item(loss);
    WT_EQ(weft_backward(loss), WEFT_OK);
    if (optim) WT_EQ(weft_step(optim), WEFT_OK);
    weft_scope_close(scope);
    return value;
}

static double step(weft_module *m, weft_tensor *(*loss_of)(weft_module *m), weft_optim *optim)
{
    weft_scope *scope = weft_scope_open();

    return wt_step_on_loss(scope, loss_of(m), optim);
}

void wt_golden_train(const struct wt_golden *golden, weft_module *m,
                     weft_tensor *(*result)(weft_module *m), weft_tensor *(*loss)(weft_module *m),
                     double bound)
{
    enum { STEPS = 3 };
    const int64_t steps = STEPS;
    double losses[STEPS];
    weft_optim *optim;

    WT_ALL(wt_golden_matches(golden, "result", result(m), WT_WITHIN(bound)));
    step(m, loss, NULL);
    wt_golden_parameters(golden, m, "grad", 10 * bound);
    optim = wt_own(weft_adamw(m, (weft_adamw_config){.lr = 1e-3, .weight_decay = 0.01}));
    weft_optim_zero_grad(optim);
    for (int i = 0; i < STEPS; i++) losses[i] = step(m, loss, optim);
    WT_ALL(wt_golden_matches(golden, "losses", weft_from_data(WEFT_F64, &steps, 1, losses),
                             WT_WITHIN(bound)));
    wt_golden_parameters(golden, m, "after", 10 * bound);
}
