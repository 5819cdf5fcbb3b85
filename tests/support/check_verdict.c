/* check_verdict.c: cases of which two must fail, on all ranks together; CTest reads the report. */
#include "base/error.h"
#include "support/mpi_check.h"

WT_TEST(verdict__true_everywhere_passes) { WT_ALL(wt_rank() < wt_ranks()); }

WT_TEST(verdict__false_on_the_last_rank_fails_all)
{
    WT_EQ(wt_rank() == wt_ranks() - 1 ? 5 : 4, 4);
}

WT_TEST(verdict__error_left_behind_fails) { (void)WF_FAIL(WEFT_ERR_SHAPE, "left on purpose"); }

int main(int argc, char **argv)
{
    static const struct wt_case cases[] = {
        WT_CASE(verdict__true_everywhere_passes),
        WT_CASE(verdict__false_on_the_last_rank_fails_all),
        WT_CASE(verdict__error_left_behind_fails),
        WT_END,
    };

    return wt_main(argc, argv, "verdict", cases);
}
