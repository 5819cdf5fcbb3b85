/* options.c: the command line, by argp: a row for each option. */
#include "options.h"

#include <argp.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, INT, REAL, SEED, FLAG, DTYPE };

struct row {
    const char *name, *argument;
    enum kind kind;
    int least;
    size_t field;
    const char *help;
};

#define AT(field) offsetof(struct options, field)

static const struct row rows[] = {
    {"model", "DIR", TEXT, 0, AT(model),
     "Hugging Face folder of a GPT-2 or Llama: config.json and weights"},
    {"checkpoint", "DIR", TEXT, 0, AT(checkpoint),
     "Weights that train_gpt has saved; its sizes are given again"},
    {"tokenizer", "DIR", TEXT, 0, AT(tokenizer),
     "Folder with tokenizer.json, or vocab.json and merges.txt (that of --model; without: bytes)"},
    {"prompt", "TEXT", TEXT, 0, AT(prompt), "Text to go on from"},
    {"tokens", "\"N N ..\"", TEXT, 0, AT(tokens), "Token numbers instead"},
    {"count", "N", INT, 0, AT(count), "Tokens to write (64)"},
    {"batch", "N", INT, 1, AT(batch), "Continuations of the prompt, each its own (1)"},
    {"temperature", "X", REAL, 0, AT(temperature),
     "Below 1 surer, above 1 wilder; 0: the likeliest "
     "token always (1)"},
    {"top-k", "N", INT, 0, AT(top_k), "Choose among the N likeliest tokens; 0: all (0)"},
    {"top-p", "X", REAL, 0, AT(top_p),
     "Choose among the likeliest that have probability X together (1)"},
    {"seed", "N", SEED, 0, AT(seed), "Seed of choices, and of random weights (1)"},
    {"stop", "N", INT, 0, AT(stop), "A sequence ends with this token"},
    {"chunk", "N", INT, 0, AT(chunk), "Read the prompt in pieces of N tokens; 0: at once (0)"},
    {"ids", NULL, FLAG, 0, AT(ids), "Print token numbers, a line per sequence"},
    {"dtype", "f32|f64|bf16", DTYPE, 0, AT(dtype), "Elements of weights and activations (f32)"},
    {"ranks", "N", INT, 1, AT(ranks), "Run as N threads of this process, without mpiexec"},
    {"llama", NULL, FLAG, 0, AT(llama), "Without --model: a Llama, not a GPT-2"},
    {"vocab", "N", INT, 1, AT(vocab), "Without --model: different tokens (256)"},
    {"layers", "N", INT, 1, AT(layers), "Without --model: transformer blocks (6)"},
    {"width", "N", INT, 1, AT(width), "Without --model: features per token (384)"},
    {"heads", "N", INT, 1, AT(heads), "Without --model: attention heads (6)"},
    {"kv-heads", "N", INT, 0, AT(kv_heads), "Llama without --model: keys and values (as heads)"},
    {"hidden", "N", INT, 0, AT(hidden), "Without --model: features inside the MLP (4 widths)"},
    {"context", "N", INT, 1, AT(context), "Without --model: tokens the model sees (256)"},
    {"tied", NULL, FLAG, 0, AT(tied), "Without --model: the head has the embedding's weight"},
};

enum { ROWS = sizeof rows / sizeof *rows, KEY_FIRST = 256, KEY_HELP = '?' };

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

static error_t read_dtype(int *out, const char *text, struct argp_state *state)
{
    static const char *const names[] = {"f32", "f64", "bf16"}; /* in the order of weft_dtype */

    for (*out = 0; *out < 3; ++*out)
        if (!strcmp(text, names[*out])) return 0;
    argp_error(state, "--dtype %s: f32, f64 or bf16 is needed", text);
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
    case DTYPE:
        break;
    }
    return read_dtype(field, text, state);
}

/* What is wrong with them together; NULL when nothing is. */
static const char *together(const struct options *o)
{
    if (o->help) return NULL;
    if (!o->prompt == !o->tokens) return "one of --prompt and --tokens is needed";
    if (o->model && o->checkpoint) return "--model and --checkpoint: weights come from one of them";
    if (o->width % o->heads) return "--width is no multiple of --heads";
    if (o->kv_heads && o->heads % o->kv_heads) return "--heads is no multiple of --kv-heads";
    if (o->top_p <= 0 || o->top_p > 1) return "--top-p: a number above 0, and at most 1, is needed";
    return NULL;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;
    const char *problem;

    if (key >= KEY_FIRST && key < KEY_FIRST + ROWS)
        return read_row(&rows[key - KEY_FIRST], o, text, state);
    if (key == KEY_HELP) return o->help = true, 0;
    if (key != ARGP_KEY_END) return ARGP_ERR_UNKNOWN;
    problem = together(o);
    if (problem) argp_error(state, "%s", problem);
    return problem ? EINVAL : 0;
}

/* ---- what argp is told ---- */

struct command_line {
    struct argp argp;
    struct argp_option options[ROWS + 3]; /* help, usage, and the end */
};

static void describe(struct command_line *c)
{
    *c = (struct command_line){
        .argp = {.options = c->options,
                 .parser = read_option,
                 .doc = "Write on from a prompt with a GPT-2 or Llama, on one process, on threads "
                        "(--ranks) or under mpiexec: the same text at every number of ranks."}};
    for (int i = 0; i < ROWS; i++)
        c->options[i] = (struct argp_option){.name = rows[i].name,
                                             .key = KEY_FIRST + i,
                                             .arg = rows[i].argument,
                                             .doc = rows[i].help};
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
    *o = (struct options){.vocab = 256,
                          .layers = 6,
                          .width = 384,
                          .heads = 6,
                          .context = 256,
                          .count = 64,
                          .batch = 1,
                          .temperature = 1,
                          .top_p = 1,
                          .stop = -1,
                          .seed = 1};
    return argp_parse(&c.argp, argc, argv, flags, NULL, o) == 0;
}

void options_help(char *program)
{
    struct command_line c;

    describe(&c);
    argp_help(&c.argp, stdout, ARGP_HELP_LONG | ARGP_HELP_USAGE | ARGP_HELP_DOC, program);
}
