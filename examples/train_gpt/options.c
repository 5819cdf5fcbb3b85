/* options.c: the command line; its rows are in options.def. */
#include "options.h"

#include <string.h>

#include <weft/optim.h>

#include "common/command_line.h"

/* What is wrong with them together; NULL when nothing is. */
static const char *together(const struct options *o)
{
    if (!o->data && !o->dry_run) return "--data FILE is missing";
    if (o->token_bytes == 3 || o->token_bytes > 4) return "--token-bytes: 1, 2 or 4 is needed";
    if (o->model == LLAMA && o->decoder.dropout > 0) return "--dropout: Llama has none";
    if (o->resume && !o->checkpoint) return "--resume needs --checkpoint DIR";
    if (o->every && !o->checkpoint) return "--every needs --checkpoint DIR";
    if (o->shard && (!o->mesh || !strstr(o->mesh, "dp="))) return "--shard needs --mesh dp=N,...";
    if (o->plan && (o->sequence || o->loss == OFF))
        return "--plan FILE says it all: without --sequence-parallel and --loss-parallel";
    return o->config || o->weights ? NULL : decoder_problem(&o->decoder);
}

static const char *complete(void *values)
{
    struct options *o = values;

    if (o->bf16) o->decoder.dtype = WEFT_BF16;
    if (o->min_lr < 0) o->min_lr = o->lr / 10;
    return together(o);
}

static const struct option_row rows[] = {
#include "options.def"
};

int options_run(int argc, char **argv, int (*run)(void *options))
{
    static const struct command_line line = {
        .doc = "Train a GPT-2 or Llama model on the tokens of a file, on one process, on "
               "threads (--ranks) or under mpiexec.",
        .options = rows,
        .count = sizeof rows / sizeof *rows,
        .ranks = offsetof(struct options, ranks),
        .complete = complete};
    struct options o = {.decoder = decoder_usual,
                        .token_bytes = 1,
                        .context = 256,
                        .batch = 8,
                        .accumulate = 1,
                        .steps = 100,
                        .warmup = 10,
                        .period = 20,
                        .sample = 200,
                        .seed = 1,
                        .lr = 3e-4,
                        .min_lr = -1,
                        .decay = 0.01,
                        .gamma = 0.5,
                        .schedule = WEFT_SCHEDULE_COSINE,
                        .clip = 1};

    return command_line_run(&line, &o, argc, argv, run);
}
