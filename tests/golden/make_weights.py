#!/usr/bin/env python3
"""make_weights.py: weights.safetensors, written by the safetensors package from PyTorch tensors.

Element i of a tensor (row-major) is ((37 i + 11) mod 101) / 50 - 1 as f32 computes it, rounded to the
tensor's dtype; integers are ((37 i + 11) mod 101); bools are odd ones of those.
"""
import sys

import torch
from safetensors.torch import save_file


def whole(*shape):
    n = 1
    for size in shape:
        n *= size
    return (torch.arange(n, dtype=torch.int64) * 37 + 11) % 101


def real(dtype, *shape):
    return (whole(*shape).to(torch.float64) / 50 - 1).to(dtype).reshape(shape)


def integer(dtype, *shape):
    return whole(*shape).to(dtype).reshape(shape)


save_file(
    {
        "real.f64": real(torch.float64, 5, 3),
        "real.f32": real(torch.float32, 7, 4),
        "real.bf16": real(torch.bfloat16, 6, 5),
        "real.f16": real(torch.float16, 3, 2, 4),
        "integer.i64": integer(torch.int64, 9),
        "integer.i32": integer(torch.int32, 4, 2),
        "integer.i16": integer(torch.int16, 5),
        "integer.i8": integer(torch.int8, 3),
        "integer.u8": integer(torch.uint8, 3),
        "integer.bool": integer(torch.int64, 5) % 2 == 1,
        "scalar": real(torch.float32),
        "empty": real(torch.float32, 0, 3),
        "naïve \"name\"": real(torch.float32, 2),
    },
    sys.argv[1],
    metadata={"made by": "make_weights.py", "format": "pt"},
)
