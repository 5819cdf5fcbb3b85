"""On a GPU what bench/gpu.c measures: a product of bf16, which is cuBLASLt's, and training GPT-2 124M with torch.compile.
Not run on hardware.

run: python gpu.py
"""

import torch
import torch.nn.functional as F

from common import result
from gpt import GPT

SIDE, LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB = 8192, 12, 768, 12, 1024, 8, 50304


def seconds(call, calls, rounds=5):
    """Of one call: the middle of some rounds. The first makes what is made once."""
    times = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(1e-3 * begin.elapsed_time(end) / calls)
    return sorted(times[1:])[rounds // 2]


def product():
    a, b = (torch.full((SIDE, SIDE), x, dtype=torch.bfloat16, device="cuda") for x in (0.5, 0.25))
    result("gpu.product_ms.bf16", 1e3 * seconds(lambda: a @ b, 20), "ms")


def training():
    model = GPT(LAYERS, WIDTH, HEADS, CONTEXT, VOCAB).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens, targets = torch.randint(VOCAB, (2, BATCH, CONTEXT), device="cuda")
    loss = torch.compile(lambda: F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()))

    def step():
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    result("gpu.step_ms.124M", 1e3 * seconds(step, 10), "ms")


if __name__ == "__main__":
    if torch.cuda.is_available():
        product()
        training()
