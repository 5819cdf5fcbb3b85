/*
 * test_torch_values.c: ops of shape.h and indexing.h against torch (tests/golden/indexing.txt, made
 * by make_indexing.py): results and gradients, of plain tensors and of x and the values in every
 * layout of one axis.
 */
/* ranks: 1 2 3 4 8 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

#define SIZES(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof(int64_t[]){__VA_ARGS__} / 8)
#define LIST(...)                                                                                  \
    (weft_tensor *[]){__VA_ARGS__},                                                                \
        (int)(sizeof(weft_tensor *[]){__VA_ARGS__} / sizeof(weft_tensor *))
#define DIMS(...) (const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int))

static _Thread_local weft_mesh *mesh; /* of the tensors that a case makes; NULL: plain */

static weft_tensor *on_mesh(weft_tensor *t)
{
    static const weft_placement replicated[WEFT_MAX_AXES];

    return mesh ? weft_distribute_tensor(t, mesh, replicated, -1) : t;
}

static weft_tensor *integers(const int64_t *values, const int64_t *shape, int ndim)
{
    return on_mesh(weft_from_data(WEFT_I64, shape, ndim, values));
}

static int64_t count(const int64_t *shape, int ndim)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++) n *= shape[d];
    return n;
}

/* The formulas of make_indexing.py. */
static weft_tensor *indices(int64_t below, const int64_t *shape, int ndim)
{
    int64_t n = count(shape, ndim), values[512];

    for (int64_t i = 0; i < n; i++) values[i] = (5 * i * i + 3 * i + 2) % below;
    return integers(values, shape, ndim);
}

static weft_tensor *rows_4_1_5(void) { return integers((int64_t[]){4, 1, 5}, SIZES(3)); }

static weft_tensor *places(void) { return indices(5, SIZES(6, 7, 4)); }

static weft_tensor *once(void)
{
    int64_t values[6 * 3 * 4];

    for (int i = 0; i < 72; i++) values[i] = (i / 4 % 3 * 2 + i / 12 + i % 4) % 5;
    return integers(values, SIZES(6, 3, 4));
}

static weft_tensor *numbers(weft_dtype dtype, int which, const int64_t *shape, int ndim)
{
    int64_t n = count(shape, ndim);
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    weft_tensor *t;

    for (int64_t i = 0; i < n; i++) values[i] = wt_element(which, i);
    t = weft_from_data(WEFT_F64, shape, ndim, values);
    free(values);
    return weft_cast(t, dtype);
}

static weft_tensor *sorted(void)
{
    return on_mesh(
        weft_from_data(WEFT_F64, (int64_t[]){6}, 1, (double[]){-0.75, -0.5, 0.0, 0.02, 0.5, 0.9}));
}

/* Without a gradient, as a number. */
static weft_tensor *counted(weft_tensor *t) { return t ? weft_cast(t, WEFT_F64) : NULL; }

/* The first rows of x[:,0], sorted. */
static weft_tensor *sorted_rows(void)
{
    double values[24];

    for (int r = 0; r < 6; r++) {
        for (int i = 0; i < 4; i++) values[4 * r + i] = wt_element(0, 20 * r + i);
        for (int i = 0; i < 4; i++)
            for (int j = i + 1; j < 4; j++)
                if (values[4 * r + j] < values[4 * r + i]) {
                    double swap = values[4 * r + j];

                    values[4 * r + j] = values[4 * r + i];
                    values[4 * r + i] = swap;
                }
    }
    return on_mesh(weft_from_data(WEFT_F64, (int64_t[]){6, 4}, 2, values));
}

static weft_tensor *reversed(weft_tensor **piece, int n, int dim)
{
    weft_tensor *back[8];

    for (int i = 0; i < n; i++) back[i] = piece[n - 1 - i];
    return n > 0 ? weft_cat(back, n, dim) : NULL;
}

static weft_tensor *unbound(weft_tensor *x)
{
    weft_tensor *piece[5];

    return weft_unbind(piece, x, 1) == WEFT_OK ? reversed(piece, 5, 0) : NULL;
}

static weft_tensor *chunks(weft_tensor *x)
{
    weft_tensor *piece[8];

    return reversed(piece, weft_split_chunks(piece, 4, x, 0), 0);
}

static weft_tensor *equal_pieces(weft_tensor *x)
{
    weft_tensor *piece[4];

    return weft_split_even(piece, 4, x, 0) == WEFT_OK ? reversed(piece, 4, 0) : NULL;
}

