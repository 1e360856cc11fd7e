"""KerasHub's BertTokenizer, for tests/checkpoints/test_keras_hub_tokenizer.py.

OUT/NAME/ is a preset's tokenizer, OUT/ids.json has its ids of each line, by name.
"""

import json
from pathlib import Path


def write(out: Path, vocabulary: list[str], cases: dict, lines: list[str]) -> None:
    """Write the tokenizer of each case, which has the arguments beside the vocabulary."""
    import keras_hub

    ids = {}
    for name, arguments in cases.items():
        tokenizer = keras_hub.models.BertTokenizer(vocabulary=vocabulary, **arguments)
        tokenizer.save_to_preset(str(out / name))
        ids[name] = [[int(number) for number in tokenizer(line)] for line in lines]
    (out / "ids.json").write_text(json.dumps(ids))


def read(out: Path, names: list[str], lines: list[str]) -> None:
    """Write OUT/ids.json: the ids of each line by the preset OUT/NAME, and a preprocessor's."""
    import keras_hub

    ids = {}
    for name in names:
        folder = str(out / name)
        tokenizer = keras_hub.models.BertTokenizer.from_preset(folder)
        preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(folder)
        packed = [preprocessor(line)["token_ids"] for line in lines]
        ids[name] = {
            "tokenizer": [[int(number) for number in tokenizer(line)] for line in lines],
            "preprocessor": [[int(number) for number in row] for row in packed],
        }
    (out / "ids.json").write_text(json.dumps(ids))
