/*
 * gelu_avx512.h: gelu of f32 within 1.9 ulp, with the coefficients of 16 polynomials in registers:
 * 19 products, 17 of them fused, where gelu.h takes 33 and a division. Coefficients:
 * tools/fit_vmath.py.
 */
#pragma once

#if !defined(__AVX512DQ__)
#error "for AVX-512"
#endif
#include <immintrin.h>

/*
 * t Phi(-t) e^(t^2 / 2) = c[0] + sum over j > 0 of c[j] u^(j - 1), u = t less the interval's first;
 * c[0] is what f32 loses of the constant term. Interval k of 16 begins at
 * t = 2^(k / 4) (1 + (k % 4) / 4) - 1 with k / 4 rounded down. Its column is (k + 12) % 16: the
 * lower two bits of the exponent of 1 + t and the upper two of its fraction.
 */
enum { GELU_DEGREE = 6 };
static const float gelu_coefficients[GELU_DEGREE + 2][16] __attribute__((aligned(64))) = {
    {2.10536574e-10f, 2.84646307e-9f, 1.00795505e-8f, 1.10476446e-8f, -1.33679903e-8f,
     -6.71824107e-9f, -1.74774073e-9f, -1.23668409e-8f, 1.16396004e-8f, 1.03011342e-8f,
     -4.0978656e-9f, -1.11663423e-9f, 0.0f, 3.29142713e-10f, 6.19210061e-9f, -5.77170134e-9f},
    {0.261578292f, 0.308670998f, 0.336203992f, 0.353328317f, 0.364541858f, 0.377642572f,
     0.384596527f, 0.388675898f, 0.391254365f, 0.39418909f, 0.39572379f, 0.39662239f, 0.0f,
     0.103508025f, 0.174809411f, 0.225174353f},
    {0.124214254f, 0.0703737289f, 0.0426254384f, 0.02729645f, 0.0183126032f, 0.00921177212f,
     0.0051905252f, 0.00318094692f, 0.00207815133f, 0.00102016248f, 5.71449113e-4f, 3.50818911e-4f,
     0.5f, 0.340173542f, 0.237552404f, 0.169906512f},
    {-0.0752548426f, -0.0374902748f, -0.0201125778f, -0.0114933169f, -0.00693069678f,
     -0.00287599186f, -0.00136939646f, -7.2353927e-4f, -4.14267852e-4f, -1.62430704e-4f,
     -7.55205328e-5f, -3.95679635e-5f, -0.398942083f, -0.252912492f, -0.164744705f, -0.110052921f},
    {0.0369946361f, 0.0164323598f, 0.00790092815f, 0.00406939071f, 0.00221967581f, 7.69953302e-4f,
     3.12603865e-4f, 1.43291632e-4f, 7.20101161e-5f, 2.27094024e-5f, 8.79817344e-6f, 3.94320614e-6f,
     0.249988779f, 0.149003923f, 0.0913149044f, 0.0574373156f},
    {-0.0156624038f, -0.00627659075f, -0.00273283105f, -0.00128063187f, -6.25697314e-4f,
     -1.84423567e-4f, -6.45870896e-5f, -2.58917844e-5f, -1.1226788e-5f, -2.89186096e-6f,
     -9.42427846e-7f, -3.63346373e-7f, -0.132772475f, -0.0748684108f, -0.0434347056f,
     -0.0258749723f},
    {0.00554990768f, 0.00203814008f, 8.15089734e-4f, 3.52945237e-4f, 1.44728212e-4f, 3.73347721e-5f,
     1.15437169e-5f, 4.11944984e-6f, 1.43171485e-6f, 3.12520939e-7f, 8.80413751e-8f, 2.97602032e-8f,
     0.0607914105f, 0.0325621478f, 0.0179904737f, 0.0101992879f},
    {-0.00125262176f, -4.31604683e-4f, -1.62202981e-4f, -6.67565182e-5f, -1.98935795e-5f,
     -4.68520921e-6f, -1.32819434e-6f, -4.35820908e-7f, -1.05873603e-7f, -2.06609734e-8f,
     -5.2712803e-9f, -1.62271452e-9f, -0.0200421549f, -0.0102149202f, -0.0054274383f,
     -0.00294711394f}};

