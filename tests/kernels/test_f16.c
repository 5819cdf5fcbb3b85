/*
 * test_f16.c: f16 and f32 into each other: all halves, and all places where rounding changes,
 * against the numbers that their fields mean; the same bits in every instruction set.
 */
#include "cases.h"

enum { HALVES = 1 << 16, INFINITE = 0x7c00 };

/* A size: sign bit clear. That of infinity is where the next size would be. */
static double size_of_f16(unsigned bits)
{
    int exponent = (int)(bits >> 10), fraction = (int)(bits & 1023);

    return exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
}

static double value_of_f16(unsigned bits)
{
    double size = (bits & 0x7fff) == INFINITE ? (double)INFINITY : size_of_f16(bits & 0x7fff);

    return bits >> 15 ? -size : size;
}

static bool is_nan(unsigned bits) { return (bits & 0x7fff) > INFINITE; }

static struct operand halves_of(int64_t n)
{
    struct operand x = operand_new(WEFT_F16, PLAIN, 1, &n);

    for (int64_t i = 0; i < n; i++) ((wf_f16 *)(void *)x.data)[i] = (wf_f16)i;
    return x;
}

/* More than all of them, so that loops end with a rest. */
WT_UNIT(cast__of_every_f16_is_exact)
{
    static const weft_dtype to[] = {WEFT_F32, WEFT_F64};
    const int64_t n = HALVES + 7;

    EACH_ISA
    for (int t = 0; t < 2; t++) {
        struct operand x = halves_of(n), y = operand_new(to[t], PLAIN, 1, &n);

        call(wf_cpu_cast, &y, 1, (struct operand *[]){&x}, NULL);
        for (int64_t i = 0; i < n; i++) {
            unsigned bits = (unsigned)i % HALVES;
            double want = value_of_f16(bits), got = y.values[i];

            if (is_nan(bits) ? isnan(got) : got == want && !signbit(got) == !signbit(want))
                continue;
            ck_abort_msg("isa %d: f16 %04x is %g, not %g", wf_kernels_isa_level(), bits, got, want);
        }
        OPERANDS_FREE(&x, &y);
    }
}

/* One that is no number becomes a quiet one. */
WT_UNIT(cast__of_f16_to_itself_and_back_keeps_its_bits)
{
    static const weft_dtype over[] = {WEFT_F16, WEFT_F32, WEFT_F64};
    const int64_t n = HALVES;

    EACH_ISA
    for (int t = 0; t < 3; t++) {
        struct operand x = halves_of(n), wide = operand_new(over[t], PLAIN, 1, &n);
        struct operand y = operand_new(WEFT_F16, PLAIN, 1, &n);

        call(wf_cpu_cast, &wide, 1, (struct operand *[]){&x}, NULL);
        call(wf_cpu_cast, &y, 1, (struct operand *[]){&wide}, NULL);
        for (unsigned bits = 0; bits < HALVES; bits++) {
            unsigned got = ((wf_f16 *)(void *)y.data)[bits];

            if (got != (is_nan(bits) ? bits | 0x200 : bits))
                ck_abort_msg("isa %d: f16 %04x became %04x", wf_kernels_isa_level(), bits, got);
        }
        OPERANDS_FREE(&x, &wide, &y);
    }
}

static void check_rounding(const struct operand *x, const wf_f16 *want)
{
    const int64_t n = x->desc.numel;
    const float *values = (const float *)(const void *)x->data;

    EACH_ISA
    {
        struct operand from = *x, y = operand_new(WEFT_F16, PLAIN, 1, &n);

        call(wf_cpu_cast, &y, 1, (struct operand *[]){&from}, NULL);
        for (int64_t i = 0; i < n; i++) {
            unsigned got = ((wf_f16 *)(void *)y.data)[i];

            if (got == want[i] && wf_f32_to_f16(values[i]) == want[i]) continue;
            ck_abort_msg("isa %d: %a is f16 %04x or %04x, not %04x", wf_kernels_isa_level(),
                         (double)values[i], got, wf_f32_to_f16(values[i]), want[i]);
        }
        operand_free(&y);
    }
}

/* Half way between two neighbours, and the f32 on both sides of that. */
WT_UNIT(cast__to_f16_rounds_to_the_nearest_and_to_even)
{
    const int64_t n = 6 * INFINITE;
    struct operand x = operand_new(WEFT_F32, PLAIN, 1, &n);
    wf_f16 *want = malloc((size_t)n * sizeof *want);

    for (unsigned low = 0; low < INFINITE; low++)
        for (unsigned i = 0; i < 6; i++) {
            float middle = (float)((size_of_f16(low) + size_of_f16(low + 1)) / 2);
            float value = i / 2 == 0   ? middle
                          : i / 2 == 1 ? nextafterf(middle, 0)
                                       : nextafterf(middle, INFINITY);
            unsigned size = i / 2 == 0 ? low + low % 2 : i / 2 == 1 ? low : low + 1;

            ((float *)(void *)x.data)[6 * low + i] = i % 2 ? -value : value;
            want[6 * low + i] = (wf_f16)(size | (i % 2 ? 0x8000 : 0));
        }
    check_rounding(&x, want);
    free(want);
    operand_free(&x);
}

WT_UNIT(cast__to_f16_of_what_it_cannot_hold)
{
    static const uint32_t bits[] = {
        0x47800000, 0x7f7fffff, 0x7f800000, 0xff800000, 0xff7fffff, /* 65536, infinities */
        0x00000001, 0x807fffff, 0x00800000, 0x33000000,             /* up to 2^-25 */
        0x7f800001, 0xffc12345, 0x7fffffff};                        /* no numbers */
    static const wf_f16 want[] = {0x7c00, 0x7c00, 0x7c00, 0xfc00, 0xfc00, 0x0000,
                                  0x8000, 0x0000, 0x0000, 0x7e00, 0xfe09, 0x7fff};
    const int64_t n = sizeof bits / sizeof *bits;
    struct operand x = operand_new(WEFT_F32, PLAIN, 1, &n);

    memcpy(x.data, bits, sizeof bits);
    check_rounding(&x, want);
    operand_free(&x);
}

/* Patterns from all of 2^32. */
WT_UNIT(cast__to_f16_has_the_same_bits_in_every_instruction_set)
{
    const int64_t n = 1000003;
    struct operand x = operand_new(WEFT_F32, PLAIN, 1, &n);
    wf_f16 *want = malloc((size_t)n * sizeof *want);

    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)i * 4295u;
        float value;

        memcpy(&value, &bits, sizeof value);
        ((float *)(void *)x.data)[i] = value;
        want[i] = wf_f32_to_f16(value);
    }
    check_rounding(&x, want);
    free(want);
    operand_free(&x);
}

WT_UNIT(cast__of_integers_to_f16)
{
    static const int32_t given[] = {0, 1, -7, 2048, 2049, 2051, 65519, 65520, -65520, INT32_MIN};
    static const double want[] = {0,    1,     -7,       2048,      2048,
                                  2052, 65504, INFINITY, -INFINITY, -INFINITY};
    const int64_t n = 10;

    EACH_ISA
    {
        struct operand x = operand_new(WEFT_I32, PLAIN, 1, &n);
        struct operand y = operand_new(WEFT_F16, PLAIN, 1, &n);

        memcpy(x.data, given, sizeof given);
        call(wf_cpu_cast, &y, 1, (struct operand *[]){&x}, NULL);
        for (int i = 0; i < n; i++) ck_assert(y.values[i] == want[i]);
        OPERANDS_FREE(&x, &y);
    }
}

int main(void) { return wt_unit_main("f16"); }
