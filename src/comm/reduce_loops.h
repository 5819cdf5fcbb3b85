/*
 * reduce_loops.h: the inner loops of reduce.c, included once per instruction set with LOOP(name)
 * and LOOP_TARGET defined. Strips of fixed length go through a local array: compilers then
 * vectorise without alias checks, and the output may be one of the inputs.
 */

enum { LOOP(STRIP) = 32 };

#define REDUCE_LOOP(name, type, expression)                                                        \
    LOOP_TARGET static void LOOP(name)(void *out, const void *left, const void *right, size_t n)   \
    {                                                                                              \
        const type *l = left, *r = right;                                                          \
        type *o = out, strip[LOOP(STRIP)];                                                         \
        size_t i = 0;                                                                              \
                                                                                                   \
        for (; i + LOOP(STRIP) <= n; i += LOOP(STRIP)) {                                           \
            for (size_t j = 0; j < LOOP(STRIP); j++) {                                             \
                const type a = l[i + j], b = r[i + j];                                             \
                strip[j] = (type)(expression);                                                     \
            }                                                                                      \
            memcpy(o + i, strip, sizeof strip);                                                    \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            const type a = l[i], b = r[i];                                                         \
            o[i] = (type)(expression);                                                             \
        }                                                                                          \
    }

/* max and min keep a NaN, whichever side it is on */
#define REDUCE_FLOAT(tag, type)                                                                    \
    REDUCE_LOOP(sum_##tag, type, a + b)                                                            \
    REDUCE_LOOP(product_##tag, type, a *b)                                                         \
    REDUCE_LOOP(max_##tag, type, ((a > b) | (a != a)) ? a : b)                                     \
    REDUCE_LOOP(min_##tag, type, ((a < b) | (a != a)) ? a : b)

#define REDUCE_INT(tag, type, utype)                                                               \
    REDUCE_LOOP(sum_##tag, type, (utype)a + (utype)b)                                              \
    REDUCE_LOOP(product_##tag, type, (utype)a *(utype)b)                                           \
    REDUCE_LOOP(max_##tag, type, a > b ? a : b)                                                    \
    REDUCE_LOOP(min_##tag, type, a < b ? a : b)

REDUCE_FLOAT(f32, float)
REDUCE_FLOAT(f64, double)
REDUCE_INT(i32, int32_t, uint32_t)
REDUCE_INT(i64, int64_t, uint64_t)
REDUCE_INT(i16, int16_t, uint32_t)
REDUCE_INT(i8, int8_t, uint32_t)

LOOP_TARGET static void LOOP(sum_c64)(void *out, const void *left, const void *right, size_t n)
{
    LOOP(sum_f32)(out, left, right, 2 * n);
}

#define WIDEN_NARROW(tag)                                                                          \
    LOOP_TARGET static void LOOP(widen_##tag)(float *out, const void *from, size_t n)              \
    {                                                                                              \
        const wf_##tag *in = from;                                                                 \
                                                                                                   \
        for (size_t i = 0; i < n; i++) out[i] = wf_##tag##_to_f32(in[i]);                          \
    }                                                                                              \
    LOOP_TARGET static void LOOP(narrow_##tag)(void *to, const float *in, size_t n)                \
    {                                                                                              \
        wf_##tag *out = to;                                                                        \
                                                                                                   \
        for (size_t i = 0; i < n; i++) out[i] = wf_f32_to_##tag(in[i]);                            \
    }

WIDEN_NARROW(bf16)
WIDEN_NARROW(f16)

#define REDUCE_ROW(tag)                                                                            \
    {                                                                                              \
        [WEFT_SUM] = LOOP(sum_##tag), [WEFT_PRODUCT] = LOOP(product_##tag),                        \
        [WEFT_MAX] = LOOP(max_##tag), [WEFT_MIN] = LOOP(min_##tag),                                \
    }

static const struct loops LOOP(loops) = {
    .combine = {[WEFT_F32] = REDUCE_ROW(f32),
                [WEFT_F64] = REDUCE_ROW(f64),
                [WEFT_BF16] = REDUCE_ROW(f32),
                [WEFT_F16] = REDUCE_ROW(f32),
                [WEFT_I32] = REDUCE_ROW(i32),
                [WEFT_I64] = REDUCE_ROW(i64),
                [WEFT_I16] = REDUCE_ROW(i16),
                [WEFT_I8] = REDUCE_ROW(i8),
                [WEFT_C64] = {[WEFT_SUM] = LOOP(sum_c64)}},
    .widen = {[WEFT_BF16] = LOOP(widen_bf16), [WEFT_F16] = LOOP(widen_f16)},
    .narrow = {[WEFT_BF16] = LOOP(narrow_bf16), [WEFT_F16] = LOOP(narrow_f16)},
};

#undef REDUCE_LOOP
#undef REDUCE_FLOAT
#undef REDUCE_INT
#undef REDUCE_ROW
#undef WIDEN_NARROW
