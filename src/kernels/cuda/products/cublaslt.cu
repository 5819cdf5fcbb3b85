/*
 * cublaslt.cu: products by cuBLASLt.
 *
 * The library is opened when the first product is prepared, so a program without it runs on our own
 * kernels. cuBLASLt's matrices are column-major: row-major C = op(A) op(B) is its C^T = op(B)^T
 * op(A)^T, so B comes first. What to run is asked of its heuristics once per plan, for operands
 * that begin at multiples of 16 bytes. A bias, an activation or its gradient and the sum over k are
 * in its epilogue; what is added to the product is its C, and a scale its alpha. Partial sums of a
 * split k are not rounded to the output's type.
 */
#include "kernels/cuda/products/cublaslt.h"

#include <cublasLt.h>

#undef WF_LOG /* the logarithm of element.h; here lines are logged */
extern "C" {
#include "base/load_once.h"
#include "base/log.h"
#include "base/settings/knob.h"
}

namespace
{

enum { ALIGNMENT = 16 };
const size_t MOST_WORKSPACE = (size_t)32 << 20;

/* The library's functions. */
struct lt_functions {
#define WF_CUBLASLT(name) decltype(&cublasLt##name) name;
#include "kernels/cuda/products/cublaslt.def"
#undef WF_CUBLASLT
};
lt_functions functions;
struct wf_load_state loaded = WF_LOAD_ONCE_INIT;

#define LT_TEXT_OF(number) LT_TEXT(number)
#define LT_TEXT(number) #number
const char file_name[] = "libcublasLt.so." LT_TEXT_OF(CUBLAS_VER_MAJOR);

bool load(char *why)
{
    const wf_wanted_function wanted[] = {
#define WF_CUBLASLT(name) {"cublasLt" #name, &functions.name},
#include "kernels/cuda/products/cublaslt.def"
#undef WF_CUBLASLT
    };
    void *object = wf_open_object(file_name, why);
    bool there = object && !wf_find_functions(object, wanted, sizeof wanted / sizeof *wanted);

    if (!there)
        WF_LOG(WF_LOG_WARN, "kernels",
               "products run on the library's own kernels, which are slower: no %s: %s", file_name,
               why);
    return there;
}

const lt_functions &library() { return functions; }

/* This rank's: a rank is a thread and keeps to one device, until it gives that back. */
thread_local struct {
    cublasLtHandle_t handle; /* NULL: the library cannot be used */
    bool asked;
} lt_of_rank;

void close_cublaslt()
{
    if (lt_of_rank.handle) library().Destroy(lt_of_rank.handle);
    lt_of_rank = {};
}

cublasLtHandle_t cublaslt_handle_of_rank()
{
    if (lt_of_rank.asked) return lt_of_rank.handle;
    lt_of_rank.asked = true;
    if (wf_load_once(&loaded, load) &&
        library().Create(&lt_of_rank.handle) != CUBLAS_STATUS_SUCCESS) {
        lt_of_rank.handle = NULL;
        WF_LOG(WF_LOG_WARN, "kernels",
               "products run on the library's own kernels, which are slower: cublasLtCreate fails");
    }
    wf_cuda_at_close(close_cublaslt);
    return lt_of_rank.handle;
}

/* One way to call the library, with or without a bias. */
struct lt_call {
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulHeuristicResult_t found;
};

} // namespace

struct cublaslt_product {
    cublasLtHandle_t handle;
    bool wide_scale; /* factors are f64 */
    bool adds;       /* a matrix to the product; never of f64 */
    bool sums, has_aux;
    cublasLtMatrixLayout_t a, b, c;
    lt_call plain, with_bias; /* with_bias.desc: NULL where there is no bias */
    const char *op;
};

