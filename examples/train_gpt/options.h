/* options.h: what the user asked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/dtype.h>

struct options {
    const char *data;
    const char *jsonl; /* NULL: no log */
    int layers, width, heads, context, batch, steps, warmup;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    int sample;
    uint64_t seed;
    double lr, clip;
    weft_dtype dtype;
    bool help;
};

/**
 * Read the command line. With `loud` a mistake is printed to stderr; without, nothing is, so that
 * one rank can speak for all.
 */
bool options_read(struct options *o, int argc, char **argv, bool loud);

/** What --help prints. */
void options_help(char *program);
