/* bench.h: what the measuring programs share: time, result lines, other programs' figures, weights.
 */
#pragma once

#include <stdint.h>

#include <weft/weft.h>

/** "bench.KEY VALUE UNIT": the lines that scripts/bench repeats at its end. */
void bench_line(double value, const char *unit, const char *key, ...) WEFT_PRINTF(3, 4);

/** Seconds on a steady clock; seconds of this thread's CPU time, for what does not wait. */
double bench_now(void);
double bench_cpu_now(void);

struct bench_times {
    double min, median; /* seconds */
};

/** Min and median over n calls of step(payload), ranks starting together. */
struct bench_times bench_steps(weft_mesh *mesh, int n, void (*step)(void *payload), void *payload);

/** Compile a step where BENCH_COMPILED is set (bench/compile.c sets it for programs that it runs).
 * gives: NULL: the step runs as it is */
weft_compiled *bench_compile(weft_compiled_function *step, void *state);
/** Call the step, compiled or (NULL) as it is. gives: its one result */
weft_tensor *bench_call(weft_compiled *compiled, weft_compiled_function *step,
                        weft_tensor *const *in, int n, void *state);

/** The report that both the library's and the hand-written steps print, for bench_pair to read. */
void bench_report(struct bench_times times);

/** What a step program printed, the best of its runs. */
struct bench_run {
    double step_ms, median_ms, gemm_ms; /* 0 when the program does not print it */
    double peak_bytes, bound_bytes;     /* kept by a rank, and counted by hand */
    double sent_bytes, sent_bound; /* carried by its collectives in a step, and counted by hand */
    double loss;                   /* of the fifth step */
};

/**
 * Run two step programs of this folder in turn, each under `mpiexec -n ranks`, and keep the best of
 * each: the machine's speed changes from minute to minute, so neither gets the better minutes.
 */
void bench_pair(int ranks, int rounds, const char *ours, const char *theirs, const char *arguments,
                struct bench_run *our, struct bench_run *their);

/** One run of a program of this folder, by itself. */
void bench_one(int ranks, const char *name, const char *arguments, struct bench_run *run);

/** The middle of `n` values, the upper one of two; sorts them. */
double bench_median(double *values, int n);

/** Elements of an f32 tensor become scale * (stream's values from `first` on) + offset. */
void bench_fill(weft_tensor *t, int stream, int64_t first, float scale, float offset);

/** End the program when a pointer is NULL or a status is not WEFT_OK. */
void *bench_need(void *made);
