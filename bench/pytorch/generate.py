"""Writing with a GPT-2 of 124M, one sequence, keys and values remembered: one process with 2 threads, and
tensor.parallel on 2 ranks over gloo. Greedy, as bench/generate.c. Arguments: f32 or bf16.

run: python generate.py
run: python generate.py bf16
"""

import sys

import torch
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module

import gpt
from common import result, run_ranks, seconds, threads

LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, PROMPT = 12, 768, 12, 1024, 50257, 16
SUFFIX = {"f32": "", "bf16": ".bf16"}


class Attention(gpt.Attention):
    """Keys and values of up to CONTEXT tokens stay."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.used = 0
        self.cache = None

    def forward(self, x):
        batch, time, _ = x.shape
        q, k, v = (part(x).view(batch, time, -1, self.head).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.cache is None:
            self.cache = k.new_empty(2, batch, k.shape[1], CONTEXT, self.head)
        end = self.used + time
        self.cache[0, :, :, self.used : end], self.cache[1, :, :, self.used : end] = k, v
        k, v, self.used = self.cache[0, :, :, :end], self.cache[1, :, :, :end], end
        y = F.scaled_dot_product_attention(q, k, v, is_causal=time > 1)
        return self.proj(y.transpose(1, 2).reshape(batch, time, -1))


class GPT(gpt.GPT):
    def __init__(self, dtype):
        super().__init__(LAYERS, WIDTH, HEADS, CONTEXT, VOCAB)
        for block in self.blocks:
            block.attn = Attention(WIDTH, HEADS)
        self.to(dtype).eval()
        self.used = 0

    def forward(self, tokens):
        end = self.used + tokens.shape[1]
        x = self.wte(tokens) + self.wpe(torch.arange(self.used, end))
        self.used = end
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, -1]))


@torch.inference_mode()
def measure(prefix, dtype, model):
    newest = [model((1000 + 37 * torch.arange(PROMPT)).reshape(1, PROMPT) % VOCAB).argmax(-1, keepdim=True)]

    def step():
        newest[0] = model(newest[0]).argmax(-1, keepdim=True)

    time = seconds(step, 3, 12, 6)
    result(f"generate.{prefix}token_ms{SUFFIX[dtype]}", 1e3 * time, "ms")


def two_ranks(dtype):
    torch.manual_seed(0)
    model = parallelize_module(GPT(kind(dtype)), init_device_mesh("cpu", (2,)), gpt.plan(LAYERS))
    measure("", dtype, model)


def one_process(dtype):
    with threads(2):
        measure("one_process_", dtype, GPT(kind(dtype)))


def kind(dtype):
    return {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "f32"
    run_ranks(2, two_ranks, given)
    one_process(given)
