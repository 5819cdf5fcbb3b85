/*
 * search_sorted.c: how many elements of a sorted row come before each value.
 *
 *   y[i..] = how many of sorted[i.., :] are < values[i..], with `right` <=
 *
 * NaN comes after all numbers.
 */
#include "base/elements/dtype.h"
#include "base/error.h"
#include "base/mem.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/pointwise/elementwise.h"
#include "kernels/cpu/scratch.h"
#include "kernels/operands/operand_checks.h"

typedef int64_t count_before(const void *sorted, int64_t n, const void *value, bool right);

/* `a` comes before `b`. */
#define COUNT_BEFORE(name, type, before)                                                           \
    static int64_t name(const void *sortedv, int64_t n, const void *valuev, bool right)            \
    {                                                                                              \
        const type *sorted = sortedv, value = *(const type *)valuev;                               \
        int64_t low = 0, high = n;                                                                 \
                                                                                                   \
        while (low < high) {                                                                       \
            int64_t middle = low + (high - low) / 2;                                               \
            type a = right ? value : sorted[middle], b = right ? sorted[middle] : value;           \
                                                                                                   \
            if ((before) != right)                                                                 \
                low = middle + 1;                                                                  \
            else                                                                                   \
                high = middle;                                                                     \
        }                                                                                          \
        return low;                                                                                \
    }
COUNT_BEFORE(count_f32, float, a < b || (b != b && a == a))
COUNT_BEFORE(count_f64, double, a < b || (b != b && a == a))
COUNT_BEFORE(count_i64, int64_t, a < b)
COUNT_BEFORE(count_i32, int32_t, a < b)
COUNT_BEFORE(count_u8, uint8_t, a < b)
COUNT_BEFORE(count_i16, int16_t, a < b)
COUNT_BEFORE(count_i8, int8_t, a < b)

static int64_t count_16_bit_floats(const void *sorted, int64_t n, const void *value, bool right,
                                   double (*load)(const void *element))
{
    double v = load(value);
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double s = load((const char *)sorted + 2 * middle);
        double a = right ? v : s, b = right ? s : v;

        if ((a < b || (b != b && a == a)) != right)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int64_t count_bf16(const void *sorted, int64_t n, const void *value, bool right)
{
    return count_16_bit_floats(sorted, n, value, right, wf_dtypes[WEFT_BF16].load);
}

static int64_t count_f16(const void *sorted, int64_t n, const void *value, bool right)
{
    return count_16_bit_floats(sorted, n, value, right, wf_dtypes[WEFT_F16].load);
}

static count_before *const counts[WEFT_DTYPE_COUNT] = {
    [WEFT_F32] = count_f32, [WEFT_F64] = count_f64,   [WEFT_I64] = count_i64,
    [WEFT_I32] = count_i32, [WEFT_U8] = count_u8,     [WEFT_I16] = count_i16,
    [WEFT_I8] = count_i8,   [WEFT_BF16] = count_bf16, [WEFT_F16] = count_f16};

struct search {
    struct wf_operand sorted, values;
    count_before *count;
    int64_t bytes, n;      /* of an element; of a sorted row */
    int64_t rows, per_row; /* sorted rows, and values of each */
};

static void search_free(void *prep)
{
    struct search *p = prep;

    wf_operand_free(&p->sorted);
    wf_operand_free(&p->values);
    wf_scratch_release();
    wf_free(p);
}

static void run_search(const struct wf_kernel_call *k, void *const *out, const void *const *in,
                       const struct wf_scalars *scalars)
{
    const struct search *p = k->prep;
    char *scratch = wf_scratch_buffer();
    const char *sorted = wf_operand_copy_if_needed(&p->sorted, in[0], scratch);
    const char *value = wf_operand_copy_if_needed(&p->values, in[1],
                                                  scratch + wf_scratch_round_up(p->sorted.scratch));
    bool right = k->attrs->search.right;
    int64_t *y = out[0];

    (void)scalars;
    for (int64_t r = 0; r < p->rows; r++, sorted += p->n * p->bytes)
        for (int64_t i = 0; i < p->per_row; i++, value += p->bytes)
            *y++ = p->count(sorted, p->n, value, right);
}

weft_status wf_cpu_search_sorted(struct wf_kernel_call *k)
{
    const struct wf_tensor_desc *sorted = k->in[0], *values = k->in[1];
    struct search *p;

    if (!counts[sorted->dtype] || sorted->dtype != values->dtype)
        return wf_fail_no_kernel(k, sorted->dtype);
    k->prep = p = WF_NEW(struct search);
    k->drop = search_free;
    p->count = counts[sorted->dtype];
    p->bytes = wf_dtypes[sorted->dtype].size;
    p->n = sorted->shape[sorted->ndim - 1];
    p->rows = 1;
    for (int d = 0; d < sorted->ndim - 1; d++) p->rows *= sorted->shape[d];
    p->per_row = p->rows ? values->numel / p->rows : 0;
    wf_operand_prepare_dense(&p->sorted, sorted);
    wf_operand_prepare_dense(&p->values, values);
    wf_scratch_reserve(wf_scratch_round_up(p->sorted.scratch) + p->values.scratch);
    k->run = k->out[0]->numel ? run_search : wf_kernel_run_noop;
    return WEFT_OK;
}
