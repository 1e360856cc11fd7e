"""Choice of the files of a model that kbert reads: settings, tokenizer, one format of weights."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from kbert.io import extras

# The repository's own folder; modules of sentence-transformers; KerasHub's vocabulary.
_FOLDER = re.compile(r"\.|\d+_\w+|assets/tokenizer")
_SETTINGS = re.compile(
    r"(bert_|tokenizer_|adapter_|sentence_[\w-]+_)?config\.json"
    r"|(config_sentence_transformers|kbert_adapter|special_tokens_map|added_tokens|modules)\.json"
    r"|(tokenizer|vocab|task|preprocessor|metadata)\.json|(vocab|merges|vocabulary)\.txt"
)
CONFIGS = ("config.json", "bert_config.json", "adapter_config.json")
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "assets/tokenizer/vocabulary.txt")
# one file, then shards: the order in which `weight_files` reads them
_SAFETENSORS = (
    r"model\.safetensors",
    r"model-\d+-of-\d+\.safetensors|model\.safetensors\.index\.json",
)
_TORCH = (r"pytorch_model\.bin", r"pytorch_model-\d+-of-\d+\.bin|pytorch_model\.bin\.index\.json")
_KERAS_2 = (r"tf_model\.h5", r"tf_model-\d+-of-\d+\.h5|tf_model\.h5\.index\.json")
_OTHERS = (
    r"(model|model_\d+|task)\.weights\.h5|model\.weights\.json",
    r".*\.ckpt[^/]*\.(index|data-.*)|checkpoint",
)
_ADAPTERS = (r"adapter_model\.safetensors", r"adapter_model\.bin")


def choose_files(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Choose the files to download: settings and tokenizer's, and weights in the first format."""
    folders: dict[str, list[PurePosixPath]] = {}
    for name in sorted(names):
        path = PurePosixPath(name)
        if _FOLDER.fullmatch(str(path.parent)):
            folders.setdefault(str(path.parent), []).append(path)

    # torch's files before TensorFlow's only where torch can read them
    if extras.is_installed("torch"):
        first, second = _TORCH, _KERAS_2
    else:
        first, second = _KERAS_2, _TORCH
    patterns = (*_SAFETENSORS, *first, *second, *_OTHERS)
    settings: list[str] = []
    weights: list[str] = []
    for paths in folders.values():
        settings += [str(path) for path in paths if _SETTINGS.fullmatch(path.name)]
        weights += _find_first(paths, patterns)
        weights += _find_first(paths, _ADAPTERS)
    return settings, weights


def find_readable(names: Iterable[str]) -> list[str]:
    """Return the files that kbert may read: settings, and weights in every format."""
    every = (*_SAFETENSORS, *_TORCH, *_KERAS_2, *_OTHERS, *_ADAPTERS)
    kinds = re.compile("|".join((_SETTINGS.pattern, *every)))
    readable = []
    for name in names:
        path = PurePosixPath(name)
        is_readable = kinds.fullmatch(path.name)
        if is_readable and _FOLDER.fullmatch(str(path.parent)):
            readable.append(str(path))
    return readable


def has_model(names: Iterable[str]) -> bool:
    """Return whether files are enough to build a model: a configuration, and weights beside it."""
    settings, weights = choose_files(names)
    folders = {PurePosixPath(name).parent for name in weights}

    encoders = set()
    for name in settings:
        path = PurePosixPath(name)
        # Modules after the encoder have a configuration of their own, some of them without weights.
        is_module = re.match(r"[1-9]", str(path.parent))
        if path.name in CONFIGS and not is_module:
            encoders.add(path.parent)
    return bool(encoders) and encoders <= folders


def _find_first(paths: Collection[PurePosixPath], patterns: Iterable[str]) -> list[str]:
    for pattern in patterns:
        matches = [str(path) for path in paths if re.fullmatch(pattern, path.name)]
        if matches and is_whole(matches):
            return matches
    return []


def is_whole(names: Collection[str]) -> bool:
    """Return whether no shard of a set of files of weights is missing, nor their index."""
    matches = [re.search(r"-(\d+)-of-(\d+)\.", name) for name in names]
    shards = [match for match in matches if match]
    if not shards:
        return any(
            not name.endswith((".index.json", "weights.json", "checkpoint")) for name in names
        )

    numbers = {match[1] for match in shards}
    num_shards = int(shards[0][2])
    has_index = len(shards) < len(names)
    return len(numbers) == num_shards and has_index
