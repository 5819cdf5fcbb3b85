"""What the PyTorch programs share: ranks over gloo, timing, result lines, models in parallel."""

import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import DTensor

_PORT = 29611


def _rank_main(rank, body, ranks, port, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    try:
        body(*args)
    finally:
        dist.destroy_process_group()


def run_ranks(ranks, body, *args):
    """body(*args) in `ranks` processes of one thread each."""
    global _PORT
    _PORT += 1
    mp.spawn(_rank_main, args=(body, ranks, _PORT, args), nprocs=ranks, join=True)


def seconds(call, warm, repeat, rounds=3):
    """Seconds of one call: the best round's mean. Every rank makes the same calls."""
    for _ in range(warm):
        call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        times.append((time.perf_counter() - start) / repeat)
    return min(times)


def best_cpu_seconds(call, calls, rounds, after=lambda: None):
    """CPU seconds of one call: the best of rounds of so many calls; `after` each round something not counted."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            call()
        times.append((time.process_time() - start) / calls)
        after()
    return min(times)


def median_seconds(call, repeat):
    """Median seconds of single calls."""
    times = []
    for i in range(repeat):
        start = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def result(key, value, unit):
    """A line `peer.key value unit`, from rank 0 only."""
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"peer.{key} {value:.6g} {unit}", flush=True)


class AdamW:
    """AdamW for models in which some parameters are DTensors: PyTorch wants those apart."""

    def __init__(self, model, **options):
        both = list(model.parameters())
        split = [[p for p in both if isinstance(p, DTensor)], [p for p in both if not isinstance(p, DTensor)]]
        self.parts = [torch.optim.AdamW(part, lr=3e-4, weight_decay=0.01, **options) for part in split if part]

    def step_and_clear(self):
        for part in self.parts:
            part.step()
        for part in self.parts:
            part.zero_grad()


def decoder_step(model, context, batch, vocab, **adam):
    """A training step of a decoder on one batch of random tokens: cross-entropy, backward, AdamW."""
    torch.manual_seed(1)
    tokens, targets = torch.randint(vocab, (batch, context)), torch.randint(vocab, (batch, context))
    optimizer = AdamW(model, **adam)

    def step():
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
        optimizer.step_and_clear()

    return step


@contextlib.contextmanager
def threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    yield
    torch.set_num_threads(before)
