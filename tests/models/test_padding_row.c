/*
 * test_padding_row.c: the row of an embedding that stands for padding: zeros at first, no gradient
 * from lookups, whichever ranks hold it, and a gradient from a head that shares the table.
 */
/* mpi: 2 3 */
#include <stdlib.h>
#include <string.h>

#include "support/worlds.h"

enum { ROWS = 7, WIDTH = 5, WORDS = 12 };

static weft_module *table(int64_t padding_idx)
{
    weft_manual_seed(4);
    return wt_own(weft_embedding_new((weft_embedding_config){
        .rows = ROWS, .width = WIDTH, .padding_idx = padding_idx, .dtype = WEFT_F64}));
}

/* Every row several times. */
static weft_tensor *words(void)
{
    int64_t ids[WORDS], shape[] = {3, 4};

    for (int64_t i = 0; i < WORDS; i++) ids[i] = i * i % ROWS;
    return weft_from_data(WEFT_I64, shape, 2, ids);
}

static weft_tensor *weighted(weft_tensor *y)
{
    weft_tensor *weights = weft_empty(WEFT_F64, (int64_t[]){3, 4, WIDTH}, 3);

    for (int64_t i = 0; i < WORDS * WIDTH; i++)
        ((double *)weft_data(weights))[i] = wt_element(5, i);
    if (weft_tensor_mesh(y))
        weights = weft_distribute_tensor(weights, weft_tensor_mesh(y), NULL, -1);
    return weft_sum_all(weft_mul(y, weights));
}

/* What plain loops give: `row` is -1 for none. */
static void plain_gradient(double *want, int64_t row)
{
    memset(want, 0, ROWS * WIDTH * sizeof *want);
    for (int64_t i = 0; i < WORDS; i++)
        for (int64_t j = 0; j < WIDTH && i * i % ROWS != row; j++)
            want[i * i % ROWS * WIDTH + j] += wt_element(5, i * WIDTH + j);
}

static bool row_is_zero(weft_tensor *weight, int64_t row)
{
    double *values = wt_values(weight);
    bool zero = values != NULL;

    for (int64_t i = 0; zero && i < ROWS * WIDTH; i++)
        zero = (values[i] == 0) == (i / WIDTH == row);
    free(values);
    return zero;
}

static void check(struct wt_world *w, int64_t padding_idx, int64_t row, weft_style_kind kind,
                  bool replicated)
{
    weft_plan plan[] = {{"", {.kind = kind, .options = {.output_layouts = "R"}}}, {0}};
    weft_module *m = table(padding_idx);
    double want[ROWS * WIDTH];

    if (!replicated) WT_EQ(weft_parallelize_module(m, w->mesh, plan), WEFT_OK);
    WT_ALL(row < 0 || row_is_zero(weft_module_parameter(m, "weight"), row));
    WT_EQ(weft_backward(weighted(weft_call(m, words()))), WEFT_OK);
    plain_gradient(want, row);
    WT_ALL(wt_near_full(weft_grad(weft_module_parameter(m, "weight")), want, WT_WITHIN(1e-12)));
}

/* trial 4.1 */
WT_TEST(padding_row__gets_no_gradient_from_lookups)
{
    static const struct {
        int64_t padding_idx, row;
    } rows[] = {{0, -1}, {WEFT_PADDING_ZERO, 0}, {3, 3}, {-1, ROWS - 1}, {-ROWS, 0}};

    struct wt_world w = wt_world_open();

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        wt_row("padding_idx %d", (int)rows[i].padding_idx);
        check(&w, rows[i].padding_idx, rows[i].row, WEFT_STYLE_ROWWISE, false);
        check(&w, rows[i].padding_idx, rows[i].row, WEFT_STYLE_COLWISE, false);
        check(&w, rows[i].padding_idx, rows[i].row, WEFT_STYLE_COLWISE, true);
    }
}