static weft_tensor *pieces_of_3(weft_tensor *x)
{
    weft_tensor *piece[8];

    return reversed(piece, weft_split_size(piece, x, 1, 3), 1);
}

#define INDEX(x, ...) weft_index((x), LIST(__VA_ARGS__))
#define PUT(x, v, add, ...) weft_index_put((x), LIST(__VA_ARGS__), (v), (add))
#define REDUCE(reduce, self) weft_scatter_reduce(x, 1, places(), v, reduce, self)
#define CASE(name, expression)                                                                     \
    static weft_tensor *case_##name(weft_tensor *x, weft_tensor *v)                                \
    {                                                                                              \
        (void)v;                                                                                   \
        (void)x;                                                                                   \
        return expression;                                                                         \
    }
#define CASES(CASE)                                                                                \
    CASE(index_select, weft_index_select(x, 1, indices(5, SIZES(8))))                              \
    CASE(index_first, INDEX(x, indices(6, SIZES(2, 3))))                                           \
    CASE(index_middle, INDEX(x, NULL, indices(5, SIZES(2, 3))))                                    \
    CASE(index_last, INDEX(x, NULL, NULL, indices(4, SIZES(7))))                                   \
    CASE(index_apart, INDEX(x, indices(6, SIZES(3)), NULL, indices(4, SIZES(2, 1))))               \
    CASE(index_side_by_side, INDEX(x, NULL, indices(5, SIZES(3, 1)), indices(4, SIZES(2))))        \
    CASE(index_negative, INDEX(x, NULL, weft_add_scalar(indices(5, SIZES(2, 3)), -5)))             \
    CASE(index_all, INDEX(x, indices(6, SIZES(9)), indices(5, SIZES(9)), indices(4, SIZES(9))))    \
    CASE(index_put, PUT(x, v, false, rows_4_1_5()))                                                \
    CASE(index_put_all, PUT(x, v, false, rows_4_1_5(), integers((int64_t[]){1, 3}, SIZES(2, 1)),   \
                            integers((int64_t[]){0, 2, 3}, SIZES(3))))                             \
    CASE(index_put_add, PUT(x, v, true, indices(6, SIZES(7)), indices(5, SIZES(7))))               \
    CASE(index_put_broadcast, PUT(x, v, false, rows_4_1_5()))                                      \
    CASE(index_add, weft_index_add(x, 1, indices(5, SIZES(8)), v))                                 \
    CASE(index_copy, weft_index_copy(x, 2, integers((int64_t[]){3, 0}, SIZES(2)), v))              \
    CASE(index_fill, weft_index_fill(x, 0, rows_4_1_5(), 0.25))                                    \
    CASE(gather, weft_gather(x, 1, places()))                                                      \
    CASE(gather_smaller, weft_gather(x, 1, weft_slice(weft_slice(places(), 0, 0, 4), 2, 1, 4)))    \
    CASE(take_along_dim, weft_take_along_dim(x, indices(5, SIZES(1, 3, 4)), 1))                    \
    CASE(scatter, weft_scatter(x, 1, once(), v))                                                   \
    CASE(scatter_smaller, weft_scatter(x, 1, weft_slice(weft_slice(once(), 0, 0, 4), 1, 0, 2), v)) \
    CASE(scatter_value, weft_scatter_value(x, 1, once(), 0.5))                                     \
    CASE(scatter_add, weft_scatter_add(x, 1, places(), v))                                         \
    CASE(scatter_sum, REDUCE(WEFT_SUM, false))                                                     \
    CASE(scatter_mean, REDUCE(WEFT_AVG, true))                                                     \
    CASE(scatter_mean_alone, REDUCE(WEFT_AVG, false))                                              \
    CASE(scatter_prod, REDUCE(WEFT_PRODUCT, true))                                                 \
    CASE(scatter_prod_alone, REDUCE(WEFT_PRODUCT, false))                                          \
    CASE(scatter_max, REDUCE(WEFT_MAX, true))                                                      \
    CASE(scatter_min, REDUCE(WEFT_MIN, true))                                                      \
    CASE(scatter_max_alone, REDUCE(WEFT_MAX, false))                                               \
    CASE(one_hot, counted(weft_one_hot(indices(5, SIZES(2, 3)), 6)))                               \
    CASE(bucketize, counted(weft_bucketize(weft_detach(x), sorted(), false)))                      \
    CASE(bucketize_right, counted(weft_bucketize(weft_detach(x), sorted(), true)))                 \
    CASE(search_sorted, counted(weft_search_sorted(sorted_rows(), weft_detach(v), false)))         \
    CASE(flip, weft_flip(x, DIMS(0, 2)))                                                           \
    CASE(roll, weft_roll(x, (int64_t[]){2, -7}, DIMS(1, 2)))                                       \
    CASE(slice_step, weft_slice_step(weft_slice_step(x, 0, 1, INT64_MAX, 2), 1, -4, 100, 3))       \
    CASE(pad, weft_pad(x, (int64_t[]){1, 2, 0, 3}, 2, WEFT_PAD_CONSTANT, 0))                       \
    CASE(pad_value, weft_pad(x, (int64_t[]){1, -1, 2, 0, 0, 1}, 3, WEFT_PAD_CONSTANT, 0.5))        \
    CASE(pad_reflect, weft_pad(x, (int64_t[]){2, 1, 3, 0}, 2, WEFT_PAD_REFLECT, 0))                \
    CASE(pad_replicate, weft_pad(x, (int64_t[]){2, 5, 1, 0}, 2, WEFT_PAD_REPLICATE, 0))            \
    CASE(pad_circular, weft_pad(x, (int64_t[]){2, 1, 3, 0}, 2, WEFT_PAD_CIRCULAR, 0))              \
    CASE(tril, weft_tril(x, 0))                                                                    \
    CASE(triu, weft_triu(x, -1))                                                                   \
    CASE(diagonal, weft_diagonal(x, 0, 0, 1))                                                      \
    CASE(diagonal_last, weft_diagonal(x, 1, -2, -1))                                               \
    CASE(diagonal_below, weft_diagonal(x, -2, 1, 2))                                               \
    CASE(diag_embed, weft_diag_embed(x, 0))                                                        \
    CASE(diag_embed_above, weft_diag_embed(x, 2))                                                  \
    CASE(diag_embed_below, weft_diag_embed(x, -1))                                                 \
    CASE(repeat_interleave, weft_repeat_interleave(x, 3, 1))                                       \
    CASE(tile, weft_tile(x, (int64_t[]){2, 3}, 2))                                                 \
    CASE(stack, weft_stack((weft_tensor *[]){x, v, x}, 3, -1))                                     \
    CASE(unbind, unbound(x))                                                                       \
    CASE(chunk, chunks(x))                                                                         \
    CASE(tensor_split, equal_pieces(x))                                                            \
    CASE(split, pieces_of_3(x))

