/* input.h: lines of text, a batch at a time. One rank reads; what it has is for all. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"
#include "tokens.h"

struct input {
    const struct options *o;
    struct vocabulary *vocabulary; /* NULL when the lines are numbers */
    char *const *next_file;
    FILE *file; /* NULL before the first */
    const char *name;
    char problem[512];
};

/** Token numbers of some lines: row i has lengths[i] of them in ids[i * width ...], then zeros. */
struct batch {
    int rows, width;
    int32_t *ids, *lengths;
};

/** On failure, and where the next returns -1, a sentence is in `problem`. */
bool input_open(struct input *in, const struct options *o);
void input_close(struct input *in);

/** Fill a batch that has room for o->batch lines of o->length tokens. Returns the number of rows, 0
 * after the last line, -1 when a file cannot be read or a number is none. */
int input_next(struct input *in, struct batch *batch);
