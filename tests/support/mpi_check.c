/*
 * mpi_check.c: one verdict for all ranks, and the bridge from cases to libcheck.
 *
 * A failing verdict leaves the case by longjmp on every rank. That is safe because the verdict is
 * exchanged first, so no rank is inside a collective, and because the scope that run_case opened
 * takes down the scopes that the case left open.
 */
#include "support/mpi_check.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/observers.h"
#include "comm/comm.h"
#include "support/owned.h"

enum { NOTE_BYTES = 512, REPORT_BYTES = 1024, ALARM_SECONDS = 110, MAX_CASES = 128 };

/* What the process runs; rank threads read it, and rank 0 alone writes the report. */
static struct {
    const struct wt_case *cases[MAX_CASES];
    struct {
        const TTest *test;
        int times;
    } units[MAX_CASES];
    int count;
    const struct wt_case *current;
    int local_ranks; /* 0: this process is one rank */
    char report[REPORT_BYTES];
} process;

static _Thread_local struct {
    jmp_buf leave;
    char note[NOTE_BYTES];
    bool left; /* the case has failed: what is still released has nothing to say */
} rank_state;

/* ---- the cases of a program, before main ---- */

void wt_register(const struct wt_case *test)
{
    if (process.count == MAX_CASES) abort();
    process.cases[process.count++] = test;
}

void wt_unit_register(const TTest *test, int times)
{
    if (process.count == MAX_CASES) abort();
    process.units[process.count].test = test;
    process.units[process.count++].times = times;
}

int wt_rank(void) { return wf_comm_rank(wf_comm_world()); }

int wt_ranks(void) { return wf_comm_size(wf_comm_world()); }

/* ---- the verdict ---- */

void wt_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(rank_state.note, sizeof rank_state.note, format, args);
    va_end(args);
}

static int world_reduce(int value, weft_reduce reduce)
{
    int32_t mine = value, all = 0;
    struct wf_coll coll = {.kind = WEFT_COLL_ALL_REDUCE,
                           .comm = wf_comm_world(),
                           .dtype = WEFT_I32,
                           .reduce = reduce,
                           .count = 1,
                           .send = &mine,
                           .recv = &all};

    wf_comm_run(&coll);
    return all;
}

/* Everybody gets the note of one rank. */
static void share_note(int from)
{
    struct wf_coll coll = {.kind = WEFT_COLL_BROADCAST,
                           .comm = wf_comm_world(),
                           .dtype = WEFT_U8,
                           .peer = from,
                           .count = sizeof rank_state.note,
                           .send = rank_state.note,
                           .recv = rank_state.note};

    wf_comm_run(&coll);
}

/* The first rank that says no, or the number of ranks. */
static int first_failing(bool ok) { return world_reduce(ok ? wt_ranks() : wt_rank(), WEFT_MIN); }

_Noreturn static void leave_case(int failing, const char *text, const char *file, int line)
{
    const char *row = wt_row_name();

    share_note(failing);
    if (wt_rank() == 0)
        snprintf(process.report, sizeof process.report,
                 "%s:%d: %s%srank %d of %d: not so: %.300s%s%s", file, line, row, *row ? ": " : "",
                 failing, wt_ranks(), text, rank_state.note[0] ? ": " : "", rank_state.note);
    longjmp(rank_state.leave, 1);
}

void wt_all(bool ok, const char *text, const char *file, int line)
{
    unsigned observed = wf_observed_events;
    int failing;

    if (rank_state.left) return;
    if (!ok && rank_state.note[0] == '\0') wt_note("%s", weft_error_message());
    wf_observed_events = 0; /* the exchange below is the test's, not the program's */
    failing = first_failing(ok);
    wf_observed_events = observed;
    if (failing < wt_ranks()) leave_case(failing, text, file, line);
    rank_state.note[0] = '\0';
}

void wt_equal(int64_t actual, int64_t expected, const char *text, const char *file, int line)
{
    if (actual != expected) wt_note("%lld, not %lld", (long long)actual, (long long)expected);
    wt_all(actual == expected, text, file, line);
}

bool wt_failed_with(weft_status status, const char *part)
{
    bool as_wanted = weft_error_status() == status && strstr(weft_error_message(), part) != NULL;

    if (!as_wanted)
        wt_note("wanted %s with \"%s\", got %s \"%s\"", weft_status_name(status), part,
                weft_status_name(weft_error_status()), weft_error_message());
    weft_error_clear();
    return as_wanted;
}

weft_status wt_status_of(weft_status got) { return got; }

