"""Write tests/files/tf_bert.zip: transformers 4's TFBert classes with random weights.

    python -m helpers.peer_tf_bert tests/files/tf_bert.zip

A folder a class, as its save_pretrained writes it, with outputs.npz: ids and what the class
computes from them. Run once, with transformers 4.57.3 (the last line that has these classes),
tensorflow 2.19.1 and tf-keras 2.19.0; the tests read the file.
"""

import os
import sys
import tempfile
import zipfile
from pathlib import Path

os.environ |= {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}

import numpy as np

SIZES = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 19,
    "type_vocab_size": 3,
}
BATCH, LENGTH = 13, 7
# by folder: the class, and how it is saved
FOLDERS = {
    "model": ("TFBertModel", {}),
    "pretraining": ("TFBertForPreTraining", {}),
    "masked": ("TFBertForMaskedLM", {}),
    "next": ("TFBertForNextSentencePrediction", {}),
    "classifier": ("TFBertForSequenceClassification", {}),
    "tokens": ("TFBertForTokenClassification", {}),
    "qa": ("TFBertForQuestionAnswering", {}),
    "shards": ("TFBertForPreTraining", {"max_shard_size": "9KB"}),
    "safe": ("TFBertForPreTraining", {"safe_serialization": True}),
    "safe_shards": ("TFBertForMaskedLM", {"safe_serialization": True, "max_shard_size": "9KB"}),
}


def main(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(path, "w") as archive:
        for folder, (kind, options) in FOLDERS.items():
            write(Path(name) / folder, kind, options)
        for file in sorted(Path(name).rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(name), zipfile.ZIP_LZMA)


def write(folder: Path, kind: str, options: dict) -> None:
    import transformers

    random = np.random.default_rng(7)
    num_labels = 2 if kind.endswith("QuestionAnswering") else 5
    config = transformers.BertConfig(**SIZES, num_labels=num_labels)
    model = getattr(transformers, kind)(config)
    token_ids = random.integers(1, SIZES["vocab_size"], (BATCH, LENGTH))
    token_ids[1::2, 4:] = 0
    segment_ids = random.integers(0, SIZES["type_vocab_size"], token_ids.shape)
    inputs = {
        "input_ids": token_ids,
        "token_type_ids": segment_ids,
        "attention_mask": (token_ids != 0).astype("int64"),
    }
    model(inputs)  # makes the weights
    for weight in model.weights:  # far from the first ones, so that every one of them shows
        offset = 1.0 if "gamma" in weight.name else 0.0
        weight.assign(offset + 0.2 * random.standard_normal(weight.shape))
    model.save_pretrained(folder, **options)
    outputs = {name: np.asarray(value) for name, value in model(inputs).items()}
    np.savez(folder / "outputs.npz", token_ids=token_ids, segment_ids=segment_ids, **outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
