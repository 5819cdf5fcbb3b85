/* passes.h: what tests of passes ask of a compiled function: the same bits as the function itself,
 * and how often a word stands in its list. */
#pragma once

#include "support/given.h"

enum { PASS_INPUTS = 4 };

/** A function and the inputs of its calls. */
struct pass_case {
    weft_compiled_function *function;
    void *state;
    weft_dtype dtype;
    int n_in, n_out;
    int64_t rows[PASS_INPUTS], columns[PASS_INPUTS]; /* columns 0: one dim */
    const char *placements[PASS_INPUTS];             /* NULL: plain */
    bool gradients;
    bool whole_numbers;            /* inputs are such: sums have no rounding */
    struct wt_tolerance tolerance; /* not given: the same bits */
};

/** Call it three times, each on other inputs, compiled and as it is: results and gradients of
 * inputs have the same bits. gives: the compiled function, which the test owns */
weft_compiled *given_compiled(struct wt_world *w, const struct pass_case *c, const char *off);

/** Lines of its forward (or backward) list that have this word. */
int given_lines(const weft_compiled *compiled, bool backward, bool lowered, const char *word);
