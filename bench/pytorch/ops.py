"""Ops on plain tensors, one thread: the same operations, sizes and dtypes as bench/ops.c."""

import time

import torch
import torch.nn.functional as F

from common import result

COLUMNS, ROUNDS = 256, 7
SIZES = {"4k": 4 << 10, "256k": 256 << 10, "16m": 16 << 20}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

OPS = {name: (lambda o, f=getattr(torch, name): f(o["x"]))
       for name in "neg abs exp log sqrt rsqrt sin erf tanh sigmoid relu floor lgamma sum".split()}
OPS |= {name: (lambda o, f=getattr(torch, name): f(o["x"], o["y"])) for name in "add mul div pow maximum lt".split()}
OPS |= {
    "silu": lambda o: F.silu(o["x"]),
    "gelu": lambda o: F.gelu(o["x"]),
    "add_number": lambda o: o["x"] + 1.5,
    "clamp": lambda o: torch.clamp(o["x"], 0.5, 1),
    "add_row": lambda o: o["x"] + o["row"],
    "addcmul": lambda o: torch.addcmul(o["x"], o["y"], o["x"], value=0.5),
    "lerp": lambda o: torch.lerp(o["x"], o["y"], 0.25),
    "where": lambda o: torch.where(o["mask"], o["x"], o["y"]),
    "masked_fill": lambda o: o["x"].masked_fill(o["mask"], 0),
    "add_in_place": lambda o: o["total"].add_(o["y"]),
    "to_f64": lambda o: o["x"].to(torch.float64),
    "transposed": lambda o: o["x"].t().contiguous(),
    "cat": lambda o: torch.cat([o["x"], o["y"]], 1),
    "sum_rows": lambda o: o["x"].sum(1),
    "sum_columns": lambda o: o["x"].sum(0),
    "amax": lambda o: o["x"].amax(1),
    "softmax": lambda o: F.softmax(o["x"], 1),
    "layer_norm": lambda o: F.layer_norm(o["x"], (COLUMNS,), o["w"], o["bias"]),
}
BACKWARD = "exp tanh relu silu gelu add mul div softmax layer_norm".split()


def operands(dtype, size):
    rows = size // dtype.itemsize // COLUMNS
    row = lambda value: torch.full((COLUMNS,), value, dtype=dtype)
    o = {name: (0.25 + torch.rand(rows, COLUMNS)).to(dtype) for name in "xy"}
    return o | {"w": row(1.25), "bias": row(0.5), "row": row(0.5), "mask": o["x"] < o["y"], "total": o["x"].clone()}


def seconds_of(call):
    start = time.process_time()
    call()
    calls = 1 + int(2e-3 / (time.process_time() - start + 1e-7))
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls)
    return min(times)


def with_gradient(op, o):
    op(o).backward(o["y"])
    o["x"].grad = None


def main():
    torch.set_num_threads(1)
    for type_name, dtype in DTYPES.items():
        for size_name, size in SIZES.items():
            o = operands(dtype, size)
            with torch.no_grad():
                for name, op in OPS.items():
                    result(f"ops.ns.{name}.{type_name}.{size_name}", 1e9 * seconds_of(lambda: op(o)), "ns")
            o["x"].requires_grad_(True)
            for name in BACKWARD:
                took = seconds_of(lambda: with_gradient(OPS[name], o))
                result(f"ops.ns.{name}_backward.{type_name}.{size_name}", 1e9 * took, "ns")


if __name__ == "__main__":
    main()
