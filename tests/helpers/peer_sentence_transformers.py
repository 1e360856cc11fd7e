"""Sentence vectors of a checkpoint folder by its authors' library, in a process of its own.

    python -m helpers.peer_sentence_transformers FOLDER TEXTS.json OUT.npy [--formula]

sentence-transformers itself; with --formula its definition written out on transformers: cut to
max_seq_length, mean over the attention mask, length 1.
"""

import json
import sys
from pathlib import Path

import numpy as np


def by_package(folder: str, texts: list[str]) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(folder, device="cpu").encode(texts)


def by_formula(folder: str, texts: list[str]) -> np.ndarray:
    import torch
    from transformers import AutoModel, AutoTokenizer

    settings = json.loads((Path(folder) / "sentence_bert_config.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in texts:
        inputs = tokenizer(
            text, truncation=True, max_length=settings["max_seq_length"], return_tensors="pt"
        )
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0]
        mean = states.mean(0).numpy()
        vectors.append(mean / np.linalg.norm(mean))
    return np.stack(vectors)


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        texts = json.load(file)
    peer = by_formula if "--formula" in sys.argv else by_package
    np.save(sys.argv[3], peer(sys.argv[1], texts))
