/*
 * weft_replay.c: run a list that weft_compile_record has written, immediately and compiled, and say
 * which node differs first; or find the smallest list that still does. As threads (--ranks), or
 * under mpiexec. docs/howto/when-compiled-results-differ.md
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { KEY_RANKS = 256, KEY_F64, KEY_PASSES, KEY_RELATIVE, KEY_ABSOLUTE };

struct options {
    const char *path, *smaller;
    weft_compile_check check;
    int ranks; /* 0: the processes that mpiexec started */
};

static const struct argp_option table[] = {
    {"ranks", KEY_RANKS, "N", 0, "Run as N threads of this process", 0},
    {"minify", 'm', "PATH", 0, "Write the smallest list that still differs or fails to PATH", 0},
    {"backend", 'b', "NAME", 0, "Run the list with this backend", 0},
    {"passes-off", KEY_PASSES, "LIST", 0, "Leave out these passes, with commas; all: every pass",
     0},
    {"relative", KEY_RELATIVE, "X", 0, "Elements may differ by this part of themselves", 0},
    {"absolute", KEY_ABSOLUTE, "X", 0, "and by this", 0},
    {"f64", KEY_F64, "X", OPTION_ARG_OPTIONAL,
     "Compare each node with its op in f64, up to X of its largest element", 0},
    {0}};

static bool read_number(double *out, const char *text)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && !*end && *out >= 0;
}

static error_t read_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;
    bool right = true;
    double number;

    switch (key) {
    case KEY_RANKS:
        right = read_number(&number, text) && number >= 1 && number <= 4096;
        if (right) o->ranks = (int)number;
        break;
    case 'm':
        o->smaller = text;
        break;
    case 'b':
        o->check.backend = text;
        break;
    case KEY_PASSES:
        o->check.passes_off = text;
        break;
    case KEY_RELATIVE:
        right = read_number(&o->check.relative, text);
        break;
    case KEY_ABSOLUTE:
        right = read_number(&o->check.absolute, text);
        break;
    case KEY_F64:
        o->check.f64 = true;
        if (text) right = read_number(&o->check.f64_relative, text);
        break;
    case ARGP_KEY_ARG:
        if (o->path) argp_usage(state);
        o->path = text;
        break;
    case ARGP_KEY_END:
        if (!o->path) argp_usage(state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (!right) argp_error(state, "%s is no such number", text);
    return 0;
}

static const struct argp argp = {
    .options = table,
    .parser = read_option,
    .args_doc = "PATH",
    .doc = "Run the list in PATH.0, PATH.1, ... immediately and compiled, and compare.\v"
           "The exit status is 0 when nothing differs."};

static int run(void *payload)
{
    const struct options *o = payload;
    char *report = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&report, &bytes);
    int found = 0, first = -1;
    weft_status status;

    if (!out) return EXIT_FAILURE;
    if (o->smaller) {
        status = weft_compile_minify_print(o->path, o->smaller, o->check, out, &found);
    } else {
        status = weft_compile_replay_print(o->path, o->check, out, &first);
        found = first >= 0;
    }
    fclose(out);
    if (weft_world_rank() == 0) fputs(report, stdout);
    if (status != WEFT_OK && weft_world_rank() == 0)
        fprintf(stderr, "weft-replay: %s\n", weft_error_message());
    found |= strstr(report, "beyond tolerance") != NULL; /* of f64 */
    free(report);
    return status != WEFT_OK || found ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static struct options o;
    int code, ended;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.ranks) return weft_run(o.ranks, run, &o);
    WEFT_CHECK(weft_init(&argc, &argv));
    code = run(&o);
    ended = weft_finalize();
    return code ? code : ended;
}
