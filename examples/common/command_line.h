/*
 * command_line.h: a program's options as a table, and how its ranks begin: the processes that
 * mpiexec started, or threads of this one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What an option's field is: const char *, struct texts, int, double, uint64_t, int, bool; a
 * heading has none. */
enum option_kind { TEXT, TEXTS, INT, REAL, SEED, CHOICE, FLAG, HEADING };

enum { MOST_TEXTS = 64 };

/* The texts of an option that may be given again and again. */
struct texts {
    const char *items[MOST_TEXTS];
    int count;
};

struct option_row {
    const char *name;
    const char *argument; /* its name in --help; of a CHOICE the words, between '|'; NULL: none */
    const char *usual;    /* the default in words; "": not said */
    const char *help;
    enum option_kind kind;
    int least;    /* of an INT */
    size_t field; /* offset; a CHOICE's gets the place of its word */
};

/* A row of an options.def: OPTION(field of struct options, name, argument, kind, least, usual,
 * help) */
#define OPTION(field, name, argument, kind, least, usual, help)                                    \
    {name, argument, usual, help, kind, least, offsetof(struct options, field)},

/* A row above options that --help lists together. */
#define OPTION_GROUP(text) {NULL, NULL, "", text, HEADING, 0, 0},

struct command_line {
    const char *doc;
    const struct option_row *options;
    int count;
    size_t ranks;      /* offset of an int: threads of this process; 0: the processes there are */
    const char *words; /* what words behind the options are, in --help; NULL: there may be none */
    size_t rest;       /* offset of a char *const *, set to those words when there are any */
    /* when all are read: what is wrong with them together; NULL: nothing can be */
    const char *(*complete)(void *values);
};

/**
 * Read the options over the usual values that are there, and have every rank do `run`. A mistake
 * and --help are told once, by the first rank. gives: the exit code
 */
int command_line_run(const struct command_line *line, void *values, int argc, char **argv,
                     int (*run)(void *values));
