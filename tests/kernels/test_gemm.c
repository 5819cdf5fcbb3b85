/* test_gemm.c: the product beneath the CPU's matmul and linear: in 16 bits at the edges of tiles
 * and blocks, and of every float where a size is 1. */
#include "plain_product.h"

#include "kernels/cpu/products/gemm.h"

static const int64_t edges[] = {1, 15, 16, 17, 31, 32, 33, 48, 65};
enum { EDGES = sizeof edges / sizeof *edges, FORMS = 16, GAP = 3 };

static const struct {
    int64_t m, n, k;
} large[] = {
    {33, 50, 513},   {40, 450, 1700}, /* columns of B in two parts, */
    {450, 40, 1700},                  /* or rows, where the product is turned */
    {35, 40, 2100},                   /* two spans of k, */
    {33, 770, 2050},                  /* of columns in two parts */
    {3, 700, 96},                     /* few rows of a large matrix */
};
enum { LARGE = sizeof large / sizeof *large };

/* Elements between the end of a stored row and the next row, of each operand. */
struct gaps {
    int64_t a, b, c;
};

/* Elements with a gap after each row. A gap is NaN, so a result that depends on one shows. */
static char *float_matrix(weft_dtype dtype, int64_t rows, int64_t cols, int64_t gap, uint64_t seed,
                          double *values)
{
    size_t size = wf_dtypes[dtype].size, bytes = (size_t)(rows * (cols + gap)) * size;
    char *m = malloc(bytes);

    memset(m, 0xff, bytes);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            char *at = m + (size_t)(i * (cols + gap) + j) * size;

            wf_dtypes[dtype].store(at, noise(&seed));
            values[i * cols + j] = wf_dtypes[dtype].load(at);
        }
    return m;
}

static weft_dtype result_dtype(const struct wf_gemm *g)
{
    return g->wide ? WEFT_F32 : (weft_dtype)g->dtype;
}

static double gemm_bound(weft_dtype result)
{
    return result == WEFT_F64   ? 1e-12
           : result == WEFT_F32 ? 1e-4
           : result == WEFT_F16 ? 1e-3
                                : 8e-3;
}

/* C has the products, and its gaps are as they were. */
static void check_gemm_result(const struct wf_gemm *g, const char *c, const double *want)
{
    weft_dtype dtype = result_dtype(g);
    size_t size = wf_dtypes[dtype].size;
    int64_t poison = 0;

    memset(&poison, 0x7b, sizeof poison);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->ldc; j++) {
            const char *at = c + (size_t)(i * g->ldc + j) * size;
            double got = wf_dtypes[dtype].load(at);
            double near = gemm_bound(dtype) * (1 + fabs(want[i * g->n + (j < g->n ? j : 0)]));

            if (j >= g->n ? memcmp(at, &poison, size) == 0 : fabs(got - want[i * g->n + j]) <= near)
                continue;
            ck_abort_msg("isa %d %s m %d n %d k %d ta %d tb %d ld %d %d %d wide %d bias %d: "
                         "(%d,%d) is %g",
                         wf_kernels_isa_level(), wf_dtypes[g->dtype].name, (int)g->m, (int)g->n,
                         (int)g->k, g->ta, g->tb, (int)g->lda, (int)g->ldb, (int)g->ldc, g->wide,
                         g->bias, (int)i, (int)j, got);
        }
}

static void check_gemm_with_gaps(weft_dtype dtype, int64_t m, int64_t n, int64_t k, int form,
                                 struct gaps gap)
{
    struct wf_gemm g = {.dtype = (uint8_t)dtype,
                        .ta = form & 1,
                        .tb = (form & 2) != 0,
                        .wide = (form & 4) != 0 && wf_dtype_is_16_bit_float((uint8_t)dtype),
                        .bias = (form & 8) != 0,
                        .m = m,
                        .n = n,
                        .k = k,
                        .ldc = n + gap.c};
    struct naive p = {m, n, k, g.ta ? 1 : k, g.ta ? m : 1, g.tb ? 1 : n, g.tb ? k : 1};
    double *av = calloc((size_t)(m * k), 8), *bv = calloc((size_t)(k * n), 8);
    double *biasv = calloc((size_t)n, 8), *want = calloc((size_t)(m * n), 8);
    char *a = float_matrix(dtype, g.ta ? k : m, g.ta ? m : k, gap.a, 1, av);
    char *b = float_matrix(dtype, g.tb ? n : k, g.tb ? k : n, gap.b, 2, bv);
    char *bias = float_matrix(dtype, 1, n, GAP, 3, biasv);
    size_t c_bytes = (size_t)(m * g.ldc) * wf_dtypes[result_dtype(&g)].size;
    char *c = malloc(c_bytes), *scratch;