weft_status wt_status_of_pointer(const void *got) { return got ? WEFT_OK : weft_error_status(); }

void wt_refused(weft_status got, weft_status status, const char *part, const char *text,
                const char *file, int line)
{
    bool as_wanted = wt_failed_with(status, part);

    if (got == WEFT_OK) wt_note("it succeeds");
    wt_all(as_wanted && got == status, text, file, line);
}

/* ---- running ---- */

/* One case on one rank. gives: 1 when it failed */
static int run_rank(void *payload)
{
    const struct wt_case *test = payload;
    weft_scope *scope = weft_scope_open();
    int failed = 0;

    rank_state.note[0] = '\0';
    rank_state.left = false;
    wt_rows_begin();
    if (setjmp(rank_state.leave) == 0) {
        test->body();
        wt_release_owned(0);
        wt_all(weft_error_status() == WEFT_OK, "the case leaves no error behind", test->file,
               test->line);
    } else {
        failed = 1;
        rank_state.left = true;
        wt_release_owned(0);
    }
    weft_scope_close(scope);
    weft_error_clear();
    return failed;
}

static void run_case(int index)
{
    void *test = (void *)(uintptr_t)process.cases[index];
    int failed;

    process.report[0] = '\0';
    failed =
        process.local_ranks > 0 ? weft_run(process.local_ranks, run_rank, test) : run_rank(test);
    if (failed) ck_abort_msg("%s", process.report[0] ? process.report : weft_error_message());
}

static bool is_wanted(const char *name, int count, char *const *words)
{
    for (int i = 0; i < count; i++)
        if (strstr(name, words[i])) return true;
    return count == 0;
}

/* One libcheck case per wt_case, so that reports and CK_RUN_CASE have its name. `tests` outlives
 * the runner. */
static Suite *make_suite(const char *name, TTest *tests, int word_count, char *const *words)
{
    Suite *suite = suite_create(name);

    for (int i = 0; i < process.count; i++) {
        const struct wt_case *test = process.cases[i];
        TCase *tcase;

        if (!is_wanted(test->name, word_count, words)) continue;
        tcase = tcase_create(test->name);
        tests[i] = (TTest){test->name, run_case, test->file, test->line};
        tcase_add_loop_test(tcase, &tests[i], i, i + 1);
        suite_add_tcase(suite, tcase);
    }
    return suite;
}

static int run_suite(Suite *suite, enum print_output print)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_set_fork_status(runner,
                            CK_NOFORK); /* a forked child would share the parent's MPI state */
    srunner_run_all(runner, print);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

/* A test that hangs ends by SIGALRM, which also ends the job when mpiexec started it. */
static void set_alarm(void)
{
    const char *seconds = getenv("WT_ALARM");

    alarm(seconds ? (unsigned)atoi(seconds) : ALARM_SECONDS);
}

/* gives: where the words in argv begin, -1 for a bad option */
static int read_options(int argc, char **argv)
{
    static const struct option options[] = {{"ranks", required_argument, NULL, 'r'}, {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != 'r') return -1;
        process.local_ranks = atoi(optarg);
    }
    return optind;
}

/* This process is one rank of the world that mpiexec made, or alone. */
static int run_as_process(Suite *suite)
{
    int failed = run_suite(suite, wt_rank() == 0 ? CK_ENV : CK_SILENT);

    failed = world_reduce(failed, WEFT_MAX);
    weft_error_clear();
    return weft_finalize() || failed;
}

int wt_main(int argc, char **argv, const char *suite)
{
    int first = read_options(argc, argv), failed;
    TTest *tests;

    if (first < 0) return EXIT_FAILURE;
    set_alarm();
    tests = calloc((size_t)process.count + 1, sizeof *tests);
    if (!tests) return EXIT_FAILURE;
    if (process.local_ranks == 0) WEFT_CHECK(weft_init(&argc, &argv));
    failed = process.local_ranks > 0
                 ? run_suite(make_suite(suite, tests, argc - first, argv + first), CK_ENV)
                 : run_as_process(make_suite(suite, tests, argc - first, argv + first));
    free(tests);
    return failed;
}

int wt_unit_main_with(const char *name, void (*before)(void), void (*after)(void))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);

    set_alarm();
    tcase_add_checked_fixture(tcase, before, after);
    for (int i = 0; i < process.count; i++)
        tcase_add_loop_test(tcase, process.units[i].test, 0, process.units[i].times);
    suite_add_tcase(suite, tcase);
    return run_suite(suite, CK_ENV);
}

int wt_unit_main(const char *name) { return wt_unit_main_with(name, NULL, NULL); }
