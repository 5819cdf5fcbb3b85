/*
 * gpt_setup.c: memory, first values, checks and main of hand_gpt; the step itself is gpt.c.
 *
 *     mpiexec -n 2 hand_gpt LAYERS WIDTH HEADS CONTEXT BATCH VOCAB [STEPS] [check]
 */
#include "gpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long L, D, H, T, B, V, N, d, f, vocab, own, first;
long ld, l3, ldo, lf;
struct layer *layers;
struct norm *norms;
struct chunk *chunks;
long n_chunks;
struct hand_param wte, head, small, wpe;
float *x;
float *dh, *dout, *dqkv, *gradient, *lse;
int *token, *target, *row_head, *row_next;
struct attention shape;
float *part[MAX_RANKS];
float *small_part[MAX_RANKS];
float *stream;
float *softmax[MAX_RANKS];

static void *zeroed(long count, size_t size)
{
    void *p = calloc((size_t)count, size);

    if (p == NULL) hand_die("out of memory");
    return p;
}

static struct hand_param bias_param(const char *name, long n)
{
    struct hand_param p = hand_param(name, 1, n);

    if (p.g == NULL) p.g = hand_floats(n);
    return p;
}

static void allocate_layer(struct layer *l)
{
    *l = (struct layer){.qkv = hand_param("qkv", 3 * d, D),
                        .qkv_b = bias_param("qkv bias", 3 * d),
                        .proj = hand_param("proj", D, d),
                        .up = hand_param("up", f, D),
                        .up_b = bias_param("up bias", f),
                        .down = hand_param("down", D, f),
                        .qkv_n = hand_floats(N * l3),
                        .probs = hand_floats(B * shape.heads * T * shape.probs_ld),
                        .out = hand_floats(N * ldo),
                        .h = hand_floats(N * lf),
                        .slope = hand_floats(N * lf)};
}

static struct hand_param window_param(const char *name, long rows)
{
    return (struct hand_param){.name = name,
                               .rows = rows,
                               .cols = D,
                               .ld = D,
                               .w = hand_window(rows * D),
                               .m = hand_floats(rows * D),
                               .v = hand_floats(rows * D),
                               .g = hand_window(rows * D)};
}

static void allocate_window(void)
{
    long small_rows = SMALL * L + 2;

    hand_window_open((2 * L + 2 + hand_ranks) * N * ld + (2 + hand_ranks) * small_rows * D +
                         2 * T * D + 3 * hand_ranks * N,
                     2 * L + 8 + 3 * hand_ranks);
    small = window_param("small", small_rows);
    wpe = window_param("wpe", T);
    stream = hand_window(N * ld);
    for (int r = 0; r < hand_ranks; r++) {
        part[r] = hand_window(N * ld);
        small_part[r] = hand_window(small_rows * D);
        softmax[r] = hand_window(3 * N);
    }
    for (long i = 0; i <= 2 * L; i++)
        norms[i] = (struct norm){hand_floats(own * ld), hand_floats(own), hand_window(N * ld)};
}

static void allocate_head(void)
{
    wte = hand_param("wte", vocab, D);
    head = hand_param("head", vocab, D);
    n_chunks = (vocab + CHUNK - 1) / CHUNK;
    chunks = zeroed(n_chunks, sizeof *chunks);
    for (long i = 0; i < n_chunks; i++) {
        long width = vocab - i * CHUNK < CHUNK ? vocab - i * CHUNK : CHUNK,
             stride = hand_stride(width);
        chunks[i] = (struct chunk){hand_rank * vocab + i * CHUNK, width, stride,
                                   hand_floats(N * stride), hand_floats(N)};
    }
}

static void allocate(void)
{
    norms = zeroed(2 * L + 1, sizeof *norms);
    layers = zeroed(L, sizeof *layers);
    allocate_window();
    allocate_head();
    for (long l = 0; l < L; l++) allocate_layer(&layers[l]);
    attention_start(T);
    long rows = 4 * D > CHUNK ? 4 * D : CHUNK;
    gradient = hand_floats(rows * (ld > lf ? ld : lf));
    x = hand_floats(own * ld);
    dh = hand_floats(N * lf);
    dout = hand_floats(N * ldo);
    dqkv = hand_floats(N * l3);
    lse = hand_floats(N);
    token = zeroed(N + 1, sizeof *token);
    target = token + 1; /* the next token */
    row_head = zeroed(vocab, sizeof *row_head);
    row_next = zeroed(N, sizeof *row_next);
}

/* Rows [0, D) of q, of k, of v each give this rank d rows: its heads. */
static void initialize_qkv(struct layer *at, int stream_, float scale)
{
    for (int which = 0; which < 3; which++) {
        struct hand_param w = at->qkv, b = at->qkv_b;
        w.w += which * d * w.ld;
        w.rows = d;
        b.w += which * d;
        b.cols = d;
        hand_param_init(&w, stream_, which * D + hand_rank * d, 0, D, scale);
        hand_param_init(&b, stream_ + 1, 0, which * D + hand_rank * d, 3 * D, scale);
    }
}

