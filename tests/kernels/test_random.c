/* test_random.c: Philox by its known answers, and numbers that belong to global elements. */
#include "cases.h"

#include <weft/random.h>

WT_UNIT(philox__known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } answers[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (int i = 0; i < 3; i++) {
        uint32_t got[4];

        weft_philox(got, answers[i].counter, answers[i].key);
        ck_assert_mem_eq(got, answers[i].want, sizeof got);
    }
}

static const struct wf_scalars draws = {.s = {-2, 3}, .v = {0x123456789abcdef, 7}};

static uint32_t word_of_plane(uint64_t index, uint64_t draw)
{
    uint64_t seed = (uint64_t)draws.v[0];
    uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, out[4];
    uint32_t counter[] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), (uint32_t)draw,
                          (uint32_t)(draw >> 32)};

    weft_philox(out, counter, key);
    return out[index % 4];
}

static uint32_t word_of(uint64_t index) { return word_of_plane(index, (uint64_t)draws.v[1]); }

/* In [0, 1): 24 bits, or for f64 the same and 29 more. */
static double unit_of(uint64_t index, weft_dtype dtype)
{
    uint32_t low = word_of_plane(index, (uint64_t)draws.v[1] | (uint64_t)1 << 63);

    if (dtype != WEFT_F64) return (word_of(index) >> 8) * 0x1p-24;
    return (word_of(index) >> 5) * 0x1p-27 + (low >> 6) * 0x1p-53;
}

static double uniform_of(uint64_t index, weft_dtype dtype)
{
    return -2 + 5 * unit_of(index, dtype);
}

static double normal_of(uint64_t index, weft_dtype dtype)
{
    uint64_t first = index & ~(uint64_t)1;
    double step = dtype == WEFT_F64 ? 0x1p-53 : 0x1p-24;
    double r = sqrt(-2 * log(unit_of(first, dtype) + step));
    double angle = 2 * acos(-1) * unit_of(first + 1, dtype);

    return -2 + 3 * r * (index & 1 ? sin(angle) : cos(angle));
}

/* A box of a global tensor, and the global number of its element i. */
struct box {
    int ndim;
    int64_t global[3], offset[3], shape[3];
};

static const struct box boxes[] = {
    {1, {1}, {0}, {1}},
    {1, {5000}, {0}, {5000}},
    {1, {5000}, {1237}, {2001}},
    {2, {30, 50}, {0, 0}, {30, 50}},
    {2, {30, 50}, {7, 0}, {11, 50}},
    {2, {30, 50}, {0, 13}, {30, 17}},
    {2, {30, 50}, {3, 49}, {5, 1}},
    {3, {6, 10, 20}, {1, 3, 5}, {4, 5, 11}},
    {3, {6, 10, 20}, {2, 0, 0}, {3, 10, 20}},
    {2, {30, 50}, {30, 0}, {0, 50}},
    {0, {0}, {0}, {0}},
    {2, {1 << 20, 1 << 14}, {(1 << 20) - 1, 5}, {1, 300}}, /* indices beyond 32 bits */
};
enum { BOXES = sizeof boxes / sizeof *boxes };

static struct operand box_operand(const struct box *b, weft_dtype dtype)
{
    struct operand o = operand_new(dtype, PLAIN, b->ndim, b->shape);

    for (int d = 0; d < b->ndim; d++) {
        o.desc.global[d] = b->global[d];
        o.desc.offset[d] = b->offset[d];
    }
    return o;
}

static uint64_t global_number(const struct box *b, int64_t i)
{
    int64_t number = 0, stride = 1;

    for (int d = b->ndim - 1; d >= 0; d--) {
        number += (i % b->shape[d] + b->offset[d]) * stride;
        stride *= b->global[d];
        i /= b->shape[d];
    }
    return (uint64_t)number;
}

static void check_box(wf_kernel_prepare *kernel, double (*of)(uint64_t, weft_dtype),
                      const struct box *b, weft_dtype dtype)
{
    struct operand y = box_operand(b, dtype);

    for (int64_t i = 0; i < y.desc.numel; i++) y.want[i] = of(global_number(b, i), dtype);
    call(kernel, &y, 0, NULL, &draws);
    expect_near("random", &y, y.want,
                dtype == WEFT_F64   ? 1e-14
                : dtype == WEFT_F32 ? 1e-6
                                    : dtype_bound(dtype));
    expect_guards(&y);
    operand_free(&y);
}

WT_UNIT(random__belongs_to_global_elements)
{
    EACH_ISA
    for (int i = 0; i < BOXES * FLOAT_DTYPES; i++) {
        check_box(wf_cpu_uniform, uniform_of, &boxes[i / FLOAT_DTYPES],
                  float_dtypes[i % FLOAT_DTYPES]);
        check_box(wf_cpu_normal, normal_of, &boxes[i / FLOAT_DTYPES],
                  float_dtypes[i % FLOAT_DTYPES]);
    }
}

