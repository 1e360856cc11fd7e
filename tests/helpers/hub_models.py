"""Small models with the files that the repositories of the hub have: BERT's and MiniLM's."""

import dataclasses
from pathlib import Path

from numpy.testing import assert_array_equal

import kbert
from helpers.command_line import kbert as run
from helpers.sizes import SIZES
from helpers.small_berts import small_bert
from kbert.checkpoints.sentence_settings import SentenceSettings

BERT, MINILM = "google-bert/bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2"
COREML = "coreml/fill-mask/float32_model.mlpackage/Data/com.apple.CoreML"
# Files of those repositories that kbert does not need, and their sizes, rounded, in multiples of
# model.safetensors; at least 100 bytes are written.
OTHERS = {
    BERT: {
        "pytorch_model.bin": 1.0,
        "tf_model.h5": 1.2,
        "flax_model.msgpack": 1.0,
        "rust_model.ot": 1.2,
        "model.onnx": 1.2,
        f"{COREML}/weights/weight.bin": 1.2,
        f"{COREML}/model.mlmodel": 0.001,
        "coreml/fill-mask/float32_model.mlpackage/Manifest.json": 0.0,
        "README.md": 0.0,
        "LICENSE": 0.0,
        ".gitattributes": 0.0,
    },
    MINILM: {
        "pytorch_model.bin": 1.0,
        "tf_model.h5": 1.0,
        "rust_model.ot": 1.0,
        **{f"onnx/model{kind}.onnx": 1.0 for kind in ("", "_O1", "_O2", "_O3")},
        "onnx/model_O4.onnx": 0.5,
        **{f"onnx/model_qint8_{chip}.onnx": 0.25 for chip in ("arm64", "avx512", "avx512_vnni")},
        "onnx/model_quint8_avx2.onnx": 0.25,
        "openvino/openvino_model.bin": 1.0,
        "openvino/openvino_model.xml": 0.002,
        "openvino/openvino_model_qint8_quantized.bin": 0.25,
        "openvino/openvino_model_qint8_quantized.xml": 0.004,
        "data_config.json": 0.0,
        "train_script.py": 0.0,
        "README.md": 0.0,
        ".gitattributes": 0.0,
    },
}
CONFIG = kbert.BertConfig(**SIZES).replace(num_hidden_layers=1)


def write_model(folder: Path, layout: str | None = None, form: str = "transformers") -> kbert.Bert:
    """Write a small model of random weights into a folder, with the other files of a layout."""
    is_encoder = layout == MINILM or form == "keras_hub"  # a preset has no pretraining head
    bert = small_bert(CONFIG, "encoder" if is_encoder else "pretraining")
    if layout == MINILM:
        bert = dataclasses.replace(bert, sentence=SentenceSettings("mean", normalize=True))
    kbert.save(bert, folder, format=form)
    if layout:
        vocabulary = "\n".join(bert.tokenizer.tokens) + "\n"
        (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    for name, times in OTHERS.get(layout, {}).items():
        path, size = folder / name, (folder / "model.safetensors").stat().st_size
        assert not path.exists(), f"{path} is the model's own"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" * max(100, int(size * times)))
    return bert


def check_same(bert: kbert.Bert, folder: Path, sentence: bool = True) -> None:
    """Compare weights, configuration, tokens and pooling with those of the model at a path."""
    wanted = kbert.load(folder)
    assert bert.config == wanted.config and bert.tokenizer.tokens == wanted.tokenizer.tokens
    assert repr(bert.sentence) == repr(wanted.sentence if sentence else None)
    for weight, expected in zip(bert.model.weights, wanted.model.weights, strict=True):
        assert_array_equal(weight.numpy(), expected.numpy())


def failed_line(capsys, *arguments) -> str:
    """Run a command that fails with the status 2, and return its one line."""
    done = run(capsys, *arguments)
    assert done.status == 2 and done.out == "" and done.err.count("\n") == 1, done
    return done.err
