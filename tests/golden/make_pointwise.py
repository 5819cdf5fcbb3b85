#!/usr/bin/env python3
"""make_pointwise.py: pointwise.txt, what torch gives for the ops of src/kernels/pointwise.def (PROVENANCE.md).

A block per op and dtype: "NAME dtype scalars...", a line of results, a line per input of its gradient, all as the bits of the
elements; "-" where there is no gradient. Inputs are VALUES, and of two PARTNERS as well, of three THIRDS.
"""
import math
import sys

import torch
import torch.nn.functional as F

VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 0.125, -0.375, 1.5, -1.5, 3.0, -3.0, 6.0, -7.0, 1e-3, -1e-3, 1e-6,
          1e-40, -1e-40, 1e-30, 12.5, -20.0, 88.0, -104.0, 1e10, -1e10, 3e38, math.inf, -math.inf, math.nan]
PARTNERS = [VALUES[(7 * i + 4) % len(VALUES)] for i in range(len(VALUES))]
THIRDS = [VALUES[(11 * i + 9) % len(VALUES)] for i in range(len(VALUES))]

# Names that torch has not, or not of these arguments; all others are torch.NAME.
UNARY = {
    "log_sigmoid": F.logsigmoid, "relu": F.relu, "silu": F.silu, "gelu": F.gelu, "mish": F.mish, "selu": F.selu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softsign": F.softsign, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "pow_scalar": torch.pow, "rdiv_scalar": lambda x, s: s / x, "leaky_relu": F.leaky_relu,
    "elu": F.elu, "softplus": lambda x, s: F.softplus(x, beta=s, threshold=1e9), "add_scalar": torch.add,
    "mul_scalar": torch.mul, "nan_to_num": torch.nan_to_num, "erfc": torch.special.erfc,
    "tanhshrink": F.tanhshrink, "celu": F.celu, "softshrink": F.softshrink, "hardshrink": F.hardshrink,
    "threshold": F.threshold, "rsub_scalar": lambda x, s: s - x, "div_scalar": lambda x, s: x / s,
}
SCALARS = {"pow_scalar": [3.0], "rdiv_scalar": [1.5], "leaky_relu": [0.25], "elu": [0.75], "softplus": [2.0],
           "clamp_min": [-0.5], "clamp_max": [1.5], "clamp": [-0.5, 1.5], "nan_to_num": [1.0, 2.0, -3.0],
           "celu": [0.75], "softshrink": [0.5], "hardshrink": [0.5], "threshold": [0.5, 7.0], "logit": [0.125],
           "rsub_scalar": [1.5], "div_scalar": [-2.5], "addcmul": [0.75], "addcdiv": [-1.5],
           "add_scalar": [0.75], "mul_scalar": [-2.5]}
NAMES = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal abs sign ceil floor round trunc frac sin cos tan asin acos
atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid log_sigmoid relu silu gelu gelu_tanh mish selu softsign hardsigmoid
hardswish erfinv lgamma digamma sinc tanhshrink celu softshrink hardshrink threshold logit rsub_scalar div_scalar pow_scalar rdiv_scalar leaky_relu elu softplus clamp_min clamp_max clamp nan_to_num neg square add_scalar
mul_scalar logical_not isnan isinf isfinite""".split()
TWO = """add sub mul div trunc_divide floor_divide xlog1py prelu pow maximum minimum fmax fmin fmod remainder copysign atan2 hypot xlogy logaddexp eq ne lt le gt ge
logical_and logical_or logical_xor""".split()
BINARY = {
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "xlog1py": torch.special.xlog1py,
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"), "prelu": lambda a, b: F.prelu(a.view(1, -1), b).view(-1),
}
# Of three operands the last is THIRDS; numbers come by keyword.
THREE = {
    "lerp": torch.lerp, "addcmul": lambda a, b, c, s: torch.addcmul(a, b, c, value=s),
    "addcdiv": lambda a, b, c, s: torch.addcdiv(a, b, c, value=s), "clamp_tensor": torch.clamp,
}


def bits(t):
    t = t.detach()
    if t.dtype == torch.bool:
        return " ".join(str(int(v)) for v in t)
    whole = {4: torch.int32, 2: torch.int16}[t.element_size()]
    mask = (1 << 8 * t.element_size()) - 1
    return " ".join(f"{int(v) & mask:x}" for v in t.view(whole))


def write(out, name, dtype, function, inputs, scalars):
    inputs = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in inputs]
    y = function(*inputs, *scalars)
    print(name, {torch.float32: "f32", torch.bfloat16: "bf16"}[dtype], *scalars, file=out)
    print(bits(y), file=out)
    if y.requires_grad:
        y.backward(torch.ones_like(y))
    for x in inputs:
        print(bits(x.grad) if x.grad is not None else "-", file=out)


def main():
    with open(sys.argv[1] if len(sys.argv) > 1 else "pointwise.txt", "w", encoding="ascii") as out:
        for x in VALUES, PARTNERS, THIRDS:
            print(bits(torch.tensor(x, dtype=torch.float32)), file=out)
        for dtype in torch.float32, torch.bfloat16:
            for name in NAMES:
                write(out, name, dtype, UNARY.get(name) or getattr(torch, name), [VALUES], SCALARS.get(name, []))
            for name in TWO:
                write(out, name, dtype, BINARY.get(name) or getattr(torch, name), [VALUES, PARTNERS], [])
            for name, function in THREE.items():
                write(out, name, dtype, function, [VALUES, PARTNERS, THIRDS], SCALARS.get(name, []))


if __name__ == "__main__":
    main()
