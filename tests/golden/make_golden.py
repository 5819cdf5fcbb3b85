#!/usr/bin/env python3
"""Write gpt.txt, gpt_tied.txt, llama.txt, bert.txt, mlp.txt and embedding.txt: results of small PyTorch models in double precision.

The weights and inputs follow a formula (PROVENANCE.md), so the files hold results only. PyTorch is
used for the operations and their gradients; AdamW is PyTorch's own optimizer. PROVENANCE.md says
how to run this and what the files look like.
"""

import math
import pathlib
import sys

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
STEPS = 3
WHOLE = 512  # tensors with more elements are written as a digest


def formula(index, shape, scale, offset):
    """offset + scale * (((37 i + 11 + 97 index) mod 101) / 50 - 1) for row-major element i."""
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    x = ((i * 37 + 11 + 97 * index) % 101).to(torch.float64) / 50 - 1
    return (offset + scale * x).reshape(shape)


def make_parameters(table):
    """Leaves by name; a parameter's index is its place in the table."""
    return {
        name: formula(index, shape, scale, offset).requires_grad_()
        for index, (name, shape, scale, offset) in enumerate(table)
    }


class Report:
    """One golden file: named tensors, whole when small, as a digest when large."""

    def __init__(self, title):
        self.whole = WHOLE
        self.lines = [f"# {title}; PyTorch {torch.__version__}, float64; see PROVENANCE.md"]

    def parameters(self, table):
        for index, (name, shape, scale, offset) in enumerate(table):
            self.lines.append(f"param {name} {index} {scale:.17g} {offset:.17g} {self.shape(shape)}")

    def tensor(self, name, t):
        flat = t.detach().reshape(-1)
        if flat.numel() <= self.whole:
            self.lines.append(f"tensor {name} {self.shape(t.shape)}")
            self.lines.extend(f"{v:.17g}" for v in flat.tolist())
            return
        weight = ((torch.arange(flat.numel()) * 37 + 11) % 101).to(torch.float64)
        values = [flat.sum(), flat.abs().sum(), (flat * weight).sum(), *flat[:8]]
        self.lines.append(f"digest {name} {self.shape(t.shape)}")
        self.lines.extend(f"{float(v):.17g}" for v in values)

    def write(self, name):
        (HERE / name).write_text("\n".join(self.lines) + "\nend\n")

    @staticmethod
    def shape(shape):
        return " ".join(str(n) for n in (len(shape), *shape))


def report_training(report, parameters, forward):
    """What every golden model is asked: result, loss, gradients, then three steps of AdamW."""
    optimizer = torch.optim.AdamW(parameters.values(), foreach=False, **ADAMW)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        result, loss = forward(parameters)
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            report.tensor("result", result)
            for name, p in parameters.items():
                report.tensor(f"grad.{name}", p.grad)
        optimizer.step()
    report.tensor("losses", torch.stack(losses))
    for name, p in parameters.items():
        report.tensor(f"after.{name}", p)


# ---- GPT: token and learned position embedding, pre-norm blocks, final norm, head without bias ----
LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB = 2, 24, 6, 8, 2, 19


def gpt_table():
    c, hd = WIDTH, WIDTH // HEADS
    table = [("wte.weight", (VOCAB, c), 0.5, 0.0), ("wpe.weight", (CONTEXT, c), 0.5, 0.0)]
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        table += [
            (at + "norm1.weight", (c,), 0.1, 1.0),
            (at + "norm1.bias", (c,), 0.1, 0.0),
            (at + "attn.qkv.weight", (3, HEADS, hd, c), 0.3, 0.0),
            (at + "attn.qkv.bias", (3, HEADS, hd), 0.1, 0.0),
            (at + "attn.proj.weight", (c, HEADS, hd), 0.3, 0.0),
            (at + "attn.proj.bias", (c,), 0.1, 0.0),
            (at + "norm2.weight", (c,), 0.1, 1.0),
            (at + "norm2.bias", (c,), 0.1, 0.0),
            (at + "mlp.up.weight", (4 * c, c), 0.3, 0.0),
            (at + "mlp.up.bias", (4 * c,), 0.1, 0.0),
            (at + "mlp.down.weight", (c, 4 * c), 0.3, 0.0),
            (at + "mlp.down.bias", (c,), 0.1, 0.0),
        ]
    table += [
        ("norm_f.weight", (c,), 0.1, 1.0),
        ("norm_f.bias", (c,), 0.1, 0.0),
        ("head.weight", (VOCAB, c), 0.5, 0.0),
    ]
    return table


