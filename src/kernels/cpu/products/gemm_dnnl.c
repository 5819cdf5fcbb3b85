/*
 * gemm_dnnl.c: products by oneDNN, version 2.6 and 3.x.
 *
 * f32 goes through dnnl_sgemm, 16-bit floats through matmul primitives, which are made once per
 * shape. How many threads oneDNN takes is set around each call, so that a program's own OpenMP
 * regions keep what they had.
 */
#include "kernels/cpu/products/gemm_dnnl.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/elements/strided_copy.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/settings/knob.h"
#include "kernels/cpu/products/amx_tiles.h"
#include "kernels/cpu/products/dnnl_desc.h"
#include "kernels/cpu/scratch.h"

#define TRY WF_DNNL_TRY

/* oneDNN may be built on OpenMP, TBB or neither; only the first needs to be held back. */
static _Thread_local struct {
    bool looked;
    int (*get)(void);
    void (*set)(int);
} omp;

static void find_symbol(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    memcpy(function, &found, sizeof found);
}

int wf_dnnl_limit_threads(void)
{
    int before;

    if (!omp.looked) {
        find_symbol("omp_get_max_threads", &omp.get);
        find_symbol("omp_set_num_threads", &omp.set);
        omp.looked = true;
    }
    if (!omp.get || !omp.set) return 0;
    before = omp.get();
    if (before != (int)wf_knobs.threads) omp.set((int)wf_knobs.threads);
    return before;
}

void wf_dnnl_restore_threads(int before)
{
    if (before && before != (int)wf_knobs.threads) omp.set(before);
}

/*
 * Where the palette is hidden, oneDNN (2.6, and 3.x inside PyTorch 2.15) then configures
 * no tiles, and its first instruction on one ends the process; AVX-512 it does right.
 */
void wf_dnnl_limit_isa(int level)
{
    static const dnnl_cpu_isa_t levels[] = {[2] = dnnl_cpu_isa_sse41,
                                            [3] = dnnl_cpu_isa_avx2,
                                            [4] = dnnl_cpu_isa_avx512_core,
                                            [5] = dnnl_cpu_isa_avx512_core_bf16};

    if (level >= 2 && level <= 5)
        dnnl_set_max_cpu_isa(levels[level]);
    else if (wf_amx_palette_is_hidden())
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
}

void wf_dnnl_sgemm(const struct wf_gemm *g, const float *a, const float *b, float beta, float *c)
{
    int before = wf_dnnl_limit_threads();

    TRY(dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, 1.0f, a, g->lda, b,
                   g->ldb, beta, c, g->ldc));
    wf_dnnl_restore_threads(before);
}

enum { ARG_A, ARG_B, ARG_C, ARG_BIAS, ARGS };
static const int arg_names[ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};

/* The copy between an operand and its packed form in scratch (NOTE [sizes of 1]). */
struct packing {
    size_t scratch; /* bytes, 0: oneDNN takes the operand in place */
    struct wf_strided_copy copy;
};

struct wf_dnnl_product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive[2]; /* without and with bias */
    dnnl_memory_t memory[ARGS];
    struct packing packing[ARGS];
};

static dnnl_status_t make_primitive_desc(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                         const wf_dnnl_desc *d, bool bias)
{
    const wf_dnnl_desc_ref bias_desc = bias ? wf_dnnl_ref(&d[ARG_BIAS]) : NULL;
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(plan, engine, wf_dnnl_ref(&d[ARG_A]),
                                             wf_dnnl_ref(&d[ARG_B]), bias_desc,
                                             wf_dnnl_ref(&d[ARG_C]), NULL);
#else
    dnnl_matmul_desc_t product;

    TRY(dnnl_matmul_desc_init(&product, wf_dnnl_ref(&d[ARG_A]), wf_dnnl_ref(&d[ARG_B]), bias_desc,
                              wf_dnnl_ref(&d[ARG_C])));
    return dnnl_primitive_desc_create(plan, &product, NULL, engine, NULL);
#endif
}

/* An operand as g describes it: the element (i, j) is i row_stride + j col_stride after the first.
 */
struct matrix {
    int64_t rows, cols, row_stride, col_stride;
    uint8_t dtype;
};

static struct matrix matrix_of(int64_t rows, int64_t cols, int64_t ld, bool transposed,
                               uint8_t dtype)
{
    return (struct matrix){rows, cols, transposed ? 1 : ld, transposed ? ld : 1, dtype};
}

/*
 * NOTE [sizes of 1]. oneDNN 3 takes the stride of a dimension of size 1 as undefined: it derives
 * leading dimensions and transpositions from the sizes instead
 * (github.com/uxlfoundation/oneDNN/pull/2851), so that a vector whose elements lie a row apart has
 * another meaning in each of its kernels. A matrix with a size of 1 is described to oneDNN as dense
 * and row-major. These bytes have the same meaning if the matrix is read as transposed, and with
 * any stride of the dimension of size 1. A vector with other strides is copied to scratch before
 * the product, or from scratch after it: m + k + n elements at most.
 *
 * dnnl_sgemm is given its leading dimensions and needs no copies. Convolutions describe dense
 * operands only (convolution_dnnl.c).
 */
static bool is_vector(const struct matrix *x) { return x->rows == 1 || x->cols == 1; }

