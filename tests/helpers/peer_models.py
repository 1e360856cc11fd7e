"""What the peers' functions share: weights, tokenizers and outputs of their small models."""

import numpy as np


def draw_array(random: np.random.Generator, name: str, shape, fraction: int = 64) -> np.ndarray:
    """Draw multiples of 1/64, around 1 for a norm's scale: far from 0, few bytes in a zip file.

    They are the same with every release of a peer.
    """
    is_scale = name.lower().endswith(("norm.weight", "gamma", "gamma:0"))
    return (np.round(random.normal(is_scale, 0.2, tuple(shape)) * fraction) / fraction).astype("f4")


def draw_weights(model, seed: int, fraction: int = 64, parts: tuple[str, ...] = ("",)) -> None:
    """Draw the parameters of a torch model whose names have one of these parts."""
    import torch

    random = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if any(part in name for part in parts):
                array = draw_array(random, name, parameter.shape, fraction)
                parameter.copy_(torch.from_numpy(array))


def label_options(name: str) -> dict:
    """Return five labels for the classes of transformers that have labels."""
    return {"num_labels": 5} if "SequenceC" in name or "TokenC" in name else {}


def run_model(model, token_ids, segment_ids=None, pad: int = 0, **options):
    """Return what a model of transformers computes of ids, by name."""
    import torch

    inputs = {"input_ids": token_ids, "attention_mask": token_ids != pad}
    inputs |= {} if segment_ids is None else {"token_type_ids": segment_ids}
    with torch.no_grad():
        tensors = {name: torch.tensor(array.astype("int64")) for name, array in inputs.items()}
        return model(**tensors, **options)


def write_tokenizer(out, tokens, size: int):
    """Write a vocab.txt of so many tokens; return transformers' uncased tokenizer of it."""
    import transformers

    every = [*tokens, *(f"[unused{n}]" for n in range(size))][:size]
    (out / "vocab.txt").write_text("\n".join(every), encoding="utf-8")
    return transformers.BertTokenizer(str(out / "vocab.txt"), do_lower_case=True)
