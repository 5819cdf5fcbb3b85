/*
 * gemm.c: which routine computes which product.
 *
 *   x W^T, few x  own loops that read W once (NOTE [few rows])
 *   1 x 1         of 16-bit floats: own loops (k = 1024: 0.1 to 1.2 us, oneDNN 1.1 to 2.5)
 *   f64           own loops (oneDNN has no f64 product)
 *   bf16          own, on AMX tiles, where the machine has them (NOTE [tiles])
 *                 oneDNN, where the CPU has products of bf16
 *                 own loops that widen to f32 on others (NOTE [widened])
 *   f16           as bf16, but never on tiles
 *   f32           oneDNN, but turned or own where its choice of kernel is poor (NOTE [f32 methods])
 */
#include "kernels/cpu/products/gemm.h"

#include <stdatomic.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "kernels/cpu/products/amx_tiles.h"
#include "kernels/cpu/products/blocked_gemm.h"
#include "kernels/cpu/products/gemm_dnnl.h"
#include "kernels/cpu/products/gemv.h"
#include "kernels/cpu/scratch.h"

static struct wf_blocked blocked_args(const struct wf_gemm *g)
{
    return (struct wf_blocked){
        .m = g->m,
        .n = g->n,
        .k = g->k,
        .ldc = g->ldc,
        .a_m = g->ta ? 1 : g->lda,
        .a_k = g->ta ? g->lda : 1,
        .b_k = g->tb ? 1 : g->ldb,
        .b_n = g->tb ? g->ldb : 1,
        .wide = g->wide,
    };
}

static void run_nothing(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                        void *c, char *scratch)
{
    (void)g, (void)a, (void)b, (void)bias, (void)c, (void)scratch;
}

static void run_blocked(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                        void *c, char *scratch)
{
    const struct wf_blocked_table *t = g->loops;
    struct wf_blocked p = blocked_args(g);

    t->product(&p, a, b, bias, c, scratch);
}

/*
 * The bias is written first and oneDNN adds to it: 1 to 5 % of the product at the shapes below,
 * where a pass over the finished C took up to 8 %.
 */
static void run_sgemm(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                      void *c, char *scratch)
{
    float *to = c;

    (void)scratch;
    if (bias)
        for (int64_t i = 0; i < g->m; i++) memcpy(to + i * g->ldc, bias, (size_t)g->n * sizeof *to);
    wf_dnnl_sgemm(g, a, b, bias ? 1.0f : 0.0f, c);
}

/* C^T = B^T A^T into scratch, then turned into place together with the bias. */
static void run_transposed(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                           void *c, char *scratch)
{
    const struct wf_blocked_table *t = g->loops;
    struct wf_gemm other = {.ta = !g->tb,
                            .tb = !g->ta,
                            .m = g->n,
                            .n = g->m,
                            .k = g->k,
                            .lda = g->ldb,
                            .ldb = g->lda,
                            .ldc = g->m};

    wf_dnnl_sgemm(&other, b, a, 0.0f, (float *)(void *)scratch);
    t->turn(g->m, g->n, scratch, bias, c);
}

static void prepare_blocked(struct wf_gemm *g, const struct wf_blocked_table *loops, size_t element)
{
    struct wf_blocked p = blocked_args(g);

    g->run = run_blocked;
    g->loops = loops;
    g->scratch = wf_scratch_round_up((size_t)loops->scratch_elements(&p) * element);
}

static struct wf_gemv gemv_args(const struct wf_gemm *g)
{
    return (struct wf_gemv){.m = g->m,
                            .n = g->n,
                            .k = g->k,
                            .ldx = g->lda,
                            .ldw = g->ldb,
                            .ldy = g->ldc,
                            .wide = g->wide};
}

static void run_gemv(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                     void *c, char *scratch)
{
    const struct wf_gemv_table *t = g->loops;
    struct wf_gemv p = gemv_args(g);

    t->product(&p, a, b, bias, c, scratch);
}

