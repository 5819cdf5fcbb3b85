/* op_cases.c: the list of samples, and what their text means. */
#include "cases/op_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"
#include "base/hash.h"

#define FLOATS (1u << WEFT_F32 | 1u << WEFT_F64 | 1u << WEFT_BF16 | 1u << WEFT_F16)
#define WHOLES (1u << WEFT_I32 | 1u << WEFT_I64)
#define SMALL (1u << WEFT_U8 | 1u << WEFT_BOOL)
#define SMALL_WHOLES (1u << WEFT_I16 | 1u << WEFT_I8)
#define F32_F64 (1u << WEFT_F32 | 1u << WEFT_F64)
#define WIDE_FLOATS (1u << WEFT_F32 | 1u << WEFT_F64)
#define NUMBERS (FLOATS | WHOLES)
#define NO_ATTR .attr_words = 0
#define NO_SCALAR .scalars.s = {0}
#define ATTRS(kind, ...)                                                                           \
    .attr_words = (int)(sizeof(struct wf_##kind##_attrs) / sizeof(uint64_t)),                      \
    .attrs.kind = {__VA_ARGS__}
#define SHAPE(n, ...)                                                                              \
    .attr_words = WF_ATTR_WORDS(shape, size, n), .attrs.shape = {.size = {__VA_ARGS__}}
/* at, then what the index tensors count; the result's size where nothing is put into */
#define COUNTED(...)                                                                               \
    {                                                                                              \
        __VA_ARGS__, -1                                                                            \
    }
#define INDEX(at_, ...) ATTRS(index, .at = at_, .wrap = true, .dim = COUNTED(__VA_ARGS__))
#define PUT(at_, ...) ATTRS(index_put, .at = at_, .wrap = true, .dim = COUNTED(__VA_ARGS__))
#define PUT_SIZED(at_, dim_, ...)                                                                  \
    ATTRS(index_put, .at = at_, .dim = COUNTED(dim_), .size = {__VA_ARGS__})
#define S(number) .scalars.s = {number}
#define V(number) .scalars.v = {number}
#define XENT(smoothing, z_loss, ignored, classes)                                                  \
    .scalars = {{smoothing, z_loss}, {ignored, classes}}
#define DRAW(s0, s1, seed, draw) .scalars = {{s0, s1}, {seed, draw}}
#define ALL(s0, s1, s2, s3, v0, v1, v2, v3) .scalars = {{s0, s1, s2, s3}, {v0, v1, v2, v3}}
#define ROTARY(backward_, interleaved_, dims_, heads_, scaling_)                                   \
    ATTRS(rotary, .backward = backward_, .interleaved = interleaved_, .dims = dims_,               \
          .heads = heads_, .scaling = scaling_, .base = 100, .factor = 4, .low = 1, .high = 4,     \
          .length = 64)
#define WT_OP(id, operands_, dtypes_, attributes, numbers)                                         \
    {.op = WF_OP_##id, .operands = operands_, .dtypes = dtypes_, attributes, numbers},

const struct wt_op_case wt_op_cases[] = {
#include "cases/ops.def"
};
const int wt_op_case_count = (int)(sizeof wt_op_cases / sizeof *wt_op_cases);

double wt_noise(uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(wf_hash_mix(wf_hash_mix(wf_hash_mix(12345, a), b), c) >> 11) * 0x1p-53;
}

double wt_rounded(weft_dtype dtype, double value)
{
    char element[8];

    wf_dtypes[dtype].store(element, value);
    return wf_dtypes[dtype].load(element);
}

static weft_dtype dtype_of(char domain, weft_dtype dtype)
{
    switch (domain) {
    case 'c':
        return WEFT_BOOL;
    case 'i':
    case 'e':
        return WEFT_I32;
    case 'l':
        return WEFT_I64;
    case 's':
        return dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    default:
        return dtype;
    }
}

static const char *read_shape(struct wt_operand *operand, const char *text)
{
    operand->numel = 1;
    while (*text != ']') {
        char *end;
        int64_t size = strtoll(text, &end, 10);

        if (end == text) abort();
        operand->shape[operand->ndim++] = size;
        operand->numel *= size;
        text = *end == ',' ? end + 1 : end;
    }
    return text + 1;
}

int wt_operands(struct wt_operand *operands, const struct wt_op_case *sample, weft_dtype dtype)
{
    const char *text = sample->operands;
    int n = 0;

    while (*text) {
        struct wt_operand *operand = &operands[n++];

        *operand = (struct wt_operand){.present = *text != '-', .domain = *text};
        text++;
        if (operand->present) {
            operand->dtype = dtype_of(operand->domain, dtype);
            text = read_shape(operand, text + 1);
        }
        if (*text == '<') operand->below = strtoll(text + 1, NULL, 10);
        while (*text && *text != ' ') text++;
        while (*text == ' ') text++;
    }
    return n;
}

double wt_operand_value(const struct wt_op_case *sample, int i, const struct wt_operand *operand,
                        int64_t at)
{
    /* Of the sample's text, so that a sample that comes or goes changes no other's numbers. */
    const char *name = wf_ops[sample->op].name;
    uint64_t key = wf_hash_mix(wf_hash_bytes(name, strlen(name)),
                               wf_hash_bytes(sample->operands, strlen(sample->operands)));
    double u = wt_noise(key, (uint64_t)i, (uint64_t)at);
    bool whole = !weft_dtype_is_float(operand->dtype), positive = operand->domain != 'x';

    if (operand->domain == 'c') return u < 0.5;
    if (operand->domain == 'e') return (double)((at + 1) * operand->below / operand->numel);
    if (operand->below) return floor(u * (double)operand->below);
    if (operand->dtype == WEFT_U8 || operand->dtype == WEFT_BOOL)
        return floor(u * (operand->dtype == WEFT_U8 ? 5 : 2));
    if (whole) return positive ? 1 + floor(u * 5) : floor(u * 19) - 9;
    if (operand->domain == 'h') return wt_rounded(operand->dtype, 0.1 + 0.8 * u);
    if (operand->domain == 'u') return wt_rounded(operand->dtype, 1.8 * u - 0.9);
    if (operand->domain == 'a') return wt_rounded(operand->dtype, 1.1 + 1.5 * u);
    return wt_rounded(operand->dtype, positive ? 0.5 + 1.5 * u : 3 * u - 1.5);
}

struct wf_op_args wt_op_case_args(const struct wt_op_case *sample)
{
    return (struct wf_op_args){
        .attr_words = sample->attr_words, .attrs = &sample->attrs, .scalars = sample->scalars};
}

const char *wt_op_case_text(const struct wt_op_case *sample, weft_dtype dtype)
{
    static _Thread_local char text[256];

    snprintf(text, sizeof text, "%s (%s) %s", wf_ops[sample->op].name, sample->operands,
             weft_dtype_name(dtype));
    return text;
}
