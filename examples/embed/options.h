/* options.h: what the user asked for. The names and meanings are in options.def. */
#pragma once

#include <stdbool.h>

struct options {
    const char *model;  /* folder with config.json, model.safetensors, vocab.txt */
    char *const *files; /* ended by NULL; none: standard input */
    int ranks;          /* threads of this process; 0: the processes that mpiexec started */
    int batch, length;
    bool ids, tokens, similarity, sequence;
};

/** Read them, and have every rank do `run`; see common/command_line.h. gives: the exit code */
int options_run(int argc, char **argv, int (*run)(void *options));
