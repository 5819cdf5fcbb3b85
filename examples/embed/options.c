/* options.c: the command line, by argp. */
#include "options.h"

#include <argp.h>
#include <limits.h>
#include <stdlib.h>

enum key {
    KEY_MODEL = 'm',
    KEY_HELP = '?',
    KEY_RANKS = 256,
    KEY_BATCH,
    KEY_LENGTH,
    KEY_IDS,
    KEY_TOKENS,
    KEY_SIMILARITY,
    KEY_SEQUENCE
};

static const struct argp_option table[] = {
    {"model", KEY_MODEL, "DIR", 0, "config.json, model.safetensors and vocab.txt (required)", 0},
    {"similarity", KEY_SIMILARITY, NULL, 0, "Print the cosine of every two lines instead", 0},
    {"tokens", KEY_TOKENS, NULL, 0, "Print token numbers instead, and run no model", 0},
    {"ids", KEY_IDS, NULL, 0, "The lines are token numbers", 0},
    {"length", KEY_LENGTH, "N", 0, "Most tokens of a line; what is longer is cut (256)", 0},
    {"batch", KEY_BATCH, "N", 0, "Lines at a time (32)", 0},
    {"ranks", KEY_RANKS, "N", 0, "Run as N threads of this process, without mpiexec", 0},
    {"sequence-parallel", KEY_SEQUENCE, NULL, 0, "Norms and what lies between on parts of lines",
     0},
    {"help", KEY_HELP, NULL, 0, "Show this text", -1},
    {"usage", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {0}};

/* argp_error() prints only in a loud parse, and never exits here. */
static error_t read_int(int *out, int least, const char *name, const char *text,
                        struct argp_state *state)
{
    char *end;
    long value = strtol(text, &end, 10);

    *out = (int)value;
    if (*text && !*end && value >= least && value <= INT_MAX) return 0;
    argp_error(state, "--%s %s: a whole number of at least %d is needed", name, text, least);
    return EINVAL;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case KEY_MODEL:
        o->model = text;
        return 0;
    case KEY_RANKS:
        return read_int(&o->ranks, 1, "ranks", text, state);
    case KEY_BATCH:
        return read_int(&o->batch, 1, "batch", text, state);
    case KEY_LENGTH:
        return read_int(&o->length, 2, "length", text, state);
    case KEY_IDS:
        return o->ids = true, 0;
    case KEY_TOKENS:
        return o->tokens = true, 0;
    case KEY_SIMILARITY:
        return o->similarity = true, 0;
    case KEY_SEQUENCE:
        return o->sequence = true, 0;
    case KEY_HELP:
        return o->help = true, 0;
    case ARGP_KEY_ARGS:
        o->files = state->argv + state->next;
        return 0;
    case ARGP_KEY_END:
        if (o->model || o->help) return 0;
        argp_error(state, "--model DIR is missing");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {.options = table,
                                 .parser = read_option,
                                 .args_doc = "[FILE...]",
                                 .doc = "Sentence embeddings of lines of text by a BERT, on one "
                                        "process, on threads (--ranks) or under mpiexec."};

bool options_read(struct options *o, int argc, char **argv, bool loud)
{
    static char *const none[] = {NULL};
    unsigned flags = ARGP_NO_EXIT | ARGP_NO_HELP | (loud ? 0u : ARGP_NO_ERRS);

    *o = (struct options){.files = none, .batch = 32, .length = 256};
    return argp_parse(&argp, argc, argv, flags, NULL, o) == 0;
}

void options_help(char *program)
{
    argp_help(&argp, stdout, ARGP_HELP_LONG | ARGP_HELP_USAGE | ARGP_HELP_DOC, program);
}
