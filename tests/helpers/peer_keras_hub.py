"""KerasHub on the backend that KERAS_BACKEND names, for tests/checkpoints/test_keras_hub.py.

OUT/ids.npz holds the inputs, OUT/NAME/ a preset of KerasHub, OUT/kbert/NAME/ one of kbert.
"""

import json
from pathlib import Path

import keras
import numpy as np

from helpers.peer_models import draw_array

try:
    import keras_nlp as keras_hub  # the name that most code still has; a shim
except ImportError:
    import keras_hub

SIZES = {
    "vocabulary_size": 99,
    "num_layers": 2,
    "num_heads": 3,
    "hidden_dim": 12,
    "intermediate_dim": 17,
    "max_sequence_length": 19,
    "num_segments": 3,
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the quick brown fox jump ##ed over lazy dog . , ! ? ' - café naïve cafe naive 東 京"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = [*SPECIAL, *WORDS.split(), *LETTERS, *(f"##{letter}" for letter in LETTERS)]
LINES = [
    "The quick brown fox jumped over the lazy dog.",
    "Café, naïve! Dogs - foxes?",
    "the [MASK] jumps over  the dog's 東京 , xyz7",
    "",
]
BATCH, LENGTH = 5, 7
hub = keras_hub.models


def with_random_weights(model):
    random = np.random.default_rng(5)
    for variable in model.weights:
        variable.assign(draw_array(random, variable.path, variable.shape))
    return model


def inputs(pad: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    token_ids = random.integers(5, 99, (BATCH, LENGTH))
    token_ids[1::2, 4:] = pad
    ids = {
        "token_ids": token_ids,
        "segment_ids": random.integers(0, 3, token_ids.shape),
        "padding_mask": token_ids != pad,
    }
    return {name: value.astype("int32") for name, value in ids.items()}


def outputs_of(model) -> dict[str, np.ndarray]:
    """What a backbone or task computes for the inputs, every position of an MLM head."""
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    ids = inputs(tokenizer.pad_token_id if tokenizer else 0)
    if "mask_positions" in model.input:
        ids["mask_positions"] = np.tile(np.arange(LENGTH, dtype="int32"), (BATCH, 1))
    found = keras.Model.predict(model, ids, verbose=0)  # a task's own takes texts
    if not isinstance(found, dict):
        found = {"logits": found}
    names = [name for name in ("sequence_output", "pooled_output", "logits") if name in found]
    return {name: found[name] for name in names}


def backbone(**changes):
    return with_random_weights(hub.BertBackbone(**SIZES | changes))


def tokenizer_of(tokens=TOKENS):
    return hub.BertTokenizer(
        vocabulary=tokens, lowercase=True, strip_accents=True, special_tokens_in_strings=True
    )


def masked_lm():
    preprocessor = hub.BertMaskedLMPreprocessor(tokenizer_of(), 19)
    return with_random_weights(
        hub.BertMaskedLM(hub.BertBackbone(**SIZES), preprocessor=preprocessor)
    )


def classifier(tokens=TOKENS):
    preprocessor = hub.BertTextClassifierPreprocessor(tokenizer_of(tokens), 19)
    return with_random_weights(
        hub.BertTextClassifier(hub.BertBackbone(**SIZES), 5, preprocessor=preprocessor, dropout=0.3)
    )


def embedder():
    preprocessor = hub.BertTextEmbedderPreprocessor(tokenizer_of(), 13)
    return hub.BertTextEmbedder(backbone(), preprocessor, pooling_mode="max", normalize=False)


def write(out: Path) -> None:
    """Write presets, and what KerasHub computes with each."""
    np.savez(out / "ids.npz", **inputs())
    made = {"backbone": backbone(), "masked_lm": masked_lm()}
    made |= {"classifier": classifier(), "embedder": embedder()}
    docs_order = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", *TOKENS[5:]]
    made["other_padding"] = classifier(docs_order)
    for name, model in made.items():
        model.save_to_preset(str(out / name))
        model.save(out / f"{name}.keras")
        np.savez(out / f"{name}.npz", **outputs_of(model))
    made["backbone"].save_to_preset(str(out / "sharded"), max_shard_size=6e-6)
    assert len(list((out / "sharded").glob("*.h5"))) > 2
    for dtype in ("float16", "bfloat16"):
        backbone(dtype=dtype).save_to_preset(str(out / dtype))
        halved = hub.BertBackbone.from_preset(str(out / dtype))  # in float32 again
        np.savez(out / f"{dtype}.npz", **outputs_of(halved))


def read(out: Path) -> None:
    """Compute with the presets that kbert wrote."""
    classes = {
        "masked_lm": hub.BertMaskedLM,
        "classifier": hub.BertTextClassifier,
        "embedder": hub.BertTextEmbedder,
    }
    for folder in sorted((out / "kbert").iterdir()):
        cls = classes.get(folder.name, hub.BertBackbone)
        model = cls.from_preset(str(folder))
        np.savez(out / "kbert" / f"{folder.name}.npz", **outputs_of(model))
        encoder = hub.BertBackbone.from_preset(str(folder))
        found = outputs_of(encoder)
        np.savez(out / "kbert" / f"{folder.name}_encoder.npz", **found)
        if (folder / "tokenizer.json").is_file():
            tokenizer = hub.BertTokenizer.from_preset(str(folder))
            ids = [[int(number) for number in tokenizer(line)] for line in LINES]
            (out / "kbert" / f"{folder.name}.ids.json").write_text(json.dumps(ids))


def live(out: Path) -> None:
    """Load live objects by kbert, and write their outputs beside KerasHub's."""
    import kbert

    found = {}
    for name, model in {"backbone": backbone(), "classifier": classifier()}.items():
        bert = kbert.load(model)
        ids = inputs()
        wanted = outputs_of(model)
        got = kbert.predict(bert.model, ids["token_ids"], ids["segment_ids"])
        found |= {f"{name} kbert {place}": value for place, value in enumerate(got.values())}
        found |= {f"{name} hub {place}": value for place, value in enumerate(wanted.values())}
        for variable in model.weights:  # the two must not share memory
            variable.assign(np.zeros(variable.shape, "float32"))
        again = kbert.predict(bert.model, ids["token_ids"], ids["segment_ids"])
        for first, second in zip(got.values(), again.values(), strict=True):
            assert np.array_equal(first, second)
        if name != "backbone":
            found[f"{name} ids"] = bert.tokenizer.encode(LINES[0]).ids
    backend = keras.backend.backend()
    np.savez(out / f"live_{backend}.npz", **found)
    errors = []
    for wrong in (3, keras.layers.Dense(2)):
        try:
            kbert.load(wrong)
        except ValueError as error:
            errors.append(str(error))
    (out / f"live_{backend}.json").write_text(json.dumps(errors))
