"""Parquet files of labelled data, as the Hugging Face Hub has them."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from kbert.io.bounds import damage_in_one_line
from kbert.io.extras import is_installed
from kbert.io.text_bytes import PARQUET


class ParquetTable:
    """The rows of a Parquet file.

    Attributes:
        features: the columns that `datasets` described as class labels, each with `names`; a list
            of them has `feature`.
    """

    def __init__(self, table):
        self._table = table
        self.features = _read_features(table.schema.metadata or {})

    def to_pylist(self) -> list[dict]:
        """Return a dict for each row."""
        return self._table.to_pylist()


def is_parquet(path: str | os.PathLike) -> bool:
    """Return whether a file is Parquet, by its first bytes."""
    if not os.path.exists(path):
        return False
    if not stat.S_ISREG(os.stat(path).st_mode):
        return False  # a pipe can be read once
    with open(path, "rb") as file:
        return file.read(len(PARQUET)) == PARQUET


def read_parquet(path: str | os.PathLike) -> ParquetTable:
    """Read a Parquet file with pyarrow; raise an ImportError where it is not installed."""
    if not is_installed("pyarrow"):
        raise ImportError(
            f"{path} is a Parquet file, which needs the package pyarrow: pip install pyarrow, or "
            "save it as .csv or JSON lines"
        )
    import pyarrow.parquet

    with damage_in_one_line(Path(path), "Parquet"):
        return ParquetTable(pyarrow.parquet.read_table(path, partitioning=None))


def _read_features(metadata: Mapping[bytes, bytes]) -> dict[str, SimpleNamespace]:
    """Return the class labels among the features that `datasets` wrote into the schema."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return {name: _describe(feature) for name, feature in features.items()}
    except (AttributeError, KeyError, TypeError, ValueError):  # not there, or of another shape
        return {}


def _describe(feature: dict | list) -> SimpleNamespace:
    inner = feature[0] if isinstance(feature, list) else feature.get("feature")
    if isinstance(inner, dict):  # a list of features
        return SimpleNamespace(feature=_describe(inner))

    names = feature.get("names") if isinstance(feature, dict) else None
    if not isinstance(names, list):
        return SimpleNamespace(names=None)
    if not all(isinstance(name, str) for name in names):
        names = None
    return SimpleNamespace(names=names)
