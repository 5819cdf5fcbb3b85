"""Step time of a Llama style decoder (AdamW, f32): tensor.parallel on 2 ranks over gloo, and one process with
2 threads. Arguments: LAYERS WIDTH HEADS KV_HEADS HIDDEN CONTEXT BATCH VOCAB.

run: python llama.py 6 384 6 2 1024 256 8 256
run: python llama.py 12 768 12 4 2048 256 4 32000
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from common import decoder_step, result, run_ranks, seconds, threads


def turned(x, angles):
    """Rotary positions on [batch, heads, time, head]: halves of a head are the pairs."""
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.head = width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * self.head, bias=False) for _ in range(2))
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x, angles):
        batch, time, _ = x.shape
        q, k, v = (part(x).view(batch, time, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        q, k = turned(q, angles), turned(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.proj(y.transpose(1, 2).reshape(batch, time, -1))


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.attn = Attention(width, heads, kv_heads)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, angles):
        x = x + self.attn(self.norm1(x), angles)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers, width, heads, kv_heads, hidden, vocab):
        super().__init__()
        self.half = width // heads // 2
        self.wte = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        rates = 10000.0 ** (-torch.arange(self.half) / self.half)
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), rates)
        x = self.wte(tokens)
        for block in self.blocks:
            x = block(x, angles)
        return self.head(self.norm(x))


def plan(layers):
    names = {"attn.q": ColwiseParallel, "attn.k": ColwiseParallel, "attn.v": ColwiseParallel, "attn.proj": RowwiseParallel,
             "gate": ColwiseParallel, "up": ColwiseParallel, "down": RowwiseParallel}
    inner = {f"blocks.{i}.{name}": style() for i in range(layers) for name, style in names.items()}
    ends = {"wte": RowwiseParallel(input_layouts=Replicate()), "head": ColwiseParallel(output_layouts=Replicate())}
    return inner | ends


def report(prefix, sizes, step):
    layers, width, _, _, _, context, batch, _ = sizes
    time = seconds(step, 1, 2, 2)
    result(f"llama.{prefix}step_ms.{layers}x{width}", 1e3 * time, "ms")


def two_ranks(sizes):
    layers, width, heads, kv_heads, hidden, context, batch, vocab = sizes
    torch.manual_seed(0)
    model = Llama(layers, width, heads, kv_heads, hidden, vocab)
    model = parallelize_module(model, init_device_mesh("cpu", (2,)), plan(layers))
    report("", sizes, decoder_step(model, context, batch, vocab, foreach=True))


def one_process(sizes):
    layers, width, heads, kv_heads, hidden, context, batch, vocab = sizes
    with threads(2):
        model = Llama(layers, width, heads, kv_heads, hidden, vocab)
        report("one_process_", sizes, decoder_step(model, context, batch, vocab, fused=True))


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]] or [6, 384, 6, 2, 1024, 256, 8, 256]
    run_ranks(2, two_ranks, given)
    one_process(given)
