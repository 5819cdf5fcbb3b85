/* options.c: the command line, by argp: its rows are in options.def. */
#include "options.h"

#include <argp.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <weft/optim.h>

enum kind { TEXT, INT, REAL, SEED, CHOICE, FLAG };

struct row {
    const char *name, *argument, *usual, *help;
    enum kind kind;
    int least;
    size_t field;
};

static const struct row rows[] = {
#define OPTION(field, name, argument, kind, least, usual, help)                                    \
    {name, argument, usual, help, kind, least, offsetof(struct options, field)},
#include "options.def"
#undef OPTION
};

enum { ROWS = sizeof rows / sizeof *rows, KEY_FIRST = 256, KEY_HELP = '?' };

/* The place of `text` among words between '|'; -1 when it is none of them. */
static int place(const char *words, const char *text)
{
    size_t length = strlen(text);

    for (int i = 0;; i++) {
        size_t word = strcspn(words, "|");

        if (word == length && !strncmp(words, text, word)) return i;
        if (!words[word]) return -1;
        words += word + 1;
    }
}

/* Each reader answers 0 or EINVAL; argp_error() prints only in a loud parse, and never exits here.
 */

static error_t read_int(const struct row *row, int *out, const char *text, struct argp_state *state)
{
    char *end;
    long value = strtol(text, &end, 10);

    *out = (int)value;
    if (*text && !*end && value >= row->least && value <= INT_MAX) return 0;
    argp_error(state, "--%s %s: a whole number of at least %d is needed", row->name, text,
               row->least);
    return EINVAL;
}

static error_t read_real(const struct row *row, double *out, const char *text,
                         struct argp_state *state)
{
    char *end;

    *out = strtod(text, &end);
    if (*text && !*end && *out >= 0) return 0;
    argp_error(state, "--%s %s: a number of at least 0 is needed", row->name, text);
    return EINVAL;
}

static error_t read_seed(const struct row *row, uint64_t *out, const char *text,
                         struct argp_state *state)
{
    char *end;

    *out = strtoull(text, &end, 10);
    if (*text && !*end) return 0;
    argp_error(state, "--%s %s: a whole number is needed", row->name, text);
    return EINVAL;
}

static error_t read_choice(const struct row *row, int *out, const char *text,
                           struct argp_state *state)
{
    *out = place(row->argument, text);
    if (*out >= 0) return 0;
    argp_error(state, "--%s %s: one of %s is needed", row->name, text, row->argument);
    return EINVAL;
}

static error_t read_row(const struct row *row, struct options *o, const char *text,
                        struct argp_state *state)
{
    void *field = (char *)o + row->field;

    switch (row->kind) {
    case TEXT:
        return *(const char **)field = text, 0;
    case FLAG:
        return *(bool *)field = true, 0;
    case INT:
        return read_int(row, field, text, state);
    case REAL:
        return read_real(row, field, text, state);
    case SEED:
        return read_seed(row, field, text, state);
    case CHOICE:
        break;
    }
    return read_choice(row, field, text, state);
}

/* What is wrong with them together; NULL when nothing is. */
static const char *together(const struct options *o)
{
    bool own_sizes = !o->config && !o->weights;

    if (o->help) return NULL;
    if (!o->data && !o->dry_run) return "--data FILE is missing";
    if (own_sizes && o->width % o->heads) return "--width is no multiple of --heads";
    if (own_sizes && o->kv_heads && o->heads % o->kv_heads)
        return "--heads is no multiple of --kv-heads";
    if (o->token_bytes == 3 || o->token_bytes > 4) return "--token-bytes: 1, 2 or 4 is needed";
    if (o->model == LLAMA && o->dropout > 0) return "--dropout: Llama has none";
    if (o->resume && !o->checkpoint) return "--resume needs --checkpoint DIR";
    if (o->every && !o->checkpoint) return "--every needs --checkpoint DIR";
    if (o->shard && (!o->mesh || !strstr(o->mesh, "dp="))) return "--shard needs --mesh dp=N,...";
    if (o->plan && (o->sequence || o->loss == OFF))
        return "--plan FILE says it all: without --sequence-parallel and --loss-parallel";
    return NULL;
}

static error_t read_end(struct options *o, struct argp_state *state)
{
    const char *problem = together(o);

    if (o->bf16) o->dtype = WEFT_BF16;
    if (o->min_lr < 0) o->min_lr = o->lr / 10;
    if (problem) argp_error(state, "%s", problem);
    return problem ? EINVAL : 0;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;

    if (key >= KEY_FIRST && key < KEY_FIRST + ROWS)
        return read_row(&rows[key - KEY_FIRST], o, text, state);
    if (key == KEY_HELP) return o->help = true, 0;
    return key == ARGP_KEY_END ? read_end(o, state) : ARGP_ERR_UNKNOWN;
}

/* ---- what argp is told ---- */

struct command_line {
    struct argp argp;
    struct argp_option options[ROWS + 3]; /* help, usage, and the end */
    char help[ROWS][160];
};

static void describe(struct command_line *c)
{
    *c = (struct command_line){
        .argp = {.options = c->options,
                 .parser = read_option,
                 .doc = "Train a GPT-2 or Llama model on the tokens of a file, on one process, on "
                        "threads (--ranks) or under mpiexec."}};
    for (int i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];

        snprintf(c->help[i], sizeof c->help[i], *row->usual ? "%s (%s)" : "%s", row->help,
                 row->usual);
        c->options[i] = (struct argp_option){
            .name = row->name, .key = KEY_FIRST + i, .arg = row->argument, .doc = c->help[i]};
    }
    c->options[ROWS] =
        (struct argp_option){.name = "help", .key = KEY_HELP, .doc = "Show this text", .group = -1};
    c->options[ROWS + 1] =
        (struct argp_option){.name = "usage", .flags = OPTION_ALIAS | OPTION_HIDDEN};
}

bool options_read(struct options *o, int argc, char **argv, bool loud)
{
    unsigned flags = ARGP_NO_EXIT | ARGP_NO_HELP | (loud ? 0u : ARGP_NO_ERRS);
    struct command_line c;

    describe(&c);
    *o = (struct options){.token_bytes = 1,
                          .vocab = 256,
                          .layers = 6,
                          .width = 384,
                          .heads = 6,
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
    return argp_parse(&c.argp, argc, argv, flags, NULL, o) == 0;
}

void options_help(char *program)
{
    struct command_line c;

    describe(&c);
    argp_help(&c.argp, stdout, ARGP_HELP_LONG | ARGP_HELP_USAGE | ARGP_HELP_DOC, program);
}
