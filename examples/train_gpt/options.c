/* options.c: the command line, by argp. */
#include "options.h"

#include <argp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum key {
    KEY_DATA = 'd',
    KEY_HELP = '?',
    KEY_LAYERS = 256,
    KEY_WIDTH,
    KEY_HEADS,
    KEY_CONTEXT,
    KEY_BATCH,
    KEY_STEPS,
    KEY_LR,
    KEY_WARMUP,
    KEY_CLIP,
    KEY_RANKS,
    KEY_SEED,
    KEY_DTYPE,
    KEY_JSONL,
    KEY_SAMPLE
};

static const struct argp_option table[] = {
    {"data", KEY_DATA, "FILE", 0, "Text to learn, any bytes (required)", 0},
    {"layers", KEY_LAYERS, "N", 0, "Transformer blocks (6)", 0},
    {"width", KEY_WIDTH, "N", 0, "Features per token (384)", 0},
    {"heads", KEY_HEADS, "N", 0, "Attention heads; must divide the width (6)", 0},
    {"context", KEY_CONTEXT, "N", 0, "Bytes the model sees at once (256)", 0},
    {"batch", KEY_BATCH, "N", 0, "Sequences per step (8)", 0},
    {"steps", KEY_STEPS, "N", 0, "Training steps (100)", 0},
    {"lr", KEY_LR, "X", 0, "Highest learning rate (3e-4); falls to a tenth along a cosine", 0},
    {"warmup", KEY_WARMUP, "N", 0, "Steps over which the rate rises (10)", 0},
    {"clip", KEY_CLIP, "X", 0, "Largest norm of all gradients; 0: no limit (1)", 0},
    {"ranks", KEY_RANKS, "N", 0, "Run as N threads of this process, without mpiexec", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of weights, batches and sample (1)", 0},
    {"dtype", KEY_DTYPE, "f32|f64", 0, "Element type of the weights (f32)", 0},
    {"jsonl", KEY_JSONL, "FILE", 0, "Also write a line of JSON per step", 0},
    {"sample", KEY_SAMPLE, "N", 0, "Bytes of text to generate at the end (200)", 0},
    {"help", KEY_HELP, NULL, 0, "Show this text", -1},
    {"usage", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {0}};

/* Each reader answers 0 or EINVAL; argp_error() prints only in a loud parse, and never exits here.
 */

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

static error_t read_double(double *out, const char *name, const char *text,
                           struct argp_state *state)
{
    char *end;

    *out = strtod(text, &end);
    if (*text && !*end && *out >= 0) return 0;
    argp_error(state, "--%s %s: a number of at least 0 is needed", name, text);
    return EINVAL;
}

static error_t read_seed(uint64_t *out, const char *text, struct argp_state *state)
{
    char *end;

    *out = strtoull(text, &end, 10);
    if (*text && !*end) return 0;
    argp_error(state, "--seed %s: a whole number is needed", text);
    return EINVAL;
}

static error_t read_dtype(weft_dtype *out, const char *text, struct argp_state *state)
{
    *out = strcmp(text, "f64") ? WEFT_F32 : WEFT_F64;
    if (!strcmp(text, weft_dtype_name(*out))) return 0;
    argp_error(state, "--dtype %s: f32 or f64 is needed", text);
    return EINVAL;
}

static error_t check_whole(const struct options *o, struct argp_state *state)
{
    if (o->help || (o->data && o->width % o->heads == 0)) return 0;
    if (!o->data)
        argp_error(state, "--data FILE is missing");
    else
        argp_error(state, "--width %d is no multiple of --heads %d", o->width, o->heads);
    return EINVAL;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case KEY_DATA:
        o->data = text;
        return 0;
    case KEY_JSONL:
        o->jsonl = text;
        return 0;
    case KEY_HELP:
        o->help = true;
        return 0;
    case KEY_LAYERS:
        return read_int(&o->layers, 1, "layers", text, state);
    case KEY_WIDTH:
        return read_int(&o->width, 1, "width", text, state);
    case KEY_HEADS:
        return read_int(&o->heads, 1, "heads", text, state);
    case KEY_CONTEXT:
        return read_int(&o->context, 1, "context", text, state);
    case KEY_BATCH:
        return read_int(&o->batch, 1, "batch", text, state);
    case KEY_STEPS:
        return read_int(&o->steps, 1, "steps", text, state);
    case KEY_WARMUP:
        return read_int(&o->warmup, 0, "warmup", text, state);
    case KEY_RANKS:
        return read_int(&o->ranks, 1, "ranks", text, state);
    case KEY_SAMPLE:
        return read_int(&o->sample, 0, "sample", text, state);
    case KEY_LR:
        return read_double(&o->lr, "lr", text, state);
    case KEY_CLIP:
        return read_double(&o->clip, "clip", text, state);
    case KEY_SEED:
        return read_seed(&o->seed, text, state);
    case KEY_DTYPE:
        return read_dtype(&o->dtype, text, state);
    case ARGP_KEY_END:
        return check_whole(o, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {.options = table,
                                 .parser = read_option,
                                 .doc = "Train a GPT on the bytes of a file, on one process, on "
                                        "threads (--ranks) or under mpiexec."};

bool options_read(struct options *o, int argc, char **argv, bool loud)
{
    unsigned flags = ARGP_NO_EXIT | ARGP_NO_HELP | (loud ? 0u : ARGP_NO_ERRS);

    *o = (struct options){.layers = 6,
                          .width = 384,
                          .heads = 6,
                          .context = 256,
                          .batch = 8,
                          .steps = 100,
                          .warmup = 10,
                          .sample = 200,
                          .seed = 1,
                          .lr = 3e-4,
                          .clip = 1,
                          .dtype = WEFT_F32};
    return argp_parse(&argp, argc, argv, flags, NULL, o) == 0;
}

void options_help(char *program)
{
    argp_help(&argp, stdout, ARGP_HELP_LONG | ARGP_HELP_USAGE | ARGP_HELP_DOC, program);
}
