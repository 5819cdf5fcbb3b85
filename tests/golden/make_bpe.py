#!/usr/bin/env python3
"""make_bpe.py: a small byte-level tokenizer as GPT-2's, and what it makes of some texts.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/golden/make_bpe.py

Writes tests/golden/bpe/: vocab.json, merges.txt, tokenizer.json, and texts.txt with a line per text:
its UTF-8 bytes in hexadecimal, then the token numbers.
"""
import os

from tokenizers import ByteLevelBPETokenizer

FOLDER = os.path.join(os.path.dirname(__file__), "bpe")

LEARN = """The weft runs over and under the warp; the warp stays where it is. It's the weaver's hand that
moves, and they'll say what they've learned: 12 threads, 345 picks, 6789 knots. Don't pull! I'm sure
we'd better not... Über den Fluss führt eine Brücke, où l'été dure longtemps. 1, 2, 3 and 44 more.
for (int i = 0; i < n; i++) sum += x[i] * y[i];   /* a product */
""" * 3

TEXTS = [
    "The weft runs over the warp",
    " leading and trailing  ",
    "it's they'll we've I'm don't you'd we're",
    "IT'S 'quoted' 'sam' 'tis",
    "numbers 12 3456 7.89 a1b2 1st",
    "tabs\tand\nlines\r\n\n  indented\n\t\tmore",
    "many     blanks      between",
    "Über Brücke été où naïve",
    "日本語 と русский ελληνικά",
    "smile 😀 and — dashes… «quotes»",
    "x[i]*y[i]+=(a-b)/c; // comment!!",
    "\u00a0no-break\u2003em\u3000wide",
    "e\u0301 combining",
    "'",
    " ",
    "\n",
    "a",
]


def main():
    os.makedirs(FOLDER, exist_ok=True)
    learn = os.path.join(FOLDER, "learn.txt")
    with open(learn, "w", encoding="utf-8") as file:
        file.write(LEARN)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train([learn], vocab_size=420, min_frequency=2, special_tokens=[])
    os.remove(learn)
    tokenizer.save_model(FOLDER)
    tokenizer.save(os.path.join(FOLDER, "tokenizer.json"))
    with open(os.path.join(FOLDER, "texts.txt"), "w", encoding="ascii") as file:
        for text in TEXTS:
            ids = " ".join(str(i) for i in tokenizer.encode(text).ids)
            file.write(f"{text.encode().hex()} {ids}\n")


main()
