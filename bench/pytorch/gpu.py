"""On a GPU what bench/gpu.c measures: a product of bf16 by cuBLASLt, a copy and pointwise ops, training GPT-2 124M with
torch.compile, and a small model's step with and without a CUDA graph.

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
    torch.backends.cuda.preferred_blas_library("cublaslt")
    a, b = (torch.full((SIDE, SIDE), x, dtype=torch.bfloat16, device="cuda") for x in (0.5, 0.25))
    result("gpu.product_ms.bf16", 1e3 * seconds(lambda: a @ b, 20), "ms")


def pointwise():
    a, b = (torch.full((SIDE, SIDE), x, dtype=torch.bfloat16, device="cuda") for x in (0.5, 0.25))
    for name, call in (("copy", lambda: b.copy_(a)), ("add", lambda: a + b), ("gelu", lambda: F.gelu(a))):
        result(f"gpu.{name}_ms.bf16", 1e3 * seconds(call, 50), "ms")


def graph():
    """torch.compile's own use of CUDA graphs beside the same without."""
    for mode, key in (("default", "step_ms"), ("reduce-overhead", "graph_step_ms")):
        model = GPT(6, 256, 4, 128, 1024).to("cuda", torch.bfloat16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=True)
        tokens, targets = torch.randint(1024, (2, 1, 128), device="cuda")
        loss = torch.compile(lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten()), mode=mode)

        def step(model=model, optimizer=optimizer, tokens=tokens, targets=targets, loss=loss):
            loss(model, tokens, targets).backward()
            optimizer.step()
            optimizer.zero_grad()

        result(f"gpu.{key}.small", 1e3 * seconds(step, 50), "ms")


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
        pointwise()
        training()
        graph()
    else:
        print("There is no GPU here: PyTorch measures nothing.")
