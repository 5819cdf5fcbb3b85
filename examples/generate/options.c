/* options.c: the command line; its rows are in options.def. */
#include "options.h"

/* What is wrong with them together; NULL when nothing is. */
static const char *together(void *values)
{
    const struct options *o = values;

    if (!o->prompts.count == !o->tokens.count) return "one of --prompt and --tokens is needed";
    if (o->model && o->checkpoint) return "--model and --checkpoint: weights come from one of them";
    if (o->top_p <= 0 || o->top_p > 1) return "--top-p: a number above 0, and at most 1, is needed";
    return o->model ? NULL : decoder_problem(&o->decoder);
}

static const struct option_row rows[] = {
#include "options.def"
};

int options_run(int argc, char **argv, int (*run)(void *options))
{
    static const struct command_line line = {
        .doc = "Write on from a prompt with a GPT-2 or Llama, on one process, on threads "
               "(--ranks) or under mpiexec: the same text at every number of ranks.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks),
        .complete = together};
    struct options o = {.decoder = decoder_usual,
                        .context = 256,
                        .count = 64,
                        .batch = 1,
                        .temperature = 1,
                        .top_p = 1,
                        .stop = -1,
                        .seed = 1};

    return command_line_run(&line, &o, argc, argv, run);
}
