/*
 * driver.c: calls every public function with nonsense, each call in a process of its own. One that
 * a signal ends, that takes longer than PATIENCE seconds, that exits otherwise than by WF_DIE, or
 * that returns a failure without a sentence is a finding.
 *
 *     fuzz.api EXCEPTIONS [--seconds N] [--seed N] [--only NAME] [--nulls]
 *
 * The passes over NULL and over the extremes are always whole; what is left of the seconds goes to
 * random mixtures. --nulls is the pass over NULL alone. A line of EXCEPTIONS is FUNCTION | handle |
 * REASON for one that may end the process when it is given NULL, in Debug by an assertion;
 * FUNCTION | null | REASON for one that returns WEFT_OK for it, which otherwise is a finding.
 */
/* trial 3 */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "fuzz/api/api.h"
#include "fuzz/support.h"

enum { PATIENCE = 10, EXCEPTIONS = 256, NAME = 64, DIED = 77, SILENT = 78, ACCEPTED = 79 };

static struct {
    struct exception {
        char name[NAME], kind[16];
        bool met;
    } exceptions[EXCEPTIONS];
    int n_exceptions;
    const char *only;
    double seconds;
    uint64_t seed;
    bool nulls;
    bool begun; /* calls are made on a rank */
    long calls;
    int findings;
    int said; /* what the running child writes to */
    pid_t parent;
} run = {.seconds = 2, .seed = 1};

static char folder[] = "/tmp/weft-fuzz-api-XXXXXX";

/* ---- arguments ---- */

