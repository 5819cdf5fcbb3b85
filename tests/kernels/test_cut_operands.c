/*
 * test_cut_operands.c: a kernel gives the same bits for a whole operand and for the operand cut
 * into parts. Some elements of a part lie after its last whole vector, while the same elements of
 * the whole lie within a vector. issue 37, 5
 */
#include "base/int_math.h"
#include "cases.h"
#include "pointwise_rows.h"

enum { N = 203, MOST_IN = 3 };
static const int64_t lengths[] = {1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 23, 31, 32, 33, 50, 101};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* Ordinary numbers, with small, large and special ones among them. */
static void fill(struct operand *x, uint64_t seed)
{
    static const double sizes[] = {1, 3, 1, 20, 1e-3, 1, 200, 1, 1e-30, 7, 1e5};
    static const double specials[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-42, 3e38};
    uint64_t state = seed * 977 + 3;

    for (int64_t i = 0; i < x->desc.numel; i++) {
        x->values[i] = noise(&state) * sizes[(size_t)i % (sizeof sizes / sizeof *sizes)];
        if (i % 9 == (int64_t)seed)
            x->values[i] = specials[(size_t)i / 9 % (sizeof specials / sizeof *specials)];
    }
    operand_write(x);
}

/* Elements from..to-1 of an operand of one dim. */
static struct operand part_of(const struct operand *whole, int64_t from, int64_t to)
{
    struct operand part = *whole;

    part.data += (size_t)from * wf_dtypes[whole->desc.dtype].size;
    part.desc.shape[0] = part.desc.global[0] = part.desc.numel = to - from;
    return part;
}

static void call_part(wf_kernel_prepare *kernel, int n_in, const struct operand *x,
                      const struct operand *y, int64_t from, int64_t to)
{
    struct operand in[MOST_IN], out = part_of(y, from, to);
    struct wf_scalars scalars = {.s = {0.7, 1.3, 2}};

    for (int i = 0; i < MOST_IN; i++) in[i] = part_of(&x[i], from, to);
    call(kernel, &out, n_in, (struct operand *[]){&in[0], &in[1], &in[2]}, &scalars);
}

/* Bits, but all NaN are alike. */
static int64_t first_difference(struct operand *a, struct operand *b)
{
    size_t size = wf_dtypes[a->desc.dtype].size;

    operand_read(a);
    operand_read(b);
    for (int64_t i = 0; i < a->desc.numel; i++)
        if (memcmp(operand_at(a, i), operand_at(b, i), size) != 0 &&
            !(isnan(a->values[i]) && isnan(b->values[i])))
            return i;
    return -1;
}

static void check_cuts(const char *name, wf_kernel_prepare *kernel, int n_in, weft_dtype dtype,
                       weft_dtype result)
{
    const int64_t shape[] = {N};
    struct operand x[MOST_IN], whole = operand_new(result, PLAIN, 1, shape),
                               cut = operand_new(result, PLAIN, 1, shape);

    for (int i = 0; i < MOST_IN; i++) {
        x[i] = operand_new(dtype, PLAIN, 1, shape);
        fill(&x[i], (uint64_t)i);
    }
    call_part(kernel, n_in, x, &whole, 0, N);
    for (int k = 0; k < LENGTHS; k++) {
        int64_t i;

        memset(cut.data, 0x7b, N * wf_dtypes[result].size); /* no part may be skipped */
        for (int64_t from = 0; from < N; from += lengths[k])
            call_part(kernel, n_in, x, &cut, from, wf_min_i64(N, from + lengths[k]));
        i = first_difference(&whole, &cut);
        ck_assert_msg(i < 0, "%s of %s, element %d of %g, %g, %g: %.17g in parts of %d, else %.17g",
                      name, wf_dtypes[dtype].name, (int)i, x[0].values[i], x[1].values[i],
                      x[2].values[i], cut.values[i], (int)lengths[k], whole.values[i]);
    }
    OPERANDS_FREE(&x[0], &x[1], &x[2], &whole, &cut);
}

WT_UNIT(pointwise_rows__have_the_same_bits_however_operands_are_cut)
{
    EACH_ISA
    for (int k = 0; k < ALL_KERNELS; k++)
        for (int t = 0; t < FLOAT_DTYPES; t++)
            check_cuts(all_kernels[k].name, all_kernels[k].kernel, all_kernels[k].n_in,
                       float_dtypes[t], float_dtypes[t]);
}

WT_UNIT(casts__have_the_same_bits_however_operands_are_cut)
{
    EACH_ISA
    for (int from = 0; from < FLOAT_DTYPES; from++)
        for (int to = 0; to < FLOAT_DTYPES; to++)
            check_cuts("cast", wf_cpu_cast, 1, float_dtypes[from], float_dtypes[to]);
}

int main(void) { return wt_unit_main("cut_operands"); }
