#!/usr/bin/env python3
"""Write resnet.txt: a residual network of basic blocks (He et al. 2015) with batch norm, trained by SGD with momentum, in
double precision. PROVENANCE.md says how to run it and what the file looks like.

Beside what the other files have: `buffer.P` are the running statistics after the steps, `evaluated` what the model then
gives in evaluation."""

import torch
import torch.nn.functional as F

import make_golden as g

BATCH, CHANNELS, HEIGHT, WIDTH, CLASSES = 6, 3, 9, 7, 5
STEM, BLOCKS = 4, ((4, 4, 1), (4, 6, 2))  # of each block the channels in, out and the stride
SGD = dict(lr=0.05, momentum=0.9, weight_decay=1e-3)


def norm_rows(name, channels):
    return [(name + ".weight", (channels,), 0.3, 1.0), (name + ".bias", (channels,), 0.2, 0.0)]


def table():
    rows = [("conv.weight", (STEM, CHANNELS, 3, 3), 0.4, 0.0), *norm_rows("norm", STEM)]
    for i, (before, after, stride) in enumerate(BLOCKS):
        at = f"blocks.{i}."
        rows += [(at + "conv1.weight", (after, before, 3, 3), 0.4, 0.0), *norm_rows(at + "norm1", after)]
        rows += [(at + "conv2.weight", (after, after, 3, 3), 0.4, 0.0), *norm_rows(at + "norm2", after)]
        if stride != 1 or before != after:
            rows += [(at + "short.weight", (after, before, 1, 1), 0.8, 0.0), *norm_rows(at + "norm3", after)]
    return rows + [("head.weight", (CLASSES, BLOCKS[-1][1]), 0.6, 0.0), ("head.bias", (CLASSES,), 0.1, 0.0)]


class Model:
    def __init__(self, p):
        self.p, self.training, self.buffers = p, True, {}
        for name, t in p.items():
            if "norm" in name and name.endswith("weight"):
                self.buffers[name.replace("weight", "running_mean")] = torch.zeros(t.shape)
                self.buffers[name.replace("weight", "running_var")] = torch.ones(t.shape)

    def norm(self, x, name):
        mean, var = self.buffers[name + ".running_mean"], self.buffers[name + ".running_var"]
        return F.batch_norm(x, mean, var, self.p[name + ".weight"], self.p[name + ".bias"], self.training, 0.1, 1e-5)

    def block(self, x, at, stride):
        y = F.conv2d(x, self.p[at + "conv1.weight"], stride=stride, padding=1)
        y = F.conv2d(F.relu(self.norm(y, at + "norm1")), self.p[at + "conv2.weight"], padding=1)
        if at + "short.weight" in self.p:
            x = self.norm(F.conv2d(x, self.p[at + "short.weight"], stride=stride), at + "norm3")
        return F.relu(self.norm(y, at + "norm2") + x)

    def logits(self, x):
        x = F.relu(self.norm(F.conv2d(x, self.p["conv.weight"], padding=1), "norm"))
        for i, (_, _, stride) in enumerate(BLOCKS):
            x = self.block(x, f"blocks.{i}.", stride)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return F.linear(x, self.p["head.weight"], self.p["head.bias"])


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    report = g.Report("resnet")
    report.whole = 32
    report.parameters(table())
    p = g.make_parameters(table())
    model, losses = Model(p), []
    images = g.formula(20, (BATCH, CHANNELS, HEIGHT, WIDTH), 1.0, 0.0)
    classes = (3 * torch.arange(BATCH) + 1) % CLASSES
    optimizer = torch.optim.SGD(p.values(), foreach=False, **SGD)
    for step in range(g.STEPS):
        optimizer.zero_grad()
        result = model.logits(images)
        loss = F.cross_entropy(result, classes)
        loss.backward()
        losses.append(loss.detach())
        if step == 0:
            report.tensor("result", result)
            for name, t in p.items():
                report.tensor(f"grad.{name}", t.grad)
        optimizer.step()
    report.tensor("losses", torch.stack(losses))
    for name, t in p.items():
        report.tensor(f"after.{name}", t)
    for name, t in model.buffers.items():
        report.tensor(f"buffer.{name}", t)
    model.training = False
    report.tensor("evaluated", model.logits(images))
    report.write("resnet.txt")


if __name__ == "__main__":
    main()
