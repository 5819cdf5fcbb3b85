/*
 * cublaslt.cc: a stand-in for libcublasLt, with the functions that products call
 * (src/kernels/cuda/products/cublaslt.cu). It multiplies by plain loops and refuses what the manual
 * does not allow: layouts that do not fit each other, pointers less aligned than was promised, a
 * workspace that is missing, algorithms that were not given for these layouts, epilogues that are
 * not used here or not with these types, and a bias of another type. Of bf16 and f16 it has no f32
 * result with a bias, as the library has none of a bias of 16 bits. A program in which nobody
 * called it fails at its end.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <deque>

#include <cublasLt.h>
#include <cuda_fp16.h>

namespace
{

enum { WORKSPACE = 4096 };

struct layout {
    cudaDataType type;
    int64_t rows, columns, ld, stride;
    int32_t batches;
};
struct description {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t turn_a, turn_b, bias_type;
    uint32_t epilogue;
    void *bias; /* read, or a sum over k */
    int64_t aux_ld;
    void *aux; /* the product before its activation */
};
struct preference {
    uint64_t workspace;
    uint32_t alignment[4], reductions;
};
/* What an algorithm was given for. */
struct algorithm {
    description desc;
    layout a, b, c;
    uint32_t alignment[4];
    uint64_t workspace;
};

template <class Handle, class Of> cublasStatus_t make(Handle *handle, Of of)
{
    *handle = reinterpret_cast<Handle>(new Of(of));
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t set(T &to, const void *from, size_t bytes)
{
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&to, from, sizeof to);
    return CUBLAS_STATUS_SUCCESS;
}

double element(cudaDataType type, const void *x, int64_t i)
{
    if (type == CUDA_R_64F) return static_cast<const double *>(x)[i];
    if (type == CUDA_R_32F) return static_cast<const float *>(x)[i];
    if (type == CUDA_R_16F)
        return static_cast<float>(__half(static_cast<const __half_raw *>(x)[i]));
    uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t *>(x)[i]) << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

