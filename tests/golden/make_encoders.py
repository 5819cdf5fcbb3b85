#!/usr/bin/env python3
"""Write t5/, vit/ and bert_mlm/: small random models of transformers, their results, gradients and training.

usage: make_encoders.py FOLDER; PROVENANCE.md says which versions. Everything is computed in float64
from weights that float32 can hold (also where transformers would round to float32 in between). In
each folder

  model.safetensors    the weights at the start, by transformers' names, float32
  grads.safetensors    the gradients of the first loss, by the same names, float32
  after.safetensors    the weights after STEPS steps of AdamW on the same batch, float32
  results.safetensors  the inputs, `logits` and the `losses` of all steps, float64

t5/: a T5 of two encoder and two decoder layers with six heads, relative positions in 8 buckets up to
a distance of 10, and texts of several lengths. vit/: a ViT of two layers with six heads on images of
12 x 8 in 3 channels, in patches of 4 x 4, for 7 classes. bert_mlm/: a BERT of two layers with three
heads and the head that says which words were masked; its embedding is the head's weight, and row 0,
which stands for padding, gets its gradient from there alone.
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration, ViTConfig, ViTForImageClassification

STEPS = 3
ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def stay_in_double(module):
    """T5 rounds scores and the mean square of its norms to float32; here they stay as they are."""
    torch.Tensor.float = torch.Tensor.double
    for m in module.modules():
        if type(m).__name__ == "T5LayerNorm":
            m.forward = lambda x, m=m: m.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + m.variance_epsilon)


def randomise(model):
    """Weights of a size that makes every part matter, as float32 can hold them."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            drawn = torch.randn(p.shape) * 0.3
            if "norm" in name.lower() and name.endswith("weight"):
                drawn = 1 + drawn / 3
            p.copy_(drawn.to(torch.float32).double())


def write(folder, name, tensors, dtype):
    save_file({k: v.detach().to(dtype).contiguous().clone() for k, v in tensors.items()}, folder / name)


def train(folder, model, inputs, logits_of):
    folder.mkdir(exist_ok=True)
    parameters = dict(model.named_parameters())
    write(folder, "model.safetensors", parameters, torch.float32)
    optimizer = torch.optim.AdamW(parameters.values(), foreach=False, **ADAMW)
    losses, results = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        result = model(**inputs)
        result.loss.backward()
        losses.append(result.loss.detach())
        if step == 0:
            results["logits"] = logits_of(result)
            write(folder, "grads.safetensors", {k: p.grad for k, p in parameters.items()}, torch.float32)
        optimizer.step()
    write(folder, "after.safetensors", parameters, torch.float32)
    results["losses"] = torch.stack(losses)
    results |= inputs
    write(folder, "results.safetensors", results, torch.float64)


def t5(folder):
    torch.manual_seed(5)
    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=17,
            d_model=12,
            d_kv=3,
            d_ff=20,
            num_layers=2,
            num_decoder_layers=2,
            num_heads=6,
            relative_attention_num_buckets=8,
            relative_attention_max_distance=10,
            dropout_rate=0.0,
            feed_forward_proj="relu",
            pad_token_id=0,
            decoder_start_token_id=0,
        )
    ).double()
    randomise(model)
    stay_in_double(model)
    batch, asked, answered = 3, 14, 9
    tokens = torch.randint(1, 17, (batch, asked))
    mask = torch.ones(batch, asked, dtype=torch.int64)
    mask[1, 10:] = 0
    mask[2, 5:] = 0
    labels = torch.randint(1, 17, (batch, answered))
    labels[1, 7:] = -100
    inputs = dict(
        input_ids=tokens, attention_mask=mask, decoder_input_ids=torch.randint(1, 17, (batch, answered)), labels=labels
    )
    train(folder, model, inputs, lambda result: result.logits)


def vit(folder):
    torch.manual_seed(6)
    model = ViTForImageClassification(
        ViTConfig(
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=6,
            intermediate_size=30,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            image_size=(12, 8),
            patch_size=4,
            num_channels=3,
            num_labels=7,
        )
    ).double()
    randomise(model)
    inputs = dict(pixel_values=torch.randn(2, 3, 12, 8).to(torch.float32).double(), labels=torch.tensor([4, 1]))
    train(folder, model, inputs, lambda result: result.logits)


def bert_mlm(folder):
    torch.manual_seed(7)
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=19,
            hidden_size=12,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=3,
            max_position_embeddings=10,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=0,
            attn_implementation="eager",
        )
    ).double()
    randomise(model)
    tokens = torch.randint(1, 19, (3, 9))
    mask = torch.ones(3, 9, dtype=torch.int64)
    for row, n in ((1, 6), (2, 2)):
        mask[row, n:] = 0
        tokens[row, n:] = 0
    labels = torch.where(torch.rand(3, 9) < 0.5, torch.randint(1, 19, (3, 9)), -100)
    labels[mask == 0] = -100
    inputs = dict(input_ids=tokens, attention_mask=mask, labels=labels)
    train(folder, model, inputs, lambda result: result.logits)


if __name__ == "__main__":
    torch.set_num_threads(1)
    at = pathlib.Path(sys.argv[1])
    t5(at / "t5")
    vit(at / "vit")
    bert_mlm(at / "bert_mlm")
