/*
 * pointwise_functions.h: functions of pointwise.def that are made of others, for every type and
 * device. Macros, since they are evaluated in whatever the computing type T is; an argument may be
 * evaluated several times.
 */
#pragma once

/** A bound; what is not a number stays. One instruction each where vectors have it. */
#define WF_NOT_BELOW(v, low) ((v) < (low) ? (low) : (v))
#define WF_NOT_ABOVE(v, high) ((v) > (high) ? (high) : (v))
/** The number nearest to v between two. */
#define WF_BETWEEN(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
/** log(1 + e^v), without overflow. */
#define WF_SOFTPLUS(v) (((v) < WF_C(0) ? WF_C(0) : (v)) + WF_LOG1P(WF_EXP(-WF_ABS(v))))
/** 1 - tanh(v)^2 for v >= 0, without loss where tanh is near 1. */
#define WF_SECH2(v)                                                                                \
    (WF_C(4) * WF_EXP(WF_C(-2) * (v)) /                                                            \
     ((WF_C(1) + WF_EXP(WF_C(-2) * (v))) * (WF_C(1) + WF_EXP(WF_C(-2) * (v)))))
/** log(e^a + e^b); a == b first, since infinities have no difference. */
#define WF_LOGADDEXP(a, b)                                                                         \
    ((a) == (b) ? (a) + WF_C(0.693147180559945309417)                                              \
                : ((a) < (b) ? (b) : (a)) + WF_LOG1P(WF_EXP(-WF_ABS((a) - (b)))))
/** -1, 0 or 1. */
#define WF_SIGN(v) WF_C(((v) > WF_C(0)) - ((v) < WF_C(0)))
/** The remainder that has the divisor's sign, as in Python; `m` is the one that has the dividend's.
 */
#define WF_WITH_SIGN_OF(m, b)                                                                      \
    ((m) != WF_C(0) && ((m) < WF_C(0)) != ((b) < WF_C(0)) ? (m) + (b) : (m))
#define WF_REMAINDER(a, b) WF_WITH_SIGN_OF(WF_FMOD(a, b), b)
/** Low where v is less, high where that is more; what is not a number in one of them stays so. */
#define WF_LARGER(a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))
#define WF_SMALLER(a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define WF_CLAMPED(v, low, high) WF_SMALLER(WF_LARGER(v, low), high)
/** log(p / (1 - p)), and its derivative times d: none beyond s .. 1 - s, and with s < 0 no number
 *  beyond 0 .. 1. */
#define WF_LOGIT(p) WF_LOG((p) / (WF_C(1) - (p)))
#define WF_DLOGIT(d, z, s)                                                                         \
    (((s) < WF_C(0) && ((z) < WF_C(0) || (z) > WF_C(1)))      ? WF_C(0) / WF_C(0)                  \
     : ((s) >= WF_C(0) && ((z) < (s) || (z) > WF_C(1) - (s))) ? WF_C(0)                            \
                                                              : (d) / ((z) * (WF_C(1) - (z))))
