"""The tokenizer of a KerasHub preset gives KerasHub's ids, read and written."""

import dataclasses
import json

import pytest
from helpers.damaged_checkpoints import change_json, load_error
from helpers.errors import logged, raises
from helpers.marks import full
from helpers.peer_outputs import run_peer
from helpers.small_berts import small_bert

import kbert
from kbert.data.tokenization.vocabulary import special_token

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] [unused1] [E] [E]x cafe café Café 中 国 中国 [ ] e un x"
VOCABULARY = [*TOKENS.split(), "##used", "##1"]
LINES = ["Café [E] 中国", "café [unused1] [E]x e", "[MASK] cafe 国 x", ""]
CASES = {
    "default": {},
    "uncased": {"lowercase": True},
    "stripped": {"lowercase": True, "strip_accents": True, "special_tokens_in_strings": True},
    "strips alone": {"strip_accents": True, "special_tokens_in_strings": True},
    "tokens": {
        "lowercase": True,
        "special_tokens_in_strings": True,
        "special_tokens": ["[E]x", "[E]", "[unused1]"],
    },
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    out = tmp_path_factory.mktemp("keras_hub")
    run_peer("peer_keras_hub_tokenizer:write", out, VOCABULARY, CASES, LINES)
    return out


@pytest.fixture
def bert(small):
    """An encoder with KerasHub's activation, without a tokenizer."""
    sizes = {"hidden_act": "gelu_new", "num_hidden_layers": 1, "vocab_size": 99}
    return small_bert(small.replace(**sizes), "encoder")


def with_tokenizer(bert, **rules):
    rules = {"lowercase": True} | rules
    return dataclasses.replace(bert, tokenizer=kbert.Tokenizer.from_vocab(VOCABULARY, **rules))


def put_beside(tokenizer, bert, folder):
    """Write a preset that has another preset's tokenizer."""
    kbert.save(dataclasses.replace(bert, tokenizer=None), folder, format="keras_hub")
    for file in tokenizer.rglob("*"):
        if file.is_file():
            target = folder / file.relative_to(tokenizer)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return folder


def ids_of(tokenizer, lines) -> list[list[int]]:
    return [tokenizer.encode(line, add_special_tokens=False).ids for line in lines]


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_a_preset_is_tokenized_as_keras_hub_does(theirs, bert, tmp_path, name):
    tokenizer = kbert.load(put_beside(theirs / name, bert, tmp_path / "preset")).tokenizer
    takes_special = CASES[name].get("special_tokens_in_strings", False)
    lines = [line for line in LINES if takes_special or "[MASK]" not in line]
    wanted = json.loads((theirs / "ids.json").read_text())[name]
    assert ids_of(tokenizer, lines) == [wanted[LINES.index(line)] for line in lines]


def test_split_on_cjk_is_read(theirs, bert, tmp_path):
    """KerasHub reads the key, but does not write it."""
    folder = put_beside(theirs / "uncased", bert, tmp_path / "preset")
    values = json.loads((folder / "tokenizer.json").read_text())
    for split, tokens in ((True, ["中", "国"]), (False, ["中国"])):
        values["config"]["split_on_cjk"] = split
        (folder / "tokenizer.json").write_text(json.dumps(values))
        tokenizer = kbert.load(folder).tokenizer
        assert tokenizer.encode("中国", add_special_tokens=False).tokens == tokens


RULES = {
    "accents": {"strip_accents": False},
    "cased": {"lowercase": False, "strip_accents": True},
    "cjk": {"tokenize_chinese_chars": False},
    "added": {"added": tuple(special_token(token) for token in ("[E]", "[E]x", "[unused1]"))},
    "length": {"max_length": 5},
}


@pytest.mark.parametrize(
    ("name", "head"),
    [
        *((name, "encoder") for name in RULES),
        ("length", "classifier"),
        ("added", "pretraining"),
        *(full(name, "classifier") for name in RULES if name != "length"),
        *(full(name, "pretraining") for name in RULES if name != "added"),
    ],
)
def test_a_saved_tokenizer_comes_back(bert, small, tmp_path, name, head):
    model = with_tokenizer(small_bert(bert.config, head), **RULES[name])
    kbert.save(model, tmp_path, format="keras_hub")
    back, before = kbert.load(tmp_path).tokenizer, model.tokenizer
    assert ids_of(back, LINES) == ids_of(before, LINES)
    positions = bert.config.positions
    assert min(back.max_length or positions, positions) == (before.max_length or positions)


@pytest.mark.full
def test_keras_hub_reads_what_is_written(bert, tmp_path):
    models = {name: with_tokenizer(bert, **rules) for name, rules in RULES.items()}
    for name, model in models.items():
        kbert.save(model, tmp_path / name, format="keras_hub")
    run_peer("peer_keras_hub_tokenizer:read", tmp_path, list(RULES), LINES)
    theirs = json.loads((tmp_path / "ids.json").read_text())
    for name, model in models.items():
        assert theirs[name]["tokenizer"] == ids_of(model.tokenizer, LINES), name
    length = RULES["length"]["max_length"]
    tokenizer = models["length"].tokenizer
    wanted = [tokenizer.encode(line, max_length=length).ids for line in LINES]
    padded = [ids + [0] * (length - len(ids)) for ids in wanted]
    assert theirs["length"]["preprocessor"] == padded


@pytest.mark.full
@pytest.mark.parametrize(
    ("entry", "rules"),
    [
        ({"content": "un", "normalized": True}, {}),
        ({"content": "un", "single_word": True}, {}),
        (special_token("café"), {}),
        (special_token("中国"), {"strip_accents": False}),
    ],
)
def test_tokens_that_keras_hub_would_not_find_are_refused(bert, tmp_path, entry, rules):
    model = with_tokenizer(bert, added=(entry,), **rules)
    with raises(ValueError, entry["content"]):
        kbert.save(model, tmp_path / "new", format="keras_hub")
    assert list(tmp_path.iterdir()) == []


def test_files_that_contradict_each_other_are_refused(bert, tmp_path):
    model = with_tokenizer(small_bert(bert.config, "classifier"))
    kbert.save(model, tmp_path / "preset", format="keras_hub")
    values = json.loads((tmp_path / "preset" / "tokenizer.json").read_text())
    values["config"]["strip_accents"] = False
    (tmp_path / "preset" / "tokenizer.json").write_text(json.dumps(values))
    assert "strip_accents" in load_error(tmp_path / "preset", "tokenizer.json")


def test_arguments_that_kbert_does_not_know_are_refused(bert, tmp_path):
    kbert.save(bert, tmp_path / "preset", format="keras_hub")
    values = json.loads((tmp_path / "preset" / "config.json").read_text())
    change_json(tmp_path / "preset" / "config.json", config=values["config"] | {"use_bias": False})
    assert "use_bias" in load_error(tmp_path / "preset", "config.json")


def test_what_cuts_or_splits_otherwise_is_named(theirs, bert, tmp_path):
    folder = put_beside(theirs / "uncased", bert, tmp_path / "preset")
    values = json.loads((folder / "tokenizer.json").read_text())
    change_json(folder / "tokenizer.json", config=values["config"] | {"sequence_length": 9})
    with logged("sequence_length=9"):
        assert kbert.load(folder).tokenizer is None


def test_losses_are_named(bert, tmp_path):
    rules = {"max_word_chars": 7, "truncation_side": "left", "segments": False}
    with logged(*rules):
        kbert.save(with_tokenizer(bert, **rules), tmp_path, format="keras_hub")
