/* command_line.c: option tables for argp, and the start of the ranks. */
#include "command_line.h"

#include <argp.h>
#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { MOST = 64, KEY_FIRST = 256, KEY_HELP = '?' };

/* What argp is told of a command line, and what it has read. */
struct reading {
    const struct command_line *line;
    void *values;
    bool help;
    struct argp argp;
    struct argp_option options[MOST + 3]; /* help, usage, and the end */
    char texts[MOST][160];
};

static void *at(const struct reading *r, size_t field) { return (char *)r->values + field; }

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

/* ---- each reader answers 0 or EINVAL; argp_error() prints only in a loud parse, and never exits
 * here ---- */

static error_t read_int(const struct option_row *option, int *out, const char *text,
                        struct argp_state *state)
{
    char *end;
    long value = strtol(text, &end, 10);

    *out = (int)value;
    if (*text && !*end && value >= option->least && value <= INT_MAX) return 0;
    argp_error(state, "--%s %s: a whole number of at least %d is needed", option->name, text,
               option->least);
    return EINVAL;
}

static error_t read_real(const struct option_row *option, double *out, const char *text,
                         struct argp_state *state)
{
    char *end;

    *out = strtod(text, &end);
    if (*text && !*end && *out >= 0) return 0;
    argp_error(state, "--%s %s: a number of at least 0 is needed", option->name, text);
    return EINVAL;
}

static error_t read_seed(const struct option_row *option, uint64_t *out, const char *text,
                         struct argp_state *state)
{
    char *end;

    *out = strtoull(text, &end, 10);
    if (*text && !*end) return 0;
    argp_error(state, "--%s %s: a whole number is needed", option->name, text);
    return EINVAL;
}

static error_t read_choice(const struct option_row *option, int *out, const char *text,
                           struct argp_state *state)
{
    *out = place(option->argument, text);
    if (*out >= 0) return 0;
    argp_error(state, "--%s %s: one of %s is needed", option->name, text, option->argument);
    return EINVAL;
}

static error_t add_text(const struct option_row *option, struct texts *out, const char *text,
                        struct argp_state *state)
{
    if (out->count < MOST_TEXTS) return out->items[out->count++] = text, 0;
    argp_error(state, "--%s: %d of them are enough", option->name, MOST_TEXTS);
    return EINVAL;
}

static error_t read_value(const struct option_row *option, void *field, const char *text,
                          struct argp_state *state)
{
    switch (option->kind) {
    case TEXT:
        return *(const char **)field = text, 0;
    case TEXTS:
        return add_text(option, field, text, state);
    case FLAG:
        return *(bool *)field = true, 0;
    case INT:
        return read_int(option, field, text, state);
    case REAL:
        return read_real(option, field, text, state);
    case SEED:
        return read_seed(option, field, text, state);
    case CHOICE:
    case HEADING: /* has no key, and never comes here */
        break;
    }
    return read_choice(option, field, text, state);
}

static error_t read_end(struct reading *r, struct argp_state *state)
{
    bool asks = r->line->complete && !r->help;
    const char *problem = asks ? r->line->complete(r->values) : NULL;

    if (problem) argp_error(state, "%s", problem);
    return problem ? EINVAL : 0;
}

/* A line is read again to tell what is wrong with it. */
static void begin(struct reading *r)
{
    for (int i = 0; i < r->line->count; i++)
        if (r->line->options[i].kind == TEXTS)
            ((struct texts *)at(r, r->line->options[i].field))->count = 0;
}

static error_t read_key(int key, char *text, struct argp_state *state)
{
    struct reading *r = state->input;
    const struct option_row *options = r->line->options;

    if (key >= KEY_FIRST && key < KEY_FIRST + r->line->count)
        return read_value(&options[key - KEY_FIRST], at(r, options[key - KEY_FIRST].field), text,
                          state);
    switch (key) {
    case ARGP_KEY_INIT:
        return begin(r), 0;
    case KEY_HELP:
        return r->help = true, 0;
    case ARGP_KEY_ARGS:
        if (!r->line->words) return ARGP_ERR_UNKNOWN;
        return *(char *const **)at(r, r->line->rest) = state->argv + state->next, 0;
    case ARGP_KEY_END:
        return read_end(r, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the whole line ---- */

static void describe(struct reading *r, const struct command_line *line, void *values)
{
    struct argp_option *out = r->options;
    int group = 0;

    assert(line->count <= MOST);
    *r = (struct reading){
        .line = line,
        .values = values,
        .argp = {.options = out, .parser = read_key, .args_doc = line->words, .doc = line->doc}};
    for (int i = 0; i < line->count; i++) {
        const struct option_row *option = &line->options[i];

        if (option->kind == HEADING) {
            *out++ = (struct argp_option){.doc = option->help, .group = ++group};
            continue;
        }
        snprintf(r->texts[i], sizeof r->texts[i], *option->usual ? "%s (%s)" : "%s", option->help,
                 option->usual);
        *out++ = (struct argp_option){.name = option->name,
                                      .key = KEY_FIRST + i,
                                      .arg = option->argument,
                                      .doc = r->texts[i],
                                      .group = group};
    }
    *out++ =
        (struct argp_option){.name = "help", .key = KEY_HELP, .doc = "Show this text", .group = -1};
    *out = (struct argp_option){.name = "usage", .flags = OPTION_ALIAS | OPTION_HIDDEN};
}

/* With `loud` a mistake is printed to stderr; without, nothing is. */
static bool read_line(struct reading *r, int argc, char **argv, bool loud)
{
    unsigned flags = ARGP_NO_EXIT | ARGP_NO_HELP | (loud ? 0u : ARGP_NO_ERRS);

    return argp_parse(&r->argp, argc, argv, flags, NULL, r) == 0;
}

static void explain(struct reading *r, bool right, int argc, char **argv)
{
    if (weft_world_rank() != 0) return;
    if (right)
        argp_help(&r->argp, stdout, ARGP_HELP_LONG | ARGP_HELP_USAGE | ARGP_HELP_DOC, argv[0]);
    else
        read_line(r, argc, argv, true);
}

int command_line_run(const struct command_line *line, void *values, int argc, char **argv,
                     int (*run)(void *values))
{
    struct reading r;
    bool right;
    int ranks, code, ended;

    describe(&r, line, values);
    right = read_line(&r, argc, argv, false);
    ranks = *(int *)at(&r, line->ranks);
    if (right && !r.help && ranks) return weft_run(ranks, run, values);
    WEFT_CHECK(weft_init(&argc, &argv));
    code = right ? EXIT_SUCCESS : EXIT_FAILURE;
    if (right && !r.help)
        code = run(values);
    else
        explain(&r, right, argc, argv);
    ended = weft_finalize();
    return code ? code : ended;
}
