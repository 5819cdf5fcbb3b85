/*
 * chain.c: the loop of chain.h. A block of elements is in registers while all formulas are applied
 * to it; the choice of the formula is made once per block. Formulas are those of pointwise.def.
 */
#include "kernels/cpu/pointwise/chain.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

/* As many vectors as leave room for another operand. */
#if defined(__AVX512F__)
enum { VECTOR = 16, VECTORS = 8 };
#elif defined(__AVX2__)
enum { VECTOR = 8, VECTORS = 8 };
#else
enum { VECTOR = 4, VECTORS = 8 };
#endif
enum { BLOCK = VECTOR * VECTORS, MOST_OPS = 64 };

typedef float vector __attribute__((vector_size(VECTOR * sizeof(float)), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(VECTOR * sizeof(int)), aligned(4), may_alias));

#define AT(p, i) (*(const vector *)(const void *)((p) + (i)*VECTOR))
#define EACH(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7)

#define LOAD(i) vector r##i = AT(from, i);
#define STORE(i) *(vector *)(void *)(op->to + at + (i)*VECTOR) = r##i;
#if defined(__AVX512F__)
#define STORE_FAR(i) _mm512_stream_ps(op->to + at + (i)*VECTOR, (__m512)r##i);
#elif defined(__AVX2__)
#define STORE_FAR(i) _mm256_stream_ps(op->to + at + (i)*VECTOR, (__m256)r##i);
#elif defined(__SSE2__)
#define STORE_FAR(i) _mm_stream_ps(op->to + at + (i)*VECTOR, (__m128)r##i);
#else
#define STORE_FAR(i) STORE(i)
#endif
#define NEG(i) r##i = -r##i;
#define ABS(i) r##i = (vector)((bits)r##i & 0x7fffffff);
#define RELU(i) r##i = (vector)((bits)r##i & ~(r##i < 0));
#define SQUARE(i) r##i = r##i * r##i;
#define ADD_SCALAR(i) r##i = r##i + s;
#define RSUB_SCALAR(i) r##i = s - r##i;
#define MUL_SCALAR(i) r##i = r##i * s;
#define DIV_SCALAR(i) r##i = r##i / s;
#define ADD(i) r##i = r##i + AT(b, i);
#define MUL(i) r##i = r##i * AT(b, i);
#define SUB(i) r##i = r##i - AT(b, i);
#define DIV(i) r##i = r##i / AT(b, i);
#define SUB_FROM(i) r##i = AT(b, i) - r##i;
#define DIV_INTO(i) r##i = AT(b, i) / r##i;
#define CASE(code)                                                                                 \
    case WF_CHAIN_##code:                                                                          \
        EACH(code)                                                                                 \
        break;

static void run_block(int64_t at, const float *from, const struct wf_chain_op *ops, int n_ops)
{
    EACH(LOAD)

    for (const struct wf_chain_op *op = ops; op < ops + n_ops; op++) {
        const float s = op->s;
        const float *b = op->array ? op->array + at : from;

        switch (op->code) {
            CASE(STORE)
            CASE(STORE_FAR)
            CASE(NEG)
            CASE(ABS)
            CASE(RELU)
            CASE(SQUARE)
            CASE(ADD_SCALAR)
            CASE(RSUB_SCALAR)
            CASE(MUL_SCALAR)
            CASE(DIV_SCALAR)
            CASE(ADD)
            CASE(MUL)
            CASE(SUB)
            CASE(DIV)
            CASE(SUB_FROM)
            CASE(DIV_INTO)
        case WF_CHAIN_NONE:
            break;
        }
    }
}

/* The elements that are left, as a block of which the rest is not stored. */
static void run_rest(int64_t at, int64_t n, const float *from, const struct wf_chain_op *ops,
                     int n_ops)
{
    float first[BLOCK] = {0}, arrays[MOST_OPS / 8][BLOCK], kept[MOST_OPS / 8][BLOCK];
    struct wf_chain_op some[MOST_OPS] = {{WF_CHAIN_NONE, 0, NULL, NULL}};
    size_t bytes = (size_t)n * sizeof(float);
    int n_arrays = 0, n_kept = 0;

    memcpy(first, from, bytes);
    memset(arrays, 0, sizeof arrays);
    for (int k = 0; k < n_ops; k++) {
        some[k] = ops[k];
        if (ops[k].array) {
            memcpy(arrays[n_arrays], ops[k].array + at, bytes);
            some[k].array = arrays[n_arrays++];
        }
        if (!ops[k].to) continue;
        some[k].code = WF_CHAIN_STORE;
        some[k].to = kept[n_kept++];
    }
    run_block(0, first, some, n_ops);
    for (int k = 0; k < n_ops; k++)
        if (ops[k].to) memcpy(ops[k].to + at, some[k].to, bytes);
}

static void run(int64_t n, const float *from, const struct wf_chain_op *ops, int n_ops)
{
    int64_t at = 0;

    for (; at + BLOCK <= n; at += BLOCK) run_block(at, from + at, ops, n_ops);
    if (at < n) run_rest(at, n - at, from + at, ops, n_ops);
}

const struct wf_chain_loops WF_ISA_NAME(wf_chain_loops) = {run};
