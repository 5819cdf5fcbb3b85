/*
 * op_cases.h: sample calls of every op, one list for all tests that walk the op table.
 *
 * cases/ops.def holds the list. A sample says shapes, domains and attributes; the dtype is chosen
 * by the test, and the values follow from the sample's number, the operand and the element, so that
 * every rank and every test sees the same ones.
 */
#pragma once

#include "ops/op_table.h"

struct wt_op_case {
    enum wf_op op;
    const char *operands; /* "x[5,6] p[6] -"; of the wanted result for ops without inputs */
    unsigned dtypes;      /* bit per weft_dtype that the `x` and `p` operands may have */
    int attr_words;
    union wf_op_attrs attrs; /* in the row's member */
    struct wf_scalars scalars;
};

/** One operand of a sample. */
struct wt_operand {
    bool present;
    char domain; /* letter in the text: see ops.def */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t numel;
    int64_t below; /* bound of an index */
};

extern const struct wt_op_case wt_op_cases[];
extern const int wt_op_case_count;

/** Read the operands' text for one dtype; returns their number. */
int wt_operands(struct wt_operand *operands, const struct wt_op_case *sample, weft_dtype dtype);

/** Row-major element `at` of operand `i`, as its dtype can hold it. */
double wt_operand_value(const struct wt_op_case *sample, int i, const struct wt_operand *operand,
                        int64_t at);

/** A number in [0, 1) that depends on all three. */
double wt_noise(uint64_t a, uint64_t b, uint64_t c);

/** `value` rounded to the dtype. */
double wt_rounded(weft_dtype dtype, double value);

/** The call's attributes and scalars. */
struct wf_op_args wt_op_case_args(const struct wt_op_case *sample);

/** "matmul (x[4,3] x[3,5]) f64", for reports; lives until the thread's next call. */
const char *wt_op_case_text(const struct wt_op_case *sample, weft_dtype dtype);
