#!/usr/bin/env python3
"""Write losses.txt: losses by PyTorch, in double precision, with gradients.

    venv/bin/python tests/golden/make_losses.py

Of case NAME the line NAME.y, and NAME.a, NAME.b: the gradients of the loss (of its sum, without a reduction; weighted by the formula
with p = 3) for the first input and, where it has one, the second. Inputs [6,5] are the formula of PROVENANCE.md with p = 0 and 1,
as said below; tests/loss/test_elements.c has the same tables.
"""

import torch
import torch.nn.functional as F
from make_golden import Report, formula

SHAPE = (6, 5)
NUMBERS, CHANCES, LOGS, LOGITS = (2.0, 0.0), (0.45, 0.5), (0.8, -1.0), (4.0, 0.0)  # scale, offset
WEIGHT = formula(4, SHAPE, 0.4, 0.6)
POSITIVE = formula(5, SHAPE[1:], 0.8, 1.2)
CLASS_WEIGHT = formula(6, SHAPE[1:], 0.4, 0.6)
TARGET = (torch.arange(6) ** 2 + 1) % 5

ELEMENTS = [  # name, inputs, function
    ("mse", NUMBERS, NUMBERS, lambda a, b, r: F.mse_loss(a, b, reduction=r)),
    ("l1", NUMBERS, NUMBERS, lambda a, b, r: F.l1_loss(a, b, reduction=r)),
    ("smooth_l1", NUMBERS, NUMBERS, lambda a, b, r: F.smooth_l1_loss(a, b, reduction=r)),
    ("smooth_l1_beta", NUMBERS, NUMBERS, lambda a, b, r: F.smooth_l1_loss(a, b, reduction=r, beta=0.3)),
    ("huber", NUMBERS, NUMBERS, lambda a, b, r: F.huber_loss(a, b, reduction=r, delta=1.7)),
    ("bce", CHANCES, CHANCES, lambda a, b, r: F.binary_cross_entropy(a, b, reduction=r)),
    ("bce_weight", CHANCES, CHANCES, lambda a, b, r: F.binary_cross_entropy(a, b, WEIGHT, reduction=r)),
    ("logits", LOGITS, CHANCES, lambda a, b, r: F.binary_cross_entropy_with_logits(a, b, reduction=r)),
    ("logits_weight", LOGITS, CHANCES,
     lambda a, b, r: F.binary_cross_entropy_with_logits(a, b, WEIGHT, pos_weight=POSITIVE, reduction=r)),
    ("kl", LOGS, CHANCES, lambda a, b, r: F.kl_div(a, b, reduction=r)),
    ("kl_log", LOGS, LOGS, lambda a, b, r: F.kl_div(a, b, reduction=r, log_target=True)),
]
NLL = [  # name, options
    ("nll", dict()),
    ("nll_weight", dict(weight=CLASS_WEIGHT)),
    ("nll_ignore", dict(weight=CLASS_WEIGHT, ignore_index=2)),
]
SPECIAL = torch.tensor([0.0, 1.0, 0.0, 1.0, 1e-20, 0.5], dtype=torch.float64)  # of bce, with targets
SPECIAL_TARGET = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.25], dtype=torch.float64)


def case(report, name, loss, *leaves):
    (loss * formula(3, loss.shape, 1.0, 0.0) if loss.ndim else loss).sum().backward()
    report.tensor(f"{name}.y", loss)
    for letter, leaf in zip("ab", leaves):
        report.tensor(f"{name}.{letter}", leaf.grad)


def leaf(p, kind):
    return formula(p, SHAPE, *kind).requires_grad_()


def main():
    torch.set_default_dtype(torch.float64)
    report = Report("losses")
    for name, first, second, function in ELEMENTS:
        for reduction in "mean", "sum", "none":
            a, b = leaf(0, first), leaf(1, second)
            case(report, f"{name}.{reduction}", function(a, b, reduction), a, b)
    a, b = leaf(0, LOGS), leaf(1, CHANCES)
    case(report, "kl.batchmean", F.kl_div(a, b, reduction="batchmean"), a, b)
    for name, options in NLL:
        for reduction in "mean", "sum", "none":
            a = leaf(0, LOGS)
            case(report, f"{name}.{reduction}", F.nll_loss(a, TARGET, reduction=reduction, **options), a)
    a = SPECIAL.clone().requires_grad_()
    case(report, "special", F.binary_cross_entropy(a, SPECIAL_TARGET, reduction="none"), a)
    for dim in 0, 1:
        a, b = leaf(0, NUMBERS), leaf(1, NUMBERS)
        case(report, f"cosine{dim}", F.cosine_similarity(a, b, dim), a, b)
        for p in 1.0, 2.0, 3.0, float("inf"):
            a = leaf(0, NUMBERS)
            case(report, f"normalize{dim}_{p:g}", F.normalize(a, p, dim), a)
    report.write("losses.txt")


if __name__ == "__main__":
    main()
