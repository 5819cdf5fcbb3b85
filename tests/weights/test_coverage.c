/* test_coverage.c: parts make up a whole, or do not, whatever they count. trial 3 */
#include <stdlib.h>

#include "io/checkpoint/coverage.h"
#include "support/mpi_check.h"

enum { ROWS = 7, COLUMNS = 9, MOST = ROWS * COLUMNS };

/* Parts of [ROWS, COLUMNS]: each a list of rows by a list of columns. */
struct cover {
    struct wf_coverage coverage;
    int64_t elements;
    int times[ROWS][COLUMNS]; /* what the parts have, element by element */
};

static void add(struct cover *c, const struct wf_index_range *rows, int n_rows,
                const struct wf_index_range *columns, int n_columns)
{
    struct wf_local_runs part = {
        {n_rows, n_columns},
        {(struct wf_index_range *)(intptr_t)rows, (struct wf_index_range *)(intptr_t)columns}};

    wf_coverage_add_slice(&c->coverage, &part, 2);
    for (int i = 0; i < n_rows; i++)
        for (int j = 0; j < n_columns; j++)
            for (int64_t r = 0; r < rows[i].size; r++)
                for (int64_t k = 0; k < columns[j].size; k++) {
                    c->times[rows[i].offset + r][columns[j].offset + k]++;
                    c->elements++;
                }
}

static bool once_each(const struct cover *c)
{
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < COLUMNS; k++)
            if (c->times[r][k] != 1) return false;
    return true;
}

static bool whole(const struct cover *c)
{
    return wf_coverage_is_complete(&c->coverage, (int64_t[]){ROWS, COLUMNS}, 2);
}

/* One or two runs of a dim of `size` elements. */
static int draw(struct wf_index_range *runs, int size)
{
    int first = rand() % size, count = 1 + rand() % (size - first), end = first + count;

    runs[0] = (struct wf_index_range){first, count};
    if (end + 1 >= size || rand() % 2) return 1;
    runs[1] = (struct wf_index_range){end + 1, 1 + rand() % (size - end - 1)};
    return 2;
}

/* Parts are drawn until they count as many elements as there are, and compared with a table: most
 * of them overlap and leave holes. */
WT_UNIT(coverage__of_random_parts_is_what_a_table_says)
{
    int counted = 0;

    srand(1);
    for (int trial = 0; trial < 20000; trial++) {
        struct cover c = {.elements = 0};

        while (c.elements < MOST) {
            struct wf_index_range rows[2], columns[2];
            int n_rows = draw(rows, ROWS), n_columns = draw(columns, COLUMNS);

            add(&c, rows, n_rows, columns, n_columns);
        }
        counted += c.elements == MOST;
        ck_assert(whole(&c) == once_each(&c));
    }
    ck_assert_int_gt(counted, 100);
}

/* Cuts of both dims, also interleaved ones, and the same with one part twice and one missing. */
WT_UNIT(coverage__of_a_grid_is_whole_and_of_its_half_twice_is_not)
{
    static const struct wf_index_range rows[2][2] = {{{0, 2}, {4, 1}}, {{2, 2}, {5, 2}}};
    static const struct wf_index_range columns[3][1] = {{{0, 3}}, {{3, 3}}, {{6, 3}}};
    struct cover grid = {.elements = 0}, twice = {.elements = 0};

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++) {
            add(&grid, rows[i], 2, columns[j], 1);
            add(&twice, rows[i], 2, columns[j == 2 ? 1 : j], 1);
        }
    ck_assert_int_eq(twice.elements, MOST);
    ck_assert(whole(&grid) && !whole(&twice));
}

WT_UNIT(coverage__of_a_number_and_of_nothing)
{
    struct wf_coverage none = {{0}}, one = {{0}};
    struct wf_local_runs part = {{0}, {0}};

    ck_assert(!wf_coverage_is_complete(&none, NULL, 0));
    ck_assert(wf_coverage_is_complete(&none, (int64_t[]){4, 0}, 2));
    wf_coverage_add_slice(&one, &part, 0);
    ck_assert(wf_coverage_is_complete(&one, NULL, 0));
    wf_coverage_add_slice(&one, &part, 0);
    ck_assert(!wf_coverage_is_complete(&one, NULL, 0));
}

/* Long dims: two parts that are swapped by one element. */
WT_UNIT(coverage__is_exact_for_long_dims)
{
    static const int64_t size = INT64_C(1) << 40;
    struct wf_index_range low = {0, size / 2}, high = {size / 2, size - size / 2},
                          late = {1, size / 2};
    struct wf_coverage good = {{0}}, bad = {{0}};
    struct wf_local_runs part = {{1}, {&low}};

    wf_coverage_add_slice(&good, &part, 1);
    wf_coverage_add_slice(&bad, &part, 1);
    part.runs[0] = &high;
    wf_coverage_add_slice(&good, &part, 1);
    part.runs[0] = &late;
    wf_coverage_add_slice(&bad, &part, 1);
    ck_assert(wf_coverage_is_complete(&good, &size, 1) && !wf_coverage_is_complete(&bad, &size, 1));
}

int main(void) { return wt_unit_main("coverage"); }
