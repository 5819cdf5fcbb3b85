"""Step time of a GPT-2 style decoder (AdamW, f32): tensor.parallel on 2 ranks over gloo, and one process
with 2 threads. Arguments: LAYERS WIDTH HEADS CONTEXT BATCH VOCAB, default 6 384 6 256 8 256.

run: python gpt.py
run: python gpt.py 12 768 12 256 4 50304
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from common import decoder_step, result, run_ranks, seconds, threads


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head = width // heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, time, _ = x.shape
        q, k, v = (part(x).view(batch, time, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, time, -1))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, context, vocab):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def plan(layers):
    columns = {f"blocks.{i}.{name}": ColwiseParallel() for i in range(layers) for name in ("attn.q", "attn.k", "attn.v", "up")}
    rows = {f"blocks.{i}.{name}": RowwiseParallel() for i in range(layers) for name in ("attn.proj", "down")}
    ends = {"wte": RowwiseParallel(input_layouts=Replicate()), "head": ColwiseParallel(output_layouts=Replicate())}
    return columns | rows | ends


def report(prefix, sizes, step):
    layers, width, _, context, batch, _ = sizes
    time = seconds(step, 1, 2, 2)
    result(f"gpt.{prefix}step_ms.{layers}x{width}", 1e3 * time, "ms")
    result(f"gpt.{prefix}tokens_per_s.{layers}x{width}", batch * context / time, "tokens/s")


def two_ranks(sizes):
    layers, width, heads, context, batch, vocab = sizes
    torch.manual_seed(0)
    model = parallelize_module(GPT(layers, width, heads, context, vocab), init_device_mesh("cpu", (2,)), plan(layers))
    report("", sizes, decoder_step(model, context, batch, vocab, foreach=True))


def one_process(sizes):
    layers, width, heads, context, batch, vocab = sizes
    with threads(2):
        model = GPT(layers, width, heads, context, vocab)
        report("one_process_", sizes, decoder_step(model, context, batch, vocab, fused=True))
        report("compiled_", sizes, decoder_step(torch.compile(model), context, batch, vocab, fused=True))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]] or [6, 384, 6, 256, 8, 256]
    run_ranks(2, two_ranks, given)
    one_process(given)
