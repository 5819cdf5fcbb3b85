/* shards.c: boxes, terms, and what they make up. */
#include "rules/shards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elements/dtype.h"

void *wt_room(const struct wf_tensor_desc *box)
{
    size_t bytes = (size_t)box->numel * wf_dtypes[box->dtype].size;
    void *room = malloc(bytes + 1);

    if (!room) abort();
    memset(room, 0x5a, bytes + 1);
    return room;
}

/* Split row-major index `at` of the box into one per dim. */
static void split_index(int64_t *index, const struct wf_tensor_desc *box, int64_t at)
{
    for (int d = box->ndim - 1; d >= 0; d--) {
        index[d] = at % box->shape[d];
        at /= box->shape[d];
    }
}

/* A part that is no box has runs. */
static int64_t global_index(const struct wf_tensor_desc *box, int d, int64_t index)
{
    const struct wf_index_range *run;

    if (!box->runs) return index + box->offset[d];
    for (run = box->runs->of[d]; index >= run->size; run++) index -= run->size;
    return run->offset + index;
}

static int64_t global_at(const struct wf_tensor_desc *box, int64_t at)
{
    int64_t index[WEFT_MAX_DIMS], position = 0;

    split_index(index, box, at);
    for (int d = 0; d < box->ndim; d++)
        position = position * box->global[d] + global_index(box, d, index[d]);
    return position;
}

