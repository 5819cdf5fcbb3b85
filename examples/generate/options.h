/* options.h: what the user asked for. The names and meanings are in options.def. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/command_line.h"
#include "common/decoder.h"

struct options {
    const char *model, *checkpoint; /* where weights come from; neither: random ones */
    const char *tokenizer;          /* NULL: where the weights come from */
    struct texts prompts, tokens;   /* texts, or token numbers */
    struct decoder decoder;
    bool llama;                                    /* without --model: the family */
    int context, count, batch, chunk, top_k, stop; /* stop -1: no such token */
    double temperature, top_p;
    uint64_t seed;
    int ranks; /* threads of this process; 0: the processes that mpiexec started */
    bool ids;
};

/** Read them, and have every rank do `run`; see common/command_line.h. gives: the exit code */
int options_run(int argc, char **argv, int (*run)(void *options));
