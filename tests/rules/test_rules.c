/* test_rules.c: every row of ops.def keeps what it promises, and the validator catches lies. */
#include <stdio.h>
#include <string.h>

#include <check.h>

#include "kernels/kernels.h"
#include "rules/validator.h"
#include "support/mpi_check.h"

static struct wt_verdict verdict;

static void set_up(void)
{
    wf_kernels_choose_isa();
    memset(&verdict, 0, sizeof verdict);
}

static void validate_sample(const struct wf_op_row *row, const struct wt_op_case *sample)
{
    for (weft_dtype dtype = 0; dtype < WEFT_DTYPE_COUNT; dtype++)
        for (int ranks = 2; sample->dtypes >> dtype & 1 && ranks <= 4; ranks++)
            wt_validate(&verdict, row, sample, dtype, ranks);
}

/* Samples of the op of `row`, which may lie. */
static int validate_row(enum wf_op op, const struct wf_op_row *row)
{
    int samples = 0;

    for (int i = 0; i < wt_op_case_count; i++) {
        if (wt_op_cases[i].op != op) continue;
        validate_sample(row, &wt_op_cases[i]);
        samples++;
    }
    return samples;
}

WT_UNIT(rules__every_row_has_samples)
{
    for (int op = 0; op < WF_OP_COUNT; op++) {
        bool found = wf_ops[op].planner != NULL; /* conversions: tests/dtensor/test_conversions.c */

        for (int i = 0; i < wt_op_case_count; i++) found |= wt_op_cases[i].op == (enum wf_op)op;
        ck_assert_msg(found, "%s has no sample in tests/cases/ops.def", wf_ops[op].name);
    }
}

/* One check of one row, so that the report names it. */
WT_UNIT_TIMES(rules__row_holds, WF_OP_COUNT)
{
    const struct wf_op_row *row = &wf_ops[_i];

    if (row->planner) return;
    validate_row((enum wf_op)_i, row);
    ck_assert_msg(verdict.wrong == 0, "%d of %d strategies: %s", verdict.wrong, verdict.checked,
                  verdict.first_wrong);
    ck_assert_msg(verdict.checked > 0, "%s: no strategy was checked", row->name);
}

/* ---- planted lies ---- */

static void must_be_caught(enum wf_op op, const struct wf_op_row *lie, const char *strategy)
{
    validate_row(op, lie);
    ck_assert_msg(verdict.wrong > 0, "a lie about %s was believed", lie->name);
    ck_assert_msg(strstr(verdict.first_wrong, strategy) != NULL, "%s", verdict.first_wrong);
}

WT_UNIT(lies__relu_is_not_linear)
{
    struct wf_op_row lie = wf_ops[WF_OP_relu];

    lie.linear = 1;
    must_be_caught(WF_OP_relu, &lie, "P -> P");
}

WT_UNIT(lies__product_of_two_sums_is_not_a_sum)
{
    struct wf_op_row lie = wf_ops[WF_OP_mul];

    lie.linear = 3;
    must_be_caught(WF_OP_mul, &lie, "P, P -> P");
}

WT_UNIT(lies__softmax_needs_its_dim)
{
    struct wf_op_row lie = wf_ops[WF_OP_softmax];

    lie.rule = NULL;
    lie.rule_text = "*->*";
    must_be_caught(WF_OP_softmax, &lie, "S(");
}

WT_UNIT(lies__norm_needs_its_row)
{
    struct wf_op_row lie = wf_ops[WF_OP_rms_norm];

    lie.rule_text = "*a,a->*a,*";
    must_be_caught(WF_OP_rms_norm, &lie, "S(");
}

WT_UNIT(lies__maximum_is_not_a_sum)
{
    struct wf_op_row lie = wf_ops[WF_OP_max];

    lie.reduce = WEFT_SUM;
    must_be_caught(WF_OP_max, &lie, "-> P");
}

WT_UNIT(lies__bias_counts_once)
{
    struct wf_op_row lie = wf_ops[WF_OP_linear];

    lie.linear = 1 | 2 << 8; /* the bias replicated beside a partial sum */
    must_be_caught(WF_OP_linear, &lie, "R -> P");
}

int main(void) { return wt_unit_main_with("rules", set_up, NULL); }
