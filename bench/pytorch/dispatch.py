"""Host cost of DTensor operations on tiny tensors, 2 ranks over gloo: the same operations as bench/dispatch.c.

Without gradients: time of the operation on a DTensor minus its time on a plain tensor. With
gradients: forward and backward of linear, gelu, add, to_local, sum, the same difference per node (5).
Misses: the first call of a matrix product with a new shape.
"""

import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from common import median_seconds, result, run_ranks, seconds

REPEAT, MISSES = 300, 8

# a, b: [16,8] split over rows (plain: this rank's [8,8]); w: [8,8], r: like a, both replicated
OPERATIONS = {
    "detach": lambda t: t["a"].detach(),
    "add": lambda t: t["a"] + t["b"],
    "add_number": lambda t: t["a"] + 1.5,
    "mul_number": lambda t: t["a"] * 1.5,
    "add_inplace": lambda t: t["a"].add_(t["b"]),
    "gelu": lambda t: F.gelu(t["a"]),
    "matmul": lambda t: t["a"] @ t["w"],
    "sum": lambda t: t["a"].sum(),
    "transpose": lambda t: t["a"].transpose(0, 1),
    "slice": lambda t: t["a"][:, 2:6],
    "reshape": lambda t: t["a"].view(-1, 2, 4),
}


def tensors(mesh):
    make = {"a": (16, Shard(0)), "b": (16, Shard(0)), "w": (8, Replicate()), "r": (16, Replicate())}
    spread = {name: distribute_tensor(torch.zeros(rows, 8), mesh, [how]) for name, (rows, how) in make.items()}
    spread["bias"] = distribute_tensor(torch.zeros(8), mesh, [Replicate()])
    return spread, {name: torch.zeros(t.to_local().shape) for name, t in spread.items()}


def chain(t):
    y = F.gelu(F.linear(t["a"], t["w"], t["bias"])) + t["b"]
    local = y.to_local() if hasattr(y, "to_local") else y
    local.sum().backward()
    for leaf in t.values():
        leaf.grad = None


def per_operation(mesh):
    spread, plain = tensors(mesh)
    ns = lambda call: 1e9 * seconds(call, 20, REPEAT)
    with torch.no_grad():
        for name, run in OPERATIONS.items():
            on_plain = ns(lambda: run(plain))
            result(f"dispatch.nograd_ns.{name}", ns(lambda: run(spread)) - on_plain, "ns")
            result(f"dispatch.plain_ns.{name}", on_plain, "ns")
        sliced = ns(lambda: spread["r"] + spread["a"]) - ns(lambda: plain["a"] + plain["b"])
        result("dispatch.slice_ns", sliced, "ns")
        result("dispatch.redistribute_same_ns", ns(lambda: spread["a"].redistribute(mesh, [Shard(0)])), "ns")


def gradients(mesh):
    spread, plain = tensors(mesh)
    for t in (*spread.values(), *plain.values()):
        t.requires_grad_(True)
    on_mesh, alone = (seconds(lambda: chain(t), 20, REPEAT // 3) for t in (spread, plain))
    result("dispatch.grad_ns", 1e9 * (on_mesh - alone) / 5, "ns")


def misses(axes):
    mesh = init_device_mesh("cpu", (2,) + (1,) * (axes - 1))
    split, whole = [Shard(0)] * axes, [Replicate()] * axes
    pairs = [
        (distribute_tensor(torch.zeros(16 + 2 * i, 8), mesh, split), distribute_tensor(torch.zeros(8, 8), mesh, whole))
        for i in range(MISSES)
    ]
    pairs[0][0] @ pairs[0][1]  # imports and tables that are made once
    with torch.no_grad():
        time = median_seconds(lambda i: pairs[i + 1][0] @ pairs[i + 1][1], MISSES - 1)
    result(f"dispatch.miss_us.{axes}d", 1e6 * time, "us")


def measure():
    mesh = init_device_mesh("cpu", (2,))
    per_operation(mesh)
    gradients(mesh)
    for axes in (1, 2, 3):
        misses(axes)


if __name__ == "__main__":
    run_ranks(2, measure)
