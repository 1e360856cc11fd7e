"""Named configurations: the paper's and the released ones."""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from kbert.graph.config import BertConfig, find_config
from kbert.io import bounds, printable
from kbert.io.interrupted_saves import open_whole
from kbert.io.wording import first_few, hint


def _config(layers: int, hidden: int, **changes) -> BertConfig:
    """Return a released configuration: heads of 64, feed-forward 4·H, by default uncased."""
    sizes = {
        "vocab_size": 30_522,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": hidden // 64,
        "intermediate_size": 4 * hidden,
    }
    return BertConfig(**(sizes | changes))


base = BertConfig()
large = _config(24, 1024, vocab_size=30_000)

# Sources: the paper (section 3) and the article "Understanding BERT architecture" for `base` and
# `large`; google-research/bert's README and the `vocab_size` of its released `bert_config.json`
# files for the others; the miniatures are Turc et al. 2019 (arXiv 1908.08962), table 1.
PRESETS: dict[str, BertConfig] = {
    "base": base,
    "large": large,
    "base_uncased": _config(12, 768),
    "base_cased": _config(12, 768, vocab_size=28_996),
    "large_uncased": _config(24, 1024),
    "large_cased": _config(24, 1024, vocab_size=28_996),
    "base_multilingual_cased": _config(12, 768, vocab_size=119_547),
    "base_chinese": _config(12, 768, vocab_size=21_128),
    "tiny": _config(2, 128),
    "mini": _config(4, 256),
    "small": _config(4, 512),
    "medium": _config(8, 512),
}
PRESETS |= {
    f"L{layers}_H{hidden}": _config(layers, hidden)
    for layers, hidden in itertools.product((2, 4, 6, 8, 10, 12), (128, 256, 512, 768))
}

# Google's names of the other releases (google-research/bert, README).
_RELEASES = {
    "cased_L-12_H-768_A-12": "base_cased",
    "uncased_L-24_H-1024_A-16": "large_uncased",
    "cased_L-24_H-1024_A-16": "large_cased",
    "wwm_uncased_L-24_H-1024_A-16": "large_uncased",
    "wwm_cased_L-24_H-1024_A-16": "large_cased",
    "multi_cased_L-12_H-768_A-12": "base_multilingual_cased",
    "chinese_L-12_H-768_A-12": "base_chinese",
}


@printable.escape_errors()
def get_config(config: "BertConfig | str | os.PathLike") -> BertConfig:
    """Return the configuration for a `BertConfig`, a preset's name or a path to a JSON file.

    A folder's config.json or bert_config.json is read too. Names of Google's and transformers'
    releases work: `bert-base-uncased`, `uncased_L-2_H-128_A-2`,
    `google/bert_uncased_L-2_H-128_A-2`.

    Raises:
        ValueError: no such preset (the message suggests a similar name), or a file that is not a
            configuration.
        FileNotFoundError: the file does not exist.
        TypeError: an argument of another type.
    """
    if isinstance(config, BertConfig):
        return config
    if not isinstance(config, (str, os.PathLike)):
        raise TypeError(
            "config must be a BertConfig, a preset's name or a path to a JSON file, got "
            f"{type(config).__name__}"
        )
    text = os.fspath(config)
    if text in PRESETS:
        return PRESETS[text]
    with open_file(text) as file:
        if file is not None:
            return BertConfig.from_json(file)
    if text and Path(text).is_dir():
        raise ValueError(f"{text} must have a config.json or bert_config.json in it, got neither")
    released = _resolve_release(text)
    if released in PRESETS:
        return PRESETS[released]

    expected = "a preset's name or a configuration that ends in .json, such as config.json"
    if text and Path(text).exists():
        raise ValueError(f"{text} must be {expected}, got another file")
    bounds.refuse_url(text)
    if "/" in text or Path(text).suffix:
        raise FileNotFoundError(f"{text}: no such file: give {expected}")
    near = hint(released, PRESETS, "") or f"the presets are {first_few(list(PRESETS), 12)}"
    raise ValueError(f"unknown preset {text!r}: {near}")


@contextlib.contextmanager
def open_file(config: str | os.PathLike) -> Iterator[Path | None]:
    """Yield the JSON file that a path or a folder means; None for a preset and other names.

    After an interrupted save it is that of the complete copy.
    """
    text = os.fspath(config)
    if text in PRESETS or not text:
        yield None
        return
    if text.endswith(".json"):
        with open_whole(text) as path:
            yield path
        return

    with contextlib.ExitStack() as stack:
        file = None
        for folder in (Path(text), Path(text, "model")):  # the second: a run's
            if file is None and folder.is_dir():
                file = find_config(stack.enter_context(open_whole(folder)))
        yield file


def is_preset(text: str) -> bool:
    """Return whether a text is the name of a preset, or of a release with a preset's sizes."""
    return _resolve_release(text) in PRESETS


def _resolve_release(text: str) -> str:
    if text in _RELEASES:
        return _RELEASES[text]
    miniature = re.fullmatch(r"(?:google/bert_)?uncased_L-(\d+)_H-(\d+)_A-(\d+)", text)
    if miniature and int(miniature[2]) == 64 * int(miniature[3]):
        return f"L{miniature[1]}_H{miniature[2]}"
    return re.sub(r"^(google-bert/)?bert-", "", text).replace("-", "_")
