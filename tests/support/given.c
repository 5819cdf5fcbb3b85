/* given.c: what tests of modules and styles start from. */
#include "support/given.h"

#include <stdlib.h>

weft_mesh *given_mesh(void) { return weft_mesh_new(wt_device(), "tp=%d", wt_ranks()); }

static weft_tensor *make(int which, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    weft_tensor *t;
    double *values;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    values = malloc((size_t)n * sizeof *values + 1);
    for (int64_t i = 0; i < n; i++) values[i] = wt_element(which, i);
    t = weft_from_data(WEFT_F64, shape, ndim, values);
    free(values);
    return t;
}

weft_tensor *given(int which, int64_t a, int64_t b, int64_t c)
{
    int64_t shape[] = {a, b, c};

    return make(which, c ? 3 : b ? 2 : 1, shape);
}

weft_tensor *given_like(const weft_tensor *t)
{
    int64_t shape[WEFT_MAX_DIMS];

    for (int d = 0; d < weft_ndim(t); d++) shape[d] = weft_size(t, d);
    return make(1, weft_ndim(t), shape);
}

weft_tensor *given_spread(weft_tensor *whole, weft_mesh *mesh, const char *layout)
{
    weft_placement p[WEFT_MAX_AXES];

    WT_EQ(weft_placements_on(p, mesh, layout), WEFT_OK);
    return weft_distribute_tensor(whole, mesh, p, -1);
}

weft_tensor *given_shard(weft_tensor *whole, weft_mesh *mesh, const char *layout)
{
    return weft_to_local(given_spread(whole, mesh, layout), NULL);
}

bool given_is(const weft_tensor *t, const char *layout)
{
    return t && weft_tensor_mesh(t) && wt_is_placed(t, layout);
}

static weft_tensor *same(weft_module *m, weft_tensor *const *inputs, int n)
{
    (void)m;
    (void)n;
    return inputs[0];
}

weft_module *given_identity(void)
{
    static const weft_module_class kind = {.type = "identity", .forward = same};

    return weft_module_new(&kind, NULL);
}

void given_plan_text(char *text, size_t bytes, weft_module *m, weft_mesh *mesh,
                     const weft_plan *plan)
{
    FILE *file = tmpfile();
    size_t n;

    WT_ALL(file != NULL);
    WT_EQ(weft_plan_print(m, mesh, plan, file), WEFT_OK);
    rewind(file);
    n = fread(text, 1, bytes, file);
    WT_ALL(n > 0 && n < bytes);
    text[n < bytes ? n : bytes - 1] = '\0';
    fclose(file);
}

weft_tensor *given_tokens(int64_t rows, int64_t columns, int64_t vocab, int64_t shift)
{
    int64_t *numbers = malloc((size_t)(rows * columns + 1) * sizeof *numbers);
    weft_tensor *t;

    for (int64_t i = 0; i < rows * columns; i++) numbers[i] = (5 * i + shift) % vocab;
    t = weft_from_data(WEFT_I64, (int64_t[]){rows, columns}, 2, numbers);
    free(numbers);
    return t;
}
