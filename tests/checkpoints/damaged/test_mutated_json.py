"""A changed value in a checkpoint's JSON is refused in a line, or read with its type.

What is read has the types that it should have: nothing is accepted that fails later.
"""

import dataclasses
import json
import resource
import types
import typing
from collections.abc import Mapping

import pytest
from helpers.damaged_checkpoints import split_weights
from helpers.json_mutations import (
    documents_of_archive,
    documents_of_folder,
    mutations,
    try_mutations,
)
from helpers.marks import full, nightly
from helpers.small_berts import small_berts

import kbert
from kbert.checkpoints import formats
from kbert.checkpoints.inspection import inspect, inspection_text
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.data.tokenization.tokenizer import Tokenizer
from kbert.io import printable

LABELS = ("bad", "so so", "good", "café", "東")
KINDS = ("transformers", "vocab.txt", "google", "keras_hub", "keras_hub classifier", "keras")
GIBIBYTES = 1.0  # that all mutations of a kind may add


@pytest.fixture(scope="module")
def berts(small):
    made = small_berts(small)
    sentence = SentenceSettings("cls", True, 11)
    made["encoder"] = dataclasses.replace(made["encoder"], sentence=sentence)
    made["classifier"] = dataclasses.replace(made["classifier"], labels=LABELS)
    return made


def write_transformers(berts, folder):
    """A classifier in shards, with labels and all files that say how a text is read."""
    bert = dataclasses.replace(berts["classifier"], sentence=berts["encoder"].sentence)
    kbert.save(bert, folder)
    index = {"metadata": {"total_size": 7}, "weight_map": split_weights(folder)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    mask = {"content": "[MASK]", "lstrip": True, "normalized": False, "special": True}
    special = {"cls_token": "[CLS]", "mask_token": mask}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    prompt = {"default_prompt_name": None, "prompts": {}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompt))


def write(kind, berts, folder):
    """A whole checkpoint of a kind; its path and the JSON in it."""
    if kind == "keras":
        bert = dataclasses.replace(berts["classifier"], sentence=berts["encoder"].sentence)
        kbert.save(bert, folder / "bert.keras")
        return folder / "bert.keras", documents_of_archive(folder / "bert.keras")
    path = folder / "bert"
    if kind == "google":
        kbert.save(berts["pretraining"], path, format="google")
    elif kind.startswith("keras_hub"):
        kbert.save(berts["classifier" if "class" in kind else "encoder"], path, format="keras_hub")
    else:
        write_transformers(berts, path)
    if kind == "vocab.txt":
        (path / "tokenizer.json").unlink()
        tokens = {"4": {"content": "[MASK]", "special": True}, "99": {"content": "new"}}
        settings = json.loads((path / "tokenizer_config.json").read_text())
        settings |= {"added_tokens_decoder": tokens}
        (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path, documents_of_folder(path)


def is_of(value, hint) -> bool:
    """Whether a value is of an annotation, and no bool for a number."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = [typing.get_origin(kind) or kind for kind in typing.get_args(hint) * is_union or [hint]]
    kinds += [int] * (float in kinds) + [dict] * (Mapping in kinds)
    return type(value) in kinds


def check_types(path) -> None:
    """Opens a checkpoint and asserts that what it says is of the types that it is used as."""
    found = inspect(path)
    text = inspection_text(found, every_tensor=True)
    assert printable.lines(text) == text
    with formats.open_checkpoint(path) as checkpoint:
        for owner in (checkpoint.spec.config, checkpoint.sentence or SentenceSettings("cls", True)):
            for name, hint in typing.get_type_hints(type(owner)).items():
                assert is_of(getattr(owner, name), hint), (name, getattr(owner, name))
        assert type(checkpoint.spec.num_labels) is int and checkpoint.spec.num_labels > 0
        assert is_of(checkpoint.architecture, str | None)
        kinds = {type(value) for value in checkpoint.rules.values()}
        assert kinds <= {bool, int, tuple, type(None)}
        labels = checkpoint.labels
        if labels is not None:
            assert type(labels) is tuple and len(labels) == checkpoint.spec.num_labels
            assert {type(label) for label in labels} == {str}
        if checkpoint.vocabulary is not None:
            check_vocabulary(Tokenizer.load(checkpoint.vocabulary, **checkpoint.rules))


def check_vocabulary(tokenizer) -> None:
    vocabulary = tokenizer.vocabulary
    for name in ("lowercase", "strip_accents", "tokenize_chinese_chars", "max_word_chars"):
        hint = typing.get_type_hints(type(vocabulary))[name]
        assert is_of(getattr(vocabulary, name), hint), name
    assert {type(token) for token in (*tokenizer.tokens, *vocabulary.special_tokens.values())} == {
        str
    }
    frame = tokenizer.encode("cat").ids
    assert (frame[0], frame[-1]) == (tokenizer.cls_id, tokenizer.sep_id)


def bombarded(path, documents, count: int, most: int, seed: int) -> None:
    """Try some mutations of each document, and bound the memory that all of them may add."""
    check_types(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chosen = mutations(documents, seed=seed, count=count, most=most)
    counts = try_mutations(chosen, lambda: check_types(path), (str(path),), longest=1500)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    print(f"{path}: {dict(counts)}, {grown:.2f} GiB more")
    assert grown < GIBIBYTES and counts["read"] and counts["refused"]


# mutations of each document
ROUNDS = [("transformers", 4)]
ROUNDS += [full(kind, 12) for kind in KINDS]
ROUNDS += [nightly(kind, 120) for kind in KINDS]


@pytest.mark.parametrize(("kind", "count"), ROUNDS)
@pytest.mark.full
def test_mutated_values_are_refused_or_keep_their_types(berts, tmp_path, kind, count):
    path, documents = write(kind, berts, tmp_path)
    few = 6 if kind == "keras" else 25
    bombarded(path, documents, count, few if count > 12 else 4, seed=10)
