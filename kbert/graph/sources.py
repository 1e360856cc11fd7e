"""The graph that a user's arguments mean, where a model's folder or configuration names its head.

`architectures` and `id2label` of config.json are read; without them the defaults are as always.
"""

import os
from pathlib import Path

from kbert.graph import aliases
from kbert.graph.config import BertConfig
from kbert.graph.presets import get_config, open_file
from kbert.heads import HEADS
from kbert.io import json_schema as js

DEFAULT_HEAD = "pretraining"
DEFAULT_LABELS = 2  # as in transformers
_MOST_LABELS = 100_000
_ARCHITECTURES = js.list_of(js.TEXT, "class names")


def resolve_graph(
    config: BertConfig | str | os.PathLike, head: str | None = None, num_labels: int | None = None
) -> tuple[BertConfig, str, int]:
    """Return the configuration, the head and the number of labels that a user's arguments mean.

    A head of None is that of a folder's model, else pretraining. A number of None is that of the
    folder's configuration or of a JSON file, else 2. Errors are those of `get_config`.
    """
    sizes = get_config(config)
    values = {} if isinstance(config, BertConfig) else _read_file(config)
    if head is None and not isinstance(config, BertConfig) and Path(config).is_dir():
        head = find_head(values)

    if num_labels is None:
        num_labels = count_labels(values)
    return sizes, head or DEFAULT_HEAD, DEFAULT_LABELS if num_labels is None else num_labels


def _read_file(config: str | os.PathLike) -> dict:
    """Return the values of a configuration's file; {} for a preset."""
    with open_file(config) as file:
        return {} if file is None else js.read(file, js.OBJECT)


def find_head(values: dict) -> str | None:
    """Return the head of the class that config.json names; None for none or an unknown one."""
    architectures = values.get("architectures", [])
    if not js.matches(architectures, _ARCHITECTURES):
        return None

    heads = [aliases.resolve("head", name) for name in architectures]
    return next((head for head in heads if head in HEADS), None)


def count_labels(values: dict) -> int | None:
    """Return the number of labels that config.json has, as transformers counts; None: none."""
    names = values.get("id2label")
    if isinstance(names, dict) and names:
        return len(names)
    count = values.get("num_labels", values.get("_num_labels"))
    is_count = js.matches(count, js.whole(1, _MOST_LABELS))
    return count if is_count else None
