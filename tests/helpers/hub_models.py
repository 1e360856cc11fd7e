"""Small models with the files that the repositories of the hub have: BERT's and MiniLM's."""

import dataclasses
from pathlib import Path

from numpy.testing import assert_equal

import kbert
from helpers.command_line import kbert as run
from helpers.sizes import SIZES
from helpers.small_berts import small_bert
from kbert.checkpoints.sentence_settings import SentenceSettings

BERT, MINILM = "google-bert/bert-base-uncased", "sentence-transformers/all-MiniLM-L6-v2"
COREML = "coreml/fill-mask/float32_model.mlpackage"
OTHERS = {  # files of those repositories that kbert does not need
    BERT: [
        *("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx"),
        f"{COREML}/Data/com.apple.CoreML/weights/weight.bin",
        f"{COREML}/Data/com.apple.CoreML/model.mlmodel",
        *(f"{COREML}/Manifest.json", "README.md", "LICENSE", ".gitattributes"),
    ],
    MINILM: [
        *("pytorch_model.bin", "tf_model.h5", "rust_model.ot", "data_config.json"),
        *(f"onnx/model{kind}.onnx" for kind in ("", "_O1", "_O2", "_O3", "_O4", "_quint8_avx2")),
        *(f"onnx/model_qint8_{chip}.onnx" for chip in ("arm64", "avx512", "avx512_vnni")),
        *(f"openvino/openvino_model{kind}.bin" for kind in ("", "_qint8_quantized")),
        *(f"openvino/openvino_model{kind}.xml" for kind in ("", "_qint8_quantized")),
        *("train_script.py", "README.md", ".gitattributes"),
    ],
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
    for name in OTHERS.get(layout, ()):
        path = folder / name
        assert not path.exists(), f"{path} is the model's own"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(100))
    return bert


def check_same(bert: kbert.Bert, folder: Path, sentence: bool = True) -> None:
    """Compare weights, configuration, tokens and pooling with those of the model at a path."""
    wanted = kbert.load(folder)
    assert bert.config == wanted.config and bert.tokenizer.tokens == wanted.tokenizer.tokens
    assert repr(bert.sentence) == repr(wanted.sentence if sentence else None)
    assert_equal(bert.model.get_weights(), wanted.model.get_weights())


def failed_line(capsys, *arguments) -> str:
    """Run a command that fails with the status 2, and return its one line."""
    done = run(capsys, *arguments)
    assert done.status == 2 and done.out == "" and done.err.count("\n") == 1, done
    return done.err