static const struct wf_gemv_table *gemv_loops(uint8_t dtype)
{
    return dtype == WEFT_F32    ? WF_ISA_PICK(wf_gemv_f32)
           : dtype == WEFT_F64  ? WF_ISA_PICK(wf_gemv_f64)
           : dtype == WEFT_BF16 ? WF_ISA_PICK(wf_gemv_bf16)
                                : WF_ISA_PICK(wf_gemv_f16);
}

static void prepare_gemv(struct wf_gemm *g)
{
    const struct wf_gemv_table *loops = gemv_loops(g->dtype);
    struct wf_gemv p = gemv_args(g);

    g->run = run_gemv;
    g->loops = loops;
    g->scratch = wf_scratch_round_up(loops->scratch_bytes(&p));
}

static void run_dot(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                    void *c, char *scratch)
{
    const struct wf_gemv_table *t = g->loops;
    const struct wf_dot p = {
        .k = g->k, .x_step = g->ta ? g->lda : 1, .w_step = g->tb ? 1 : g->ldb, .wide = g->wide};

    (void)scratch;
    t->dot(&p, a, b, bias, c);
}

/*
 * NOTE [few rows]. x W^T with few rows waits for W to come from memory. GB/s of W, 1536 x 768, one
 * Zen 3 core that reads 22:
 *
 *     rows                1      2      3      4      5      6      8
 *     f32 gemv           20     19     18     14     13      8      9
 *         oneDNN         19     10      7      7      6      7      9 (turned)
 *     bf16 gemv          18     15     12      9      8      6      5
 *         widened         1      1      1      1      1      1    0.7
 */
enum { FEW = 5, FEW_TILES = 2, FEW_NARROW = 8, FEW_WIDENED = 16 };

static bool has_few_rows(const struct wf_gemm *g, int64_t most)
{
    return !g->ta && g->tb && g->m <= most && g->n > g->m && g->n >= WF_GEMV_COLUMNS && g->k > 0 &&
           wf_knobs.threads <= 1;
}

enum f32_method { DNNL_SGEMM, DNNL_TRANSPOSED, OWN_LOOPS };

/* Up to so many multiplications oneDNN's own bookkeeping (which allocates) takes longer. */
enum { TINY = 16 * 16 * 16 };

/*
 * NOTE [f32 methods]. GFLOP/s of one core, weight N x K, rows m; Zen 3 (peak 105, AVX2),
 * oneDNN 2.6.
 *
 *   x W^T, few rows      N x K          m = 8     16     32     64    128
 *     sgemm              2048 x 1024       35     52     65     76     81
 *     turned (W x^T)                       53     70     69     72     73
 *     sgemm              576 x 384         55     73     82     91     95
 *     turned                               67     88     89     90     90
 *   d W, rows of W a multiple of 2 KiB apart (they share few cache sets)
 *     sgemm              2048 x 1024       23     35     39     43     42     (256: 44, 384: 84)
 *     own                                  25     39     56     74     79     (256: 82, 384: 79)
 *   d^T x, 512 rows      768 x 384   512 x 512   576 x 384   640 x 640   1536 x 768
 *     sgemm                     58          54          63          75           76
 *     own                       77          81          78          76           76
 *
 * One Xeon core with AVX-512 (peak 178):
 *
 *   x W^T, few rows      N x K          m = 8     16     32     64    128    384
 *     sgemm              2048 x 1024       34     58     83    105    135    155
 *     turned                               46     82    113    113    133    143
 *     own                                  46     60     82    104    142    140
 *   d W, rows of W a multiple of 4 KiB apart
 *     sgemm              2048 x 1024              62           107    136    150
 *     own                                         57           110    147    140
 *   elsewhere sgemm is never far from the peak (d W of 768 x 384, 128 rows: 173, own 161; d^T x:
 *   160, own 150)
 *
 * oneDNN 3.13 chooses alike: docs/decisions/0030-f32-products.md has its figures beside 2.6's and
 * libxsmm's, and why x W^T of 65 to 160 rows is oneDNN's.
 *
 * On Zen 5 turned made 230 at 128 rows, sgemm 150; own has not been measured there.
 */
