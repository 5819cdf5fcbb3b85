"""Ops on plain tensors, one thread: the rows of bench/support/op_rows.def, with the same sizes and dtypes.

ops.py [--gpu] [WORD]: on a GPU; only lines whose key has it, as bench/ops.c.
run: python ops.py
run: python ops_large.py
"""

import math
import pathlib
import re
import sys
import time

import torch
import torch.nn.functional as F

from common import best_cpu_seconds, result

COLUMNS, ROUNDS = 256, 7
CPU_SIZES = {"4k": 4 << 10, "256k": 256 << 10, "16m": 16 << 20}
GPU_SIZES = {"16m": 16 << 20, "64m": 64 << 20}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def of(module, names, *operands):
    """Rows that the module's functions of these names are, of these operands."""
    return {name: (lambda o, f=getattr(module, name): f(*(o[key] for key in operands))) for name in names.split()}


OPS = of(torch, "neg abs sign ceil floor round trunc frac square log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma "
                "sinc logical_not isnan isinf isfinite sum clone", "x")
OPS |= of(torch, "exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc sigmoid relu selu celu", "both")
OPS |= of(torch, "asin acos atanh erfinv logit", "below") | of(torch, "acosh", "above")
OPS |= of(F, "elu silu gelu mish softplus softsign hardsigmoid hardswish tanhshrink softshrink hardshrink leaky_relu", "both")
OPS |= of(torch, "add sub mul div floor_divide fmod remainder pow maximum minimum fmax fmin copysign atan2 hypot xlogy "
                 "logaddexp eq ne lt ge logical_and logical_or", "x", "y")
OPS |= of(F, "l1_loss", "x", "y") | of(F, "embedding", "index", "x")
OPS |= {
    "log_sigmoid": lambda o: F.logsigmoid(o["both"]),
    "gelu_tanh": lambda o: F.gelu(o["both"], approximate="tanh"),
    "threshold": lambda o: F.threshold(o["both"], 0.5, 0),
    "nan_to_num": lambda o: torch.nan_to_num(o["x"], 0, 1, -1),
    "clamp": lambda o: torch.clamp(o["x"], 0.5, 1),
    "clamp_min": lambda o: torch.clamp_min(o["x"], 0.5),
    "add_number": lambda o: o["x"] + 1.5,
    "mul_number": lambda o: o["x"] * 1.5,
    "div_number": lambda o: o["x"] / 1.5,
    "pow_number": lambda o: o["x"] ** 1.7,
    "pow_2": lambda o: o["x"] ** 2,
    "add_row": lambda o: o["x"] + o["row"],
    "mul_row": lambda o: o["x"] * o["row"],
    "addcmul": lambda o: torch.addcmul(o["x"], o["y"], o["x"], value=0.5),
    "addcdiv": lambda o: torch.addcdiv(o["x"], o["y"], o["x"], value=0.5),
    "lerp": lambda o: torch.lerp(o["x"], o["y"], 0.25),
    "lerp_tensor": lambda o: torch.lerp(o["x"], o["y"], o["below"]),
    "where": lambda o: torch.where(o["mask"], o["x"], o["y"]),
    "masked_fill": lambda o: o["x"].masked_fill(o["mask"], 0),
    "add_in_place": lambda o: o["total"].add_(o["y"]),
    "to_f32": lambda o: o["mask"].to(torch.float32),
    "to_f64": lambda o: o["x"].to(torch.float64),
    "to_i64": lambda o: o["x"].to(torch.int64),
    "transposed": lambda o: o["x"].t().contiguous(),
    "cat": lambda o: torch.cat([o["x"], o["y"]], 1),
    "stack": lambda o: torch.stack([o["x"], o["y"]]),
    "flip": lambda o: o["x"].flip(0),
    "roll": lambda o: o["x"].roll(1, 0),
    "pad": lambda o: F.pad(o["x"], (1, 1)),
    "repeat": lambda o: o["x"].repeat(2, 1),
    "tril": lambda o: o["x"].tril(),
    "index_select": lambda o: o["x"].index_select(0, o["index"]),
    "gather": lambda o: o["x"].gather(1, o["place"]),
    "scatter": lambda o: o["x"].scatter(1, o["place"], o["y"]),
    "scatter_add": lambda o: o["x"].scatter_add(1, o["place"], o["y"]),
    "sum_rows": lambda o: o["x"].sum(1),
    "sum_columns": lambda o: o["x"].sum(0),
    "mean": lambda o: o["x"].mean(1),
    "prod": lambda o: o["above"].prod(1),
    "amax": lambda o: o["x"].amax(1),
    "amin": lambda o: o["x"].amin(1),
    "amax_columns": lambda o: o["x"].amax(0),
    "any": lambda o: o["x"].any(1),
    "all": lambda o: o["x"].all(1),
    "count_nonzero": lambda o: o["x"].count_nonzero(1),
    "argmax": lambda o: o["x"].argmax(1),
    "var": lambda o: o["x"].var(1),
    "std": lambda o: o["x"].std(1),
    "norm_1": lambda o: torch.linalg.vector_norm(o["x"], 1, 1),
    "norm_2": lambda o: torch.linalg.vector_norm(o["x"], 2, 1),
    "norm_most": lambda o: torch.linalg.vector_norm(o["x"], math.inf, 1),
    "logsumexp": lambda o: o["x"].logsumexp(1),
    "cumsum": lambda o: o["x"].cumsum(1),
    "cumprod": lambda o: o["x"].cumprod(1),
    "topk": lambda o: o["x"].topk(8, 1)[0],
    "sort": lambda o: torch.sort(o["x"], dim=1, stable=True)[0],
    "softmax": lambda o: F.softmax(o["x"], 1),
    "log_softmax": lambda o: F.log_softmax(o["x"], 1),
    "layer_norm": lambda o: F.layer_norm(o["x"], (COLUMNS,), o["w"], o["bias"]),
    "rms_norm": lambda o: F.rms_norm(o["x"], (COLUMNS,), o["w"], 1e-5),
    "mse": lambda o: F.mse_loss(o["x"], o["y"]),
    "bce_logits": lambda o: F.binary_cross_entropy_with_logits(o["x"], o["below"]),
}
TABLE = pathlib.Path(__file__).parent.parent / "support" / "op_rows.def"
WAYS = dict(re.findall(r"^OP\((\w+), +(BOTH|FORWARD)", TABLE.read_text(), re.M))
LEAVES = ("x", "both", "above", "below")


