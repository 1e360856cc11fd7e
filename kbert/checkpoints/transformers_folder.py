"""A transformers folder: config.json with model.safetensors, its shards, or pytorch_model.bin."""

import json
import re
from pathlib import Path

import numpy as np

from kbert.checkpoints.transfer import Tensor
from kbert.config import BertConfig, write_beside

# The seven classes, and the head that each has in kbert.
CLASSES = {
    "BertModel": "encoder",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "pretraining",
    "BertForNextSentencePrediction": "pretraining",
    "BertForSequenceClassification": "classifier",
    "BertForTokenClassification": "tokens",
    "BertForQuestionAnswering": "qa",
}
_BUFFERS = re.compile(r"embeddings\.(position_ids|token_type_ids)$")
_TIED = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def is_one(path: Path) -> bool:
    """Whether a folder looks like one of transformers'."""
    return (path / "config.json").is_file() and bool(_weight_files(path))


def read_config(path: Path) -> tuple[BertConfig, dict]:
    """The configuration, and the file's keys as they are."""
    file = path / "config.json"
    config = BertConfig.from_json(file)
    return config, json.loads(file.read_text(encoding="utf-8-sig"))


def head_of(values: dict, tensors: dict[str, Tensor]) -> str:
    """The head that a folder's class has; without one, the head that its tensors have."""
    for name in values.get("architectures") or ():
        if name in CLASSES:
            return CLASSES[name]
    if "qa_outputs.weight" in tensors:
        return "qa"
    if "classifier.weight" in tensors:
        return "classifier" if "pooler.dense.weight" in tensors else "tokens"
    return "pretraining" if any(name.startswith("cls.") for name in tensors) else "encoder"


def num_labels_of(tensors: dict[str, Tensor]) -> int:
    """The labels of the folder's classifier; 2 where it has none."""
    weight = tensors.get("classifier.weight")
    return weight.shape[0] if weight else 2


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor by its name in kbert's table, unread.

    The prefix `bert.`, the old names gamma and beta, position_ids buffers and the decoder's copies
    of tied weights are dealt with here.

    Raises:
        FileNotFoundError: no weights, or a shard that the index names and the folder lacks.
        ValueError: a file that is damaged, or a decoder that is not tied.
        ImportError: a pytorch_model.bin where torch is not installed.
    """
    tensors: dict[str, Tensor] = {}
    for file in _weight_files(path):
        found = _torch_tensors(file) if file.suffix == ".bin" else _safetensors(file)
        for tensor in found:
            name = _table_name(tensor.name)
            if not _BUFFERS.search(name):
                tensors[name] = tensor
    if not tensors:
        raise FileNotFoundError(2, "no model.safetensors and no pytorch_model.bin in", str(path))
    for copy, original in _TIED.items():
        tensor = tensors.pop(copy, None)
        if tensor and original in tensors:
            if not np.array_equal(tensor.read(), tensors[original].read()):
                raise ValueError(
                    f"{path}: {copy} must equal {original}, to which BERT ties it, got others"
                )
        elif tensor:
            tensors[original] = tensor
    return tensors


def write(path: Path, config: BertConfig, head: str, arrays: dict[str, np.ndarray]) -> None:
    """Writes config.json and model.safetensors; each file whole or not at all.

    `arrays` are by the names in the table; the class is the one whose head the model has.
    """
    from safetensors.numpy import save

    path.mkdir(parents=True, exist_ok=True)
    name = next(name for name, its_head in CLASSES.items() if its_head == head)
    values = json.loads(config.to_json()) | {"architectures": [name]}
    if head in ("classifier", "tokens"):
        labels = range(len(arrays["classifier.bias"]))
        values["id2label"] = {str(label): f"LABEL_{label}" for label in labels}
        values["label2id"] = {f"LABEL_{label}": label for label in labels}
    prefix = "" if head == "encoder" else "bert."
    named = {
        (key if key.startswith(("cls.", "classifier.", "qa_")) else prefix + key): value
        for key, value in arrays.items()
    }
    content = {key: np.ascontiguousarray(value) for key, value in named.items()}
    write_beside(path / "model.safetensors", save(content, metadata={"format": "pt"}))
    text = json.dumps(values, indent=2, sort_keys=True) + "\n"
    write_beside(path / "config.json", text.encode())


def _weight_files(path: Path) -> list[Path]:
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        if (path / index).is_file():
            shards = json.loads((path / index).read_text(encoding="utf-8"))["weight_map"].values()
            files = [path / name for name in dict.fromkeys(shards)]
            for file in files:
                if not file.is_file():
                    raise FileNotFoundError(2, f"{index} names a shard that is missing", str(file))
            return files
    files = [path / name for name in ("model.safetensors", "pytorch_model.bin")]
    return [file for file in files if file.is_file()][:1]


def _table_name(name: str) -> str:
    name = name.removeprefix("bert.")
    return re.sub(r"LayerNorm\.(gamma|beta)$", _layer_norm, name)


def _layer_norm(match: re.Match) -> str:
    return f"LayerNorm.{'weight' if match[1] == 'gamma' else 'bias'}"


def _safetensors(file: Path) -> list[Tensor]:
    import ml_dtypes  # noqa: F401  (bfloat16 in NumPy)
    from safetensors import SafetensorError, safe_open

    try:
        opened = safe_open(file, framework="numpy")
        return [
            Tensor(
                name,
                tuple(opened.get_slice(name).get_shape()),
                opened.get_slice(name).get_dtype(),
                lambda name=name: opened.get_tensor(name),
            )
            for name in opened.keys()  # noqa: SIM118
        ]
    except SafetensorError as error:
        raise ValueError(f"{file} must be a whole safetensors file, got: {error}") from None


def _torch_tensors(file: Path) -> list[Tensor]:
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"{file} needs torch to be read safely: pip install torch, or save it as "
            "model.safetensors"
        ) from None
    state = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    return [
        Tensor(
            name,
            tuple(value.shape),
            str(value.dtype).removeprefix("torch."),
            lambda value=value: value.detach().float().numpy(),
        )
        for name, value in state.items()
    ]
