#!/usr/bin/env python3
"""make_gpt2.py FOLDER: a small GPT-2 of the transformers package, saved as it saves models, and what it
computes: config.json, model.safetensors, and results.safetensors with tokens [2,8], logits [2,8,17],
the loss of predicting targets [2,8], and the gradients of some weights, by their names in the model.

Every weight's element i (row-major) is ((37 i + 11 + 97 p) mod 101) / 250 - 0.2, p its place among the
sorted names; norms' weights are 1 more. Attention in its plain form, float32, no dropout.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

folder = pathlib.Path(sys.argv[1])
config = GPT2Config(
    vocab_size=17,
    n_positions=8,
    n_embd=12,
    n_layer=2,
    n_head=3,
    attn_implementation="eager",
)
model = GPT2LMHeadModel(config).eval()
with torch.no_grad():
    for place, (name, weight) in enumerate(sorted(model.named_parameters())):
        i = torch.arange(weight.numel(), dtype=torch.int64)
        value = ((i * 37 + 11 + 97 * place) % 101).to(torch.float64) / 250 - 0.2
        if ".ln_" in name and name.endswith("weight"):
            value += 1
        weight.copy_(value.reshape(weight.shape))
model.save_pretrained(folder)

i = torch.arange(16)
tokens = ((7 * i + 3) % 17).reshape(2, 8)
targets = ((5 * i + 1) % 17).reshape(2, 8)
logits = model(tokens).logits
loss = torch.nn.functional.cross_entropy(logits.reshape(16, 17), targets.reshape(16))
loss.backward()
kept = [
    "transformer.wte.weight",
    "transformer.wpe.weight",
    "transformer.h.0.attn.c_attn.weight",
    "transformer.h.0.attn.c_attn.bias",
    "transformer.h.1.attn.c_proj.weight",
    "transformer.h.1.mlp.c_fc.weight",
    "transformer.ln_f.weight",
]
parameters = dict(model.named_parameters())
results = {"grad." + name: parameters[name].grad.contiguous() for name in kept}
results.update(tokens=tokens, targets=targets, logits=logits.detach().contiguous(), loss=loss.detach())
save_file(results, folder / "results.safetensors")
