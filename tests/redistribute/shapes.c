/* shapes.c: see shapes.h. */
#include "redistribute/shapes.h"

#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

weft_tensor *shape_whole(const struct shape *shape, bool positive)
{
    int64_t n = 1;
    weft_tensor *t;
    float *data;

    for (int d = 0; d < shape->ndim; d++) n *= shape->size[d];
    data = malloc((size_t)(n + 1) * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)wt_element(0, i) + (positive ? 2 : 0);
    t = weft_from_data(WEFT_F32, shape->size, shape->ndim, data);
    free(data);
    return t;
}

weft_tensor *shape_spread(weft_mesh *mesh, weft_tensor *whole, const char *placements)
{
    weft_placement p[WEFT_MAX_AXES];

    weft_placements_parse(p, WEFT_MAX_AXES, placements);
    return weft_distribute_tensor(whole, mesh, p, -1);
}

weft_tensor *shape_local(const weft_tensor *t, double factor)
{
    int64_t size[WEFT_MAX_DIMS], n = weft_local_numel(t);
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    float *data = malloc((size_t)(n + 1) * sizeof *data);
    weft_tensor *local = NULL;

    for (int d = 0; d < weft_ndim(t); d++) size[d] = weft_local_size(t, d);
    if (weft_read_f64(t, values, n) == WEFT_OK) {
        for (int64_t i = 0; i < n; i++) data[i] = (float)(values[i] * factor);
        local = weft_from_data(WEFT_F32, size, weft_ndim(t), data);
    }
    free(values);
    free(data);
    return local;
}

/* The axes of each dim have the turns 0, 1, ... */
static bool is_order(const int *dims, const int *turns)
{
    for (int a = 0; a < 3; a++) {
        int at_it = 0, below_it = 0;

        for (int b = 0; b < 3; b++) {
            at_it += dims[b] == dims[a] && turns[b] == turns[a];
            below_it += dims[b] == dims[a] && turns[b] < turns[a];
        }
        if (at_it != 1 || below_it != turns[a]) return false;
    }
    return true;
}

int shape_orders(weft_placement (*orders)[WEFT_MAX_AXES], int ndim)
{
    int n = 0;

    for (int code = 0; code < ndim * ndim * ndim * 27; code++) {
        int dims[3] = {code % ndim, code / ndim % ndim, code / ndim / ndim % ndim};
        int rest = code / (ndim * ndim * ndim), turns[3] = {rest % 3, rest / 3 % 3, rest / 9};

        if (!is_order(dims, turns)) continue;
        for (int a = 0; a < 3; a++) orders[n][a] = weft_in_turn(weft_shard(dims[a]), turns[a]);
        n++;
    }
    return n;
}

bool shape_same_local(const weft_tensor *a, const weft_tensor *b)
{
    int64_t n = a && b ? weft_local_numel(a) : 0;
    double *x, *y;
    bool same;

    if (!a || !b || n != weft_local_numel(b)) return false;
    for (int d = 0; d < weft_ndim(a); d++)
        if (weft_local_size(a, d) != weft_local_size(b, d)) return false;
    x = malloc((size_t)(n + 1) * sizeof *x);
    y = malloc((size_t)(n + 1) * sizeof *y);
    same = weft_read_f64(a, x, n) == WEFT_OK && weft_read_f64(b, y, n) == WEFT_OK &&
           memcmp(x, y, (size_t)n * sizeof *x) == 0;
    free(x);
    free(y);
    return same;
}
