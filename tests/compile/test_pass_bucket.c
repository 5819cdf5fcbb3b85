/* test_pass_bucket.c: the pass bucket: several collectives become one, with the same bits. */
#include "as_immediate.h"
#include "passes.h"

/* Sums over the rows of three inputs, whose rows are spread. */
FUNCTION(three_sums)
{
    const int dims[] = {0};
    int n = 0;

    for (int i = 0; i < 3; i++) {
        weft_tensor *sum = weft_sum(weft_mul(in[i], in[i]), dims, 1, false);

        out[n++] = wt_to(sum, "R");
        if (!out[n - 1]) return weft_error_status();
    }
    return WEFT_OK;
}

WT_TEST_TIMES_IN_WORLD(sums__go_together, w, i, 4)
{
    struct pass_case c = {.function = three_sums,
                          .dtype = i == 3 ? WEFT_F64 : WEFT_F32,
                          .n_in = 3,
                          .n_out = 3,
                          .rows = {9 + i, 20, i ? 33 : 1},
                          .columns = {5, 17 + i, 1},
                          .placements = {"S(0)", "S(0)", "S(0)"},
                          .gradients = i % 2 == 1};
    weft_compiled *with = given_compiled(w, &c, "+bucket!"),
                  *without = given_compiled(w, &c, "bucket");

    if (weft_world_size() == 1) return;
    WT_EQ(given_lines(without, false, true, "start all-reduce"), 3);
    WT_EQ(given_lines(with, false, true, "start all-reduce"), 1);
}

/* Large ones stay apart: copies would take longer than a start. */
WT_TEST_IN_IF(large_sums__stay_apart, w, weft_world_size() > 1, wt_world_open())
{
    struct pass_case c = {.function = three_sums,
                          .dtype = WEFT_F32,
                          .n_in = 3,
                          .n_out = 3,
                          .rows = {4, 4, 4},
                          .columns = {1 << 18, 1 << 18, 1 << 18},
                          .placements = {"S(0)", "S(0)", "S(0)"}};
    weft_compiled *with = given_compiled(w, &c, "+bucket");

    WT_EQ(given_lines(with, false, true, "start all-reduce"), 3);
}

/* Rows that lie together, and columns, whose pieces are packed first. */
FUNCTION(three_gathers)
{
    for (int i = 0; i < 3; i++) {
        out[i] = wt_to(in[i], "R");
        if (!out[i]) return weft_error_status();
    }
    return WEFT_OK;
}

FUNCTION(three_scattered_sums)
{
    for (int i = 0; i < 3; i++) {
        out[i] = wt_to(weft_matmul(weft_transpose(in[i], 0, 1), in[i]), *(const char **)state);
        if (!out[i]) return weft_error_status();
    }
    return WEFT_OK;
}

/* Equal pieces go together, of uneven ones each goes alone. A gather of columns is unpacked, and so
 * read, before the next one starts. */
WT_TEST_TIMES_IN_WORLD(gathers_and_scatters__go_together, w, i, 8)
{
    bool scatter = i & 1, even = i & 2, columns = i & 4;
    const char *to = columns ? "S(1)" : "S(0)", *from = scatter ? "S(0)" : to,
               *word = scatter ? "start reduce-scatter" : "start all-gather";
    int64_t n = wt_ranks(), more = even ? 0 : 1;
    struct pass_case c = {.function = scatter ? three_scattered_sums : three_gathers,
                          .state = &to,
                          .dtype = WEFT_F32,
                          .n_in = 3,
                          .n_out = 3,
                          .rows = {2 * n + more, n + more, 3 * n + more},
                          .columns = {5 * n + more, n + more, 4 * n + more},
                          .placements = {from, from, from},
                          .gradients = true};
    weft_compiled *with = given_compiled(w, &c, "+bucket!,cse"),
                  *without = given_compiled(w, &c, "bucket,cse");

    if (wt_ranks() == 1) return;
    WT_EQ(given_lines(without, false, true, word), 3);
    WT_EQ(given_lines(with, false, true, word), even && (scatter || !columns) ? 1 : 3);
}

/* The second sum needs the first. */
FUNCTION(one_after_the_other)
{
    const int dims[] = {0};
    weft_tensor *sum = wt_to(weft_sum(in[0], dims, 1, false), "R");

    out[0] = wt_to(weft_sum(weft_mul(in[1], sum), dims, 1, false), "R");
    return out[0] ? WEFT_OK : weft_error_status();
}

WT_TEST_IN_IF(sums_that_need_another__stay_apart, w, weft_world_size() > 1, wt_world_open())
{
    struct pass_case c = {.function = one_after_the_other,
                          .dtype = WEFT_F32,
                          .n_in = 2,
                          .n_out = 1,
                          .rows = {9, 9},
                          .columns = {4, 4},
                          .placements = {"S(0)", "S(0)"},
                          .gradients = true};
    weft_compiled *with = given_compiled(w, &c, "+bucket!");

    WT_EQ(given_lines(with, false, true, "start all-reduce"), 2);
}

int main(int argc, char **argv) { return wt_main(argc, argv, "pass_bucket"); }