/* Made where it will live, each rank its part: the same first values. */
/* trial 4.1 */
WT_TEST(padding_row__is_zero_where_a_part_of_the_table_is_made)
{
    struct wt_world w = wt_world_open();

    for (int kind = 0; kind < 2; kind++) {
        weft_plan plan[] = {{"", {.kind = kind ? WEFT_STYLE_ROWWISE : WEFT_STYLE_COLWISE}}, {0}};
        weft_device before = weft_set_default_device(WEFT_META);
        weft_module *m = table(3), *one;

        weft_set_default_device(before);
        one = table(3);
        WT_EQ(weft_parallelize_module(m, w.mesh, plan), WEFT_OK);
        WT_EQ(weft_module_materialize(m, WEFT_CPU), WEFT_OK);
        WT_ALL(row_is_zero(weft_module_parameter(m, "weight"), 3));
        WT_ALL(wt_near_tensors(weft_module_parameter(m, "weight"),
                               weft_module_parameter(one, "weight"), WT_EXACT));
    }
}

/* First values drawn anew are a new table's, the row's zeros too, on whichever rank it lies. */
/* trial 4.1 */
WT_TEST(padding_row__is_zero_again_after_a_reset)
{
    static const weft_style_kind kinds[] = {WEFT_STYLE_ROWWISE, WEFT_STYLE_COLWISE};
    struct wt_world w = wt_world_open();

    for (int layout = 0; layout < 3; layout++)
        for (int64_t row = 0; row < ROWS; row += ROWS / 2) {
            weft_plan plan[] = {{"", {.kind = kinds[layout % 2]}}, {0}};
            weft_module *m = table(row ? row : WEFT_PADDING_ZERO), *one;
            weft_tensor *weight;

            if (layout < 2) WT_EQ(weft_parallelize_module(m, w.mesh, plan), WEFT_OK);
            weight = weft_module_parameter(m, "weight");
            WT_EQ(weft_fill_(weight, 2), WEFT_OK);
            one = table(row ? row : WEFT_PADDING_ZERO);
            weft_manual_seed(4);
            WT_EQ(weft_module_reset_parameters(m, NULL), WEFT_OK);
            WT_ALL(row_is_zero(weight, row));
            WT_ALL(wt_near_tensors(weight, weft_module_parameter(one, "weight"), WT_EXACT));
        }
}

/* Lookups leave the row alone; the product with the same table does not (as in PyTorch). */
/* trial 4.1 */
WT_TEST(padding_row__of_a_tied_head_has_the_heads_gradient)
{
    struct wt_world w = wt_world_open();
    weft_tensor *whole = weft_empty(WEFT_F64, (int64_t[]){ROWS, WIDTH}, 2), *x, *weight;
    double *slopes;
    bool good = true;

    for (int64_t i = 0; i < ROWS * WIDTH; i++) ((double *)weft_data(whole))[i] = wt_element(6, i);
    weight = weft_set_requires_grad(wt_spread(&w, whole, "S(0)"), true);
    x = weft_embedding_with(weight, weft_distribute_tensor(words(), w.mesh, NULL, -1),
                            (weft_embedding_options){.padding_idx = 2});
    /* d/dw of sum(x wT): the sum over words of their rows, for every row of w alike, through the
     * head */
    WT_EQ(weft_backward(weft_sum_all(weft_linear(weft_detach(x), weight, NULL, 1))), WEFT_OK);
    slopes = wt_values(weft_grad(weight));
    for (int64_t j = 0; j < WIDTH; j++)
        good &= slopes[2 * WIDTH + j] == slopes[j] && slopes[j] != 0;
    free(slopes);
    WT_ALL(good);
    weft_zero_grad(weight);
    WT_EQ(weft_backward(weft_sum_all(weft_linear(x, weight, NULL, 1))), WEFT_OK);
    slopes = wt_values(weft_grad(weight));
    for (int64_t j = 0; j < WIDTH; j++) good &= slopes[2 * WIDTH + j] != slopes[j];
    free(slopes);
    WT_ALL(good);
}

WT_TEST(padding_row__outside_the_table_is_refused)
{
    weft_tensor *weight = weft_full(WEFT_F32, (int64_t[]){ROWS, WIDTH}, 2, 1);

    WT_ALL(
        !table(ROWS) &&
        !weft_embedding_with(weight, words(), (weft_embedding_options){.padding_idx = -ROWS - 1}));
    WT_FAILED(WEFT_ERR_ARG, "padding_idx is 7; there are 7 rows");
}

int main(int argc, char **argv) { return wt_main(argc, argv, "padding_row"); }
