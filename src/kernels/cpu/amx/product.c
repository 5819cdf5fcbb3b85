/*
 * product.c: C = op(A) op(B) (+ bias) in bf16 on AMX tiles.
 *
 * Columns of B, as many as stay in L2, are packed into tiles (pack_tiles.h). Then strip after strip
 * of 32 rows of A, packed unless it lies right, meets them all. Four tiles of C accumulate in
 * registers, so that every tile of A and B is loaded for two products. They do so for as many k as
 * a strip and a panel of B fit into L2 (shorter blocks, which L1 would keep, were slower for what C
 * then moves), pass through memory in f32 if there are more, and are rounded once, at the end.
 *
 * The order of a sum depends on k alone. Numbers below 2^-126 count as zero: the instruction takes
 * and gives them so, and the one that rounds does too.
 */
#include "kernels/cpu/products/amx_tiles.h"

#if defined(WF_AMX) /* by cmake/WeftIsa.cmake; compilers differ in what they define themselves */
#include <stdatomic.h>

#include "base/int_math.h"
#include "kernels/cpu/amx/pack_tiles.h"

enum {
    STRIP = 2 * LINES,     /* rows of A and columns of B of one block of tiles */
    SPAN = 2048,           /* k of one pass over the product */
    PANEL_BYTES = 3 << 19, /* of packed B that L2 keeps */
};

/** The size of parts of x that are alike, at most `limit` each, and whole units. */
static int64_t balanced_part_size(int64_t x, int64_t limit, int64_t unit)
{
    return wf_round_up(wf_ceil_div(x, wf_ceil_div(x, limit)), unit);
}

/* Where finished sums go: some of C, with bias along its rows. */
struct target {
    char *at;
    int64_t rows, cols, ldc;
    bool wide;
    const wf_bf16 *bias;
};

/* A product or, turned, its transpose C^T = B^T A^T, and how it is cut. */
struct job {
    bool turned;
    int64_t m, n, k;
    struct wf_amx_operand left, right;
    struct target c;
    int64_t span;    /* of k */
    int64_t columns; /* of the right operand packed at a time */
    wf_bf16 *strip, *panel;
    float *sums; /* where k has several spans: of all of C, but for the last */
    int64_t sums_ld;
};

/*
 * Tiles to turn: an operand's where it does not lie as its side wants it, and C's if the product is
 * turned. So a few rows meet a large W that is never turned, and of d^T x the smaller side is.
 */
static bool transposed_is_cheaper(const struct wf_gemm *p)
{
    int64_t m = wf_ceil_div(p->m, LINES), n = wf_ceil_div(p->n, LINES),
            k = wf_ceil_div(p->k, DEPTH);

    return (p->ta ? 0 : m * k) + (p->tb ? 0 : n * k) + m * n <
           (p->ta ? m * k : 0) + (p->tb ? n * k : 0);
}

static struct job plan_product(const struct wf_gemm *p)
{
    bool turned = transposed_is_cheaper(p);
    struct wf_amx_operand a = {.ld = p->lda, .across = p->ta}, b = {.ld = p->ldb, .across = !p->tb};
    struct job j = {.turned = turned,
                    .m = turned ? p->n : p->m,
                    .n = turned ? p->m : p->n,
                    .k = p->k,
                    .left = turned ? b : a,
                    .right = turned ? a : b,
                    .c = {.ldc = p->ldc, .wide = p->wide}};

    j.span = balanced_part_size(p->k, SPAN, DEPTH);
    j.columns = balanced_part_size(
        j.n, PANEL_BYTES / (int64_t)sizeof(wf_bf16) / j.span / STRIP * STRIP, STRIP);
    j.sums_ld = j.k > j.span ? wf_round_up(j.n, STRIP) : 0;
    return j;
}

static size_t scratch_bytes(const struct wf_gemm *p)
{
    struct job j = plan_product(p);
    int64_t packed = j.span * (STRIP + j.columns) * (int64_t)sizeof(wf_bf16);

    return (size_t)(packed + wf_round_up(j.m, STRIP) * j.sums_ld * (int64_t)sizeof(float));
}

