/* hand.c: the parts of hand.h that are no inner loop: ranks, memory, products, AdamW, reports. */
#include "hand.h"

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <dnnl.h>
#include <mpi.h>

/* ---- ranks ---- */
enum { LINE = 64, SPINS = 4000, WINDOW_ALIGN = 1024 };

struct flag {
    _Alignas(LINE) atomic_uint posts;
};

int hand_rank, hand_ranks = 1;
static struct flag *flags; /* one per rank, at the start of the window */
static unsigned posts;
static float *window, *window_end;

/* One core per rank: oneDNN would take them all. Its OpenMP runtime is loaded with it. */
static void use_one_thread(void)
{
    union {
        void *found;
        void (*call)(int);
    } set_threads = {dlsym(RTLD_DEFAULT, "omp_set_num_threads")};

    if (set_threads.found) set_threads.call(1);
}

void hand_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &hand_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &hand_ranks);
    use_one_thread();
}

int hand_finish(void) { return MPI_Finalize(); }

void hand_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (hand_rank == 0) {
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
    }
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    exit(EXIT_FAILURE);
}

void hand_window_open(long floats, long pieces)
{
    size_t header = (size_t)hand_ranks * sizeof(struct flag) + LINE;
    size_t bytes = header + 4 * (size_t)(floats + pieces * WINDOW_ALIGN);
    MPI_Win win;
    MPI_Aint size;
    int unit;
    char *base;

    MPI_Win_allocate_shared(hand_rank == 0 ? (MPI_Aint)bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &base, &win);
    MPI_Win_shared_query(win, 0, &size, &unit, &base);
    if (hand_rank == 0) memset(base, 0, bytes);
    flags = (struct flag *)(base + (LINE - (uintptr_t)base % LINE) % LINE);
    window = (float *)(flags + hand_ranks);
    window_end = (float *)(base + bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

float *hand_window(long n)
{
    float *piece = window;

    window += (n + WINDOW_ALIGN - 1) / WINDOW_ALIGN * WINDOW_ALIGN;
    if (window > window_end) hand_die("the window is too small");
    return piece;
}

void hand_post(void)
{
    posts++;
    atomic_store_explicit(&flags[hand_rank].posts, posts, memory_order_release);
}

void hand_wait(void)
{
    for (int r = 0; r < hand_ranks; r++) {
        int spins = 0;
        while ((int)(atomic_load_explicit(&flags[r].posts, memory_order_acquire) - posts) < 0) {
            if (++spins > SPINS) sched_yield();
#if defined(__x86_64__)
            else
                __builtin_ia32_pause();
#endif
        }
    }
}

void hand_barrier(void)
{
    hand_post();
    hand_wait();
}

static double reduce(double x, MPI_Op op)
{
    double y;

    MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    return y;
}

double hand_sum(double x) { return reduce(x, MPI_SUM); }

double hand_max(double x) { return reduce(x, MPI_MAX); }

/* ---- memory ---- */
float *hand_floats(long n)
{
    const size_t huge = (size_t)2 << 20;
    size_t bytes = (4 * (size_t)n + huge - 1) / huge * huge;
    void *p = aligned_alloc(huge, bytes ? bytes : huge);

    if (p == NULL) hand_die("out of memory: %zu bytes", bytes);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));

/* Three perfect shuffles of eight rows transpose them. */
static inline void transpose8(const float *src, long src_ld, float *dst, long dst_ld)
{
    vec8 row[8], next[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) row[i] = *(const vec8 *)(src + i * src_ld);
#pragma GCC unroll 3
    for (int stage = 0; stage < 3; stage++) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vec8 a = row[i], b = row[i + 4];
            next[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        }
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) row[i] = next[i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) *(vec8 *)(dst + i * dst_ld) = row[i];
}

void hand_transpose(long rows, long cols, const float *src, long src_ld, float *dst, long dst_ld)
{
    for (long i = 0; i < rows; i += 8)
        for (long j = 0; j < cols; j += 8)
            transpose8(src + i * src_ld + j, src_ld, dst + j * dst_ld + i, dst_ld);
}

/* ---- matrix products ---- */
enum { MAX_PLANS = 64, CANDIDATES = 5, TRIALS = 2 * CANDIDATES };
static const double tuning_seconds = 8;

/* What was chosen for one kind of product: its rows in 2^choice parts. */
struct plan {
    struct hand_gemm like;
    double seconds[CANDIDATES];
    int trials, choice;
};

static struct plan plans[MAX_PLANS];
static int n_plans;
static bool tuning; /* try the candidates in turn */
static struct hand_gemm *recorded;
static long n_recorded, room_recorded;
static bool recording;

static bool same_kind(const struct hand_gemm *x, const struct hand_gemm *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->ta == y->ta && x->tb == y->tb &&
           x->scratch == y->scratch && x->epilogue == y->epilogue &&
           (x->beta == 0) == (y->beta == 0);
}

