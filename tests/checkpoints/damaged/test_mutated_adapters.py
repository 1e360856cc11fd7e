"""Adapter folders with mutations open, or are refused in one line, and none hangs."""

import json
import random

import numpy as np
import pytest
from helpers.json_mutations import Document, documents_of_folder, mutations, try_mutations
from helpers.labelled_texts import write_texts
from helpers.marks import full, nightly
from helpers.small_berts import small_bert

import kbert

PIECES = ["(", ")", "[", "]", "*", "+", "?", "|", ".", "\\", "{", "}", "^", "$", "query", "dense"]
PIECES += ["layer", "0", ".*", "(.*)*", "{1,9}", "{99999999999}", "(?=", "(?P<a>", "\\1", "\x1b"]
ROUNDS = [20, full(300), nightly(3000)]


@pytest.fixture(scope="module")
def paths(small, tmp_path_factory):
    """A base, and the folder of an adapter that was trained on it."""
    folder = tmp_path_factory.mktemp("adapters")
    base = small_bert(small.replace(num_hidden_layers=1), "encoder")
    kbert.save(base, folder / "base")
    write_texts(folder / "train.tsv", 13, 1)
    options = {"train": folder / "train.tsv", "output": folder / "run", "epochs": 1}
    options |= {"peak_flops": 1e9, "progress": False, "lora_rank": 3}
    kbert.finetune(folder / "base", "classify", **options)
    return folder / "base", folder / "run" / "adapter"


def pattern_documents(adapter, count: int, seed: int) -> list[tuple]:
    """Mutations of adapter_config.json that give it patterns as keys, made of pieces."""
    draws, file = random.Random(seed), adapter / "adapter_config.json"
    text, chosen = file.read_text(), []
    for _ in range(count):
        keys = ["".join(draws.choices(PIECES, k=draws.randrange(1, 14))) for _ in range(2)]
        name = draws.choice(["alpha_pattern", "rank_pattern", "target_modules"])
        value = keys[0] if name == "target_modules" else dict.fromkeys(keys, 2)
        changed = json.dumps(json.loads(text) | {name: value})
        write = lambda new, changed=changed: file.write_text(  # noqa: E731
            changed if new != text else text
        )
        chosen.append((Document(file.name, text, write), ("r",), "zero"))
    return chosen


@pytest.mark.parametrize("count", ROUNDS)
@pytest.mark.full
def test_mutated_settings_of_adapters(paths, count):
    base, adapter = paths

    def look() -> None:
        bert = kbert.load(base, adapter=adapter)
        assert all(np.isfinite(pair.scale) for pair in bert.adapter.pairs.values())

    chosen = mutations(documents_of_folder(adapter), seed=7, count=count)
    chosen += pattern_documents(adapter, count, seed=8)
    counts = try_mutations(chosen, look, (str(adapter), str(base)))
    print(f"adapters: {dict(counts)}")
    assert counts["refused"] and counts["read"]


@pytest.mark.full
@pytest.mark.parametrize("count", ROUNDS)
def test_mutated_weights_of_adapters(paths, count):
    base, adapter = paths
    file, draws = adapter / "adapter_model.safetensors", random.Random(9)
    content, counts = file.read_bytes(), {"read": 0, "refused": 0}
    for number in range(count):
        changed = bytearray(content)
        for _ in range(draws.choice([1, 1, 2, 3])):
            place = draws.randrange(min(len(changed), 1200))
            changed[place : place + draws.randrange(3)] = draws.randbytes(draws.randrange(3))
        file.write_bytes(bytes(changed))
        try:
            bert = kbert.load(base, adapter=adapter)
            assert all(np.isfinite(weight).all() for weight in bert.model.get_weights()[:-2])
            counts["read"] += 1
        except ValueError as error:
            assert "\n" not in str(error) and "\x1b" not in str(error), (number, error)
            counts["refused"] += 1
    file.write_bytes(content)
    kbert.load(base, adapter=adapter)
    print(f"weights of adapters: {counts}")
    assert counts["refused"]
