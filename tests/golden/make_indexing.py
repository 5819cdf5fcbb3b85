#!/usr/bin/env python3
"""make_indexing.py: indexing.txt, what torch gives for ops of shape.h and indexing.h (PROVENANCE.md).

A block per case: its name and how many results follow, then a line of the result and one each for the gradients of x and of the
values ("-" where there is none) of sum(result * weights), f64. Inputs are made by formula: tests/indexing/test_torch_values.c.
"""
import sys

import torch
import torch.nn.functional as F


def numbers(which, *shape):
    n = torch.Size(shape).numel()
    i = torch.arange(n, dtype=torch.float64)
    x = (i * 37 + 11) % 101 / 50 - 1 if which == 0 else (i * 53 + 7 * which) % 97 / 48 - 1
    return x.reshape(shape)


def indices(below, *shape):
    i = torch.arange(torch.Size(shape).numel())
    return ((5 * i * i + 3 * i + 2) % below).reshape(shape)


def distinct(step, below, *shape):
    """`step` has no divisor in common with `below`."""
    i = torch.arange(torch.Size(shape).numel())
    return ((step * i + 1) % below).reshape(shape)


A = indices(5, 2, 3)
ROWS = torch.tensor([4, 1, 5])
PLACES = indices(5, 6, 7, 4)                 # gather, along dim 1
ONCE = (torch.arange(3)[None, :, None] * 2 + torch.arange(6)[:, None, None] + torch.arange(4)[None, None, :]) % 5  # [6,3,4]
SORTED = torch.tensor([-0.75, -0.5, 0.0, 0.02, 0.5, 0.9], dtype=torch.float64)