def linear(x, p, name):
    """x wT + b, whatever dims the weight's input and output are written with."""
    w = p[name + ".weight"]
    bias = p.get(name + ".bias")
    return F.linear(x, w.reshape(-1, x.shape[-1]), None if bias is None else bias.reshape(-1))


def norm(x, p, name):
    return F.layer_norm(x, (x.shape[-1],), p[name + ".weight"], p[name + ".bias"], 1e-5)


def gpt_attention(x, p, name):
    b, t, c = x.shape
    q, k, v = linear(x, p, name + ".qkv").reshape(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(y.transpose(1, 2).reshape(b, t, c), p, name + ".proj")


def mlp(x, p, name):
    return linear(F.gelu(linear(x, p, name + "up"), approximate="tanh"), p, name + "down")


def gpt_tied_table():
    return [row for row in gpt_table() if row[0] != "head.weight"]


def gpt_forward(p):
    i = torch.arange(BATCH * CONTEXT)
    tokens = ((7 * i + 3) % VOCAB).reshape(BATCH, CONTEXT)
    targets = ((5 * i + 1) % VOCAB).reshape(BATCH, CONTEXT)
    x = p["wte.weight"][tokens] + p["wpe.weight"]
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        x = x + gpt_attention(norm(x, p, at + "norm1"), p, at + "attn")
        x = x + mlp(norm(x, p, at + "norm2"), p, at + "mlp.")
    logits = linear(norm(x, p, "norm_f"), p, "head" if "head.weight" in p else "wte")
    return logits, F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


# ---- Llama: rotary positions scaled as in Llama 3.1, grouped keys, RMS norms, SwiGLU ----
GROUPS, HIDDEN = 3, 20
ROPE = dict(base=100.0, factor=4.0, low=1.0, high=4.0, length=16.0)


def llama_table():
    c, hd, r = WIDTH, WIDTH // HEADS, HEADS // GROUPS
    table = [("wte.weight", (VOCAB, c), 0.5, 0.0)]
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        table += [
            (at + "norm1.weight", (c,), 0.1, 1.0),
            (at + "attn.qkv.weight", (GROUPS, r + 2, hd, c), 0.3, 0.0),
            (at + "attn.proj.weight", (c, GROUPS, r, hd), 0.3, 0.0),
            (at + "norm2.weight", (c,), 0.1, 1.0),
            (at + "mlp.up.weight", (2, HIDDEN, c), 0.3, 0.0),
            (at + "mlp.down.weight", (c, HIDDEN), 0.3, 0.0),
        ]
    return table + [("norm_f.weight", (c,), 0.1, 1.0), ("head.weight", (VOCAB, c), 0.5, 0.0)]


def rms_norm(x, p, name):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * p[name + ".weight"]


def rope_frequencies(dims):
    """Hugging Face's rope_type "llama3"."""
    frequency = ROPE["base"] ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    wave = 2 * math.pi / frequency
    low_wave, high_wave = ROPE["length"] / ROPE["low"], ROPE["length"] / ROPE["high"]
    smooth = (ROPE["length"] / wave - ROPE["low"]) / (ROPE["high"] - ROPE["low"])
    blend = (1 - smooth) * frequency / ROPE["factor"] + smooth * frequency
    scaled = torch.where(wave > low_wave, frequency / ROPE["factor"], frequency)
    return torch.where((wave <= low_wave) & (wave >= high_wave), blend, scaled)


def rotate(x):
    """x [B,H,T,D]: halves as pairs."""
    t, d = x.shape[-2:]
    angle = torch.arange(t, dtype=torch.float64)[:, None] * rope_frequencies(d)
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def llama_attention(x, p, name):
    b, t, c = x.shape
    hd, r = c // HEADS, HEADS // GROUPS
    w = p[name + ".qkv.weight"]
    heads = lambda part: F.linear(x, part.reshape(-1, c)).reshape(b, t, -1, hd).transpose(1, 2)
    q, k, v = heads(w[:, :r]), heads(w[:, r]), heads(w[:, r + 1])
    k, v = rotate(k).repeat_interleave(r, 1), v.repeat_interleave(r, 1)
    y = F.scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
    return linear(y.transpose(1, 2).reshape(b, t, c), p, name + ".proj")


def llama_forward(p):
    i = torch.arange(BATCH * CONTEXT)
    tokens = ((7 * i + 3) % VOCAB).reshape(BATCH, CONTEXT)
    targets = ((5 * i + 1) % VOCAB).reshape(BATCH, CONTEXT)
    x = p["wte.weight"][tokens]
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        x = x + llama_attention(rms_norm(x, p, at + "norm1"), p, at + "attn")
        gate, up = linear(rms_norm(x, p, at + "norm2"), p, at + "mlp.up").chunk(2, -1)
        x = x + linear(F.silu(gate) * up, p, at + "mlp.down")
    logits = linear(rms_norm(x, p, "norm_f"), p, "head")
    return logits, F.cross_entropy(logits.reshape(-1, VOCAB), targets.reshape(-1))


# ---- BERT: three embeddings, post-norm blocks, padding, a pooler ----
def bert_table():
    c = WIDTH
    table = [
        ("wte.weight", (VOCAB, c), 0.5, 0.0),
        ("wtt.weight", (2, c), 0.5, 0.0),
        ("wpe.weight", (CONTEXT, c), 0.5, 0.0),
        ("norm_e.weight", (c,), 0.1, 1.0),
        ("norm_e.bias", (c,), 0.1, 0.0),
    ]
    table += [row for row in gpt_table() if row[0].startswith("blocks.")]
    return table + [("pooler.weight", (c, c), 0.3, 0.0), ("pooler.bias", (c,), 0.1, 0.0)]


def bert_norm(x, p, name):
    return F.layer_norm(x, (x.shape[-1],), p[name + ".weight"], p[name + ".bias"], 1e-12)


def bert_forward(p):
    i = torch.arange(BATCH * CONTEXT)
    tokens = ((7 * i + 3) % VOCAB).reshape(BATCH, CONTEXT)
    types = (i // 3 % 2).reshape(BATCH, CONTEXT)
    mask = (i < BATCH * CONTEXT - 3).reshape(BATCH, 1, 1, CONTEXT)  # the last entry ends in padding
    x = p["wte.weight"][tokens] + p["wtt.weight"][types] + p["wpe.weight"]
    x = bert_norm(x, p, "norm_e")
    for layer in range(LAYERS):
        at = f"blocks.{layer}."
        qkv = linear(x, p, at + "attn.qkv").reshape(BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = linear(y.transpose(1, 2).reshape(x.shape), p, at + "attn.proj")
        x = bert_norm(x + y, p, at + "norm1")
        y = linear(F.gelu(linear(x, p, at + "mlp.up")), p, at + "mlp.down")
        x = bert_norm(x + y, p, at + "norm2")
    pooled = torch.tanh(linear(x[:, 0], p, "pooler"))
    loss = F.mse_loss(x, formula(20, x.shape, 1.0, 0.0))
    return x, loss + F.mse_loss(pooled, formula(21, pooled.shape, 1.0, 0.0))


# ---- MLP with a mean squared error, and an embedding whose rows repeat ----
def mlp_table():
    return [
        ("up.weight", (12, 7), 0.5, 0.0),
        ("up.bias", (12,), 0.1, 0.0),
        ("down.weight", (5, 12), 0.5, 0.0),
        ("down.bias", (5,), 0.1, 0.0),
    ]


def mlp_forward(p):
    x, target = formula(20, (6, 7), 1.0, 0.0), formula(21, (6, 5), 1.0, 0.0)
    y = mlp(x, p, "")
    return y, F.mse_loss(y, target)


def embedding_table():
    return [("weight", (11, 6), 1.0, 0.0)]


def embedding_forward(p):
    index = (torch.arange(14) ** 2 % 11).reshape(2, 7)
    y = F.embedding(index, p["weight"])
    return y, (y * formula(20, (2, 7, 6), 1.0, 0.0)).sum()


MODELS = {
    "gpt": (gpt_table, gpt_forward),
    "gpt_tied": (gpt_tied_table, gpt_forward),
    "llama": (llama_table, llama_forward),
    "bert": (bert_table, bert_forward),
    "mlp": (mlp_table, mlp_forward),
    "embedding": (embedding_table, embedding_forward),
}


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        table, forward = MODELS[name]
        report = Report(name)
        report.parameters(table())
        report_training(report, make_parameters(table()), forward)
        report.write(name + ".txt")


if __name__ == "__main__":
    main()
