"""A .keras of KerasHub (`backbone.save`, `task.save`), laid out as the preset of the same model."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kbert.checkpoints.keras.archive import KerasArchive
from kbert.checkpoints.keras_hub.objects import VOCABULARY
from kbert.checkpoints.keras_hub.weights import TASK_WEIGHTS, WEIGHTS
from kbert.checkpoints.zip_archive import rename_in_errors
from kbert.io import json_schema as js

_VOCABULARY = "assets/preprocessor/tokenizer/vocabulary.txt"
_OBJECT = js.fields({"class_name": js.TEXT, "config": js.OBJECT})
_TASK = js.fields({"config": js.fields({"backbone": _OBJECT})})
_PREPROCESSOR = js.fields({"config": js.fields({"tokenizer": _OBJECT})})


@contextlib.contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Unpack the file into a preset's folder, which is gone when the context ends."""
    with (
        tempfile.TemporaryDirectory(prefix="kbert-") as temporary,
        KerasArchive(path) as archive,
        rename_in_errors(folder := Path(temporary), str(path)),
    ):
        _write_files(archive, folder)
        yield folder


def _write_files(archive: KerasArchive, folder: Path) -> None:
    root = archive.json("config.json", _OBJECT)
    backbone = root
    archive.extract_weights(folder / WEIGHTS)
    if root["class_name"] != "BertBackbone" and "backbone" in root["config"]:
        source = f"{archive.path}: config.json"
        backbone = js.check(root, _TASK, source)["config"]["backbone"]
        (folder / "task.json").write_text(json.dumps(root), encoding="utf-8")
        os.link(folder / WEIGHTS, folder / TASK_WEIGHTS)
        preprocessor = root["config"].get("preprocessor")
        if preprocessor is not None and _VOCABULARY in archive:
            tokenizer = js.check(preprocessor, _PREPROCESSOR, source)["config"]["tokenizer"]
            (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
            (folder / VOCABULARY).parent.mkdir(parents=True)
            (folder / VOCABULARY).write_bytes(archive.text(_VOCABULARY))
    (folder / "config.json").write_text(json.dumps(backbone), encoding="utf-8")