static struct plan *plan_of(const struct hand_gemm *g)
{
    for (int i = 0; i < n_plans; i++)
        if (same_kind(&plans[i].like, g)) return &plans[i];
    if (n_plans == MAX_PLANS) hand_die("too many kinds of products");
    plans[n_plans].like = *g;
    for (int c = 0; c < CANDIDATES; c++) plans[n_plans].seconds[c] = DBL_MAX;
    return &plans[n_plans++];
}

static void multiply(const struct hand_gemm *g, int choice)
{
    long part = ((g->m >> choice) + 15) & ~15L;

    for (long i = 0; i < g->m; i += part) {
        long rows = g->m - i < part ? g->m - i : part;
        float *c = g->scratch ? g->c : g->c + i * g->ldc;

        dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', rows, g->n, g->k, 1.0f,
                   g->a + (g->ta ? i : i * g->lda), g->lda, g->b, g->ldb, g->beta, c, g->ldc);
        if (g->epilogue) g->epilogue(g->payload, i, rows, c);
    }
}

static void record(const struct hand_gemm *g)
{
    if (n_recorded == room_recorded) {
        room_recorded = 2 * room_recorded + 64;
        recorded = realloc(recorded, (size_t)room_recorded * sizeof *recorded);
        if (recorded == NULL) hand_die("out of memory");
    }
    recorded[n_recorded++] = *g;
}

/* The next candidate for this kind of product, timed where the step has left caches and ranks. */
static void try_candidate(const struct hand_gemm *g, struct plan *plan)
{
    int candidate = plan->trials++ % CANDIDATES;
    double start = hand_now();

    multiply(g, candidate);
    double seconds = hand_now() - start;
    if (seconds < plan->seconds[candidate]) plan->seconds[candidate] = seconds;
}

void hand_gemm(const struct hand_gemm *g)
{
    struct plan *plan = plan_of(g);

    if (recording) record(g);
    if (tuning)
        try_candidate(g, plan);
    else
        multiply(g, plan->choice);
}

static bool tried_enough(void)
{
    for (int i = 0; i < n_plans; i++)
        if (plans[i].trials < TRIALS) return false;
    return n_plans > 0;
}

void hand_tune(double (*step)(void))
{
    double start = hand_now();

    tuning = true;
    while (!tried_enough() && hand_max(hand_now() - start) < tuning_seconds) step();
    tuning = false;
    for (struct plan *p = plans; p < plans + n_plans; p++)
        for (int c = 1; c < CANDIDATES; c++)
            if (p->like.m >> c >= 32 && p->seconds[c] < p->seconds[p->choice]) p->choice = c;
    hand_adam_reset();
    for (struct plan *p = plans; p < plans + n_plans && hand_rank == 0 && getenv("HAND_PLANS"); p++)
        printf("product %6ld x %6ld x %6ld %c%c: %2d parts, %7.3f ms (in one: %7.3f)\n", p->like.m,
               p->like.n, p->like.k, p->like.ta ? 'T' : 'N', p->like.tb ? 'T' : 'N', 1 << p->choice,
               1e3 * p->seconds[p->choice], 1e3 * p->seconds[0]);
}

/* Note the products of one step, to repeat them alone. */
static void record_step(double (*step)(void))
{
    recording = true;
    step();
    recording = false;
}

static double replay(void)
{
    for (long i = 0; i < n_recorded; i++) {
        struct hand_gemm g = recorded[i];
        int choice = plan_of(&g)->choice;

        g.epilogue = NULL;
        multiply(&g, choice);
    }
    return 0;
}

/* ---- AdamW ---- */
bool hand_checking;
static int adam_step;
static float adam_lr, adam_root, adam_keep; /* with this step's bias corrections */

void hand_adam_reset(void) { adam_step = 0; }

void hand_adam_next(void)
{
    const double lr = 3e-4, decay = 0.01;

    adam_step++;
    adam_lr = (float)(lr / (1 - pow(0.9, adam_step)));
    adam_root = (float)(1 / sqrt(1 - pow(0.999, adam_step)));
    adam_keep = (float)(1 - lr * decay);
}

void hand_adam(long n, const float *restrict g, float *restrict w, float *restrict m,
               float *restrict v)
{
    const float lr = adam_lr, root = adam_root, keep = adam_keep;

    if (g == NULL) {
        for (long i = 0; i < n; i++) {
            m[i] *= 0.9f;
            v[i] *= 0.999f;
            w[i] = w[i] * keep - lr * m[i] / (sqrtf(v[i]) * root + 1e-8f);
        }
        return;
    }
    for (long i = 0; i < n; i++) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        w[i] = w[i] * keep - lr * m[i] / (sqrtf(v[i]) * root + 1e-8f);
    }
}

