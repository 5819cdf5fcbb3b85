/*
 * driver.c: runs a fuzzer where libFuzzer is not. Inputs of the corpus come first, as they are,
 * then mutations of them; the same seed gives the same inputs. What ends the process, or takes
 * longer than ten seconds, is left in a file "finding-NAME", which is an argument of the same
 * program then.
 *
 *     fuzz.NAME [--seconds N] [--runs N] [--seed N] FILE-OR-FOLDER...
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { INPUTS = 4096, PATIENCE = 10 };

static struct fuzz_input inputs[INPUTS], present;
static size_t n_inputs;
static char finding[256];

/* ---- when it goes wrong ---- */

static void keep_finding(void)
{
    int fd = open(finding, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t written = fd >= 0 ? write(fd, present.bytes, present.size) : -1;
    static const char text[] = "the input is left in a file: ";

    if (written < 0) return;
    if (write(2, text, sizeof text - 1) + write(2, finding, strlen(finding)) + write(2, "\n", 1) <
        0)
        return;
}

static void on_signal(int number)
{
    keep_finding();
    signal(number, SIG_DFL);
    raise(number);
}

static void watch(const char *program)
{
    static const int fatal[] = {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGILL};
    const char *slash = strrchr(program, '/');

    snprintf(finding, sizeof finding, "finding-%s", slash ? slash + 1 : program);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) signal(fatal[i], on_signal);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_finding);
    else
        signal(SIGSEGV, on_signal);
}

/* ---- the corpus ---- */

static void read_input(const char *path)
{
    struct fuzz_input *input = &inputs[n_inputs];
    FILE *file = fopen(path, "rb");

    if (!file || n_inputs == INPUTS) {
        fprintf(stderr, "%s: %s\n", path, file ? "too many inputs" : "cannot be read");
        exit(2);
    }
    input->bytes = malloc(FUZZ_MOST);
    if (!input->bytes) exit(2);
    input->size = fread(input->bytes, 1, FUZZ_MOST, file);
    n_inputs++;
    fclose(file);
}

static void read_path(const char *path)
{
    struct dirent **names;
    char inner[1024];
    int count = scandir(path, &names, NULL, alphasort);

    if (count < 0) read_input(path);
    for (int i = 0; i < count; i++) {
        snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.') read_input(inner);
        free(names[i]);
    }
    if (count >= 0) free(names);
}

/* ---- running ---- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The bytes are copied to a block of their size, so that a sanitizer sees one read too many. */
static void run_one(void)
{
    uint8_t *exact = malloc(present.size + !present.size);

    if (!exact) exit(2);
    memcpy(exact, present.bytes, present.size);
    alarm(PATIENCE);
    LLVMFuzzerTestOneInput(exact, present.size);
    alarm(0);
    free(exact);
}

static void take(const struct fuzz_input *input)
{
    memcpy(present.bytes, input->bytes, input->size);
    present.size = input->size;
}

static void run_all(double seconds, long runs, uint64_t seed)
{
    double begin = now();
    long done = 0;

    for (size_t i = 0; i < n_inputs; i++, done++) {
        take(&inputs[i]);
        run_one();
    }
    while (runs ? done < runs : now() - begin < seconds) {
        uint64_t state = (seed + (uint64_t)done + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;

        fuzz_below(&state, 1);
        take(&inputs[fuzz_below(&state, n_inputs)]);
        fuzz_mutate(&present, &inputs[fuzz_below(&state, n_inputs)], &state);
        run_one();
        done++;
    }
    printf("%ld inputs in %.1f s, none of them a finding\n", done, now() - begin);
}

int main(int argc, char **argv)
{
    double seconds = 0;
    long runs = 0;
    uint64_t seed = 1;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";

        if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(value), i++;
        else if (strcmp(argv[i], "--runs") == 0)
            runs = atol(value), i++;
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(value, NULL, 10), i++;
        else
            read_path(argv[i]);
    }
    if (!n_inputs) {
        fprintf(stderr, "%s [--seconds N] [--runs N] [--seed N] FILE-OR-FOLDER...\n", argv[0]);
        return 2;
    }
    present.bytes = malloc(FUZZ_MOST);
    if (!present.bytes) return 2;
    watch(argv[0]);
    run_all(seconds, runs, seed);
    for (size_t i = 0; i < n_inputs; i++) free(inputs[i].bytes);
    free(present.bytes);
    return 0;
}