static enum f32_method choose_f32_method_avx512(const struct wf_gemm *g)
{
    if (!g->ta && g->tb && g->n > g->m)
        return g->m >= 6 && g->m <= 128 && g->ldc == g->n ? DNNL_TRANSPOSED : DNNL_SGEMM;
    if (wf_knobs.threads > 1 || g->ta || g->tb) return DNNL_SGEMM;
    return g->ldb % 1024 == 0 && g->m > 64 && g->m <= 160 ? OWN_LOOPS : DNNL_SGEMM;
}

static enum f32_method choose_f32_method_avx2(const struct wf_gemm *g)
{
    if (!g->ta && g->tb && g->ldc == g->n && g->n > g->m)
        return g->m >= 6 && g->m <= 32 ? DNNL_TRANSPOSED : DNNL_SGEMM;
    if (wf_knobs.threads > 1) return DNNL_SGEMM;
    if (!g->ta && !g->tb)
        return g->ldb % 512 == 0 && g->m >= 12 && g->m <= 320 ? OWN_LOOPS : DNNL_SGEMM;
    if (g->ta && !g->tb) return g->m * g->n <= 300000 && g->k >= 64 ? OWN_LOOPS : DNNL_SGEMM;
    return DNNL_SGEMM;
}

static enum f32_method choose_f32_method(const struct wf_gemm *g)
{
    if (g->m * g->n * g->k <= TINY) return OWN_LOOPS;
    return wf_kernels_isa_level() >= 4 ? choose_f32_method_avx512(g) : choose_f32_method_avx2(g);
}

static void prepare_f32(struct wf_gemm *g)
{
    const struct wf_blocked_table *loops = WF_ISA_PICK(wf_blocked_f32);

    switch (choose_f32_method(g)) {
    case OWN_LOOPS:
        prepare_blocked(g, loops, sizeof(float));
        break;
    case DNNL_TRANSPOSED:
        g->run = run_transposed;
        g->loops = loops;
        g->scratch = wf_scratch_round_up((size_t)(g->m * g->n) * sizeof(float));
        break;
    case DNNL_SGEMM:
        g->run = run_sgemm;
    }
}

static void run_dnnl_16_bit(const struct wf_gemm *g, const void *a, const void *b, const void *bias,
                            void *c, char *scratch)
{
    wf_dnnl_product_run(g->dnnl, a, b, bias, c, scratch);
}

/*
 * NOTE [tiles]. GFLOP/s of one core of a Xeon with AMX, weight N x K, m rows; oneDNN 2.6, its bf16
 * with AVX512_BF16 (here, where the palette of tiles is hidden, it has no other).
 *
 *                                   tiles                oneDNN f32         oneDNN bf16
 *      N x K        m      x W^T    d W   d^T x          (the three)        (the three)
 *     576 x 384   2048      1090   1110     780         160  170  165       86   86   83
 *     384 x 192   2048      1090   1080     650         168  175  169       86   87   83
 *     768 x 384   2048      1130   1130     710         148  155  122       77   78   75
 *     384 x 768   2048      1130   1130     710         158  164  169       77   82   74
 *    1152 x 768   1024      1100   1120     940         151  132  151       85   79   81
 *     768 x 384   1024      1120   1110     980         164  172  168       83   84   84
 *    1536 x 768   1024      1090   1140     920         159  169  136       79   76   76
 *     768 x 1536  1024      1170   1060     860         132  160  136       58   84   73
 *   25152 x 768   1024       800    860     730          97  106  105       66   68   67
 *
 *   x W^T, m =                 3      4      8     16     32     64    128    256
 *    1536 x 768   tiles                    230    440    830    860    940   1030
 *                 gemv        84     79     93
 *                 f32                47     60    120    153    145    140    157
 *     768 x 384   tiles                    380    660   1050   1060   1090   1070
 *                 gemv        77     73     82
 *
 *   W from memory: GB/s of W, 1536 x 768
 *     m =       1    2    3    4    6    8   16   32   64
 *     gemv     24   22   21   16   13    9    5    3    1
 *     tiles    22   22   22   21   21   16   14   12    9
 */
static bool uses_amx_tiles(const struct wf_gemm *g)
{
    return g->dtype == WEFT_BF16 && g->k > 0 && wf_kernels_isa_level() >= 6;
}