namespace
{

cudaDataType_t lt_type(uint8_t dtype)
{
    if (dtype == WEFT_F64) return CUDA_R_64F;
    if (dtype == WEFT_F32) return CUDA_R_32F;
    return dtype == WEFT_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

cublasComputeType_t compute_type(uint8_t dtype)
{
    if (dtype == WEFT_F64) return CUBLAS_COMPUTE_64F;
    return dtype == WEFT_F32 && wf_knobs.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
bool set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const T &value)
{
    return library().MatmulDescSetAttribute(desc, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
}

template <class T>
bool set_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                const T &value)
{
    return library().MatrixLayoutSetAttribute(layout, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
}

template <class T>
bool set_preference(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute,
                    const T &value)
{
    return library().MatmulPreferenceSetAttribute(p, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
}

/* The column-major matrix of a row-major one, `stride` elements apart in a batch. */
bool make_layout(cublasLtMatrixLayout_t *layout, uint8_t dtype, int64_t rows, int64_t columns,
                 int64_t ld, int64_t batches, int64_t stride)
{
    if (library().MatrixLayoutCreate(layout, lt_type(dtype), (uint64_t)columns, (uint64_t)rows,
                                     ld) != CUBLAS_STATUS_SUCCESS)
        return false;
    return batches == 1 ||
           (set_layout(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, (int32_t)batches) &&
            set_layout(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride));
}

int64_t batch_stride(const product_operand &o) { return o.batch.n_dims ? o.batch.step[0] : 0; }

bool make_layouts(cublaslt_product *p, const product_shape &s)
{
    uint8_t out = s.wide ? (uint8_t)WEFT_F32 : s.dtype;

    return make_layout(&p->a, s.dtype, s.a.turned ? s.k : s.m, s.a.turned ? s.m : s.k, s.a.ld,
                       s.batches, batch_stride(s.a)) &&
           make_layout(&p->b, s.dtype, s.b.turned ? s.n : s.k, s.b.turned ? s.k : s.n, s.b.ld,
                       s.batches, batch_stride(s.b)) &&
           make_layout(&p->c, out, s.m, s.n, s.n, s.batches, s.m * s.n);
}

/* The library's epilogue. Its A is our B. */
cublasLtEpilogue_t cublaslt_epilogue(const product_shape &s, bool bias)
{
    if (s.summed)
        return s.summed == WF_SUMMED_LEFT ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    switch (s.epilogue) {
    case WF_EPILOGUE_GELU_TANH:
        if (s.keeps_product)
            return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
        return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case WF_EPILOGUE_GELU_TANH_GRAD:
        return CUBLASLT_EPILOGUE_DGELU;
    default:
        return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

bool uses_bias_pointer(const product_shape &s, bool bias) { return bias || s.summed; }

/* A matrix beside the result, of its shape and type. */
bool uses_aux(const product_shape &s)
{
    return s.epilogue == WF_EPILOGUE_GELU_TANH_GRAD ||
           (s.epilogue == WF_EPILOGUE_GELU_TANH && s.keeps_product);
}

bool make_desc(lt_call *call, const product_shape &s, bool bias)
{
    cublasOperation_t of_a = s.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t of_b = s.b.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType_t scale = s.dtype == WEFT_F64 ? CUDA_R_64F : CUDA_R_32F;
    const void *aligned = (const void *)(uintptr_t)ALIGNMENT;

    if (library().MatmulDescCreate(&call->desc, compute_type(s.dtype), scale) !=
            CUBLAS_STATUS_SUCCESS ||
        !set_desc(call->desc, CUBLASLT_MATMUL_DESC_TRANSA, of_b) ||
        !set_desc(call->desc, CUBLASLT_MATMUL_DESC_TRANSB, of_a))
        return false;
    if (!set_desc(call->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, cublaslt_epilogue(s, bias)))
        return false;
    if (uses_bias_pointer(s, bias) &&
        (!set_desc(call->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, lt_type(s.dtype)) ||
         !set_desc(call->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned)))
        return false;
    return !uses_aux(s) ||
           (set_desc(call->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)s.n) &&
            set_desc(call->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned));
}

bool set_preferences(cublasLtMatmulPreference_t p)
{
    uint32_t alignment = ALIGNMENT, reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    return set_preference(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, MOST_WORKSPACE) &&
           set_preference(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions) &&
           set_preference(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) &&
           set_preference(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) &&
           set_preference(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) &&
           set_preference(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
}

bool find_algorithm(const cublaslt_product *p, lt_call *call)
{
    const lt_functions &lt = library();
    cublasLtMatmulPreference_t preference;
    int found = 0;

    if (lt.MatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return false;
    if (!set_preferences(preference) ||
        lt.MatmulAlgoGetHeuristic(p->handle, call->desc, p->b, p->a, p->c, p->c, preference, 1,
                                  &call->found, &found) != CUBLAS_STATUS_SUCCESS)
        found = 0;
    lt.MatmulPreferenceDestroy(preference);
    return found > 0 && call->found.state == CUBLAS_STATUS_SUCCESS;
}

bool make_product(cublaslt_product *p, const product_shape &s)
{
    return make_layouts(p, s) && make_desc(&p->plain, s, false) && find_algorithm(p, &p->plain) &&
           (!s.has_bias || (make_desc(&p->with_bias, s, true) && find_algorithm(p, &p->with_bias)));
}

bool is_gelu(const product_shape &s)
{
    return s.epilogue == WF_EPILOGUE_GELU_TANH || s.epilogue == WF_EPILOGUE_GELU_TANH_GRAD;
}

/* Which epilogues it has: of f32 and 16-bit floats, gelu of the latter alone, since its tanh is
 * right to 1e-4; rows of a matrix beside the result begin at multiples of eight elements. A scale
 * goes with any type and any batch; a bias is added behind it, unscaled. */
bool has_epilogue(const product_shape &s)
{
    if (!s.epilogue && !s.summed) return true;
    if (s.epilogue == WF_EPILOGUE_SCALE) return !s.has_bias;
    if (is_gelu(s) && s.dtype == WEFT_F32) return false;
    return s.dtype != WEFT_F64 && !s.wide && s.batches == 1 &&
           !(s.epilogue == WF_EPILOGUE_ADD && s.keeps_product) && (!uses_aux(s) || s.n % 8 == 0);
}

/* A batch of matrices at equal distances, and a bias without gaps. */
bool fits_library(const product_shape &s)
{
    bool dense_bias = s.bias.n_dims == 0 || (s.bias.n_dims == 1 && s.bias.step[0] == 1);

    return wf_knobs.cublas && has_epilogue(s) && s.a.batch.n_dims <= 1 && s.b.batch.n_dims <= 1 &&
           s.batches <= INT32_MAX && (!s.has_bias || dense_bias);
}

} // namespace

struct cublaslt_product *wf_cublaslt_product_new(const product_shape &shape, const char *op,
                                                 size_t *scratch)
{
    cublasLtHandle_t handle = fits_library(shape) ? cublaslt_handle_of_rank() : NULL;
    struct cublaslt_product *p;

    if (!handle) return NULL;
    p = WF_NEW(struct cublaslt_product);
    p->handle = handle;
    p->wide_scale = shape.dtype == WEFT_F64;
    p->adds = shape.epilogue == WF_EPILOGUE_ADD;
    p->sums = shape.summed != WF_SUMMED_NONE;
    p->has_aux = uses_aux(shape);
    p->op = op;
    if (!make_product(p, shape)) {
        wf_cublaslt_product_free(p);
        return NULL;
    }
    *scratch = p->plain.found.workspaceSize;
    if (shape.has_bias && p->with_bias.found.workspaceSize > *scratch)
        *scratch = p->with_bias.found.workspaceSize;
    return p;
}

void wf_cublaslt_product_free(struct cublaslt_product *p)
{
    const lt_functions &lt = library();

    if (!p) return;
    if (p->plain.desc) lt.MatmulDescDestroy(p->plain.desc);
    if (p->with_bias.desc) lt.MatmulDescDestroy(p->with_bias.desc);
    if (p->a) lt.MatrixLayoutDestroy(p->a);
    if (p->b) lt.MatrixLayoutDestroy(p->b);
    if (p->c) lt.MatrixLayoutDestroy(p->c);
    wf_free(p);
}

bool wf_cublaslt_supports(const struct product_data &d)
{
    return ((uintptr_t)d.a | (uintptr_t)d.b | (uintptr_t)d.bias | (uintptr_t)d.c |
            (uintptr_t)d.read | (uintptr_t)d.kept_product | (uintptr_t)d.sum) %
               ALIGNMENT ==
           0;
}

namespace
{

/* Where the bias and the matrix beside the result are in this call. */
bool set_bias_and_aux_pointers(const cublaslt_product *p, const lt_call &call,
                               const product_data &d)
{
    const void *bias = p->sums ? d.sum : d.bias, *aux = d.read ? d.read : d.kept_product;

    return (!bias || set_desc(call.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)) &&
           (!p->has_aux || set_desc(call.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux));
}

} // namespace

void wf_cublaslt_product_run(const struct cublaslt_product *p, const struct product_data &d)
{
    const lt_functions &lt = library();
    const lt_call &call = d.bias ? p->with_bias : p->plain;
    const float one = 1, zero = 0, scale = (float)d.scale;
    const double wide_zero = 0;
    const void *alpha = p->wide_scale ? (const void *)&d.scale : &scale;
    const void *beta = p->adds ? &one : p->wide_scale ? (const void *)&wide_zero : &zero;
    cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;

    if (set_bias_and_aux_pointers(p, call, d))
        status = lt.Matmul(p->handle, call.desc, alpha, d.b, p->b, d.a, p->a, beta,
                           p->adds ? d.read : d.c, p->c, d.c, p->c, &call.found.algo, d.scratch,
                           call.found.workspaceSize, wf_cuda_compute_stream());
    if (status != CUBLAS_STATUS_SUCCESS)
        WF_DIE("%s: cublasLtMatmul: %s", p->op, lt.GetStatusString(status));
}