static void initialize(void)
{
    const float scale = 0.035f; /* standard deviation 0.02 */

    for (int l = 0; l < L; l++) {
        struct layer *at = &layers[l];
        initialize_qkv(at, 10 * l + 20, scale);
        hand_param_init(&at->proj, 10 * l + 22, 0, hand_rank * d, D, scale);
        hand_param_init(&at->up, 10 * l + 23, hand_rank * f, 0, D, scale);
        hand_param_init(&at->up_b, 10 * l + 24, 0, hand_rank * f, 4 * D, scale);
        hand_param_init(&at->down, 10 * l + 25, 0, hand_rank * f, 4 * D, scale);
    }
    hand_param_init(&wte, 1, hand_rank * vocab, 0, D, scale);
    hand_param_init(&head, 2, hand_rank * vocab, 0, D, scale);
    for (long i = 0; i <= N; i++)
        token[i] = (int)((hand_value(3, (uint64_t)i) * 0.5f + 0.5f) * (float)V) % (int)V;
    if (hand_rank == 0) {
        hand_param_init(&wpe, 4, 0, 0, D, scale);
        hand_param_init(&small, 5, 0, 0, D, scale);
        for (long row = 0; row < small.rows; row++) /* norm weights start around one */
            for (long j = 0; j < D && (row % SMALL == NORM1_W || row % SMALL == NORM2_W); j++)
                small.w[row * D + j] += 1;
    }
    hand_barrier();
}

static void check_layer(long l)
{
    static const char *const names[] = {"norm1", "norm1 bias", "proj bias",
                                        "norm2", "norm2 bias", "down bias"};
    struct layer *at = &layers[l];
    struct hand_param *split[] = {&at->qkv, &at->qkv_b, &at->proj, &at->up, &at->up_b, &at->down};

    for (int i = 0; i < 6; i++) hand_check(split[i], HAND_SPLIT, gpt_step);
    for (long i = 0; i < SMALL; i++) {
        struct hand_param p = {.name = names[i],
                               .rows = 1,
                               .cols = D,
                               .ld = D,
                               .w = small_w(l, (enum small)i),
                               .g = small.g + (l * SMALL + i) * D};
        hand_check(&p, HAND_WINDOW, gpt_step);
    }
}

static void check(void)
{
    gpt_step();
    check_layer(0);
    check_layer(L - 1);
    hand_check(&wte, HAND_SPLIT, gpt_step);
    hand_check(&head, HAND_SPLIT, gpt_step);
    hand_check(&wpe, HAND_WINDOW, gpt_step);
    struct hand_param last = {.name = "final norm",
                              .rows = 2,
                              .cols = D,
                              .ld = D,
                              .w = small_w(L, NORM1_W),
                              .g = small.g + L * SMALL * D};
    hand_check(&last, HAND_WINDOW, gpt_step);
}

static void read_arguments(int argc, char **argv)
{
    long *sizes[] = {&L, &D, &H, &T, &B, &V};

    for (int i = 0; i < 6; i++)
        if (argc <= i + 1 || (*sizes[i] = atol(argv[i + 1])) < 1)
            hand_die("usage: [mpiexec -n R] hand_gpt LAYERS WIDTH HEADS CONTEXT BATCH VOCAB "
                     "[STEPS] [check]");
    if (H * HEAD != D || H % hand_ranks || T % 32 || V % (16 * hand_ranks) ||
        hand_ranks > MAX_RANKS)
        hand_die("head size is 64; ranks divide heads; context is a multiple of 32, vocabulary of "
                 "16 * ranks");
    N = B * T;
    d = D / hand_ranks;
    f = 4 * D / hand_ranks;
    vocab = V / hand_ranks;
    first = hand_begin(N);
    own = hand_end(N) - first;
    ld = hand_stride(D);
    l3 = hand_stride(3 * d);
    ldo = hand_stride(d);
    lf = hand_stride(f);
    shape = (struct attention){H / hand_ranks, T, l3, ldo, hand_stride(T)};
}

int main(int argc, char **argv)
{
    char title[96];

    hand_start(&argc, &argv);
    read_arguments(argc, argv);
    int steps = argc > 7 ? atoi(argv[7]) : 12;
    hand_checking = argc > 8 && strcmp(argv[8], "check") == 0;
    allocate();
    hand_tune(gpt_step);
    initialize();
    if (hand_checking) check();
    hand_checking = false;
    hand_adam_reset();
    snprintf(title, sizeof title,
             "hand_gpt %ldx%ld, %ld heads, context %ld, batch %ld, vocabulary %ld", L, D, H, T, B,
             V);
    hand_report(title, steps, gpt_step, NULL);
    return hand_finish();
}