static uint64_t draw(const struct api_call *call, int i)
{
    uint64_t x = call->seed + (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

bool api_absent(const struct api_call *call, int i)
{
    if (call->pass == API_NULLS) return true;
    if (call->needs_handle) return false;
    if (call->pass == API_ONE_NULL) return i == call->detail;
    return call->pass == API_RANDOM && draw(call, i) % 8 == 0;
}

static const int64_t extremes[API_EXTREMES_COUNT] = {-1, 0, INT_MIN, INT_MAX, INT64_MIN, INT64_MAX};

/* How much an array holds cannot be more than it does: no function could know. */
static bool counts(const char *name)
{
    static const char *const names[] = {"n",        "count",   "room",      "bytes",
                                        "ndim",     "n_axes",  "n_outputs", "n_placements",
                                        "n_groups", "n_names", "n_sizes",   "n_meshes"};

    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(name, names[k]) == 0) return true;
    return false;
}

int64_t api_integer(const struct api_call *call, int i, const char *name)
{
    uint64_t drawn = draw(call, i);
    int64_t value = 1;

    if (call->pass == API_NULLS) return 0;
    if (call->pass == API_EXTREMES) value = extremes[call->detail];
    if (call->pass == API_RANDOM)
        value = drawn % 3 ? (int64_t)(drawn >> 8) % 5 : extremes[(drawn >> 8) % API_EXTREMES_COUNT];
    if (counts(name) && (int)value != value) value = 1;
    return counts(name) && value > 4 ? 4 : value;
}

double api_real(const struct api_call *call, int i)
{
    static const double values[] = {-1, 0, -1e308, 1e308, 0.5, 2};
    uint64_t drawn = draw(call, i);

    if (call->pass == API_NULLS) return 0;
    if (call->pass == API_ONE_NULL) return 0.5;
    drawn = call->pass == API_EXTREMES ? (uint64_t)call->detail : drawn % 8;
    return drawn == 6 ? (double)NAN : drawn == 7 ? (double)INFINITY : values[drawn];
}

/* Arrays of integers are what the call's integers are. */
void *api_pointer(const struct api_call *call, int i, const char *type)
{
    bool random = call->pass == API_RANDOM;
    void *object;

    if (api_absent(call, i)) return NULL;
    object = api_object(type, i, random ? (unsigned)(draw(call, i) >> 16) : 0);
    if (strcmp(type, "int64_t") == 0)
        for (int k = 0; k < 8; k++)
            ((int64_t *)object)[k] = api_integer(call, random ? i + 16 * k : i, "");
    if (strcmp(type, "int") == 0)
        for (int k = 0; k < 8; k++)
            ((int *)object)[k] = (int)api_integer(call, random ? i + 16 * k : i, "");
    return object;
}

void api_returned(struct api_call *call, weft_status status)
{
    call->acts = true;
    call->status = status;
}

/* ---- a call, in a process of its own ---- */

static void die(void) { _exit(DIED); }

/* What this process has already: a sanitizer's shadow alone is terabytes. */
static rlim_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;

    if (!file || fscanf(file, "%llu", &pages) != 1) exit(2);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void call_in_child(const struct api_function *function, struct api_call *call)
{
    rlim_t bytes = address_space() + ((rlim_t)4 << 30);
    struct rlimit most = {bytes, bytes};
    int null = open("/dev/null", O_WRONLY);
    const char *message;

    dup2(null, 1);
    dup2(run.said, 2);
    setrlimit(RLIMIT_AS, &most);
    alarm(PATIENCE);
    wf_die_set_handler(die);
    weft_error_clear();
    function->run(call);
    message = weft_error_message();
    if (call->acts && call->status == WEFT_OK && weft_error_status() == WEFT_OK) _exit(ACCEPTED);
    _exit(call->acts && call->status != WEFT_OK && !message[0] ? SILENT : 0);
}

/* gives: the exit status as waitpid has it */
static int outcome(const struct api_function *function, struct api_call call)
{
    int status = 0;
    pid_t child;

    if (ftruncate(run.said, 0) || lseek(run.said, 0, SEEK_SET)) exit(2);
    fflush(NULL);
    child = fork();
    if (child < 0) exit(2);
    if (child == 0) call_in_child(function, &call);
    run.calls++;
    return waitpid(child, &status, 0) == child ? status : 0;
}

static bool is_finding(int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;

    return code != 0 && code != DIED && code != ACCEPTED;
}

/* Of what the child wrote: a sanitizer's summary, which comes last, or the first line. */
static void line_that_tells(char *text, size_t room)
{
    static char all[1 << 16];
    ssize_t n = pread(run.said, all, sizeof all - 1, 0);
    const char *line;

    all[n > 0 ? n : 0] = '\0';
    line = strstr(all, "SUMMARY: ");
    if (!line) line = all;
    snprintf(text, room, "%.*s", (int)strcspn(line, "\n"), line);
}

static void report(const struct api_function *function, const struct api_call *call, int status)
{
    static const char *const passes[] = {"all NULL", "argument %d NULL", "extreme %d", "seed %llu"};
    char which[64], last[256];

    line_that_tells(last, sizeof last);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (call->pass == API_RANDOM)
        snprintf(which, sizeof which, passes[call->pass], (unsigned long long)call->seed);
    else
        snprintf(which, sizeof which, passes[call->pass], call->detail);
#pragma GCC diagnostic pop
    printf("%s(%s), %s%s: %s %d %s\n", function->name, function->kinds, which,
           run.begun ? "" : ", before the library has begun",
           !WIFSIGNALED(status)          ? "exit"
           : WTERMSIG(status) == SIGALRM ? "hangs"
                                         : "signal",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), last);
    run.findings++;
}

static void try(const struct api_function *function, struct api_call call)
{
    int status = outcome(function, call);

    if (is_finding(status)) report(function, &call, status);
}

/* ---- exceptions ---- */

static void read_exceptions(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512];

    while (file && fgets(line, sizeof line, file)) {
        struct exception *e = &run.exceptions[run.n_exceptions];
        char reason[2];

        if (run.n_exceptions == EXCEPTIONS || line[0] == '#') continue;
        if (sscanf(line, "%63s | %15s | %1s", e->name, e->kind, reason) == 3)
            run.n_exceptions++;
        else
            printf("no line of three columns: %s", line), run.findings++;
    }
    if (!file) printf("%s cannot be read\n", path), exit(2);
    fclose(file);
}

static bool excepted(const struct api_function *function, const char *kind)
{
    for (int i = 0; i < run.n_exceptions; i++) {
        struct exception *e = &run.exceptions[i];

        if (strcmp(e->name, function->name) == 0 && strcmp(e->kind, kind) == 0)
            return e->met = true;
    }
    return false;
}

