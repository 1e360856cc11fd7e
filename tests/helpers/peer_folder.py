"""What transformers and sentence-transformers compute with a checkpoint folder.

    python -m helpers.peer_folder FOLDER OUT

OUT has texts.json. Written are OUT/outputs.npz, the ids of transformers' tokenizer, padded, the
last hidden state and the pooled output, and OUT/vectors.npy, the vectors of sentence-transformers
if it is installed.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np


def main(folder: str, out: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    texts = json.loads((out / "texts.json").read_text(encoding="utf-8"))
    if find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        np.save(out / "vectors.npy", SentenceTransformer(folder, device="cpu").encode(texts))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    np.savez(
        out / "outputs.npz",
        token_ids=inputs["input_ids"].numpy(),
        sequence_output=outputs.last_hidden_state.numpy(),
        pooled_output=outputs.pooler_output.numpy(),
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
