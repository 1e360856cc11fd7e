"""The ONNX folder follows the rules of text-embeddings-inference, which is no Python package.

Rules: router/src/lib.rs (ModelConfig, PoolConfig, STConfig, get_backend_model_type) and
backends/ort/src/lib.rs (Config, prepare_inputs, embed, predict) of
huggingface/text-embeddings-inference, as of November 2025: its structs name what a file must have.
"""

import dataclasses
import json

import numpy as np
import pytest
import tokenizers
from helpers.small_berts import TEXTS, small_berts
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints.sentence_settings import SentenceSettings

pytestmark = pytest.mark.full

for package in ("tf2onnx", "onnxruntime"):
    pytest.importorskip(package, reason="writes and runs ONNX: pip install -e '.[test-full]'")

LONGEST_BATCH = 8  # max_batch_size


@pytest.fixture(scope="module")
def berts(small):
    import keras

    if keras.backend.backend() != "tensorflow":
        pytest.skip("written on TensorFlow here")
    return small_berts(small)


class Server:
    """What the server makes of a folder: the files it reads, the types it wants, the batches."""

    def __init__(self, folder):
        import onnxruntime

        config = json.loads((folder / "config.json").read_text())
        for name in ("max_position_embeddings", "hidden_size", "num_hidden_layers"):
            assert type(config[name]) is int and config[name] >= 0
        assert type(config["model_type"]) is str
        self.pad_id = config.get("pad_token_id", 0)
        self.classifies = any(name.endswith("Classification") for name in config["architectures"])
        if self.classifies:
            self.labels = config["id2label"]
            assert all(type(place) is int for place in config["label2id"].values())
        else:
            pooling = json.loads((folder / "1_Pooling" / "config.json").read_text())
            modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
            found = [pooling[f"pooling_mode_{mode}"] for mode in modes]
            assert {type(one) for one in found} == {bool}
            self.pool = "cls" if found[0] else "mean" if found[1] else None
            assert self.pool, "Pooling config is not supported"
        limit, file = config["max_position_embeddings"], folder / "sentence_bert_config.json"
        if file.exists():
            limit = json.loads(file.read_text())["max_seq_length"]
        padding = json.loads((folder / "tokenizer_config.json").read_text())
        assert padding.get("padding_side", "right") == "right"
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(limit)
        at_top = folder / "model.onnx"
        path = at_top if at_top.exists() else folder / "onnx" / "model.onnx"
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])

    def _outputs(self, texts):
        found = self.tokenizer.encode_batch(texts)
        length = max(len(one.ids) for one in found)

        def rows(name, filler):
            lists = (getattr(one, name) for one in found)
            return np.array([ids + [filler] * (length - len(ids)) for ids in lists], "int64")

        mask = rows("attention_mask", 0)
        given = {"input_ids": rows("ids", self.pad_id), "attention_mask": mask}
        if "token_type_ids" in {one.name for one in self.session.get_inputs()}:
            given["token_type_ids"] = rows("type_ids", 0)
        names = [one.name for one in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, given), strict=True)), mask

    def batches(self, texts):
        for at in range(0, len(texts), LONGEST_BATCH):
            yield self._outputs(texts[at : at + LONGEST_BATCH])

    def embed(self, texts):
        found = []
        for outputs, mask in self.batches(texts):
            states = outputs["last_hidden_state"]
            mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            found.append(states[:, 0] if self.pool == "cls" else mean)
        vectors = np.concatenate(found)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)  # /embed: by default

    def predict(self, texts):
        logits = np.concatenate([outputs["logits"] for outputs, _ in self.batches(texts)])
        powers = np.exp(logits - logits.max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("pooling", ["mean", pytest.param("cls", marks=pytest.mark.nightly)])
def test_a_server_gives_the_vectors_of_embed(berts, tmp_path, pooling):
    bert = dataclasses.replace(berts["encoder"], sentence=SentenceSettings(pooling, True, 6))
    kbert.save(bert, tmp_path / "out", format="transformers_onnx")
    assert_allclose(Server(tmp_path / "out").embed(TEXTS), kbert.embed(bert, TEXTS), atol=1e-5)


def test_a_server_gives_the_probabilities_of_classify(berts, tmp_path):
    labels = ("bad", "poor", "fair", "good", "best")
    bert = dataclasses.replace(berts["classifier"], labels=labels)
    kbert.save(bert, tmp_path / "out", format="transformers_onnx")
    server = Server(tmp_path / "out")
    assert server.classifies and server.labels == {str(n): name for n, name in enumerate(labels)}
    ranked = kbert.classify(bert, TEXTS)
    by_name = [{one.label: one.probability for one in row} for row in ranked]
    wanted = [[row[label] for label in labels] for row in by_name]
    assert_allclose(server.predict(TEXTS), wanted, atol=1e-5)
