#!/usr/bin/env python3
"""make_reductions.py: reductions.txt, what torch gives for reductions, scans, order and norms (PROVENANCE.md).

A block per case: its name, a line of results (row-major), a line of the gradient of sum(y^2) to x, "-" where there is none. The
cases are those of tests/dispatch/test_reduction_values.c, in f64, of x [4,3,5] with zeros, ties and both signs.
"""
import math
import sys

import torch
import torch.nn.functional as F

N = 4 * 3 * 5


def element(i):
    if i in (5, 23, 38):
        return 0.0
    if i in (9, 16, 44):
        return 0.75
    return ((i * 37 + 11) % 101) / 50 - 1


def batch_norm(x):
    return F.batch_norm(x, None, None, torch.tensor([1.5, -0.5, 2.0], dtype=torch.float64),
                        torch.tensor([0.25, 0.5, -1.0], dtype=torch.float64), training=True, eps=1e-3)


def eval_norm(x):
    mean, var = torch.tensor([0.5, -0.5, 0.0], dtype=torch.float64), torch.tensor([1.5, 0.5, 2.0], dtype=torch.float64)
    return F.batch_norm(x, mean, var, None, None, training=False, eps=1e-3)


CASES = {
    "sum": lambda x: x.sum((0, 2)),
    "mean": lambda x: x.mean(1, keepdim=True),
    "prod_0": lambda x: x.prod(0),
    "prod_2": lambda x: x.prod(2),
    "prod_all": lambda x: (3 * x + 0.1).prod(),
    "amax": lambda x: x.amax((0, 2)),
    "amin": lambda x: x.amin(2),
    "max": lambda x: x.max(2)[0],
    "min": lambda x: x.min(0)[0],
    "max_at": lambda x: (x + 0.001 * torch.arange(N, dtype=torch.float64).view(4, 3, 5)).max(0)[1],
    "argmax_all": lambda x: (x * 2).argmax(),
    "argmin_all": lambda x: x.argmin(),
    "any": lambda x: (x > 0.9).any(2),
    "all": lambda x: (x > -0.9).all(0),
    "count_nonzero": lambda x: x.count_nonzero((0, 1)),
    "nansum": lambda x: torch.where(x == 0, math.nan, x).nansum(1),
    "nanmean": lambda x: torch.where(x == 0, math.nan, x).nanmean(0),
    "norm_0": lambda x: torch.linalg.vector_norm(x, 0, 2),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, (0, 1)),
    "norm_2": lambda x: torch.linalg.vector_norm(x, 2, 1, keepdim=True),
    "norm_3": lambda x: torch.linalg.vector_norm(x, 3, 0),
    "norm_half": lambda x: torch.linalg.vector_norm(x + 2, 0.5, 2),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, math.inf, (1, 2)),
    "norm_neg_inf": lambda x: torch.linalg.vector_norm(x + 2, -math.inf, 0),
    "dist": lambda x: torch.dist(x, torch.full_like(x, 0.3), 3),
    "var": lambda x: x.var((0, 2)),
    "var_0": lambda x: x.var(1, correction=0, keepdim=True),
    "std": lambda x: x.std(0),
    "std_all": lambda x: x.std(),
    "logsumexp": lambda x: x.logsumexp((1, 2)),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(0),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(2),
    "cumprod_0": lambda x: x.cumprod(0),
    "sort": lambda x: x.sort(dim=2, stable=True)[0].cumsum(2),
    "argsort": lambda x: x.sort(dim=0, descending=True, stable=True)[1],
    "histc": lambda x: torch.histc(x, 7, -0.8, 0.9),
    "histc_all": lambda x: torch.histc(x, 10),
    "layer_norm": lambda x: F.layer_norm(x, (5,), eps=1e-3),
    "rms_norm": lambda x: F.rms_norm(x, (5,), eps=1e-3),
    "batch_norm": batch_norm,
    "eval_norm": eval_norm,
    "group_norm": lambda x: F.group_norm(x, 1, eps=1e-3),
    "group_norm_3": lambda x: F.group_norm(x, 3, eps=1e-3),
}


def numbers(t):
    return " ".join(repr(float(v)) for v in t.detach().reshape(-1))


def main():
    with open(sys.argv[1] if len(sys.argv) > 1 else "reductions.txt", "w", encoding="ascii") as out:
        for name, function in CASES.items():
            x = torch.tensor([element(i) for i in range(N)], dtype=torch.float64).view(4, 3, 5).requires_grad_()
            y = function(x)
            print(name, numbers(y), sep="\n", file=out)
            if y.requires_grad:
                (y * y).sum().backward()
            print(numbers(x.grad) if x.grad is not None else "-", file=out)


if __name__ == "__main__":
    main()