/* Every kernel with scalars that suit it, for the dtypes that it has in common with the others. */
static const struct {
    wf_kernel_prepare *prepare;
    struct wf_scalars scalars;
} kinds[] = {
    {wf_cpu_uniform, {.s = {-2, 3}, .v = {5, 7}}},
    {wf_cpu_normal, {.s = {-2, 3}, .v = {5, 7}}},
    {wf_cpu_trunc_normal, {.s = {0, 1, -3, 1.5}, .v = {5, 7}}},
    {wf_cpu_log_normal, {.s = {0.5, 2}, .v = {5, 7}}},
    {wf_cpu_exponential, {.s = {1.5}, .v = {5, 7}}},
    {wf_cpu_geometric, {.s = {0.01}, .v = {5, 7}}},
    {wf_cpu_bernoulli, {.s = {0.3}, .v = {5, 7}}},
    {wf_cpu_randint, {.v = {5, 7, -100, 201}}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

WT_UNIT(random__has_the_same_bits_in_every_instruction_set)
{
    static const struct box b = {1, {30011}, {0}, {30011}};

    for (int c = 0; c < KINDS * FLOAT_DTYPES; c++) {
        weft_dtype dtype = float_dtypes[c % FLOAT_DTYPES];
        const struct wf_scalars *scalars = &kinds[c / FLOAT_DTYPES].scalars;
        struct operand first = box_operand(&b, dtype);

        call(kinds[c / FLOAT_DTYPES].prepare, &first, 0, NULL, scalars);
        EACH_ISA
        {
            struct operand y = box_operand(&b, dtype);

            call(kinds[c / FLOAT_DTYPES].prepare, &y, 0, NULL, scalars);
            ck_assert_mem_eq(first.data, y.data, (size_t)b.shape[0] * wf_dtypes[dtype].size);
            operand_free(&y);
        }
        operand_free(&first);
    }
}

WT_UNIT(random__moments)
{
    static const struct box b = {1, {1 << 18}, {0}, {1 << 18}};
    static const struct wf_scalars unit = {.s = {0, 1}, .v = {42, 0}};
    static const double want[2][4] = {{1. / 2, 1. / 3, 1. / 4, 1. / 5}, {0, 1, 0, 3}};

    for (int normal = 0; normal < 2; normal++) {
        struct operand y = box_operand(&b, WEFT_F32);
        double moment[4] = {0}, beside = 0;

        call(normal ? wf_cpu_normal : wf_cpu_uniform, &y, 0, NULL, &unit);
        for (int64_t i = 0; i < b.shape[0]; i++) {
            for (int p = 0; p < 4; p++) moment[p] += pow(y.values[i], p + 1) / (double)b.shape[0];
            if (i) beside += (y.values[i] - want[normal][0]) * (y.values[i - 1] - want[normal][0]);
        }
        for (int p = 0; p < 4; p++)
            ck_assert_msg(fabs(moment[p] - want[normal][p]) < (normal ? 0.05 : 2e-3),
                          "moment %d is %g, not %g", p + 1, moment[p], want[normal][p]);
        ck_assert(fabs(beside / (double)b.shape[0]) < 5e-3);
        operand_free(&y);
    }
}

WT_UNIT(uniform__stays_below_its_upper_bound)
{
    static const struct box b = {1, {40000}, {0}, {40000}};
    static const double bounds[][2] = {{0, 1}, {1, 2}, {-2, -1}, {-1, 0}, {5, 5}, {1e-3, 1.001e-3}};

    EACH_ISA
    for (int c = 0; c < 6 * FLOAT_DTYPES; c++) {
        struct operand y = box_operand(&b, float_dtypes[c % FLOAT_DTYPES]);
        struct wf_scalars scalars = {
            .s = {bounds[c / FLOAT_DTYPES][0], bounds[c / FLOAT_DTYPES][1]}, .v = {1, 1}};
        struct operand low = operand_new(float_dtypes[c % FLOAT_DTYPES], PLAIN, 0, NULL);
        int strays = 0;

        low.values[0] = bounds[c / FLOAT_DTYPES][0];
        operand_write(&low);
        call(wf_cpu_uniform, &y, 0, NULL, &scalars);
        for (int64_t i = 0; i < b.shape[0]; i++) /* libcheck writes a line for every assertion */
            strays += y.values[i] < low.values[0] ||
                      (y.values[i] >= bounds[c / FLOAT_DTYPES][1] && y.values[i] != low.values[0]);
        ck_assert_int_eq(strays, 0);
        OPERANDS_FREE(&y, &low);
    }
}

static void check_dropout(const struct box *b, weft_dtype dtype, enum lie lie, double p)
{
    struct operand x = operand_noise(dtype, lie, b->ndim, b->shape, 3);
    struct operand y = box_operand(b, dtype);
    struct wf_scalars scalars = {.s = {p}, .v = {draws.v[0], draws.v[1]}};

    for (int64_t i = 0; i < x.desc.numel; i++)
        y.want[i] = word_of(global_number(b, i)) >= p * 0x1p32 ? x.values[i] / (1 - p) : 0;
    call(wf_cpu_dropout, &y, 1, (struct operand *[]){&x}, &scalars);
    expect_near("dropout", &y, y.want, wf_dtype_is_16_bit_float(dtype) ? 1e-2 : 1e-6);
    OPERANDS_FREE(&x, &y);
}

WT_UNIT(dropout__belongs_to_global_elements)
{
    static const double chances[] = {0, 0.1, 0.5, 1 - 1e-12, 1};

    EACH_ISA
    for (int i = 0; i < BOXES * FLOAT_DTYPES * 5; i++)
        check_dropout(&boxes[i / FLOAT_DTYPES / 5], float_dtypes[i % FLOAT_DTYPES], nth_lie(i),
                      chances[i / FLOAT_DTYPES % 5]);
}

int main(void) { return wt_unit_main("random"); }
