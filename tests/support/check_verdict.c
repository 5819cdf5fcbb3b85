/* check_verdict.c: cases of which four must fail, on all ranks together; CTest reads the report */
#include "base/error.h"
#include "support/mpi_check.h"
#include "support/near.h"
#include "support/owned.h"

WT_TEST(verdict__true_everywhere_passes) { WT_ALL(wt_rank() < wt_ranks()); }

WT_TEST(verdict__false_on_the_last_rank_fails_all)
{
    WT_EQ(wt_rank() == wt_ranks() - 1 ? 5 : 4, 4);
}

WT_TEST(verdict__error_left_behind_fails) { (void)WF_FAIL(WEFT_ERR_SHAPE, "left on purpose"); }

static const int64_t shape[2] = {2, 3};
static const double numbers[6] = {0, 1, 2, 3, 4, 5};

WT_TEST(verdict__near_is_near)
{
    double shifted[6];

    for (int i = 0; i < 6; i++) shifted[i] = numbers[i] + 1e-7 * wt_rank();
    WT_ALL(wt_near_full(weft_from_data(WEFT_F64, shape, 2, shifted), numbers, WT_WITHIN(1e-6)));
    WT_ALL(wt_near_local(weft_from_data(WEFT_F64, shape, 2, numbers), numbers, WT_EXACT));
    WT_ALL(wt_has_shape(weft_from_data(WEFT_F64, shape, 2, numbers), 2, 2, 3));
}

WT_TEST(verdict__worst_element_is_named)
{
    double wrong[6] = {0, 1, 2, 3, 4.25, 5.5 + wt_rank()};

    WT_ALL(wt_near_full(weft_from_data(WEFT_F64, shape, 2, wrong), numbers, WT_WITHIN(1e-6)));
}

/* ---- what is owned ---- */

static int released[8]; /* of each rank */

static void count(void *of) { ++*(int *)of; }

WT_TEST(verdict__rows_release_what_they_own)
{
    int *mine = &released[wt_rank()];

    wt_own_with(mine, count);
    for (int i = 0; i < 3; i++) {
        wt_row("row %d", i);
        WT_EQ(*mine, i);
        wt_own_with(mine, count);
    }
}

WT_TEST(verdict__row_is_named)
{
    WT_EQ(released[wt_rank()], 4); /* by the case before */
    wt_own_with(&released[wt_rank()], count);
    for (int i = 0; i < 3; i++) {
        wt_row("row %d", i);
        WT_ALL(true);
        WT_ALL(i < 2);
    }
}

WT_TEST(verdict__cases_release_what_they_own) { WT_EQ(released[wt_rank()], 5); }

int main(int argc, char **argv) { return wt_main(argc, argv, "verdict"); }