    g.lda = (g.ta ? m : k) + gap.a;
    g.ldb = (g.tb ? k : n) + gap.b;
    memset(c, 0x7b, c_bytes);
    multiply(&p, av, bv, g.bias ? biasv : NULL, want);
    wf_gemm_prepare(&g);
    scratch = aligned_alloc(64, g.scratch + 64);
    memset(scratch, 0xff, g.scratch + 64);
    wf_gemm_run(&g, a, b, g.bias ? bias : NULL, c, scratch);
    check_gemm_result(&g, c, want);
    wf_gemm_free(&g);
    for (int i = 0; i < 9; i++) free((void *[]){a, b, bias, c, scratch, av, bv, biasv, want}[i]);
}

static void check_gemm(weft_dtype dtype, int64_t m, int64_t n, int64_t k, int form)
{
    check_gemm_with_gaps(dtype, m, n, k, form, (struct gaps){GAP, GAP, GAP});
}

WT_UNIT_TIMES(gemm__bf16_equals_plain_loops_at_every_edge, EDGES)
{
    EACH_ISA
    for (int n = 0; n < EDGES; n++)
        for (int k = 0; k < EDGES; k++)
            /* Of level 5 the products are oneDNN's, which takes its time to make them. */
            for (int form = 0;
                 form < FORMS && (wf_kernels_isa_level() != 5 || (_i + n + k) % EDGES == 0); form++)
                check_gemm(WEFT_BF16, edges[_i], edges[n], edges[k], form);
}

/* trial 4.9 */
WT_UNIT_TIMES(gemm__bf16_equals_plain_loops_across_blocks, LARGE)
{
    EACH_ISA /* but few forms of most: plain loops take long */
        for (int form = (_i + (int)isa_) % 4; form < FORMS;
             form += wf_kernels_isa_level() >= 6 ? 1 : 5)
            check_gemm(WEFT_BF16, large[_i].m, large[_i].n, large[_i].k, form);
}

/* The loops are bf16's, so fewer forms. */
WT_UNIT_TIMES(gemm__f16_equals_plain_loops_at_every_edge, EDGES)
{
    EACH_ISA
    for (int n = 0; n < EDGES && wf_kernels_isa_level() < 6; n++)
        for (int k = 0; k < EDGES; k++)
            check_gemm(WEFT_F16, edges[_i], edges[n], edges[k], (_i + n + k + (int)isa_) % FORMS);
}

WT_UNIT_TIMES(gemm__f16_equals_plain_loops_across_blocks, LARGE)
{
    EACH_ISA
    check_gemm(WEFT_F16, large[_i].m, large[_i].n, large[_i].k, (5 * _i + (int)isa_) % FORMS);
}

/* trial 4.9: the level that the knob asks for decides whose product it is: below bf16 instructions
 * our own, never an emulation. */
WT_UNIT(gemm__bf16_is_widened_by_own_loops_below_its_instructions)
{
    EACH_ISA
    {
        struct wf_gemm g = {.dtype = WEFT_BF16, .m = 64, .n = 48, .k = 32};

        g.lda = g.k, g.ldb = g.ldc = g.n;
        wf_gemm_prepare(&g);
        ck_assert_int_eq(g.dnnl != NULL, wf_kernels_isa_level() == 5);
        wf_gemm_free(&g);
        g.dnnl = NULL;
        g.dtype = WEFT_F16; /* which of oneDNN's versions and CPUs have it */
        wf_gemm_prepare(&g);
        ck_assert(!g.dnnl || wf_kernels_isa_level() >= 5);
        wf_gemm_free(&g);
    }
}

/* Where a size is 1, an operand is a vector and its elements may lie a row apart. oneDNN 3 takes
 * the stride of a dimension of size 1 as undefined. */
static const int64_t vector_sizes[] = {1, 2, 5, 16, 37};
static const struct gaps vector_gaps[] = {{0, 0, 0}, {1, 1, 1}, {3, 0, 0},
                                          {0, 3, 0}, {0, 0, 3}, {130, 97, 200}};
enum {
    VECTOR_SIZES = sizeof vector_sizes / sizeof *vector_sizes,
    VECTOR_GAPS = sizeof vector_gaps / sizeof *vector_gaps
};

static void check_gemms_of_vectors(weft_dtype dtype, int64_t m, struct gaps gap)
{
    for (int n = 0; n < VECTOR_SIZES; n++)
        for (int k = 0; k < VECTOR_SIZES; k++)
            for (int form = 0; form < FORMS && (m == 1 || n == 0 || k == 0); form++)
                check_gemm_with_gaps(dtype, m, vector_sizes[n], vector_sizes[k], form, gap);
}

WT_UNIT_TIMES(gemm__sizes_of_1_take_any_leading_dimension, VECTOR_SIZES *VECTOR_GAPS)
{
    EACH_ISA
    for (int d = 0; d < FLOAT_DTYPES; d++)
        check_gemms_of_vectors(float_dtypes[d], vector_sizes[_i % VECTOR_SIZES],
                               vector_gaps[_i / VECTOR_SIZES]);
}

int main(void) { return wt_unit_main("gemm"); }