CASES(CASE)

#define NAMED(name, expression) {#name, case_##name},
static const struct named {
    const char *name;
    weft_tensor *(*f)(weft_tensor *x, weft_tensor *v);
} cases[] = {CASES(NAMED)};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

/* Shape of v by case; none: [1]. */
static int shape_of_values(const char *name, int64_t *shape)
{
    static const struct {
        const char *name;
        int ndim;
        int64_t shape[3];
    } known[] = {{"index_put_all", 2, {2, 3}},
                 {"index_put_add", 2, {7, 4}},
                 {"index_put_broadcast", 1, {4}},
                 {"index_put", 3, {3, 5, 4}},
                 {"index_add", 3, {6, 8, 4}},
                 {"index_copy", 3, {6, 5, 2}},
                 {"scatter_smaller", 3, {4, 2, 4}},
                 {"scatter_value", 1, {1}},
                 {"scatter", 3, {6, 3, 4}},
                 {"search_sorted", 2, {6, 3}},
                 {"stack", 3, {6, 5, 4}}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            memcpy(shape, known[i].shape, sizeof known[i].shape);
            return known[i].ndim;
        }
    if (strncmp(name, "scatter_", 8) == 0) {
        memcpy(shape, (int64_t[]){6, 7, 4}, 3 * sizeof *shape);
        return 3;
    }
    shape[0] = 1;
    return 1;
}

/* ---- what torch gave ---- */

enum { MOST = 2048 };

struct golden {
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], n[3];
    double values[3][MOST]; /* the result, gradients of x and v */
};

static int64_t read_numbers(char *line, double *values)
{
    int64_t n = 0;

    for (char *end, *at = line; *at != '-' || at[1] != '\n'; at = end) {
        double value = strtod(at, &end);

        if (end == at) break;
        if (n < MOST) values[n] = value;
        n++;
    }
    return n;
}