void store(cudaDataType type, void *x, int64_t i, double value)
{
    float narrow = static_cast<float>(value);
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    if (type == CUDA_R_64F)
        static_cast<double *>(x)[i] = value;
    else if (type == CUDA_R_32F)
        static_cast<float *>(x)[i] = narrow;
    else if (type == CUDA_R_16F)
        static_cast<__half_raw *>(x)[i] = __float2half(narrow);
    else
        static_cast<uint16_t *>(x)[i] =
            static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct epilogue_parts {
    bool known, bias, gelu, aux, gradient, sums;
};

epilogue_parts parts_of(uint32_t e)
{
    epilogue_parts has = {};

    has.bias = e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_GELU_BIAS ||
               e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    has.gradient = e == CUBLASLT_EPILOGUE_DGELU;
    has.aux =
        e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || has.gradient;
    has.gelu = e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS ||
               (has.aux && !has.gradient);
    has.sums = e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
    has.known = e == CUBLASLT_EPILOGUE_DEFAULT || has.bias || has.gelu || has.aux || has.sums;
    return has;
}

/* A bias and a sum over k are of C's type, and that is A's too; there is one for each row, so that
 * batches have the same. Rows of the matrix beside C are a multiple of eight elements apart. */
bool has_epilogue(const description &d, const layout &a, const layout &c)
{
    epilogue_parts has = parts_of(d.epilogue);
    bool more_than_bias = has.gelu || has.aux || has.sums;

    if (d.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
    return has.known && a.type == c.type && c.batches == 1 &&
           (!(has.bias || has.sums) || d.bias_type == c.type) &&
           !(more_than_bias && c.type == CUDA_R_64F) &&
           (!has.aux || (d.aux_ld % 8 == 0 && d.aux_ld >= c.rows));
}

double gelu(double x)
{
    return x / 2 * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

double gelu_derivative(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x), t = tanh(u);

    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

/* Sizes and types of op(A) op(B) = C go together. */
bool fits(const description &d, const layout &a, const layout &b, const layout &c)
{
    int64_t k = d.turn_a ? a.rows : a.columns;
    bool types = a.type == b.type &&
                 (c.type == a.type || a.type == CUDA_R_16BF || a.type == CUDA_R_16F) &&
                 d.scale == (a.type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);

    return types && (d.turn_a ? a.columns : a.rows) == c.rows &&
           (d.turn_b ? b.rows : b.columns) == c.columns && (d.turn_b ? b.columns : b.rows) == k &&
           a.ld >= a.rows && b.ld >= b.rows && c.ld >= c.rows && a.batches == c.batches &&
           b.batches == c.batches && k > 0;
}

bool is_aligned(const void *x, uint32_t to) { return reinterpret_cast<uintptr_t>(x) % to == 0; }

double a_element(const algorithm &of, const void *a, int64_t batch, int64_t i, int64_t l)
{
    return element(of.a.type, a,
                   batch * of.a.stride + (of.desc.turn_a ? l + i * of.a.ld : i + l * of.a.ld));
}

double b_element(const algorithm &of, const void *b, int64_t batch, int64_t l, int64_t j)
{
    return element(of.b.type, b,
                   batch * of.b.stride + (of.desc.turn_b ? j + l * of.b.ld : l + j * of.b.ld));
}

void sum_operand(const algorithm &of, const description &now, const void *a, const void *b)
{
    bool of_a = now.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    int64_t k = of.desc.turn_a ? of.a.rows : of.a.columns;

    for (int64_t i = 0; i < (of_a ? of.c.rows : of.c.columns); i++) {
        double sum = 0;

        for (int64_t l = 0; l < k; l++)
            sum += of_a ? a_element(of, a, 0, i, l) : b_element(of, b, 0, l, i);
        store(of.c.type, now.bias, i, sum);
    }
}

double finish(const algorithm &of, const description &now, int64_t i, int64_t j, double x)
{
    epilogue_parts has = parts_of(now.epilogue);
    int64_t at = i + j * now.aux_ld;

    if (has.gradient) return x * gelu_derivative(element(of.c.type, now.aux, at));
    if (has.aux) store(of.c.type, now.aux, at, x);
    return has.gelu ? gelu(x) : x;
}

/* The bias is added to what was scaled. */
void multiply(const algorithm &of, const description &now, double alpha, const void *a,
              const void *b, const void *added, void *c)
{
    int64_t k = of.desc.turn_a ? of.a.rows : of.a.columns;
    const void *bias = parts_of(now.epilogue).bias ? now.bias : nullptr;

    for (int64_t n = 0; n < of.c.batches * of.c.rows * of.c.columns; n++) {
        int64_t i = n % of.c.rows, j = n / of.c.rows % of.c.columns;
        int64_t batch = n / of.c.rows / of.c.columns;
        double sum = 0;

        for (int64_t l = 0; l < k; l++)
            sum += a_element(of, a, batch, i, l) * b_element(of, b, batch, l, j);
        sum *= alpha;
        if (bias) sum += element(static_cast<cudaDataType>(of.desc.bias_type), bias, i);
        if (added) sum += element(of.c.type, added, batch * of.c.stride + i + j * of.c.ld);
        store(of.c.type, c, batch * of.c.stride + i + j * of.c.ld, finish(of, now, i, j, sum));
    }
    if (parts_of(now.epilogue).sums) sum_operand(of, now, a, b);
}

std::atomic<int> handles; // that are open

struct at_end {
    bool called = false;
    ~at_end()
    {
        if (called && handles == 0) return;
        fprintf(stderr, called ? "%d handles were not destroyed\n" : "nobody has called cuBLASLt\n",
                handles.load());
        _exit(1);
    }
};
at_end here;

template <class Of, class Handle> Of &as(Handle handle) { return *reinterpret_cast<Of *>(handle); }

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    handles++;
    *handle = reinterpret_cast<cublasLtHandle_t>(new int());
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    handles--;
    delete &as<int>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_INVALID_VALUE ? "invalid value" : "not supported";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    description d = {};

    d.compute = compute;
    d.scale = scale;
    d.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return make(desc, d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete &as<description>(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    description &d = as<description>(desc);

    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(d.turn_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(d.turn_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(d.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(d.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set(d.aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set(d.aux_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set(d.bias_type, value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    layout l = {type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld, 0, 1};

    return make(to, l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t of)
{
    delete &as<layout>(of);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        return set(as<layout>(of).batches, value, bytes);
    if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return set(as<layout>(of).stride, value, bytes);
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to)
{
    preference p = {0, {256, 256, 256, 256}, ~0u};

    return make(to, p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t of)
{
    delete &as<preference>(of);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    preference &p = as<preference>(of);

    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(p.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set(p.alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set(p.alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set(p.alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(p.alignment[3], value, bytes);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t wish, int,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    static std::deque<algorithm> given; /* whose elements stay where they are */
    const preference &p = as<preference>(wish);
    const algorithm *kept;
    algorithm one = {as<description>(desc), as<layout>(a), as<layout>(b), as<layout>(c), {}, 0};

    *found = 0;
    if (!fits(one.desc, one.a, one.b, one.c)) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.workspace < WORKSPACE || p.reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
        !has_epilogue(one.desc, one.a, one.c))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(one.alignment, p.alignment, sizeof one.alignment);
    one.workspace = one.a.rows * one.a.columns > 1000 ? WORKSPACE : 0;
    given.push_back(one);
    kept = &given.back();
    results[0] = {};
    memcpy(results[0].algo.data, &kept, sizeof kept);
    results[0].workspaceSize = one.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t, const void *b,
                              cublasLtMatrixLayout_t, const void *beta, const void *c,
                              cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                              cudaStream_t)
{
    const description &now = as<description>(desc);
    const algorithm *of;
    epilogue_parts has = parts_of(now.epilogue);
    bool biased = has.bias || has.sums;
    double factor = element(now.scale, beta, 0);

    memcpy(&of, algo->data, sizeof of);
    if (!handle || (factor != 0 && factor != 1) || (factor == 0 && c != d) ||
        now.turn_a != of->desc.turn_a || now.turn_b != of->desc.turn_b ||
        now.epilogue != of->desc.epilogue || !is_aligned(a, of->alignment[0]) ||
        !is_aligned(b, of->alignment[1]) || !is_aligned(c, of->alignment[2]) ||
        !is_aligned(d, of->alignment[3]) || (biased && !is_aligned(now.bias, 16)) ||
        (biased && now.bias == of->desc.bias) ||
        (has.aux && (!is_aligned(now.aux, 16) || now.aux == of->desc.aux)) ||
        bytes < of->workspace || (of->workspace && (!workspace || !is_aligned(workspace, 16))))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (of->workspace) memset(workspace, 0x7f, of->workspace);
    multiply(*of, now, element(now.scale, alpha, 0), a, b, factor == 0 ? nullptr : c, d);
    here.called = true;
    return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
