/* options.c: the command line, by argp. */
#include "options.h"

#include <argp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <weft/mesh.h>

enum key {
    KEY_FILTER = 'f',
    KEY_LIST = 'l',
    KEY_MATRIX = 'm',
    KEY_HELP = '?',
    KEY_RANKS = 256,
    KEY_MESH,
    KEY_DEVICE,
    KEY_SEED,
    KEY_PAIRS,
    KEY_SELF_TEST,
    KEY_COMPILE
};

static const struct argp_option table[] = {
    {"filter", KEY_FILTER, "TEXT", 0, "Cases whose name matches: a pattern, or a part of the name",
     0},
    {"pairs", KEY_PAIRS, NULL, 0, "Only as many cases as every two values need to meet", 0},
    {"ranks", KEY_RANKS, "N,...", 0, "Run as N threads of this process, for each N", 0},
    {"mesh", KEY_MESH, "TEXT", 0,
     "On this mesh of all ranks, along its axis tp, else its last: dp=2,tp=4", 0},
    {"device", KEY_DEVICE, "NAME", 0, "Where the meshes are: cpu, or cuda", 0},
    {"seed", KEY_SEED, "N", 0, "Seed of weights and inputs (1)", 0},
    {"list", KEY_LIST, NULL, 0, "Print names instead of running", 0},
    {"matrix", KEY_MATRIX, NULL, 0, "Print the results as tables", 0},
    {"self-test", KEY_SELF_TEST, NULL, 0, "Spoil every case in every way; it must fail", 0},
    {"compile", KEY_COMPILE, "whole", OPTION_ARG_OPTIONAL,
     "Call the modules compiled, as far as WEFT_COMPILE says, in segments or as a whole list; bits "
     "must be those of immediate calls",
     0},
    {"help", KEY_HELP, NULL, 0, "Show this text", -1},
    {"usage", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {0}};

/* Each reader answers 0 or EINVAL; argp_error() prints only in a loud parse, and never exits here.
 */

static error_t read_ranks(struct options *o, const char *text, struct argp_state *state)
{
    const char *at = text;

    for (o->n_ranks = 0; o->n_ranks < MAX_RUNS; at++) {
        char *end;
        long value = strtol(at, &end, 10);

        if (end == at || value < 1 || value > INT_MAX || (*end && *end != ',')) break;
        o->ranks[o->n_ranks++] = (int)value;
        if (!*end) return 0;
        at = end;
    }
    argp_error(state, "--ranks %s: at most %d whole numbers with commas are needed", text,
               MAX_RUNS);
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

static error_t read_device(struct options *o, const char *text, struct argp_state *state)
{
    if (weft_device_parse(&o->device, text) == WEFT_OK && o->device != WEFT_META) return 0;
    argp_error(state, "--device %s: cpu or cuda is needed", text);
    return EINVAL;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case KEY_FILTER:
        o->filter = text;
        return 0;
    case KEY_MESH:
        o->mesh = text;
        return 0;
    case KEY_DEVICE:
        return read_device(o, text, state);
    case KEY_LIST:
        return o->list = true, 0;
    case KEY_MATRIX:
        return o->matrix = true, 0;
    case KEY_PAIRS:
        return o->pairs = true, 0;
    case KEY_SELF_TEST:
        return o->self_test = true, 0;
    case KEY_COMPILE:
        o->whole = text && strcmp(text, "whole") == 0;
        if (text && !o->whole) argp_error(state, "--compile=%s: whole, or nothing", text);
        return text && !o->whole ? EINVAL : (o->compile = true, 0);
    case KEY_HELP:
        return o->help = true, 0;
    case KEY_RANKS:
        return read_ranks(o, text, state);
    case KEY_SEED:
        return read_seed(&o->seed, text, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = table,
    .parser = read_option,
    .doc = "Compare every parallel style with one device, in values, gradients and collectives: on "
           "one "
           "process, on threads (--ranks) or under mpiexec.\v"
           "A case is named as colwise/linear/in=S(0)/out=R/uneven/n4/2d/bf16/bias/frozen. "
           "The exit status is 0 when all cases pass."};

bool options_read(struct options *o, int argc, char **argv, bool loud)
{
    unsigned flags = ARGP_NO_EXIT | ARGP_NO_HELP | (loud ? 0u : ARGP_NO_ERRS);

    *o = (struct options){.seed = 1};
    return argp_parse(&argp, argc, argv, flags, NULL, o) == 0;
}

void options_help(char *program)
{
    argp_help(&argp, stdout,
              ARGP_HELP_LONG | ARGP_HELP_USAGE | ARGP_HELP_PRE_DOC | ARGP_HELP_POST_DOC, program);
}
