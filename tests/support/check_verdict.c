/* check_verdict.c: cases of which three must fail, on all ranks together; CTest reads the report */
#include "base/error.h"
#include "support/mpi_check.h"
#include "support/near.h"

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
    WT_ALL(wt_near_full(weft_from_data(WEFT_F64, 2, shape, shifted), numbers, WT_WITHIN(1e-6)));
    WT_ALL(wt_near_local(weft_from_data(WEFT_F64, 2, shape, numbers), numbers, WT_EXACT));
    WT_ALL(wt_has_shape(weft_from_data(WEFT_F64, 2, shape, numbers), 2, 2, 3));
}

WT_TEST(verdict__worst_element_is_named)
{
    double wrong[6] = {0, 1, 2, 3, 4.25, 5.5 + wt_rank()};

    WT_ALL(wt_near_full(weft_from_data(WEFT_F64, 2, shape, wrong), numbers, WT_WITHIN(1e-6)));
}

int main(int argc, char **argv) { return wt_main(argc, argv, "verdict"); }
