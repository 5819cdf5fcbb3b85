#!/usr/bin/env python3
"""Write lora.txt: the GPT of make_golden.py with low-rank adapters beside the linear layers of its blocks,
which alone are trained, in double precision. PROVENANCE.md says how to run it and what the file looks like."""

import torch
import torch.nn.functional as F

import make_golden as g

RANK, SCALE = 3, 2.0
ADAPTED = ("attn.qkv", "attn.proj", "mlp.up", "mlp.down")


def table():
    rows = []
    for name, shape, scale, offset in g.gpt_table():
        layer = name.rsplit(".", 1)[0]
        if not layer.endswith(ADAPTED):
            rows.append((name, shape, scale, offset))
            continue
        rows.append((name.replace(layer, layer + ".base"), shape, scale, offset))
        if name.endswith(".weight"):
            n_out = {"attn.qkv": 3}.get(layer.split(".", 2)[2], 1)
            rows.append((layer + ".a.weight", (RANK, *shape[n_out:]), 0.2, 0.0))
            rows.append((layer + ".b.weight", (*shape[:n_out], RANK), 0.2, 0.0))
    return rows


def linear(x, p, name):
    if name + ".base.weight" not in p:
        return plain_linear(x, p, name)
    a, b = p[name + ".a.weight"].reshape(RANK, -1), p[name + ".b.weight"].reshape(-1, RANK)
    return plain_linear(x, p, name + ".base") + SCALE * F.linear(F.linear(x, a), b)


plain_linear, g.linear = g.linear, linear


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    report = g.Report("lora")
    report.whole = 64
    report.parameters(table())
    p = g.make_parameters(table())
    trained = {name: t for name, t in p.items() if name.endswith((".a.weight", ".b.weight"))}
    for name, t in p.items():
        t.requires_grad_(name in trained)
    optimizer = torch.optim.AdamW(trained.values(), foreach=False, **g.ADAMW)
    losses = []
    for step in range(g.STEPS):
        optimizer.zero_grad()
        result, loss = g.gpt_forward(p)
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            report.tensor("result", result)
            for name, t in trained.items():
                report.tensor(f"grad.{name}", t.grad)
        optimizer.step()
    report.tensor("losses", torch.stack(losses))
    for name, t in trained.items():
        report.tensor(f"after.{name}", t)
    report.write("lora.txt")


if __name__ == "__main__":
    main()
