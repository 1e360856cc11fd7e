"""What KerasHub's tanh GELU costs a model that was trained with another activation, as a table.

    python benchmarks/gelu.py [FOLDER …]

KerasHub's BERT computes tanh GELU whatever the checkpoint says, and in its MLM head erf GELU with
an epsilon of 1e-5. Each row takes one set of weights and compares the outputs under the model's own
activation with those under tanh GELU: maximum (and mean) absolute difference over real tokens.
FOLDERs are checkpoints that kbert.load opens, with a vocabulary; beside them base with random
weights of two widths.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import kbert

TEXTS = [
    "Hi",
    "The capital of France is Paris, and has been for a long time.",
    "a gorgeous, witty, seductive movie .",
    "the film is strictly routine , but it never quite loses its footing .",
    "Shōnen Jump publie des mangas ; 東京は日本の首都です。 Москва — столица России.",
    "Attention weights average the value vectors; the feed-forward layer does the rest.",
    "word " * 200,
]
ACTIVATIONS = ("gelu", "gelu_new", "silu", "relu")
KERAS_HUBS = "gelu_new"


def main(folders: list[str]) -> None:
    print("| weights | own activation | sequence output | pooled output | MLM logits |")
    print("|---|---|---|---|---|")
    for folder in folders:
        bert = kbert.load(folder)
        ids = bert.tokenizer.encode_batch(TEXTS, max_length=256)
        encoder = kbert.load(folder, head="encoder", tokenizer=False).model
        compare("/".join(Path(folder).parts[-2:]), bert.config, encoder, ids)
    for width in (0.02, 0.05):
        config = kbert.get_config("base").replace(initializer_range=width)
        compare(f"base, random, σ = {width}", config, random_model(config), random_ids(config))


def compare(name: str, config, model, ids) -> None:
    """Prints a row for each activation that the weights could have been trained with."""
    theirs = outputs_of(config, KERAS_HUBS, model, ids, of_keras_hub=True)
    for activation in ACTIVATIONS:
        own = outputs_of(config, activation, model, ids)
        cells = [difference(own.get(key), theirs.get(key), ids) for key in ("x", "pooled", "MLM")]
        print(f"| {name} | {activation} | {' | '.join(cells)} |", flush=True)


def difference(own, theirs, ids) -> str:
    if own is None:
        return ""
    found = np.abs(own - theirs)
    if own.ndim == 3:
        found = found[ids.token_ids != 0]
    return f"{found.max():.1e} ({found.mean():.1e})"


def outputs_of(config, activation: str, source, ids, of_keras_hub: bool = False) -> dict:
    """Sequence output, pooled output and, where the weights have them, MLM logits."""
    config = config.replace(hidden_act=activation)
    has_heads = "MLM-Dense" in [layer.name for layer in source.layers]
    model = (kbert.build_bert if has_heads else kbert.build_encoder)(config, seq_len=None)
    model.set_weights(source.get_weights())
    encoder = kbert.build_encoder(config, seq_len=None)
    for layer in encoder.layers:
        layer.set_weights(source.get_layer(layer.name).get_weights())
    sequence, pooled = kbert.predict(encoder, ids.token_ids, ids.segment_ids).values()
    outputs = {"x": sequence, "pooled": pooled}
    if has_heads:
        if of_keras_hub:
            as_keras_hubs_head(model)
        outputs["MLM"] = kbert.predict(model, ids.token_ids, ids.segment_ids)["MLM"]
    return outputs


def as_keras_hubs_head(model) -> None:
    from kbert.ops.activations import gelu

    model.get_layer("MLM-Dense").activation = gelu
    model.get_layer("MLM-Norm").epsilon = 1e-5


def random_model(config):
    import keras

    keras.utils.set_random_seed(3)
    return kbert.build_bert(config, seq_len=None)


def random_ids(config):
    random = np.random.default_rng(3)
    token_ids = random.integers(1, config.vocab_size, (4, 61))
    token_ids[1::2, 37:] = 0
    return SimpleNamespace(token_ids=token_ids, segment_ids=np.zeros_like(token_ids))


if __name__ == "__main__":
    main(sys.argv[1:])
