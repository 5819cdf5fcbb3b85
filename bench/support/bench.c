/* bench.c: see bench.h. */
#include "support/bench.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hand/value.h"

void bench_line(double value, const char *unit, const char *key, ...)
{
    va_list args;

    printf("bench.");
    va_start(args, key);
    vprintf(key, args);
    va_end(args);
    printf(" %.6g %s\n", value, unit);
    fflush(stdout);
}

static double read_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_now(void) { return read_clock(CLOCK_MONOTONIC); }
double bench_cpu_now(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

void *bench_need(void *made)
{
    if (made) return made;
    fprintf(stderr, "%s\n", weft_error_message());
    exit(EXIT_FAILURE);
}

/* All ranks of the mesh have come here: the smallest all-reduce. */
static void meet(weft_mesh *mesh)
{
    int64_t shape[] = {1};
    weft_placement sum = weft_partial(WEFT_SUM);
    weft_scope *scope = weft_scope_open();

    bench_need(
        weft_full_tensor(weft_from_local(weft_full(WEFT_F32, shape, 1, 1), mesh, &sum, shape)));
    weft_scope_close(scope);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

struct bench_times bench_steps(weft_mesh *mesh, int n, void (*step)(void *payload), void *payload)
{
    double *seconds = bench_need(malloc((size_t)n * sizeof *seconds));
    struct bench_times times;

    for (int i = 0; i < n; i++) {
        meet(mesh);
        double start = bench_now();
        step(payload);
        meet(mesh);
        seconds[i] = bench_now() - start;
    }
    times.median = bench_median(seconds, n);
    times.min = seconds[0];
    free(seconds);
    return times;
}

void bench_report(struct bench_times times)
{
    if (weft_world_rank() == 0)
        printf("step_ms %.3f median %.3f\n", 1e3 * times.min, 1e3 * times.median);
}

void bench_fill(weft_tensor *t, int stream, int64_t first, float scale, float offset)
{
    float *data = weft_data(bench_need(t));

    for (int64_t i = 0; i < weft_local_numel(t); i++)
        data[i] = scale * hand_value((uint64_t)stream, (uint64_t)(first + i)) + offset;
}

/* ---- other programs ---- */

/* The folder that this program was started from, where its siblings are. */
static void own_folder(char *path, size_t room)
{
    ssize_t length = readlink("/proc/self/exe", path, room - 1);

    path[length > 0 ? length : 0] = 0;
    if (strrchr(path, '/')) *strrchr(path, '/') = 0;
}

static void keep_smaller(double *best, double value)
{
    if (*best == 0 || value < *best) *best = value;
}

static void read_line(const char *line, struct bench_run *run)
{
    double first, second;

    if (sscanf(line, "step_ms %lf median %lf", &first, &second) == 2) {
        keep_smaller(&run->step_ms, first);
        keep_smaller(&run->median_ms, second);
    } else if (sscanf(line, "gemm_ms %lf", &first) == 1) {
        keep_smaller(&run->gemm_ms, first);
    } else if (sscanf(line, "loss 4 %lf", &first) == 1) {
        run->loss = first;
    } else if (sscanf(line, "comm_bytes %lf bound %lf", &first, &second) == 2) {
        run->sent_bytes = first;
        run->sent_bound = second;
    } else {
        sscanf(line, "peak_bytes %lf bound %lf", &run->peak_bytes, &run->bound_bytes);
    }
}

static void run_program(int ranks, const char *name, const char *arguments, struct bench_run *run)
{
    char folder[512], command[1024], line[512];
    FILE *output;

    own_folder(folder, sizeof folder);
    snprintf(command, sizeof command, "mpiexec -n %d %s/%s %s", ranks, folder, name, arguments);
    output = bench_need(popen(command, "r"));
    while (fgets(line, sizeof line, output)) read_line(line, run);
    if (pclose(output) != 0 || run->step_ms == 0) {
        fprintf(stderr, "failed: %s\n", command);
        exit(EXIT_FAILURE);
    }
}

void bench_one(int ranks, const char *name, const char *arguments, struct bench_run *run)
{
    *run = (struct bench_run){0};
    run_program(ranks, name, arguments, run);
}

void bench_pair(int ranks, int rounds, const char *ours, const char *theirs, const char *arguments,
                struct bench_run *our, struct bench_run *their)
{
    *our = *their = (struct bench_run){0};
    for (int round = 0; round < rounds; round++) {
        run_program(ranks, theirs, arguments, their);
        run_program(ranks, ours, arguments, our);
    }
    if (fabs(our->loss - their->loss) > 1e-3 * fabs(their->loss)) {
        fprintf(stderr, "%s: the losses of step 5 are %.9g and %.9g: not the same step\n", ours,
                our->loss, their->loss);
        exit(EXIT_FAILURE);
    }
}

weft_compiled *bench_compile(weft_compiled_function *step, void *state)
{
    if (!getenv("BENCH_COMPILED")) return NULL;
    return bench_need(
        weft_compile(step, state, (weft_compile_config){.name = "step", .fullgraph = true}));
}

weft_tensor *bench_call(weft_compiled *compiled, weft_compiled_function *step,
                        weft_tensor *const *in, int n, void *state)
{
    weft_tensor *out = NULL;

    if (compiled)
        WEFT_CHECK(weft_compiled_call(compiled, in, n, &out, 1));
    else
        WEFT_CHECK(step(in, n, &out, 1, state));
    return out;
}