static void prepare_amx(struct wf_gemm *g)
{
    g->run = wf_amx_product.product;
    g->scratch = wf_scratch_round_up(wf_amx_product.scratch_bytes(g));
}

/* Once per dtype, by rank 0, when the first product is planned that gains nothing. */
static void warn_widened(uint8_t dtype)
{
    static _Atomic bool said[WF_FLOAT_DTYPES];
    const char *name = weft_dtype_name((weft_dtype)dtype);

    if (wf_log_rank() > 0 || atomic_exchange_explicit(&said[dtype], true, memory_order_relaxed))
        return;
    WF_LOG(WF_LOG_WARN, "kernels",
           "%s does not pay in time here: this CPU (or WEFT_ISA) has no %s products, so they "
           "are computed in f32, at up to a tenth less than its speed; %s halves memory, and "
           "writing token by token is faster",
           name, name, name);
}

/*
 * NOTE [widened]. Own loops over f32, GFLOP/s of one Zen 4 core at WEFT_ISA=4 and 3; emulated:
 * oneDNN's bf16 with AVX-512 and without bf16 instructions.
 *
 *   N x K         m           AVX-512: own   f32  emulated      AVX2: own   f32
 *    576 x 384   2048  x W^T           96   101        38             99   102
 *                      d W            102   109        37            102   103
 *                      d^T x          105   110        37            104   102
 *    384 x 768   2048  x W^T          100   106        37             99    99
 *                      d W             96   109        37            100   105
 *                      d^T x          104   109        37            103   103
 *   1536 x 768    128  x W^T          102   105        36             98    94
 *   2048 x 1024    32                  79    81        33             67    84
 *                  16                  94    69        29             88    84
 */
static void prepare_16_bit(struct wf_gemm *g)
{
    if (g->m == 1 && g->n == 1) {
        g->run = run_dot;
        g->loops = gemv_loops(g->dtype);
        return;
    }
    if (g->k > 0 && wf_kernels_isa_level() >= 5) g->dnnl = wf_dnnl_product_new(g);
    if (g->dnnl) {
        g->run = run_dnnl_16_bit;
        g->scratch = wf_dnnl_product_scratch(g->dnnl);
        return;
    }
    if (has_few_rows(g, FEW_WIDENED)) {
        prepare_gemv(g);
        return;
    }
    warn_widened(g->dtype);
    prepare_blocked(
        g, g->dtype == WEFT_BF16 ? WF_ISA_PICK(wf_blocked_bf16) : WF_ISA_PICK(wf_blocked_f16),
        sizeof(float));
}

static int64_t few_rows(const struct wf_gemm *g)
{
    if (!wf_dtype_is_16_bit_float(g->dtype)) return FEW;
    return uses_amx_tiles(g) ? FEW_TILES : FEW_NARROW;
}

void wf_gemm_prepare(struct wf_gemm *g)
{
    g->scratch = 0;
    g->run = run_nothing;
    if (g->m == 0 || g->n == 0) return;
    if (has_few_rows(g, few_rows(g)))
        prepare_gemv(g);
    else if (g->dtype == WEFT_F32)
        prepare_f32(g);
    else if (g->dtype == WEFT_F64)
        prepare_blocked(g, WF_ISA_PICK(wf_blocked_f64), sizeof(double));
    else if (uses_amx_tiles(g))
        prepare_amx(g);
    else
        prepare_16_bit(g);
}

void wf_gemm_prepare_up_to(struct wf_gemm *g)
{
    g->scratch = 0;
    if (g->dtype == WEFT_F32)
        g->run = run_sgemm;
    else if (g->dtype == WEFT_F64)
        prepare_blocked(g, WF_ISA_PICK(wf_blocked_f64), sizeof(double));
    else
        prepare_blocked(
            g, g->dtype == WEFT_BF16 ? WF_ISA_PICK(wf_blocked_bf16) : WF_ISA_PICK(wf_blocked_f16),
            sizeof(float));
}

void wf_gemm_free(struct wf_gemm *g) { wf_dnnl_product_free(g->dnnl); }