static void describe_matrix(wf_dnnl_desc *d, const struct matrix *x)
{
    const bool dense = is_vector(x);
    dnnl_dims_t dims = {x->rows, x->cols};
    dnnl_dims_t strides = {dense ? x->cols : x->row_stride, dense ? 1 : x->col_stride};

    wf_dnnl_desc_of_strides(d, 2, dims, strides, wf_dnnl_type(x->dtype));
}

static struct packing plan_packing(const struct matrix *x, bool result)
{
    const int64_t count = x->rows * x->cols, step = x->rows > 1 ? x->row_stride : x->col_stride;
    const size_t element = wf_dtypes[x->dtype].size;
    struct packing p = {.scratch = 0};

    if (!is_vector(x) || count == 1 || step == 1) return p;
    p.scratch = wf_scratch_round_up((size_t)count * element);
    wf_strided_copy_init(&p.copy, &count, result ? &(int64_t){1} : &step,
                         result ? &step : &(int64_t){1}, 1, element);
    return p;
}

/** The primitive, NULL where oneDNN has no kernel for this machine but its plain reference. */
static dnnl_primitive_t primitive_new(dnnl_engine_t engine, const wf_dnnl_desc *d, bool bias)
{
    dnnl_primitive_desc_t plan;
    dnnl_primitive_t primitive = NULL;
    const char *kernel = NULL;

    if (make_primitive_desc(&plan, engine, d, bias) != dnnl_success) return NULL;
    TRY(dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, (void *)&kernel));
    if (strncmp(kernel, "ref", 3) != 0) TRY(dnnl_primitive_create(&primitive, plan));
    TRY(dnnl_primitive_desc_destroy(plan));
    return primitive;
}

static bool primitives_make(struct wf_dnnl_product *p, const struct wf_gemm *g,
                            const wf_dnnl_desc *d)
{
    p->primitive[0] = primitive_new(p->engine, d, false);
    if (!p->primitive[0]) return false;
    if (g->bias) p->primitive[1] = primitive_new(p->engine, d, true);
    return !g->bias || p->primitive[1];
}

struct wf_dnnl_product *wf_dnnl_product_new(const struct wf_gemm *g)
{
    const struct matrix operands[ARGS] = {
        [ARG_A] = matrix_of(g->m, g->k, g->lda, g->ta, g->dtype),
        [ARG_B] = matrix_of(g->k, g->n, g->ldb, g->tb, g->dtype),
        [ARG_C] = matrix_of(g->m, g->n, g->ldc, false, g->wide ? WEFT_F32 : g->dtype),
        [ARG_BIAS] = matrix_of(1, g->n, g->n, false, g->dtype)};
    struct wf_dnnl_product *p = WF_NEW(struct wf_dnnl_product);
    int before = wf_dnnl_limit_threads();
    wf_dnnl_desc d[ARGS];
    bool served;

    TRY(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    TRY(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    for (int i = 0; i < ARGS; i++) {
        describe_matrix(&d[i], &operands[i]);
        TRY(dnnl_memory_create(&p->memory[i], wf_dnnl_ref(&d[i]), p->engine, DNNL_MEMORY_NONE));
        p->packing[i] = plan_packing(&operands[i], i == ARG_C);
    }
    served = primitives_make(p, g, d);
    for (int i = 0; i < ARGS; i++) wf_dnnl_desc_free(&d[i]);
    wf_dnnl_restore_threads(before);
    if (served) return p;
    wf_dnnl_product_free(p);
    return NULL;
}

size_t wf_dnnl_product_scratch(const struct wf_dnnl_product *p)
{
    size_t scratch = 0;

    for (int i = 0; i < ARGS; i++) scratch += p->packing[i].scratch;
    return scratch;
}

void wf_dnnl_product_run(struct wf_dnnl_product *p, const void *a, const void *b, const void *bias,
                         void *c, char *scratch)
{
    const void *data[ARGS] = {a, b, c, bias};
    const void *packed_c = NULL;
    int before = wf_dnnl_limit_threads(), n = bias ? ARGS : ARGS - 1;
    dnnl_exec_arg_t args[ARGS];

    for (int i = 0; i < n; i++) {
        const struct packing *packing = &p->packing[i];
        void *p_data;

        memcpy(&p_data, &data[i], sizeof p_data); /* oneDNN's handles know no const */
        if (packing->scratch) {
            p_data = scratch;
            scratch += packing->scratch;
        }
        if (packing->scratch && i != ARG_C) wf_strided_copy_run(&packing->copy, p_data, data[i]);
        if (packing->scratch && i == ARG_C) packed_c = p_data;
        TRY(dnnl_memory_set_data_handle(p->memory[i], p_data));
        args[i] = (dnnl_exec_arg_t){arg_names[i], p->memory[i]};
    }
    TRY(dnnl_primitive_execute(p->primitive[bias != NULL], p->stream, n, args));
    TRY(dnnl_stream_wait(p->stream));
    if (packed_c) wf_strided_copy_run(&p->packing[ARG_C].copy, c, packed_c);
    wf_dnnl_restore_threads(before);
}

void wf_dnnl_product_free(struct wf_dnnl_product *p)
{
    if (!p) return;
    for (int i = 0; i < 2; i++)
        if (p->primitive[i]) TRY(dnnl_primitive_destroy(p->primitive[i]));
    for (int i = 0; i < ARGS; i++) TRY(dnnl_memory_destroy(p->memory[i]));
    TRY(dnnl_stream_destroy(p->stream));
    TRY(dnnl_engine_destroy(p->engine));
    wf_free(p);
}
