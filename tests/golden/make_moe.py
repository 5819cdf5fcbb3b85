#!/usr/bin/env python3
"""Write moe.txt and moe_capacity.txt: a mixture of experts as PyTorch's users write it, in double precision.

    venv/bin/python tests/golden/make_moe.py

Tokens are parameters too, so that the gradient that leaves the layer is among the results. The sizes are such that an expert
gets no token at all, and with a capacity some tokens are dropped; the script stops when that is not so.
"""

import math

import torch
import torch.nn.functional as F
from make_golden import Report, formula, make_parameters, report_training

TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 14, 6, 10, 9, 2
CAPACITY = 1.25  # of the average
BALANCE = 0.1  # how much of the balancing loss is added


def table():
    return [
        ("tokens", (TOKENS, WIDTH), 1.0, 0.0),
        ("moe.router.weight", (EXPERTS, WIDTH), 0.7, 0.0),
        ("moe.up", (EXPERTS, HIDDEN, WIDTH), 0.5, 0.0),
        ("moe.down", (EXPERTS, WIDTH, HIDDEN), 0.5, 0.0),
    ]


def layer(p, capacity):
    x = p["tokens"]
    probs = F.softmax(F.linear(x, p["moe.router.weight"]), dim=-1)
    weights, experts = torch.topk(probs, CHOSEN, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    hot = F.one_hot(experts.reshape(-1), EXPERTS)
    place = (hot.cumsum(0) * hot).sum(-1) - 1  # of a choice among those of its expert
    limit = math.ceil(capacity * TOKENS * CHOSEN / EXPERTS) if capacity else TOKENS * CHOSEN
    kept = (place < limit).reshape(TOKENS, CHOSEN)
    counts = hot.sum(0)
    assert (counts == 0).any(), counts
    assert bool((~kept).any()) == bool(capacity), counts
    y = torch.zeros_like(x)
    for e in range(EXPERTS):
        token, choice = torch.where((experts == e) & kept)
        out = F.linear(F.gelu(F.linear(x[token], p["moe.up"][e])), p["moe.down"][e])
        y = y.index_add(0, token, out * weights[token, choice, None])
    balance = EXPERTS * (counts / counts.sum() * probs.mean(0)).sum()
    return y, balance


def forward_with(capacity):
    def forward(p):
        y, balance = layer(p, capacity)
        return y, F.mse_loss(y, formula(20, y.shape, 1.0, 0.0)) + BALANCE * balance

    return forward


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    for name, capacity in (("moe", 0), ("moe_capacity", CAPACITY)):
        report = Report(name)
        report.parameters(table())
        report_training(report, make_parameters(table()), forward_with(capacity))
        report.write(name + ".txt")


if __name__ == "__main__":
    main()
