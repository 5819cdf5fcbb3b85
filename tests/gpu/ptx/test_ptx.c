/* test_ptx.c: what ptx.h makes of instructions whose meaning PTX's manual gives by bits. */
#include <check.h>

#include "ptx.h"
#include "support/mpi_check.h"

WT_UNIT(ptx__moves_bytes_and_bits)
{
    ck_assert_uint_eq(ptx_prmt(0x33221100, 0x77665544, 0x7410), 0x77441100);
    ck_assert_uint_eq(ptx_prmt(0x00008000, 0, 0xd9d9), 0x00ff00ff); /* signs of bytes 1 and 5 */
    ck_assert_uint_eq(ptx_lop3(0xf0, 0xcc, 0xaa, 0xe8) & 0xff, 0xe8);
    ck_assert_uint_eq(ptx_bfe_u32(0xabcd1234, 8, 12), 0xd12);
    ck_assert_uint_eq(ptx_bfe_u32(0xabcd1234, 28, 12), 0xa);
    ck_assert_uint_eq(ptx_bfe_u32(0xabcd1234, 32, 4), 0);
    ck_assert_uint_eq(ptx_bfi_b32(0xff, 0x12345678, 8, 4), 0x12345f78);
    ck_assert_uint_eq(ptx_bfi_b32(0xff, 0x12345678, 40, 4), 0x12345678);
    ck_assert_uint_eq(ptx_shf_l_wrap(0x80000001, 0x11111111, 36), 0x11111118);
    ck_assert_uint_eq(ptx_shf_r_wrap(0x80000001, 0x11111111, 4), 0x18000000);
    ck_assert_uint_eq(ptx_shf_r_clamp(0x80000001, 0x11111111, 40), 0x11111111);
    ck_assert_uint_eq(ptx_shf_l_clamp(0x80000001, 0x11111111, 40), 0x80000001);
    ck_assert_uint_eq(ptx_shl_b32(1, 32), 0);
    ck_assert_int_eq(ptx_shr_s32(-8, 40), -1);
    ck_assert_uint_eq(ptx_bfind_u32(0x00400000), 22);
    ck_assert_uint_eq(ptx_bfind_u32(0), ~0u);
    ck_assert_uint_eq(ptx_brev_b32(0x00000003), 0xc0000000);
}

WT_UNIT(ptx__divides_integers_as_hardware_does)
{
    ck_assert_uint_eq(ptx_div_u32(7, 0), ~0u);
    ck_assert_uint_eq(ptx_rem_u32(7, 0), 7);
    ck_assert_int_eq(ptx_div_s32(INT32_MIN, -1), INT32_MIN);
    ck_assert_int_eq(ptx_rem_s64(INT64_MIN, -1), 0);
    ck_assert_int_eq(ptx_mulhi_s32(INT32_MIN, INT32_MIN), 1 << 30);
    ck_assert_uint_eq(ptx_mulhi_u64(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
}

WT_UNIT(ptx__orders_floats)
{
    ck_assert(ptx_max_f32(NAN, 1) == 1 && ptx_min_f32(1, NAN) == 1);
    ck_assert(isnan(ptx_max_f64(NAN, NAN)));
    ck_assert(!signbit(ptx_max_f32(-0.0f, 0.0f)) && !signbit(ptx_max_f32(0.0f, -0.0f)));
    ck_assert(signbit(ptx_min_f32(-0.0f, 0.0f)) && signbit(ptx_min_f32(0.0f, -0.0f)));
    ck_assert(ptx_saturate(NAN) == 0 && ptx_saturate(2) == 1 && ptx_saturate(0.25f) == 0.25f);
}

WT_UNIT(ptx__converts_to_integers_within_their_range)
{
    ck_assert_int_eq(ptx_to_s32(NAN), 0);
    ck_assert_int_eq(ptx_to_s32(1e20), INT32_MAX);
    ck_assert_int_eq(ptx_to_s32(-1e20), INT32_MIN);
    ck_assert_uint_eq(ptx_to_u32(-5), 0);
    ck_assert_uint_eq(ptx_to_u32(1e20), UINT32_MAX);
    ck_assert_int_eq(ptx_to_s64(1e30), INT64_MAX);
    ck_assert_int_eq(ptx_to_s64(-1e30), INT64_MIN);
    ck_assert_uint_eq(ptx_to_u64(1e30), UINT64_MAX);
    ck_assert_int_eq(ptx_to_s64(-3), -3);
}

WT_UNIT(ptx__rounds)
{
    ck_assert(ptx_fma_downf(1, 1, -0x1p-30f) == 1 - 0x1p-24f);
    ck_assert(ptx_fma_downf(1, 1, 0x1p-30f) == 1);
    ck_assert(ptx_fma_to_zerof(-1, 1, 0x1p-30f) == -1 + 0x1p-24f);
    ck_assert(ptx_ex2_ftz(-127) == 0 && ptx_ex2_ftz(-126) == 0x1p-126f);
    ck_assert(ptx_rcp_approx_f64(3) == ptx_upper_word(1.0 / 3));
}

/* All of f16 and bf16 come back, and what lies half way goes to the even one. */
WT_UNIT(ptx__converts_16_bit_floats)
{
    for (uint32_t i = 0; i < 65536; i++) {
        float half = ptx_f32_of_f16((uint16_t)i), brain = ptx_f32_of_bf16((uint16_t)i);

        ck_assert_uint_eq(ptx_f16_of_f32(half), isnan(half) ? 0x7fff : i);
        ck_assert_uint_eq(ptx_bf16_of_f32(brain), isnan(brain) ? 0x7fff : i);
    }
    ck_assert_uint_eq(ptx_f16_of_f32(1 + 0x1p-11f), 0x3c00);
    ck_assert_uint_eq(ptx_f16_of_f32(1 + 0x1.8p-10f), 0x3c02);
    ck_assert_uint_eq(ptx_f16_of_f32(0x1p-25f), 0);
    ck_assert_uint_eq(ptx_f16_of_f32(0x1.8p-24f), 2);
    ck_assert_uint_eq(ptx_f16_of_f32(65519), 0x7bff);
    ck_assert_uint_eq(ptx_f16_of_f32(-65520), 0xfc00);
    ck_assert_uint_eq(ptx_f16_of_f32(0x1.ffep-15f), 0x0400);
    ck_assert_uint_eq(ptx_bf16_of_f32(1 + 0x1p-8f), 0x3f80);
    ck_assert_uint_eq(ptx_bf16_of_f32(1 + 0x1.8p-7f), 0x3f82);
}

int main(void) { return wt_unit_main("ptx"); }