struct hand_param hand_param(const char *name, long rows, long cols)
{
    long ld = rows == 1 ? cols : hand_stride(cols);

    return (struct hand_param){.name = name,
                               .rows = rows,
                               .cols = cols,
                               .ld = ld,
                               .w = hand_floats(rows * ld),
                               .m = hand_floats(rows * ld),
                               .v = hand_floats(rows * ld),
                               .g = hand_checking ? hand_floats(rows * ld) : NULL};
}

void hand_param_init(struct hand_param *p, int stream, long row0, long col0, long width,
                     float scale)
{
    for (long r = 0; r < p->rows; r++)
        for (long c = 0; c < p->cols; c++)
            p->w[r * p->ld + c] =
                scale * hand_value((uint64_t)stream, (uint64_t)((row0 + r) * width + col0 + c));
}

void hand_update(void *param, long row, long rows, float *g)
{
    struct hand_param *p = param;

    for (long r = 0; r < rows; r++) {
        long at = (row + r) * p->ld;
        if (hand_checking)
            memmove(p->g + at, g + r * p->ld, 4 * (size_t)p->cols);
        else
            hand_adam(p->cols, g + r * p->ld, p->w + at, p->m + at, p->v + at);
    }
}

/* ---- timing, reports, checks ---- */
double hand_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct hand_times hand_measure(int n, double (*step)(void))
{
    double *seconds = malloc((size_t)n * sizeof *seconds);
    struct hand_times times;

    if (seconds == NULL || n < 1) hand_die("cannot measure %d steps", n);
    for (int i = 0; i < n; i++) {
        hand_barrier();
        double start = hand_now();
        step();
        hand_barrier();
        seconds[i] = hand_now() - start;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, compare);
    times = (struct hand_times){seconds[0], seconds[n / 2]};
    free(seconds);
    return times;
}

void hand_report(const char *what, int steps, double (*step)(void), double (*products)(void))
{
    if (hand_rank == 0) printf("%s on %d rank%s\n", what, hand_ranks, hand_ranks == 1 ? "" : "s");
    for (int i = 0; i < 5; i++) {
        double loss = step();
        if (hand_rank == 0) printf("loss %d %.9f\n", i, loss);
    }
    if (steps == 0) return;
    struct hand_times whole = hand_measure(steps, step);
    if (products == NULL) record_step(step);
    struct hand_times alone = hand_measure(steps, products ? products : replay);
    if (hand_rank == 0)
        printf("step_ms %.3f median %.3f\ngemm_ms %.3f median %.3f\ngemm_share %.3f\n",
               1e3 * whole.min, 1e3 * whole.median, 1e3 * alone.min, 1e3 * alone.median,
               alone.min / whole.min);
}

static void shift(const struct hand_param *p, const float *direction, double e)
{
    for (long r = 0; r < p->rows; r++)
        for (long c = 0; c < p->cols; c++)
            p->w[r * p->ld + c] += (float)(e * direction[r * p->ld + c]);
}

static double sum_of_squares(const struct hand_param *p)
{
    double sum = 0;

    for (long r = 0; r < p->rows; r++)
        for (long c = 0; c < p->cols; c++) sum += (double)p->g[r * p->ld + c] * p->g[r * p->ld + c];
    return sum;
}

static float *copy(const float *from, long n)
{
    return memcpy(hand_floats(n), from, 4 * (size_t)n);
}

void hand_check(const struct hand_param *p, enum hand_held held, double (*step)(void))
{
    const double tolerance = 3e-3, change = 3e-3, furthest = 0.1;
    long n = p->rows * p->ld;
    bool counts = held == HAND_SPLIT || hand_rank == 0,
         moves = held != HAND_WINDOW || hand_rank == 0;
    double norm = sqrt(hand_sum(counts ? sum_of_squares(p) : 0)), loss[2];
    double e =
        fmin(change / norm, furthest); /* moves the loss enough to see, not enough to bend it */
    float *direction = copy(p->g, n), *start = copy(p->w, n); /* step() computes p->g anew */

    for (int side = 0; side < 2; side++) {
        hand_barrier();
        if (moves) shift(p, direction, (side ? -e : e) / norm);
        hand_barrier();
        loss[side] = step();
        hand_barrier();
        if (moves) memcpy(p->w, start, 4 * (size_t)n);
    }
    hand_barrier();
    step(); /* gradients at the weights themselves again */
    free(direction);
    free(start);
    double slope = (loss[0] - loss[1]) / (2 * e), difference = fabs(slope - norm) / norm;
    if (hand_rank == 0)
        printf("%-12s |gradient| %.6e, by differences %.6e, relative %.1e\n", p->name, norm, slope,
               difference);
    if (!(difference < tolerance)) hand_die("%s: wrong gradient", p->name);
}
