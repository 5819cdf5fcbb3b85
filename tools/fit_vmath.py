#!/usr/bin/env python3
"""Prints the polynomial coefficients of src/kernels/cpu/isa/vmath.h (needs mpmath).

Each is the interpolant at Chebyshev points, computed with 60 digits; its largest error on the
interval is printed beside it. exp: (e^r - 1 - r) / r^2. log: (log m / s - 2) / s^2 over s^2 with
s = (m - 1) / (m + 1). mills: (t + K) e^(t^2/2) Phi(-t) over u = (t - K) / (t + K).
sin, cos: sin(v pi/2) / v and cos(v pi/2) over v^2.
"""
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


def mills(k):
    def f(u):
        t = k * (1 + u) / (1 - u)
        return (t + k) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2)) / 2
    return f


def sin_over(z):
    v = mp.sqrt(z)
    return mp.sin(v * mp.pi / 2) / v if v > 1e-20 else mp.pi / 2


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