static double reduced(weft_reduce reduce, double a, double b)
{
    switch (reduce) {
    case WEFT_PRODUCT:
        return a * b;
    case WEFT_MAX:
        return a > b ? a : b;
    case WEFT_MIN:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

/* Any term for all ranks but the last. */
static double free_term(const struct wt_operand *operand, int i, weft_reduce reduce, double value,
                        int64_t at, int rank)
{
    double u = wt_noise((uint64_t)i + 1000, (uint64_t)at, (uint64_t)rank);

    if (!weft_dtype_is_float(operand->dtype)) return floor(20 * u) - 10;
    if (reduce == WEFT_MAX) return wt_rounded(operand->dtype, value - u);
    if (reduce == WEFT_MIN) return wt_rounded(operand->dtype, value + u);
    return wt_rounded(operand->dtype, reduce == WEFT_PRODUCT ? 0.5 + u : 2 * u - 1);
}

/* What makes the other ranks' terms the value. */
static double last_term(const struct wt_operand *operand, int i, weft_reduce reduce, double value,
                        int64_t at, int ranks)
{
    double others = reduce == WEFT_PRODUCT ? 1 : 0;

    if (reduce == WEFT_MAX || reduce == WEFT_MIN) return value;
    for (int r = 0; r < ranks - 1; r++)
        others = reduced(reduce, others, free_term(operand, i, reduce, value, at, r));
    if (reduce == WEFT_PRODUCT) return value / others;
    return (reduce == WEFT_AVG ? value * ranks : value) - others;
}

static double term(const struct wt_operand *operand, int i, weft_reduce reduce, double value,
                   int64_t at, int rank, int ranks)
{
    if (reduce == WEFT_MASKED) return at % ranks == rank ? value : 0;
    return rank < ranks - 1 ? free_term(operand, i, reduce, value, at, rank)
                            : last_term(operand, i, reduce, value, at, ranks);
}

void *wt_cut(const struct wt_op_case *sample, int i, const struct wt_operand *operand,
             const struct wf_layout *layout, int rank, int ranks)
{
    const struct wf_dtype_info *type = &wf_dtypes[operand->dtype];
    char *data = wt_room(&layout->desc);

    for (int64_t e = 0; e < layout->desc.numel; e++) {
        int64_t at = global_at(&layout->desc, e);
        double value = wt_operand_value(sample, i, operand, at);

        if (layout->partial)
            value =
                term(operand, i, (weft_reduce)layout->placements[0].reduce, value, at, rank, ranks);
        type->store(data + (size_t)e * type->size, value);
    }
    return data;
}

double *wt_read_box(const struct wf_tensor_desc *box, const int64_t *stride, const void *data)
{
    const struct wf_dtype_info *type = &wf_dtypes[box->dtype];
    double *values = malloc(((size_t)box->numel + 1) * sizeof *values);

    if (!values) abort();
    for (int64_t e = 0; e < box->numel; e++) {
        int64_t index[WEFT_MAX_DIMS], at = 0;

        split_index(index, box, e);
        for (int d = 0; d < box->ndim; d++) at += index[d] * stride[d];
        values[e] = type->load((const char *)data + at * (int64_t)type->size);
    }
    return values;
}

/* 8 to 12 roundings: of the inputs' terms, of what lies between, of the result. */
static double tolerance_of(weft_dtype dtype)
{
    static const double bounds[WEFT_DTYPE_COUNT] = {[WEFT_F32] = 2e-5,
                                                    [WEFT_F64] = 1e-11,
                                                    [WEFT_BF16] = 0.03,
                                                    [WEFT_F16] = 0.006,
                                                    [WEFT_C64] = 2e-5};

    return bounds[dtype];
}

static bool near(double got, double want, double allowed)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= allowed;
}

static double allowed_of(double want, weft_dtype dtype)
{
    return tolerance_of(dtype) * (1 + fabs(want));
}

/* What a term of a sum may lose when it is rounded to nearest: terms that cancel are larger than
 * what they add up to, and bf16 keeps 8 bits of each, f16 11. */
static double rounding_of(double term, weft_dtype dtype, weft_reduce reduce)
{
    bool added = reduce == WEFT_SUM || reduce == WEFT_AVG;

    if (!added || !wf_dtype_is_16_bit_float(dtype)) return 0;
    return ldexp(fabs(term), dtype == WEFT_BF16 ? -8 : -11);
}

static int64_t global_numel(const struct wf_tensor_desc *box)
{
    int64_t n = 1;

    for (int d = 0; d < box->ndim; d++) n *= box->global[d];
    return n;
}

/* The norm of what are norms themselves. */
static bool norms_equal(const double *const *parts, const struct wf_tensor_desc *box, int ranks,
                        double p, const double *want)
{
    for (int64_t e = 0; e < global_numel(box); e++) {
        double sum = 0;

        for (int r = 0; r < ranks; r++) sum += pow(fabs(parts[r][e]), p);
        if (!near(pow(sum, 1 / p), want[e], ranks * allowed_of(want[e], (weft_dtype)box->dtype)))
            return false;
    }
    return true;
}

static bool terms_equal(const double *const *parts, const struct wf_tensor_desc *box, int ranks,
                        weft_reduce reduce, const double *want)
{
    weft_dtype dtype = (weft_dtype)box->dtype;

    for (int64_t e = 0; e < global_numel(box); e++) {
        double value = parts[0][e], lost = rounding_of(value, dtype, reduce);
        int terms = value != 0;

        for (int r = 1; r < ranks; r++) {
            value = reduced(reduce, value, parts[r][e]);
            lost += rounding_of(parts[r][e], dtype, reduce);
            terms += parts[r][e] != 0;
        }
        if (reduce == WEFT_MASKED && terms > 1) return false;
        if (reduce == WEFT_AVG) value /= ranks;
        if (!near(value, want[e], allowed_of(want[e], dtype) + lost)) return false;
    }
    return true;
}

bool wt_glued_equals(const double *const *parts, const struct wf_tensor_desc *const *boxes,
                     int ranks, weft_placement placement, const double *want)
{
    int64_t covered = 0;

    if (placement.kind == WEFT_KIND_PARTIAL && placement.reduce == WEFT_NORM && placement.p != 0)
        return norms_equal(parts, boxes[0], ranks, (double)placement.p, want);
    if (placement.kind == WEFT_KIND_PARTIAL)
        return terms_equal(parts, boxes[0], ranks, (weft_reduce)placement.reduce, want);
    for (int r = 0; r < ranks; r++) {
        for (int64_t e = 0; e < boxes[r]->numel; e++)
            if (!near(parts[r][e], want[global_at(boxes[r], e)],
                      allowed_of(want[global_at(boxes[r], e)], (weft_dtype)boxes[r]->dtype)))
                return false;
        covered += boxes[r]->numel;
    }
    return covered == global_numel(boxes[0]) * (placement.kind == WEFT_KIND_REPLICATE ? ranks : 1);
}
