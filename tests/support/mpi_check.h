/*
 * mpi_check.h: tests that every rank runs together, on top of libcheck.
 *
 * A case is a function that all ranks of a world execute. With --ranks N the ranks are threads of
 * this process (backend `local`), otherwise the processes mpiexec started (or one rank alone).
 * libcheck is not thread-safe, so it sees one test per case and process; inside a case the
 * assertions are WT_ALL and its kin, which reduce the verdict over the world first. Every rank then
 * leaves the case together, none waits in a collective the others never enter, and the next case
 * runs.
 *
 *     WT_TEST(colwise__forward_needs_no_communication) { ... WT_ALL(y != NULL); ... }
 *
 *     int main(int argc, char **argv) { return wt_main(argc, argv, "colwise"); }
 *
 * A case needs no list: defining it makes it one of its program, in the order of the file.
 * Unit tests without ranks are WT_UNIT, use libcheck's own assertions, and run by wt_unit_main.
 */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/error.h>

struct wt_case {
    const char *name;
    void (*body)(void);
    const char *file;
    int line;
};

void wt_register(const struct wt_case *test);

#define WT_TEST(name)                                                                              \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        static const struct wt_case test = {#name, name, __FILE__, __LINE__};                      \
                                                                                                   \
        wt_register(&test);                                                                        \
    }                                                                                              \
    static void name(void)

/**
 * Run the cases; returns the exit code for main, the largest over all ranks.
 *
 * --ranks N: the ranks are N threads of this process. Other words keep only the cases whose name
 * contains one of them. Only rank 0 prints. After WT_ALARM seconds (environment; 110 unless told)
 * the process is killed. Each case runs in a scope of its own with a clean error record, and must
 * leave the record clean.
 */
int wt_main(int argc, char **argv, const char *suite);

void wt_unit_register(const TTest *test, int times);

/** A libcheck test in one process; with `times`, one for each value of _i below it. */
#define WT_UNIT(name) WT_UNIT_TIMES(name, 1)
#define WT_UNIT_TIMES(name, times)                                                                 \
    static void name(int _i);                                                                      \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        static const TTest test = {#name, name, __FILE__, __LINE__};                               \
                                                                                                   \
        wt_unit_register(&test, (int)(times));                                                     \
    }                                                                                              \
    static void name(int _i CK_ATTRIBUTE_UNUSED)

/** Run the program's WT_UNITs in this process (CK_NOFORK), with the same alarm; `before` and
 * `after` each of them, where they are not NULL. */
int wt_unit_main(const char *suite);
int wt_unit_main_with(const char *suite, void (*before)(void), void (*after)(void));

/** True on all ranks of the world, or every rank leaves the case; the report names the first rank
 *  where it is false. All ranks must reach it. Open ledgers do not see it. */
#define WT_ALL(cond) wt_all((cond), #cond, __FILE__, __LINE__)
/** Integers are equal on all ranks; the report has both values. */
#define WT_EQ(actual, expected)                                                                    \
    wt_equal((int64_t)(actual), (int64_t)(expected), #actual " == " #expected, __FILE__, __LINE__)
/** The failure recorded last has this status and a text that contains `part`; forgets it. */
#define WT_FAILED(status, part)                                                                    \
    wt_all(wt_failed_with((status), (part)), "fails with " #status, __FILE__, __LINE__)

/** A call fails: gives NULL, or this status, which is also recorded, with a text that contains
 * `part`; forgets it. */
#define WT_FAILS(call, status, part)                                                               \
    wt_refused(_Generic((call), weft_status                                                        \
                        : wt_status_of, default                                                    \
                        : wt_status_of_pointer)(call),                                             \
               (status), (part), #call, __FILE__, __LINE__)

void wt_all(bool ok, const char *text, const char *file, int line);
void wt_refused(weft_status got, weft_status status, const char *part, const char *text,
                const char *file, int line);
weft_status wt_status_of(weft_status got);
weft_status wt_status_of_pointer(const void *got);
void wt_equal(int64_t actual, int64_t expected, const char *text, const char *file, int line);
bool wt_failed_with(weft_status status, const char *part);

/** Text that the next failing assertion of this rank adds to its report. */
void wt_note(const char *format, ...) WEFT_PRINTF(1, 2);

/** This rank and the number of ranks, inside a case. */
int wt_rank(void);
int wt_ranks(void);

/** Release several objects of one kind, in this order: WT_RELEASE(weft_mesh_release, part, whole).
 */
#define WT_RELEASE(release, ...)                                                                   \
    do {                                                                                           \
        void *all_[] = {__VA_ARGS__};                                                              \
                                                                                                   \
        for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; i_++) release(all_[i_]);              \
    } while (0)