static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} whole_tiles __attribute__((aligned(64))) = {.palette = 1,
                                              .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                              .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* Two lines of tiles of the left operand: elements to the next row, k and line. */
struct lines {
    const wf_bf16 *at;
    int64_t ld, step, below;
};

/* What a block of 32 x 32 sums is made of. */
struct feed {
    int64_t steps; /* of 32 k */
    struct lines a;
    const wf_bf16 *b;
    int64_t next_b;    /* from its first line of tiles to its second */
    const float *from; /* earlier sums, NULL: none */
    int64_t from_ld;
};

/** to[32][32] = earlier sums + a b, of `both` lines of A or the upper one alone. */
AMX_INLINE void multiply_tiles(bool both, struct feed f, float *to, int64_t to_ld)
{
    size_t bytes = (size_t)f.from_ld * sizeof *to, row = (size_t)f.a.ld * sizeof *f.a.at;

    if (f.from) {
        _tile_loadd(0, f.from, bytes);
        _tile_loadd(1, f.from + LINES, bytes);
        if (both) _tile_loadd(2, f.from + LINES * f.from_ld, bytes);
        if (both) _tile_loadd(3, f.from + LINES * f.from_ld + LINES, bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (; f.steps > 0; f.steps--, f.a.at += f.a.step, f.b += TILE) {
        _tile_loadd(6, f.b, 64);
        _tile_loadd(4, f.a.at, row);
        _tile_loadd(7, f.b + f.next_b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (!both) continue;
        _tile_loadd(5, f.a.at + f.a.below, row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    bytes = (size_t)to_ld * sizeof *to;
    _tile_stored(0, to, bytes);
    _tile_stored(1, to + LINES, bytes);
    if (!both) return;
    _tile_stored(2, to + LINES * to_ld, bytes);
    _tile_stored(3, to + LINES * to_ld + LINES, bytes);
}

static inline int64_t element_bytes(bool wide) { return wide ? sizeof(float) : sizeof(wf_bf16); }

AMX_INLINE void write_row(const struct target *t, int64_t row, __m512 sum, __mmask16 mask)
{
    char *to = t->at + row * t->ldc * element_bytes(t->wide);

    if (t->wide)
        _mm512_mask_storeu_ps(to, mask, sum);
    else
        _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(sum));
}

AMX_INLINE __m512 load_widened(const wf_bf16 *from, __mmask16 mask)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(load_line_widened(from, mask), 16));
}

/** Up to 16 x 16 finished sums, 32 to a row, into rows of C. */
AMX_INLINE void write_tile(const struct target *t, bool turned, const float *from, int64_t rows,
                           int64_t cols)
{
    __mmask16 mask = (__mmask16)mask_of_first(cols);
    __m512 added = t->bias ? load_widened(t->bias, mask) : _mm512_setzero_ps();
    __m512i word[LINES];

    AMX_UNROLL for (int i = 0; i < LINES; i++) word[i] =
        _mm512_load_si512((const void *)(from + i * STRIP));
    if (turned) transpose_16x16(word);
    AMX_UNROLL for (int i = 0; i < LINES; i++) if (i < rows)
        write_row(t, i, _mm512_add_ps(_mm512_castsi512_ps(word[i]), added), mask);
}

/** 32 x 32 sums, or their transpose, of which C takes what exists. */
static void write_block(struct target t, bool turned, const float *from)
{
    for (int64_t j = 0; j < t.cols; j += LINES) {
        struct target down = t;

        for (int64_t i = 0; i < t.rows; i += LINES) {
            if (turned)
                write_tile(&down, true, from + j * STRIP + i, t.rows - i, t.cols - j);
            else
                write_tile(&down, false, from + i * STRIP + j, t.rows - i, t.cols - j);
            down.at += LINES * t.ldc * element_bytes(t.wide);
        }
        t.at += LINES * element_bytes(t.wide);
        if (t.bias) t.bias += LINES;
    }
}

/* A strip of the left operand, some columns of the right one, one span of k. */
struct place {
    int64_t row, rows, column, columns, k, depth;
    struct lines a;
};

/** The part of C that 32 columns of a strip are. */
static struct target output_target(const struct job *j, const struct place *at, int64_t column)
{
    int64_t columns = wf_min_i64(STRIP, at->columns - column), of_c = at->column + column;
    int64_t row = j->turned ? of_c : at->row, col = j->turned ? at->row : of_c;
    struct target t = j->c;

    t.rows = j->turned ? columns : at->rows;
    t.cols = j->turned ? at->rows : columns;
    t.at += (row * t.ldc + col) * element_bytes(t.wide);
    if (t.bias) t.bias += col;
    return t;
}

/** A span of k for 32 columns: into the sums, or, if it is the last, into C. */
static void multiply_block(const struct job *j, const struct place *at, int64_t column)
{
    _Alignas(64) float last[STRIP * STRIP];
    bool ends = at->k + at->depth == j->k;
    int64_t place = at->row * j->sums_ld + at->column + column;
    float *sums = j->sums_ld ? j->sums + place : last, *to = ends ? last : sums;
    int64_t to_ld = ends ? STRIP : j->sums_ld, next = packed_line_elements(at->depth);
    struct feed f = {.steps = wf_ceil_div(at->depth, DEPTH),
                     .a = at->a,
                     .b = j->panel + column / LINES * next,
                     .next_b = next,
                     .from = at->k > 0 ? sums : NULL,
                     .from_ld = j->sums_ld};

    if (at->rows > LINES)
        multiply_tiles(true, f, to, to_ld);
    else
        multiply_tiles(false, f, to, to_ld);
    if (!ends) return;
    write_block(output_target(j, at, column), j->turned, last);
}

/** Whole strips that lie along k are read where they lie, the others packed. */
static struct lines left_operand_lines(const struct job *j, const struct place *at)
{
    const struct wf_amx_operand *s = &j->left;

    if (!s->across && at->rows == STRIP && at->depth % DEPTH == 0)
        return (struct lines){s->from + at->row * s->ld + at->k, s->ld, DEPTH, LINES * s->ld};
    pack_operand(s, false, at->row, at->rows, at->k, at->depth, j->strip);
    return (struct lines){j->strip, DEPTH, TILE, packed_line_elements(at->depth)};
}

static void multiply_panel(const struct job *j, struct place at)
{
    pack_operand(&j->right, true, at.column, at.columns, at.k, at.depth, j->panel);
    for (at.row = 0; at.row < j->m; at.row += STRIP) {
        at.rows = wf_min_i64(STRIP, j->m - at.row);
        at.a = left_operand_lines(j, &at);
        /* What the compiler is told of a tile's load does not name the memory that it reads. */
        atomic_signal_fence(memory_order_seq_cst);
        for (int64_t column = 0; column < at.columns; column += STRIP)
            multiply_block(j, &at, column);
    }
}

static void amx_product(const struct wf_gemm *p, const void *a, const void *b, const void *bias,
                        void *c, char *scratch)
{
    struct job j = plan_product(p);
    struct place at = {0};

    j.left.from = j.turned ? b : a;
    j.right.from = j.turned ? a : b;
    j.c.at = c;
    j.c.bias = bias;
    j.strip = (wf_bf16 *)(void *)scratch;
    j.panel = j.strip + STRIP * j.span;
    j.sums = (float *)(void *)(j.panel + j.columns * j.span);
    _tile_loadconfig(&whole_tiles);
    for (at.k = 0; at.k < j.k; at.k += j.span)
        for (at.column = 0; at.column < j.n; at.column += j.columns) {
            at.depth = wf_min_i64(j.span, j.k - at.k);
            at.columns = wf_min_i64(j.columns, j.n - at.column);
            multiply_panel(&j, at);
        }
    _tile_release();
}

const struct wf_amx_product_table wf_amx_product = {scratch_bytes, amx_product};
#else
const struct wf_amx_product_table wf_amx_product = {0};
#endif
