/* options.h: what the user asked for. */
#pragma once

#include <stdbool.h>

struct options {
    const char *model;  /* folder with config.json, model.safetensors, vocab.txt */
    char *const *files; /* ended by NULL; none: standard input */
    int ranks;          /* threads of this process; 0: the processes that mpiexec started */
    int batch, length;
    bool ids, tokens, similarity, sequence, help;
};

/** Read the command line. With `loud` a mistake is printed to stderr; without, nothing is, so that
 * one rank can speak for all. */
bool options_read(struct options *o, int argc, char **argv, bool loud);

/** What --help prints. */
void options_help(char *program);
