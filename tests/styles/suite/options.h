/* options.h: what the user asked for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

enum { MAX_RUNS = 16 };

struct options {
    int ranks[MAX_RUNS], n_ranks; /* numbers of threads; none: the processes that mpiexec started */
    const char *filter, *mesh;    /* NULL: everything; 1-D and 2-D meshes of all ranks */
    weft_device device;           /* of the meshes */
    uint64_t seed;
    bool list, matrix, pairs, self_test, compile, whole, help;
};

/** Read the command line. With `loud` a mistake is printed to stderr; without, nothing is, so that
 *  one rank can speak for all. */
bool options_read(struct options *o, int argc, char **argv, bool loud);

/** What --help prints. */
void options_help(char *program);
