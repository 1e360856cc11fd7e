"""What transformers computes with a checkpoint folder, in a process of its own.

    python -m helpers.peer_folder FOLDER TEXTS.json OUT.npz

writes the ids of its tokenizer, padded, and the last hidden state and pooled output.
"""

import json
import sys

import numpy as np


def main(folder: str, texts: list[str], out: str) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    np.savez(
        out,
        token_ids=inputs["input_ids"].numpy(),
        sequence_output=outputs.last_hidden_state.numpy(),
        pooled_output=outputs.pooler_output.numpy(),
    )


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        main(sys.argv[1], json.load(file), sys.argv[3])
