#!/usr/bin/env python3
"""Prints the polynomial coefficients of src/kernels/cpu/isa/vmath.h and of pointwise/ beside it (needs mpmath).

Each is the interpolant at Chebyshev points, computed with 60 digits; its largest error on the
interval is printed beside it. exp: (e^r - 1 - r) / r^2. log: (log m / s - 2) / s^2 over s^2 with
s = (m - 1) / (m + 1). mills: (t + K) e^(t^2/2) Phi(-t) over u = (t - K) / (t + K).
gelu: mills of u = 2 q - 1 over q - 0.421875 for q = t / (t + K); gelu.h has halves of them, and exp over r / 2.
gelu for AVX-512: t e^(t^2/2) Phi(-t) over t less the interval's first.
sin, cos: sin(v pi/2) / v and cos(v pi/2) over v^2. tan: (sin(r) / r - 1) / z and (cos(r) - 1 + z / 2) / z^2 over z = r^2. brief: what bf16 needs of exp, log(1 + f) / f, mills and erf(x) / x over x^2. erfinv: erfinv(y) / y
over w - M for w = -log(1 - y^2), and over its root less M, where M is such that the first loses nothing. exp2: of attention's scores, its first coefficient is 1. Of exp2, gelu
and erfinv each coefficient is rounded to f32 before those above it are fitted.
"""
import struct

import mpmath as mp

mp.mp.dps = 60


def fit(f, lo, hi, degree):
    n = degree + 1
    x = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    c = list(mp.lu_solve(mp.matrix([[v**j for j in range(n)] for v in x]), mp.matrix([f(v) for v in x])))
    grid = [lo + (hi - lo) * i / 997 for i in range(998)]
    worst = max(abs(sum(a * v**j for j, a in enumerate(c)) / f(v) - 1) for v in grid)
    return c, worst


def show(name, f, lo, hi, degree, digits):
    c, worst = fit(f, mp.mpf(lo), mp.mpf(hi), degree)
    print(f"{name}: degree {degree}, relative error {mp.nstr(worst, 3)}")
    for a in c:
        print("   ", mp.nstr(a, digits, min_fixed=-4, max_fixed=4))


def exp2nd(r):
    return mp.mpf(1) / 2 + r / 6 if abs(r) < 1e-25 else (mp.expm1(r) - r) / r**2


def log_tail(z):
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z if z > 1e-30 else mp.mpf(2) / 3


def log_over(f):
    return mp.log1p(f) / f if abs(f) > 1e-25 else mp.mpf(1)


def mills(k):
    def f(u):
        t = k * (1 + u) / (1 - u)
        return (t + k) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2
    return f


def gelu_scaled_tail(t):
    return t * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2


def sin_over(z):
    v = mp.sqrt(z)
    return mp.sin(v * mp.pi / 2) / v if v > 1e-20 else mp.pi / 2


def erf_over(z):
    x = mp.sqrt(z)
    return mp.erf(x) / x if z > 1e-20 else 2 / mp.sqrt(mp.pi)


def sin_tail(z):
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z if z > 1e-20 else -mp.mpf(1) / 6


def cos_tail(z):
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-12 else mp.mpf(1) / 24


def rounded(value):
    return mp.mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def show_rounded(name, f, lo, hi, degree, given=()):
    n = 60
    x = [(lo + hi) / 2 + (hi - lo) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    y, c = [f(v) for v in x], list(given)
    while len(c) <= degree:
        rest = mp.matrix([[v**j / w for j in range(len(c), degree + 1)] for v, w in zip(x, y)])
        want = mp.matrix([1 - sum(a * v**j for j, a in enumerate(c)) / w for v, w in zip(x, y)])
        c.append(rounded(mp.lu_solve(rest, want)[0]))
    worst = max(abs(sum(a * v**j for j, a in enumerate(c)) / w - 1) for v, w in zip(x, y))
    print(f"{name}: degree {degree}, relative error {mp.nstr(worst, 3)}")
    for a in c:
        print("   ", mp.nstr(a, 9, min_fixed=-4, max_fixed=4))


def erfinv_over(w):
    y = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(y) / y if w > 1e-20 else mp.sqrt(mp.pi) / 2


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")
S_MAX = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) * mp.mpf("1.0001")

if __name__ == "__main__":
    show("exp f32", exp2nd, -HALF_LN2, HALF_LN2, 4, 9)
    show("exp f64", exp2nd, -HALF_LN2, HALF_LN2, 10, 19)
    show("log f32", log_tail, 1e-12, S_MAX**2, 2, 9)
    show("log f64", log_tail, 1e-12, S_MAX**2, 7, 19)
    for k, t_max, degree, digits, name in ((4, 15, 9, 9, "f32"), (5, 39, 21, 19, "f64")):
        u = mp.mpf(t_max - k) / (t_max + k)
        show(f"mills {name}, K = {k}", mills(mp.mpf(k)), -1, u, degree, digits)
    show("sin f32", sin_over, 1e-12, 0.2501, 3, 9)
    show("cos f32", lambda z: mp.cos(mp.sqrt(z) * mp.pi / 2), 0, 0.2501, 4, 9)
    quarter = (mp.pi / 4 * mp.mpf("1.0005")) ** 2
    show_rounded("tan's sine", sin_tail, 0, quarter, 2)
    show_rounded("tan's cosine", cos_tail, 0, quarter, 2)
    show("brief exp", exp2nd, -HALF_LN2, HALF_LN2, 2, 9)
    show("brief log", log_over, "-0.293", "0.4143", 5, 9)
    show("brief mills, K = 3", mills(mp.mpf(3)), -1, mp.mpf("10.3") / mp.mpf("16.3"), 5, 9)
    show("brief erf", erf_over, 0, mp.mpf("2.75") ** 2, 8, 9)
    show_rounded("exp2 of scores", lambda f: mp.mpf(2) ** f, mp.mpf("-0.5001"), mp.mpf("0.5001"), 5, [mp.mpf(1)])
    centre = mp.mpf("0.421875")
    show_rounded("gelu, K = 2.5", lambda v: mills(mp.mpf(2.5))(2 * (v + centre) - 1), -centre, mp.mpf("14.5") / 17 - centre, 9)
    for i in range(16):
        first = mp.mpf(2) ** (i // 4) * (1 + mp.mpf(i % 4) / 4) - 1
        upper, width = rounded(gelu_scaled_tail(first)), mp.mpf(2) ** (i // 4) / 4
        lower = rounded(gelu_scaled_tail(first) - upper)
        print(f"gelu for AVX-512 from {first}: constant {mp.nstr(upper, 9)} and {mp.nstr(lower, 9)}")
        show_rounded("and", lambda u: gelu_scaled_tail(first + u), 0, width, 6, [upper + lower])
    near, far = mp.mpf("2.625"), mp.mpf("3.1171875")
    show_rounded("erfinv near", lambda t: erfinv_over(t + near), -near, mp.mpf("5.5") - near, 10)
    show_rounded("erfinv far", lambda t: erfinv_over((t + far) ** 2), mp.sqrt(5.5) - far, 4 - far, 9)