# name: (function of x [6,5,4] and v, shape of v)
CASES = {
    "index_select": (lambda x, v: x.index_select(1, indices(5, 8)), ()),
    "index_first": (lambda x, v: x[indices(6, 2, 3)], ()),
    "index_middle": (lambda x, v: x[:, A], ()),
    "index_last": (lambda x, v: x[..., indices(4, 7)], ()),
    "index_apart": (lambda x, v: x[indices(6, 3), :, indices(4, 2, 1)], ()),
    "index_side_by_side": (lambda x, v: x[:, indices(5, 3, 1), indices(4, 2)], ()),
    "index_negative": (lambda x, v: x[:, A - 5], ()),
    "index_all": (lambda x, v: x[indices(6, 9), indices(5, 9), indices(4, 9)], ()),
    "index_put": (lambda x, v: x.index_put((ROWS,), v), (3, 5, 4)),
    "index_put_all": (lambda x, v: x.index_put((ROWS, torch.tensor([[1], [3]]), torch.tensor([0, 2, 3])), v), (2, 3)),
    "index_put_add": (lambda x, v: x.index_put((indices(6, 7), indices(5, 7)), v, accumulate=True), (7, 4)),
    "index_put_broadcast": (lambda x, v: x.index_put((ROWS,), v), (4,)),
    "index_add": (lambda x, v: x.index_add(1, indices(5, 8), v), (6, 8, 4)),
    "index_copy": (lambda x, v: x.index_copy(2, torch.tensor([3, 0]), v), (6, 5, 2)),
    "index_fill": (lambda x, v: x.index_fill(0, ROWS, 0.25), ()),
    "gather": (lambda x, v: x.gather(1, PLACES), ()),
    "gather_smaller": (lambda x, v: x.gather(1, PLACES[:4, :, 1:]), ()),
    "take_along_dim": (lambda x, v: torch.take_along_dim(x, indices(5, 1, 3, 4), 1), ()),
    "scatter": (lambda x, v: x.scatter(1, ONCE, v), (6, 3, 4)),
    "scatter_smaller": (lambda x, v: x.scatter(1, ONCE[:4, :2], v), (4, 2, 4)),
    "scatter_value": (lambda x, v: x.scatter(1, ONCE, 0.5), ()),
    "scatter_add": (lambda x, v: x.scatter_add(1, PLACES, v), (6, 7, 4)),
    "scatter_sum": (lambda x, v: x.scatter_reduce(1, PLACES, v, "sum", include_self=False), (6, 7, 4)),
    "scatter_mean": (lambda x, v: x.scatter_reduce(1, PLACES, v, "mean"), (6, 7, 4)),
    "scatter_mean_alone": (lambda x, v: x.scatter_reduce(1, PLACES, v, "mean", include_self=False), (6, 7, 4)),
    "scatter_prod": (lambda x, v: x.scatter_reduce(1, PLACES, v, "prod"), (6, 7, 4)),
    "scatter_prod_alone": (lambda x, v: x.scatter_reduce(1, PLACES, v, "prod", include_self=False), (6, 7, 4)),
    "scatter_max": (lambda x, v: x.scatter_reduce(1, PLACES, v, "amax"), (6, 7, 4)),
    "scatter_min": (lambda x, v: x.scatter_reduce(1, PLACES, v, "amin"), (6, 7, 4)),
    "scatter_max_alone": (lambda x, v: x.scatter_reduce(1, PLACES, v, "amax", include_self=False), (6, 7, 4)),
    "one_hot": (lambda x, v: F.one_hot(A, 6).double() + 0 * x.sum(), ()),
    "bucketize": (lambda x, v: torch.bucketize(x.detach(), SORTED).double() + 0 * x.sum(), ()),
    "bucketize_right": (lambda x, v: torch.bucketize(x.detach(), SORTED, right=True).double() + 0 * x.sum(), ()),
    "search_sorted": (lambda x, v: torch.searchsorted(x.detach()[:, 0].sort().values, v.detach()).double() + 0 * x.sum(), (6, 3)),
    "flip": (lambda x, v: x.flip(0, 2), ()),
    "roll": (lambda x, v: x.roll((2, -7), (1, 2)), ()),
    "slice_step": (lambda x, v: x[1::2, -4:100:3], ()),
    "pad": (lambda x, v: F.pad(x, (1, 2, 0, 3)), ()),
    "pad_value": (lambda x, v: F.pad(x, (1, -1, 2, 0, 0, 1), value=0.5), ()),
    "pad_reflect": (lambda x, v: F.pad(x[None], (2, 1, 3, 0), mode="reflect")[0], ()),
    "pad_replicate": (lambda x, v: F.pad(x[None], (2, 5, 1, 0), mode="replicate")[0], ()),
    "pad_circular": (lambda x, v: F.pad(x[None], (2, 1, 3, 0), mode="circular")[0], ()),
    "tril": (lambda x, v: x.tril(), ()),
    "triu": (lambda x, v: x.triu(-1), ()),
    "diagonal": (lambda x, v: x.diagonal(), ()),
    "diagonal_last": (lambda x, v: x.diagonal(1, -2, -1), ()),
    "diagonal_below": (lambda x, v: x.diagonal(-2, 1, 2), ()),
    "diag_embed": (lambda x, v: x.diag_embed(), ()),
    "diag_embed_above": (lambda x, v: x.diag_embed(2), ()),
    "diag_embed_below": (lambda x, v: x.diag_embed(-1), ()),
    "repeat_interleave": (lambda x, v: x.repeat_interleave(3, 1), ()),
    "tile": (lambda x, v: x.tile(2, 3), ()),
    "stack": (lambda x, v: torch.stack([x, v, x], -1), (6, 5, 4)),
    "unbind": (lambda x, v: torch.cat(list(reversed(x.unbind(1)))), ()),
    "chunk": (lambda x, v: torch.cat(list(reversed(x.chunk(4, 0)))), ()),
    "tensor_split": (lambda x, v: torch.cat(list(reversed(x.tensor_split(4, 0)))), ()),
    "split": (lambda x, v: torch.cat(list(reversed(x.split(3, 1))), 1), ()),
}


def line(t):
    return "-" if t is None else " ".join(f"{v:.17g}" for v in t.detach().double().flatten().tolist())


def main():
    with open(sys.argv[1] if len(sys.argv) > 1 else "indexing.txt", "w", encoding="ascii") as out:
        for name, (function, shape) in CASES.items():
            x = numbers(0, 6, 5, 4).requires_grad_()
            v = numbers(1, *shape).requires_grad_() if shape else None
            y = function(x, v)
            (y * numbers(2, *y.shape)).sum().backward()
            print(name, *y.shape, file=out)
            print(line(y), file=out)
            print(line(x.grad), file=out)
            print(line(None if v is None else v.grad), file=out)


main()
