"""Step time of an MLP 1024-4096-1024 (gelu in tanh form, mean squared error, AdamW, f32): tensor.parallel
on 2 ranks over gloo, and one process with 2 threads. Arguments: tokens (16 128 512)."""

import sys

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from common import AdamW, result, run_ranks, seconds, threads

WIDTH, HIDDEN = 1024, 4096


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


def make_step(model, tokens, **adam):
    torch.manual_seed(1)
    x, target = torch.randn(tokens, WIDTH, requires_grad=True), torch.randn(tokens, WIDTH)
    optimizer = AdamW(model, **adam)

    def step():
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step_and_clear()
        x.grad = None

    return step


def two_ranks(tokens):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    model = parallelize_module(MLP(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    step = make_step(model, tokens, foreach=True)
    result(f"mlp.step_ms.{tokens}", 1e3 * seconds(step, 3, 5), "ms")


def one_process(tokens):
    with threads(2):
        step = make_step(MLP(), tokens, fused=True)
        result(f"mlp.one_process_ms.{tokens}", 1e3 * seconds(step, 3, 5), "ms")


if __name__ == "__main__":
    for count in [int(word) for word in sys.argv[1:]] or [16, 128, 512]:
        run_ranks(2, two_ranks, count)
        one_process(count)
