#!/usr/bin/env python3
"""make_hub.py FOLDER: small models of the transformers package, saved as it saves models, and what they
compute: FOLDER/hub-{gpt2,llama,llama_bias,bert} with config.json, model.safetensors, and results.safetensors.

Results: tokens [2,8]; of gpt2 and llama logits [2,8,17], the loss of predicting targets [2,8], gradients of
some weights by their names, and the losses [5] of as many steps of AdamW (rate 0.01, weight decay 0.01) on
that one batch; of bert the hidden states and the pooled first token under a mask
[2,8] that leaves out the last two tokens of the second row.

Every weight's element i (row-major) is ((37 i + 11 + 97 p) mod 101) / 250 - 0.2, p its place among the
sorted names; norms' weights are 1 more. Attention in its plain form, float32, no dropout.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

FOLDER = pathlib.Path(sys.argv[1])
I = torch.arange(16)
TOKENS = ((7 * I + 3) % 17).reshape(2, 8)
TARGETS = ((5 * I + 1) % 17).reshape(2, 8)


def fill(model):
    with torch.no_grad():
        for place, (name, weight) in enumerate(sorted(model.named_parameters())):
            i = torch.arange(weight.numel(), dtype=torch.int64)
            value = ((i * 37 + 11 + 97 * place) % 101).to(torch.float64) / 250 - 0.2
            if name.endswith("weight") and any(word in name for word in (".ln_", "norm", "LayerNorm")):
                value += 1
            weight.copy_(value.reshape(weight.shape))
    return model.eval()


def save(model, results, name):
    model.save_pretrained(FOLDER / name)
    (FOLDER / name / "generation_config.json").unlink(missing_ok=True)
    save_results(results, name)


def save_results(results, name):
    results = {key: value.detach().contiguous() for key, value in results.items()}
    save_file(results, FOLDER / name / "results.safetensors")


def loss_of(logits):
    return torch.nn.functional.cross_entropy(logits.reshape(16, 17), TARGETS.reshape(16))


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(loss_of(model(TOKENS).logits))
        losses[-1].backward()
        optimizer.step()
    return torch.stack(losses)


def language_model(model, name, kept):
    model = fill(model)
    logits = model(TOKENS).logits
    loss = loss_of(logits)
    loss.backward()
    parameters = dict(model.named_parameters())
    results = {"grad." + key: parameters[key].grad.clone() for key in kept}
    results.update(tokens=TOKENS, targets=TARGETS, logits=logits, loss=loss)
    save(model, results, name)  # with the first weights
    results["losses"] = train(model, 5)
    save_results(results, name)


language_model(
    GPT2LMHeadModel(
        GPT2Config(
            vocab_size=17, n_positions=8, n_embd=12, n_layer=2, n_head=3, attn_implementation="eager"
        )
    ),
    "hub-gpt2",
    [
        "transformer.wte.weight",
        "transformer.wpe.weight",
        "transformer.h.0.attn.c_attn.weight",
        "transformer.h.0.attn.c_attn.bias",
        "transformer.h.1.attn.c_proj.weight",
        "transformer.h.1.mlp.c_fc.weight",
        "transformer.ln_f.weight",
    ],
)
language_model(
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=17,
            hidden_size=16,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=32,
            rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 50.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8,
            },
            attn_implementation="eager",
        )
    ),
    "hub-llama",
    [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.1.self_attn.v_proj.weight",
        "model.layers.1.mlp.gate_proj.weight",
        "model.layers.1.mlp.up_proj.weight",
        "model.norm.weight",
        "lm_head.weight",
    ],
)
language_model(
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=17,
            hidden_size=12,
            intermediate_size=9,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=4,
            attention_bias=True,
            mlp_bias=True,
            max_position_embeddings=32,
            tie_word_embeddings=True,
            attn_implementation="eager",
        )
    ),
    "hub-llama_bias",
    [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.bias",
        "model.layers.1.self_attn.o_proj.weight",
        "model.layers.1.self_attn.o_proj.bias",
        "model.layers.1.mlp.up_proj.bias",
        "model.layers.0.mlp.down_proj.bias",
    ],
)
bert = fill(
    BertModel(
        BertConfig(
            vocab_size=17,
            hidden_size=12,
            intermediate_size=20,
            num_hidden_layers=2,
            num_attention_heads=3,
            max_position_embeddings=8,
            attn_implementation="eager",
        )
    )
)
mask = torch.ones(2, 8, dtype=torch.int64)
mask[1, 6:] = 0
out = bert(TOKENS, attention_mask=mask)
save(
    bert,
    dict(tokens=TOKENS, mask=mask.bool(), hidden=out.last_hidden_state, pooled=out.pooler_output),
    "hub-bert",
)