/** Where the intervals of the columns begin. */
static const float gelu_edges[16] __attribute__((aligned(64))) = {
    1, 1.5f, 2, 2.5f, 3, 4, 5, 6, 7, 9, 11, 13, 0, 0.25f, 0.5f, 0.75f};

static inline __m512 gelu_coefficient(__m512i interval, int j)
{
    return _mm512_permutexvar_ps(interval, _mm512_load_ps(gelu_coefficients[j]));
}

/** t Phi(-t) e^(t^2 / 2) = t erfcx(t / sqrt 2) / 2 for 0 <= t <= 14.5, rounded, and in *low what
 * that took. */
static inline __m512 gelu_erfcx_term(__m512 t, __m512 *low)
{
    const __m512 one = _mm512_set1_ps(1);
    __m512i interval = _mm512_srli_epi32(_mm512_castps_si512(_mm512_add_ps(t, one)), 21);
    __m512 u = _mm512_sub_ps(t, _mm512_permutexvar_ps(interval, _mm512_load_ps(gelu_edges))),
           p = gelu_coefficient(interval, GELU_DEGREE + 1), c, high;

    for (int j = GELU_DEGREE; j > 1; j--) p = _mm512_fmadd_ps(p, u, gelu_coefficient(interval, j));
    c = gelu_coefficient(interval, 1);
    high = _mm512_fmadd_ps(p, u, c);
    c = _mm512_add_ps(_mm512_sub_ps(c, high), gelu_coefficient(interval, 0));
    *low = _mm512_fmadd_ps(p, u, c);
    return high;
}

/** e^(-t^2 / 2) = 2^n (1 + the result). */
static inline __m512 gelu_exp_minus_1(__m512 t, __m512 *n)
{
    const __m512 magic = _mm512_set1_ps(12582912.0f); /* 1.5 * 2^23: adding it rounds */
    __m512 square = _mm512_mul_ps(t, t), low, r, p;

    /* r / 2 = -t^2 / 2 - n ln 2, with what rounding takes from the square. */
    *n = _mm512_sub_ps(_mm512_fnmadd_ps(square, _mm512_set1_ps(0.72134752f), magic), magic);
    low = _mm512_fmsub_ps(*n, _mm512_set1_ps(4.24388880e-4f), _mm512_fmsub_ps(t, t, square));
    r = _mm512_add_ps(_mm512_fnmsub_ps(*n, _mm512_set1_ps(1.38671875f), square), low);
    p = _mm512_fmadd_ps(_mm512_set1_ps(2.17596628e-05f), r, _mm512_set1_ps(0.000261349342f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.00260415976f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0208332204f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.125f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    return _mm512_mul_ps(p, r);
}

/** With t = |x|: x - min(x, 0) - t Phi(-t), with the sign of x; NaN of -inf, as torch has it. */
static inline __m512 gelu_vector(__m512 x)
{
    const __m512i sign = _mm512_set1_epi32((int)0x80000000u);
    enum { LESSER_MAGNITUDE = 0xa, SIGN_OF_SECOND = 0xd8 }; /* third ? second : first */
    __m512i bits = _mm512_castps_si512(x);
    /* of NaN the other: it comes back with x, in the last sum */
    __m512 t = _mm512_range_ps(x, _mm512_set1_ps(14.5f), LESSER_MAGNITUDE);
    __m512 low, n, high = gelu_erfcx_term(t, &low), z = gelu_exp_minus_1(t, &n), y;

    /* (high + low) (1 + z) 2^n */
    y = _mm512_add_ps(high, _mm512_fmadd_ps(high, z, low));
    y = _mm512_scalef_ps(y, n);
    y = _mm512_sub_ps(_mm512_sub_ps(x, _mm512_min_ps(_mm512_setzero_ps(), x)), y);
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(y), bits, sign, SIGN_OF_SECOND));
}

/** y = gelu(x), n elements; y may be x. An element's bits do not depend on its place. */
static inline void gelu_avx512(int64_t n, float *y, const float *x)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, gelu_vector(_mm512_loadu_ps(x + i)));
    if (i < n) {
        const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);

        _mm512_mask_storeu_ps(y + i, rest, gelu_vector(_mm512_maskz_loadu_ps(rest, x + i)));
    }
}