def operands(dtype, size):
    rows = size // dtype.itemsize // COLUMNS
    row = lambda value: torch.full((COLUMNS,), value, dtype=dtype)
    filled = lambda least, width: (least + width * torch.rand(rows, COLUMNS)).to(dtype)
    o = {"x": filled(0.25, 1), "y": filled(0.25, 1), "both": filled(-3, 6),
         "above": filled(1.25, 1), "below": filled(0.05, 0.9)}
    index = lambda n, limit: (torch.arange(n) * 97 + torch.arange(n) // limit * 31) % limit
    return o | {"w": row(1.25), "bias": row(0.5), "row": row(0.5), "mask": o["x"] < o["y"], "total": filled(0.25, 1),
                "index": index(rows, rows), "place": index(rows * COLUMNS, COLUMNS).reshape(rows, COLUMNS)}


def best_gpu_seconds(call, calls, rounds):
    """Seconds of one call that the GPU is done with: the best of rounds of so many calls."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def seconds_of(call, best_seconds):
    """Of one call, in rounds of 2 ms or more."""
    call()
    return best_seconds(call, 1 + int(2e-3 / (best_seconds(call, 1, 1) + 1e-7)), ROUNDS)


def with_gradient(op, o, gradient):
    op(o).backward(gradient)
    for leaf in LEAVES:
        o[leaf].grad = None


def main():
    gpu = sys.argv[1:2] == ["--gpu"]
    word = (sys.argv[1 + gpu:] or [""])[0]
    prefix, sizes, best = ("gpu.", GPU_SIZES, best_gpu_seconds) if gpu else ("", CPU_SIZES, best_cpu_seconds)
    if set(OPS) != set(WAYS):
        sys.exit(f"rows of one side alone: {sorted(set(OPS) ^ set(WAYS))}")
    torch.set_num_threads(1)
    for type_name, dtype in DTYPES.items():
        for size_name, size in sizes.items():
            keys = {name: f"{prefix}ops.ns.{name}.{type_name}.{size_name}" for name in OPS}
            backward_keys = {name: f"{prefix}ops.ns.{name}_backward.{type_name}.{size_name}" for name in OPS if WAYS[name] == "BOTH"}
            if not any(word in key for key in [*keys.values(), *backward_keys.values()]):
                continue
            with torch.device("cuda" if gpu else "cpu"):
                o = operands(dtype, size)
            with torch.no_grad():
                for name, key in keys.items():
                    if word in key:
                        result(key, 1e9 * seconds_of(lambda: OPS[name](o), best), "ns")
            for leaf in LEAVES:
                o[leaf].requires_grad_(True)
            for name, key in backward_keys.items():
                if word not in key:
                    continue
                gradient = torch.full_like(OPS[name](o).detach(), 0.75)
                result(key, 1e9 * seconds_of(lambda: with_gradient(OPS[name], o, gradient), best), "ns")


if __name__ == "__main__":
    main()
