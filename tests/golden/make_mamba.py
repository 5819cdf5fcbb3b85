#!/usr/bin/env python3
"""Write mamba.txt: a language model of two selective state-space layers (Gu and Dao 2023) of plain torch operations, the
state walked word by word, in double precision. PROVENANCE.md says how to run it and what the file looks like."""

import torch
import torch.nn.functional as F

import make_golden as g

VOCAB, LAYERS, WIDTH, INNER, STATE, RANK, TAPS, BATCH, CONTEXT = 19, 2, 6, 10, 3, 2, 4, 2, 8


def table():
    rows = [("wte.weight", (VOCAB, WIDTH), 0.8, 0.0)]
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        rows += [
            (at + "norm.weight", (WIDTH,), 0.1, 1.0),
            (at + "mixer.in.weight", (2, INNER, WIDTH), 0.7, 0.0),
            (at + "mixer.conv.weight", (INNER, 1, TAPS), 0.6, 0.0),
            (at + "mixer.conv.bias", (INNER,), 0.2, 0.0),
            (at + "mixer.select.weight", (RANK + 2 * STATE, INNER), 0.7, 0.0),
            (at + "mixer.step.weight", (INNER, RANK), 0.7, 0.0),
            (at + "mixer.step.bias", (INNER,), 0.5, -0.5),
            (at + "mixer.scan.A_log", (INNER, STATE), 0.6, 0.2),
            (at + "mixer.scan.D", (INNER,), 0.3, 1.0),
            (at + "mixer.out.weight", (WIDTH, INNER), 0.6, 0.0),
        ]
    return rows + [("norm_f.weight", (WIDTH,), 0.1, 1.0), ("head.weight", (VOCAB, WIDTH), 0.5, 0.0)]


def mixer(u, p, at):
    w = p[at + "in.weight"]
    x, gate = F.linear(u, w[0]), F.linear(u, w[1])
    x = F.pad(x.transpose(1, 2), (TAPS - 1, 0))
    x = F.silu(F.conv1d(x, p[at + "conv.weight"], p[at + "conv.bias"], groups=INNER).transpose(1, 2))
    features, b, c = F.linear(x, p[at + "select.weight"]).split([RANK, STATE, STATE], dim=-1)
    dt = F.softplus(F.linear(features, p[at + "step.weight"], p[at + "step.bias"]))
    a = -torch.exp(p[at + "scan.A_log"])
    h, out = torch.zeros(BATCH, INNER, STATE), []
    for t in range(CONTEXT):
        h = torch.exp(dt[:, t, :, None] * a) * h + (dt[:, t] * x[:, t])[:, :, None] * b[:, t, None, :]
        out.append((h * c[:, t, None, :]).sum(-1) + p[at + "scan.D"] * x[:, t])
    return F.linear(torch.stack(out, 1) * F.silu(gate), p[at + "out.weight"])


def forward(p):
    i = torch.arange(BATCH * CONTEXT).reshape(BATCH, CONTEXT)
    x = p["wte.weight"][(7 * i + 3) % VOCAB]
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        x = x + mixer(F.rms_norm(x, (WIDTH,), p[at + "norm.weight"], 1e-5), p, at + "mixer.")
    logits = F.linear(F.rms_norm(x, (WIDTH,), p["norm_f.weight"], 1e-5), p["head.weight"])
    return logits, F.cross_entropy(logits.reshape(-1, VOCAB), ((5 * i + 1) % VOCAB).reshape(-1))


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    report = g.Report("mamba")
    report.whole = 32
    report.parameters(table())
    g.report_training(report, g.make_parameters(table()), forward)
    report.write("mamba.txt")


if __name__ == "__main__":
    main()
