"""Ops that do much at once, one thread: what bench/ops_large.c does, in torch.

ops_large.py [WORD]: only groups whose name has it."""

import sys

import torch
import torch.nn.functional as F

from common import best_cpu_seconds, result

ROUNDS = 7


def noise(*shape):
    return torch.rand(shape) - 0.5


def best(call, leaves):
    def clear():
        for leaf in leaves:
            leaf.grad = None

    return 1e3 * best_cpu_seconds(call, 1, ROUNDS, clear)


def measure(call, leaves, key, warm=1):
    with torch.no_grad():
        for _ in range(warm):
            gradient = torch.full_like(call(), 0.75)
        result(f"ops.ms.{key}", best(call, ()), "ms")
    for leaf in leaves:
        leaf.requires_grad_(True)
    for _ in range(warm):
        call().backward(gradient)
    result(f"ops.ms.{key}_backward", best(lambda: call().backward(gradient), leaves), "ms")


def attention():
    for context in (256, 1024, 4096):
        q, k, v = (noise(1, context, 12, 64) for _ in range(3))
        heads_first = lambda t: t.transpose(1, 2)
        measure(lambda: F.scaled_dot_product_attention(heads_first(q), heads_first(k), heads_first(v), is_causal=True),
                (q, k, v), f"attention.{context}")


def cross_entropy():
    z, targets = noise(1024, 50304), torch.arange(1024) * 49 % 50304
    measure(lambda: F.cross_entropy(z, targets), (z,), "cross_entropy.1024x50304")


def conv():
    for kernel, size, into, out in ((3, 56, 64, 64), (3, 28, 128, 128), (3, 14, 256, 256), (3, 7, 512, 512),
                                    (1, 56, 64, 256), (1, 56, 256, 64), (1, 28, 512, 128), (1, 14, 256, 1024),
                                    (1, 7, 2048, 512)):
        x, w = noise(4, into, size, size), noise(out, into, kernel, kernel)
        measure(lambda: F.conv2d(x, w, padding=kernel // 2), (x, w), f"conv.{kernel}x{kernel}_{size}_{into}_{out}")


def scan():
    """The loop is compiled 32 steps at a time: compiled whole it takes many minutes to compile."""
    steps = 32

    @torch.compile
    def some_steps(a, b, h):
        made = []
        for t in range(steps):
            h = a[:, t] * h + b[:, t]
            made.append(h)
        return torch.stack(made, 1), h

    a, b = noise(8, 1024, 512), noise(8, 1024, 512)

    def whole():
        h, parts = torch.zeros(8, 512), []
        for t in range(0, 1024, steps):
            part, h = some_steps(a[:, t : t + steps], b[:, t : t + steps], h)
            parts.append(part)
        return torch.cat(parts, 1)

    measure(whole, (a, b), "scan.8x1024x512", warm=3)


def main():
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    torch.set_num_threads(1)
    for group in (attention, cross_entropy, conv, scan):
        if word in group.__name__:
            group()


if __name__ == "__main__":
    main()
