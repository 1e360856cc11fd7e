"""Write PEFT's adapters on transformers' models, with what they compute.

    python -m helpers.peer_peft_folder OUT

writes OUT/<case>_base, OUT/<case> (the adapter) and OUT/<case>.npz: ids, the outputs with and
without the adapter.
"""

import sys
from pathlib import Path

import numpy as np

SIZES = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 19,
    "type_vocab_size": 3,
}
CASES = {
    "classifier": (
        "BertForSequenceClassification",
        "SEQ_CLS",
        {"r": 5, "lora_alpha": 16, "target_modules": ["query", "value"]},
    ),
    "blocks": (
        "BertModel",
        "FEATURE_EXTRACTION",
        {
            "r": 5,
            "lora_alpha": 3,
            "target_modules": ["key", "intermediate.dense"],
            "layers_to_transform": [0, 2],
            "layers_pattern": "layer",
            "rank_pattern": {"key": 2},
            "alpha_pattern": {"intermediate.dense": 9},
        },
    ),
}


def main(out: Path) -> None:
    import peft
    import torch
    import transformers

    random = np.random.default_rng(7)
    ids = random.integers(1, SIZES["vocab_size"], (5, 7))
    ids[1::2, 4:] = 0
    segments = random.integers(0, SIZES["type_vocab_size"], ids.shape)
    arrays = {"input_ids": ids, "token_type_ids": segments, "attention_mask": ids != 0}
    inputs = {name: torch.tensor(array.astype("int64")) for name, array in arrays.items()}
    for case, (name, task, options) in CASES.items():
        model = getattr(transformers, name)(transformers.BertConfig(**SIZES, num_labels=5)).eval()
        draw(model.named_parameters())
        model.save_pretrained(out / f"{case}_base")
        with torch.no_grad():
            plain = model(**inputs)[0].numpy()
        adapted = peft.get_peft_model(model, peft.LoraConfig(task_type=task, **options)).eval()
        words = ("lora_", "modules_to_save")
        draw((n, p) for n, p in adapted.named_parameters() if any(word in n for word in words))
        adapted.save_pretrained(out / case)
        (out / case / "README.md").unlink()
        with torch.no_grad():
            found = adapted(**inputs)[0].numpy()
        np.savez(out / f"{case}.npz", ids=ids, segments=segments, plain=plain, adapted=found)


def draw(parameters) -> None:
    """Multiples of 1/64: far from first weights, and few bytes in an archive."""
    import torch

    random = np.random.default_rng(5)
    for name, parameter in parameters:
        values = random.normal(name.endswith("LayerNorm.weight"), 0.3, tuple(parameter.shape))
        parameter.data = torch.tensor(np.round(values * 64) / 64, dtype=torch.float32)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
