"""Latency of gloo's all-reduce with 2 and 4 ranks on this machine."""

import torch
import torch.distributed as dist

from common import result, run_ranks, seconds

SIZES = [("64B", 64), ("16KiB", 1 << 14), ("64KiB", 1 << 16), ("256KiB", 1 << 18), ("1MiB", 1 << 20), ("16MiB", 1 << 24)]


def measure():
    for name, size in SIZES:
        x = torch.ones(size // 4)
        repeat = 50 if size <= 1 << 18 else 5
        result(f"allreduce.us_{dist.get_world_size()}.{name}", 1e6 * seconds(lambda: dist.all_reduce(x), 3, repeat), "us")


if __name__ == "__main__":
    for ranks in (2, 4):
        run_ranks(ranks, measure)