static void report_unmet(void)
{
    for (int i = 0; i < run.n_exceptions; i++)
        if (!run.exceptions[i].met)
            printf("%s (%s): no public function\n", run.exceptions[i].name, run.exceptions[i].kind),
                run.findings++;
}

/* ---- passes ---- */

#ifdef NDEBUG
static const bool asserting = false;
#else
static const bool asserting = true;
#endif

static void pass_nulls(const struct api_function *function)
{
    struct api_call call = {.pass = API_NULLS};
    int status = outcome(function, call);
    bool handle = excepted(function, "handle"), null = excepted(function, "null");
    bool accepted = WIFEXITED(status) && WEXITSTATUS(status) == ACCEPTED;
    char said[256];

    line_that_tells(said, sizeof said);

    if (handle && asserting && !strstr(said, "Assertion")) {
        printf("%s: no assertion that its handle is there\n", function->name);
        run.findings++;
    } else if (!handle && is_finding(status)) {
        report(function, &call, status);
    } else if (strchr(function->kinds, 'p') && accepted != null && run.begun) {
        printf("%s: all NULL is %s\n", function->name,
               accepted ? "WEFT_OK" : "refused: take it out of the exceptions");
        run.findings++;
    }
}

static void pass_others(const struct api_function *function)
{
    struct api_call call = {.pass = API_ONE_NULL, .needs_handle = excepted(function, "handle")};

    for (int i = 0; !call.needs_handle && function->kinds[i]; i++)
        if (strchr("pf", function->kinds[i])) {
            call.detail = i;
            try(function, call);
        }
    call.pass = API_EXTREMES;
    for (int i = 0; strpbrk(function->kinds, "pid") && i < API_EXTREMES_COUNT; i++) {
        call.detail = i;
        try(function, call);
    }
}

static bool wanted(const struct api_function *function)
{
    return !run.only || strcmp(run.only, function->name) == 0;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pass_random(double end)
{
    struct api_call call = {.pass = API_RANDOM, .seed = run.seed};

    for (uint64_t seed = run.seed; now() < end; seed++)
        for (int i = 0; i < api_count && now() < end; i++) {
            call.seed = seed;
            call.needs_handle = excepted(&api_functions[i], "handle");
            if (wanted(&api_functions[i])) try(&api_functions[i], call);
        }
}

/* On the one rank of a world of its own. */
static int passes(void *payload)
{
    double begin = now();

    (void)payload;
    run.begun = true;
    api_objects_make();
    for (int i = 0; i < api_count; i++)
        if (wanted(&api_functions[i])) pass_nulls(&api_functions[i]);
    for (int i = 0; !run.nulls && i < api_count; i++)
        if (wanted(&api_functions[i])) pass_others(&api_functions[i]);
    if (!run.nulls) pass_random(begin + run.seconds);
    return 0;
}

/* ---- the process ---- */

static int remove_entry(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)type, (void)at;
    return remove(path);
}

static void remove_folder(void)
{
    if (getpid() == run.parent) nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";

        if (strcmp(argv[i], "--nulls") == 0) {
            run.nulls = true;
            continue;
        }
        if (argv[i][0] != '-') {
            read_exceptions(argv[i]);
            continue;
        }
        if (strcmp(argv[i], "--seconds") == 0) run.seconds = atof(value);
        if (strcmp(argv[i], "--seed") == 0) run.seed = strtoull(value, NULL, 10);
        if (strcmp(argv[i], "--only") == 0) run.only = value;
        i++;
    }
}

int main(int argc, char **argv)
{
    FILE *said = tmpfile();

    read_arguments(argc, argv);
    setenv("WEFT_THREADS", "1", 1);
    run.parent = getpid();
    if (!said || !mkdtemp(folder) || chdir(folder)) return 2;
    atexit(remove_folder);
    run.said = fileno(said);
    for (int i = 0; i < api_count; i++)
        if (wanted(&api_functions[i])) pass_nulls(&api_functions[i]);
    fuzz_begin();
    weft_run(1, passes, NULL);
    report_unmet();
    printf("%ld calls of %d functions, %d of them findings\n", run.calls, api_count, run.findings);
    return run.findings != 0;
}
