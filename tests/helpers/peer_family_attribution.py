"""captum's integrated gradients of classes of BERT's family, in a process of its own.

    python -m helpers.peer_family_attribution FOLDER OUT.npz < CASES

CASES is JSON, by a class's name: the folder FOLDER/<class>, "ids" of a text, "baseline" ids and the
"label" whose probability is attributed. Each class has its attributions, (S, H), in OUT.npz.
"""

import json
import sys
from pathlib import Path

import numpy as np

STEPS = 50


def main(folder: Path, out: Path, cases: dict) -> None:
    np.savez(out, **{name: attributions(folder / name, **case) for name, case in cases.items()})


def attributions(folder: Path, ids: list, baseline: list, label: int) -> np.ndarray:
    import torch
    import transformers
    from captum.attr import LayerIntegratedGradients

    model = getattr(transformers, folder.name).from_pretrained(folder).eval()
    options = {}
    if model.config.model_type == "roberta":  # else a padding token of the baseline has row 1
        options["position_ids"] = torch.arange(2, 2 + len(ids))[None]

    def function(tokens):
        positions = {name: one.expand(len(tokens), -1) for name, one in options.items()}
        mask = torch.ones_like(tokens)
        return model(tokens, attention_mask=mask, **positions).logits.softmax(-1)[:, label]

    method = LayerIntegratedGradients(function, model.base_model.embeddings)
    given, other = (torch.tensor([row]) for row in (ids, baseline))
    return method.attribute(given, other, n_steps=STEPS)[0].detach().numpy()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.load(sys.stdin))
