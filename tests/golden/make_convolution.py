#!/usr/bin/env python3
"""Write convolution.txt: convolutions, pooling and resizing by PyTorch, in double precision, with gradients.

    venv/bin/python tests/golden/make_convolution.py

Of case NAME the lines NAME.y, and NAME.x, NAME.w, NAME.b: the gradients of sum(y * up). Operand number p (x 0, w 1, b 2, up 3)
is the formula of PROVENANCE.md with scale 1, offset 0. tests/convolution/test_golden.c has the same tables.
"""

import torch
import torch.nn.functional as F
from make_golden import Report, formula

CONVOLUTIONS = [  # name, x, w, bias, options of torch, zeros before alone
    ("plain1", (4, 6, 11), (8, 6, 3), True, dict(padding=1), 0),
    ("causal1", (2, 8, 9), (8, 1, 4), True, dict(groups=8), 3),
    ("multiplier1", (2, 4, 10), (8, 1, 3), False, dict(groups=4, stride=2, padding=1), 0),
    ("patch1", (2, 3, 24), (5, 3, 4), True, dict(stride=4), 0),
    ("plain2", (3, 4, 9, 8), (6, 4, 3, 3), True, dict(padding=1), 0),
    ("strided2", (2, 4, 9, 7), (6, 4, 3, 2), True, dict(stride=(2, 1), padding=(1, 0), dilation=(1, 2)), 0),
    ("groups2", (2, 6, 5, 6), (9, 2, 3, 3), True, dict(groups=3, padding=1), 0),
    ("depthwise2", (2, 4, 8, 16), (4, 1, 7, 7), True, dict(groups=4, padding=3), 0),
    ("patch2", (2, 3, 16, 32), (8, 3, 4, 4), True, dict(stride=4), 0),
    ("point2", (2, 5, 4, 7), (3, 5, 1, 1), False, dict(), 0),
    ("plain3", (2, 3, 4, 5, 6), (4, 3, 2, 3, 3), True, dict(padding=(0, 1, 1)), 0),
]

TRANSPOSED = [  # name, x, w, bias, options of torch
    ("transposed1", (2, 4, 7), (4, 3, 4), True, dict(stride=2, padding=1, output_padding=1)),
    ("transposed2", (2, 6, 4, 5), (6, 2, 3, 2), True, dict(stride=(2, 1), dilation=(1, 2), groups=3)),
]

WINDOWS = [  # name, x, function
    ("max1", (2, 3, 11), lambda x: F.max_pool1d(x, 3, 2, 1)),
    ("max2", (2, 3, 7, 9), lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 0), (1, 2), ceil_mode=True)),
    ("average1", (2, 3, 11), lambda x: F.avg_pool1d(x, 4, 3, 2)),
    ("average2", (2, 3, 7, 9), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    ("average2_own", (2, 3, 7, 9), lambda x: F.avg_pool2d(x, (3, 2), (2, 3), (1, 1), count_include_pad=False)),
    ("average3", (1, 2, 4, 5, 6), lambda x: F.avg_pool3d(x, 2)),
    ("adaptive1", (2, 3, 7), lambda x: F.adaptive_avg_pool1d(x, 3)),
    ("adaptive2", (2, 3, 7, 5), lambda x: F.adaptive_avg_pool2d(x, (3, 4))),
    ("adaptive2_one", (2, 3, 7, 5), lambda x: F.adaptive_avg_pool2d(x, 1)),
    ("nearest1", (2, 3, 5), lambda x: F.interpolate(x, size=8)),
    ("nearest2", (2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=2)),
    ("nearest2_down", (2, 3, 7, 5), lambda x: F.interpolate(x, scale_factor=(0.6, 1.7))),
    ("exact2", (2, 3, 7, 5), lambda x: F.interpolate(x, size=(3, 8), mode="nearest-exact")),
    ("linear1", (2, 3, 5), lambda x: F.interpolate(x, size=9, mode="linear")),
    ("bilinear2", (2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    ("bilinear2_scale", (2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=(1.7, 0.7), mode="bilinear")),
    ("bilinear2_corners", (2, 3, 4, 5), lambda x: F.interpolate(x, size=(7, 3), mode="bilinear", align_corners=True)),
    ("trilinear3", (1, 2, 3, 4, 2), lambda x: F.interpolate(x, size=(5, 2, 4), mode="trilinear")),
    ("bicubic2", (2, 3, 4, 5), lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
    ("bicubic2_corners", (2, 3, 4, 5), lambda x: F.interpolate(x, size=(7, 3), mode="bicubic", align_corners=True)),
]

UPSAMPLE = [("nearest", {}), ("bilinear", {}), ("bicubic", {})]  # MATH-18: (1,1,2,2) of 1 to 4, twice as large


def report_gradients(report, name, y, leaves):
    y.backward(formula(3, y.shape, 1.0, 0.0))
    report.tensor(f"{name}.y", y)
    for operand, leaf in leaves.items():
        report.tensor(f"{name}.{operand}", leaf.grad)


def main():
    torch.set_default_dtype(torch.float64)
    report = Report("convolutions, pooling and resizing")
    report.whole = 128
    for name, x, w, bias, options, before in CONVOLUTIONS:
        leaves = {"x": formula(0, x, 1.0, 0.0).requires_grad_(), "w": formula(1, w, 1.0, 0.0).requires_grad_()}
        if bias:
            leaves["b"] = formula(2, w[:1], 1.0, 0.0).requires_grad_()
        function = (F.conv1d, F.conv2d, F.conv3d)[len(x) - 3]
        given = F.pad(leaves["x"], (before, 0)) if before else leaves["x"]
        report_gradients(report, name, function(given, leaves["w"], leaves.get("b"), **options), leaves)
    for name, x, w, bias, options in TRANSPOSED:
        leaves = {"x": formula(0, x, 1.0, 0.0).requires_grad_(), "w": formula(1, w, 1.0, 0.0).requires_grad_()}
        leaves["b"] = formula(2, (w[1] * options.get("groups", 1),), 1.0, 0.0).requires_grad_()
        function = (F.conv_transpose1d, F.conv_transpose2d)[len(x) - 3]
        report_gradients(report, name, function(leaves["x"], leaves["w"], leaves["b"], **options), leaves)
    for name, x, function in WINDOWS:
        x = formula(0, x, 1.0, 0.0).requires_grad_()
        report_gradients(report, name, function(x), {"x": x})
    for mode, options in UPSAMPLE:
        x = torch.arange(1.0, 5.0).reshape(1, 1, 2, 2)
        report.tensor(f"upsample_{mode}", F.interpolate(x, scale_factor=2, mode=mode, **options))
    report.write("convolution.txt")


if __name__ == "__main__":
    main()
