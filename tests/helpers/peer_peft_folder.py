"""PEFT's adapters on transformers' models, with what they compute."""

from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights, run_model

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


def write_adapters(out: Path) -> None:
    """Write OUT/<case>_base, OUT/<case>, the adapter, and OUT/<case>.npz.

    That has ids, and the outputs with and without the adapter.
    """
    import peft
    import transformers

    random = np.random.default_rng(7)
    ids = random.integers(1, SIZES["vocab_size"], (5, 7))
    ids[1::2, 4:] = 0
    segments = random.integers(0, SIZES["type_vocab_size"], ids.shape)
    for case, (name, task, options) in CASES.items():
        model = getattr(transformers, name)(transformers.BertConfig(**SIZES, num_labels=5)).eval()
        draw_weights(model, 5)
        model.save_pretrained(out / f"{case}_base")
        plain = run_model(model, ids, segments)[0].numpy()
        adapted = peft.get_peft_model(model, peft.LoraConfig(task_type=task, **options)).eval()
        draw_weights(adapted, 5, parts=("lora_", "modules_to_save"))
        adapted.save_pretrained(out / case)
        (out / case / "README.md").unlink()
        found = run_model(adapted, ids, segments)[0].numpy()
        np.savez(out / f"{case}.npz", ids=ids, segments=segments, plain=plain, adapted=found)
