/* options.c: the command line; its rows are in options.def. */
#include "options.h"

#include "common/command_line.h"

static const char *together(void *values)
{
    const struct options *o = values;

    return o->model ? NULL : "--model DIR is missing";
}

static const struct option_row rows[] = {
#include "options.def"
};

int options_run(int argc, char **argv, int (*run)(void *options))
{
    static char *const no_files[] = {NULL};
    static const struct command_line line = {
        .doc = "Sentence embeddings of lines of text by a BERT, on one process, on threads "
               "(--ranks) or under mpiexec.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks),
        .words = "[FILE...]",
        .rest = offsetof(struct options, files),
        .complete = together};
    struct options o = {.files = no_files, .batch = 32, .length = 256};

    return command_line_run(&line, &o, argc, argv, run);
}
