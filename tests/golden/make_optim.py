#!/usr/bin/env python3
"""Write optim.txt: the parameters of a small model after 1, 2 and 8 steps of PyTorch's optimizers.

Each variant is run per tensor, list-wise and fused where PyTorch has these forms, with the rate as a
number and, where it may be, as a tensor; all of them have to agree before anything is written.
PROVENANCE.md describes the model and the file.
"""

import inspect

import torch
from make_golden import Report, formula
from torch.optim import _muon

MLP = [("net1.weight", (16, 10)), ("net1.bias", (16,)), ("net2.weight", (10, 16)), ("net2.bias", (10,))]
STEPS, WRITTEN = 8, (1, 2, 8)
ADAM_FORMS = [dict(foreach=False), dict(foreach=True), dict(fused=True)]
FORMS = [dict(foreach=False), dict(foreach=True)]
BETAS = dict(betas=(0.6, 0.66))


def grown(optimizer, forms, steps):
    """Variants of which each has the settings of those before; None begins anew."""
    variants, settings = [], {}
    for extra in steps:
        settings = {} if extra is None else settings | extra
        if extra is not None:
            variants.append((optimizer, len(variants), settings, forms))
    return variants


VARIANTS = [
    *grown("SGD", FORMS, [{}, dict(momentum=0.9), dict(dampening=0.3), dict(weight_decay=0.05), dict(maximize=True), None,
                          dict(momentum=0.8, nesterov=True), dict(weight_decay=0.1)]),
    *grown("Adam", ADAM_FORMS, [{}, dict(weight_decay=0.05), dict(amsgrad=True), dict(maximize=True)]),
    *grown("AdamW", ADAM_FORMS, [{}, dict(weight_decay=0.05), dict(eps=1e-6, amsgrad=True) | BETAS, dict(maximize=True)]),
    *grown("Adagrad", FORMS, [{}, dict(lr_decay=0.05), dict(lr_decay=0.02, weight_decay=0.05),
                              dict(initial_accumulator_value=0.03), dict(eps=1e-6), dict(maximize=True)]),
    *grown("RMSprop", FORMS, [{}, dict(alpha=0.85), dict(alpha=0.88, eps=1e-6), dict(weight_decay=0.05),
                              dict(momentum=0.9), dict(centered=True), dict(maximize=True)]),
    *grown("Adadelta", FORMS, [{}, dict(rho=0.85), dict(rho=0.88, eps=1e-5), dict(eps=1e-6, weight_decay=0.05),
                               dict(maximize=True)]),
    *grown("NAdam", FORMS, [{}, dict(weight_decay=0.05), dict(eps=1e-6) | BETAS, dict(decoupled_weight_decay=True)]),
    *grown("RAdam", FORMS, [{}, dict(weight_decay=0.05), dict(eps=1e-6) | BETAS, dict(decoupled_weight_decay=True)]),
    *grown("Adamax", FORMS, [{}, BETAS, dict(eps=1e-6), dict(weight_decay=0.05), dict(maximize=True)]),
    *grown("ASGD", FORMS, [{}, dict(lambd=0.001), dict(alpha=0.85), dict(t0=1e5), dict(weight_decay=0.05),
                           dict(maximize=True), None, dict(t0=2.0)]),
    *grown("Muon", [{}], [{}, dict(nesterov=False), dict(weight_decay=0.05, momentum=0.8), None,
                          dict(adjust_lr_fn="match_rms_adamw"), None, dict(adjust_lr_fn="spectral_unclamped"), dict(ns_steps=3)]),
]


def exact_muon():
    """PyTorch's iteration rounds to bf16; the same lines without that."""
    source = inspect.getsource(_muon._zeropower_via_newtonschulz)
    exec(source.replace("torch.bfloat16", "grad.dtype"), _muon.__dict__)


def start():
    return {n: formula(i, shape, 0.5, 0.0).requires_grad_() for i, (n, shape) in enumerate(MLP)}


def make(optimizer, p, settings):
    """A list: Muon takes matrices only, the others are AdamW's."""
    kind = getattr(torch.optim, optimizer)
    if optimizer != "Muon":
        return [kind(p.values(), **settings)]
    # Muon's own default for weight decay is not 0, as ours is.
    decay = dict(weight_decay=settings.get("weight_decay", 0.0))
    rest = [t for t in p.values() if t.ndim != 2]
    return [
        kind([t for t in p.values() if t.ndim == 2], **(settings | decay)),
        torch.optim.AdamW(rest, lr=settings["lr"], **decay),
    ]


def train(optimizer, settings):
    p, after = start(), {}
    x = formula(9, (8, 10), 1.0, 0.0) if optimizer == "Muon" else torch.ones(8, 10)
    optimizers = make(optimizer, p, settings)
    for step in range(1, STEPS + 1):
        hidden = torch.relu(torch.nn.functional.linear(x, p["net1.weight"], p["net1.bias"]))
        loss = torch.nn.functional.linear(hidden, p["net2.weight"], p["net2.bias"]).sum()
        for o in optimizers:
            o.zero_grad(set_to_none=step % 2 == 1)
        loss.backward()
        for o in optimizers:
            o.step()
        after[step] = torch.cat([t.detach().reshape(-1) for t in reversed(p.values())])
    return after


def rates(optimizer, form):
    yield 0.1
    if optimizer in ("Adam", "AdamW") and not form.get("foreach"):
        yield torch.tensor(0.1)
        yield torch.tensor([0.1])


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    exact_muon()
    report = Report("optimizers")
    report.whole = 0
    for optimizer, number, settings, forms in VARIANTS:
        results = [train(optimizer, settings | form | dict(lr=lr)) for form in forms for lr in rates(optimizer, form)]
        for other in results[1:]:
            for step in results[0]:
                torch.testing.assert_close(other[step], results[0][step], rtol=1e-9, atol=1e-9)
        for step in WRITTEN:
            report.tensor(f"{optimizer}.{number}.{step}", results[0][step])
    report.write("optim.txt")


if __name__ == "__main__":
    main()