static bool find_golden(const char *name, struct golden *golden)
{
    static const char path[] = WT_SOURCE_DIR "/"
                                             "tests/golden/indexing.txt";
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0, length = strlen(name);
    bool found = false;

    while (file && !found && getline(&line, &room, file) >= 0) {
        if (strncmp(line, name, length) != 0 || (line[length] != ' ' && line[length] != '\n'))
            continue;
        found = true;
        golden->ndim = 0;
        for (char *end, *at = line + length;; at = end) {
            long long size = strtoll(at, &end, 10);

            if (end == at) break;
            golden->shape[golden->ndim++] = size;
        }
        for (int i = 0; i < 3 && getline(&line, &room, file) >= 0; i++)
            golden->n[i] = read_numbers(line, golden->values[i]);
    }
    if (file) fclose(file);
    free(line);
    return found;
}

static bool has_shape(const weft_tensor *t, const struct golden *golden)
{
    bool good = t && weft_ndim(t) == golden->ndim;

    for (int d = 0; good && d < golden->ndim; d++) good = weft_size(t, d) == golden->shape[d];
    return good;
}

static void check(const struct named *c, const struct golden *golden, weft_tensor *x,
                  weft_tensor *v)
{
    weft_tensor *y = c->f(x, v), *weights;

    WT_ALL(has_shape(y, golden));
    WT_ALL(wt_near_full(y, golden->values[0], WT_WITHIN(1e-13)));
    weights = on_mesh(numbers(WEFT_F64, 2, golden->shape, golden->ndim));
    if (!weft_requires_grad(y)) return;
    WT_EQ(weft_backward(weft_sum_all(weft_mul(y, weights))), WEFT_OK);
    WT_ALL(wt_near_full(weft_grad(x), golden->values[1], WT_WITHIN(1e-12)));
    if (golden->n[2] && strcmp(c->name, "search_sorted") != 0)
        WT_ALL(wt_near_full(weft_grad(v), golden->values[2], WT_WITHIN(1e-12)));
}

/* x and v placed so: 0 replicated, then each dim, then terms that add up. */
static weft_tensor *placed(weft_tensor *whole, int index)
{
    weft_placement p =
        index > 0 && index <= weft_ndim(whole) ? weft_shard(index - 1) : weft_replicate();
    const weft_placement sum = weft_partial(WEFT_SUM);
    weft_tensor *t;

    if (index > weft_ndim(whole)) {
        t = weft_mul_scalar(whole, weft_world_rank() == 0   ? 1 - 0.5 * (weft_world_size() > 1)
                                   : weft_world_rank() == 1 ? 0.5
                                                            : 0);
        t = weft_from_local(weft_drop_grad_types(t), mesh, &sum, NULL);
    } else {
        t = weft_distribute_tensor(whole, mesh, &p, -1);
    }
    return weft_set_requires_grad(weft_detach(t), true);
}

/* The same elements with their dims in another order in memory. */
static weft_tensor *lying_otherwise(weft_tensor *x)
{
    int back[WEFT_MAX_DIMS], there[WEFT_MAX_DIMS], n = weft_ndim(x);

    for (int d = 0; d < n; d++) {
        there[d] = n - 1 - d;
        back[d] = n - 1 - d;
    }
    return weft_permute(weft_contiguous(weft_permute(x, there)), back);
}

/* OPDB-04, and as it asks all other ops of these headers: results and gradients in every layout */
WT_TEST_TIMES_IN_WORLD(results_and_gradients__are_torchs, w, i, CASE_COUNT)
{
    const struct named *c = &cases[i];
    struct golden golden;
    int64_t shape[3];
    int ndim = shape_of_values(c->name, shape);
    weft_tensor *x = numbers(WEFT_F64, 0, SIZES(6, 5, 4)), *v = numbers(WEFT_F64, 1, shape, ndim);

    wt_note("%s", c->name);
    WT_ALL(find_golden(c->name, &golden));
    mesh = NULL;
    check(c, &golden, weft_set_requires_grad(weft_clone(x), true),
          weft_set_requires_grad(weft_clone(v), true));
    wt_note("%s, not row-major", c->name);
    check(c, &golden, weft_set_requires_grad(weft_detach(lying_otherwise(x)), true),
          weft_set_requires_grad(weft_detach(lying_otherwise(v)), true));
    mesh = w->mesh;
    for (int a = 0; a <= 4; a++)
        for (int b = 0; b <= (golden.n[2] ? ndim + 1 : 0); b++) {
            weft_scope *scope;

            if (golden.n[2] && a != b && a * b != 0) continue;
            scope = weft_scope_open();
            wt_note("%s, placements %d and %d: %s", c->name, a, b, weft_error_message());
            check(c, &golden, placed(x, a), placed(v, b));
            weft_scope_close(scope);
        }
    mesh = NULL;
}

int main(int argc, char **argv) { return wt_main(argc, argv, "torch values"); }
