"""Which of tokenizer.json and tokenizer_config.json counts is decided by transformers' class."""

import json

import pytest
from helpers.damaged_checkpoints import change_json
from helpers.errors import raises
from helpers.peer_outputs import run_peer

from kbert import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKENS = [
    *SPECIAL,
    "cat",
    "Cat",
    "é",
    "e",
    "中",
    "国",
    "中国",
    "[X]",
    "x",
    "[",
    "]",
    "don",
    "'",
    "t",
]
TEXTS = ["Cat é", "中国", "[X] x", "cat [MASK]"]
NAMES = {f"{token.lower()[1:-1]}_token": token for token in SPECIAL}


def added(*tokens, first=0) -> list[dict]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [
        {"id": number, "content": token, **flags, "special": True}
        for number, token in enumerate(tokens, first)
    ]


def piece(kind, name, segment) -> dict:
    return {kind: {"id": name, "type_id": segment}}


SINGLE = [piece("SpecialToken", "[CLS]", 0), piece("Sequence", "A", 0)]
SINGLE += [piece("SpecialToken", "[SEP]", 0)]
PAIR = [*SINGLE, piece("Sequence", "B", 1), piece("SpecialToken", "[SEP]", 1)]
WORDPIECE = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [*added(*SPECIAL), *added("[X]", first=12)],
    "normalizer": {  # each rule another one than BertTokenizer's default
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": False,
        "strip_accents": False,
        "lowercase": False,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": SINGLE,
        "pair": PAIR,
        "special_tokens": {
            token: {"id": token, "ids": [SPECIAL.index(token)], "tokens": [token]}
            for token in ("[CLS]", "[SEP]")
        },
    },
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 2,
        "vocab": {token: number for number, token in enumerate(TOKENS)},
    },
}
SUBWORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BYTES = [*SUBWORDS, "c", "a", "t", "Ġ", "ca", "Ġca", "cat", "Ġcat"]
MERGES = [["c", "a"], ["Ġ", "ca"], ["ca", "t"], ["Ġca", "t"]]
BPE = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": added(*SUBWORDS),
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": True,
        "use_regex": True,
    },
    "post_processor": {
        "type": "RobertaProcessing",
        "sep": ["</s>", 2],
        "cls": ["<s>", 0],
        "trim_offsets": True,
        "add_prefix_space": True,
    },
    "decoder": None,
    "model": {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "vocab": {token: number for number, token in enumerate(BYTES)},
        "merges": MERGES,
    },
}
SCORES = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]]
SCORES += [["▁cat", -1.0], ["cat", -2.0], ["▁", -3.0], ["C", -4.0], ["at", -5.0], ["<mask>", 0.0]]
UNIGRAM = {
    **{key: BPE[key] for key in ("version", "truncation", "padding")},
    "added_tokens": [*added("<s>", "<pad>", "</s>", "<unk>"), *added("<mask>", first=9)],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": "never",
        "split": True,
    },
    "post_processor": BPE["post_processor"],
    "decoder": None,
    "model": {"type": "Unigram", "unk_id": 3, "vocab": SCORES, "byte_fallback": False},
}
ROLES = ("cls", "pad", "sep", "unk", "mask")
ROBERTAS = {f"{role}_token": token for role, token in zip(ROLES, SUBWORDS, strict=True)}


def files(tokenizer, model_type=None, **config) -> dict[str, str]:
    texts = {"tokenizer.json": json.dumps(tokenizer), "tokenizer_config.json": json.dumps(config)}
    return texts | ({"config.json": json.dumps({"model_type": model_type})} if model_type else {})


CASED, SEGMENTS = {"do_lower_case": False}, ["input_ids", "token_type_ids", "attention_mask"]
OTHER = {"do_lower_case": True, "strip_accents": True, "tokenize_chinese_chars": True}
FEWER = {"added_tokens_decoder": {"0": {"content": "[PAD]", "special": True}}}
FILES = {}
for name in ("Bert", "BertTokenizerFast", "DistilBert", "Electra", "ConvBert", "NoSuch"):
    class_name = name if name.endswith("Fast") else f"{name}Tokenizer"
    FILES[name] = files(WORDPIECE, tokenizer_class=class_name, **NAMES, **CASED)
for name in ("PreTrainedTokenizerFast", "TokenizersBackend", "BertTokenizer"):
    own = {"tokenizer_class": name, **NAMES}
    FILES |= {
        f"{name}, other rules": files(WORDPIECE, **own, **OTHER),
        f"{name}, fewer added": files(WORDPIECE, **own, **CASED, **FEWER),
        f"{name}, segments": files(WORDPIECE, **own, **CASED, model_input_names=SEGMENTS),
        f"{name}, no segments": files(
            WORDPIECE, **own, **CASED, model_input_names=["input_ids", "attention_mask"]
        ),
    }
FILES |= {
    "by model_type": files(WORDPIECE, "bert", **CASED),
    "class of another type": files(
        WORDPIECE, "bert", tokenizer_class="PreTrainedTokenizerFast", **NAMES, **OTHER
    ),
}
ROBERTA_FILES = {}
for spaced in (None, False, True):
    own = ROBERTAS | ({} if spaced is None else {"add_prefix_space": spaced})
    ROBERTA_FILES |= {
        f"RobertaTokenizer {spaced}": files(BPE, tokenizer_class="RobertaTokenizer", **own),
        f"roberta {spaced}": files(BPE, "roberta", **own),
        f"fast BPE {spaced}": files(BPE, tokenizer_class="PreTrainedTokenizerFast", **own),
        f"XLMRobertaTokenizer {spaced}": files(
            UNIGRAM, tokenizer_class="XLMRobertaTokenizerFast", **own
        ),
        f"fast Unigram {spaced}": files(UNIGRAM, tokenizer_class="PreTrainedTokenizerFast", **own),
    }
CALLS = [([text], {}) for text in TEXTS] + [(["cat", "x"], {})]
ROBERTA_CALLS = [([text], {}) for text in ("cat cat", "Cat", " cat")]


def as_cases(texts_by_name, calls) -> dict:
    return {
        name: {"class": "AutoTokenizer", "files": texts, "calls": calls}
        for name, texts in texts_by_name.items()
    }


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What transformers' AutoTokenizer returns for each case."""
    out = tmp_path_factory.mktemp("transformers")
    cases = as_cases(FILES, CALLS) | as_cases(ROBERTA_FILES, ROBERTA_CALLS)
    run_peer("peer_bert:encode", out, cases)
    return json.loads((out / "ids.json").read_text())


def put(folder, texts: dict[str, str]):
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", [*FILES, *ROBERTA_FILES])
def test_ids_and_segments_are_transformers(theirs, tmp_path, name):
    tokenizer = Tokenizer.load(put(tmp_path, (FILES | ROBERTA_FILES)[name]))
    calls = CALLS if name in FILES else ROBERTA_CALLS
    for (texts, _), wanted in zip(calls, theirs[name], strict=True):
        found = tokenizer.encode(*texts)
        assert found.ids == wanted["input_ids"], texts
        # transformers leaves them out where the model gets none: they are 0 then
        assert found.segment_ids == wanted.get("token_type_ids", [0] * len(found)), texts


@pytest.mark.parametrize("name", [*FILES, *ROBERTA_FILES])
def test_a_saved_tokenizer_stays_the_same(tmp_path, name):
    tokenizer = Tokenizer.load(put(tmp_path, (FILES | ROBERTA_FILES)[name]))
    tokenizer.save(tmp_path / "saved")
    again = Tokenizer.load(tmp_path / "saved")
    for texts, _ in CALLS + ROBERTA_CALLS:
        before, after = (one.encode(*texts) for one in (tokenizer, again))
        assert (before.ids, before.segment_ids) == (after.ids, after.segment_ids)


@pytest.mark.full
@pytest.mark.parametrize("name", [*FILES, *ROBERTA_FILES])
def test_transformers_reads_a_saved_tokenizer_alike(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    tokenizer = Tokenizer.load(put(tmp_path, (FILES | ROBERTA_FILES)[name]))
    tokenizer.save(tmp_path / "saved")
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for texts, _ in CALLS if name in FILES else ROBERTA_CALLS:
        assert peer(*texts)["input_ids"] == tokenizer.encode(*texts).ids


def test_a_cased_file_that_bert_tokenizer_would_lowercase_needs_a_choice(tmp_path):
    """BertTokenizer lowercases unless tokenizer_config.json says do_lower_case."""
    folder = put(tmp_path, files(WORDPIECE, tokenizer_class="BertTokenizer", **NAMES))
    with raises(ValueError, "lowercase="):
        Tokenizer.load(folder)
    assert Tokenizer.load(folder, lowercase=False).encode("Cat").tokens[1] == "Cat"


@pytest.mark.parametrize("name", ["MPNetTokenizer", "BertJapaneseTokenizer"])
def test_a_class_with_rules_of_its_own_is_refused(tmp_path, name):
    folder = put(tmp_path, files(WORDPIECE, tokenizer_class=name, **NAMES, **CASED))
    with raises(ValueError, name):
        Tokenizer.load(folder)


def test_a_file_without_a_template_is_refused_where_the_class_adds_none(tmp_path):
    """transformers' tokenizer would put no [CLS] and no [SEP] around a text."""
    bare = WORDPIECE | {"post_processor": None}
    fast = {"tokenizer_class": "PreTrainedTokenizerFast"}
    folder = put(tmp_path, files(bare, **NAMES, **fast))
    with raises(ValueError, "PreTrainedTokenizerFast"):
        Tokenizer.load(folder)
    change_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer", **CASED)
    assert Tokenizer.load(folder).encode("cat").tokens == ["[CLS]", "cat", "[SEP]"]


CLEANED = [(None, "don ' t"), (False, "don ' t"), (True, "don't")]  # transformers 5.24


@pytest.mark.parametrize(("value", "text"), CLEANED)
def test_contractions_are_decoded_as_tokenizer_config_says(tmp_path, value, text):
    own = {} if value is None else {"clean_up_tokenization_spaces": value}
    own |= {"tokenizer_class": "BertTokenizer", **NAMES, **CASED}
    tokenizer = Tokenizer.load(put(tmp_path, files(WORDPIECE, **own)))
    ids = tokenizer.encode("don't").ids
    assert tokenizer.decode(ids) == text
    tokenizer.save(tmp_path / "saved")
    assert Tokenizer.load(tmp_path / "saved").decode(ids) == text


@pytest.mark.full
def test_decoded_texts_are_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    ids = [TOKENS.index(token) for token in ("cat", "'", "cat", "don", "'", "t", "[", "x", "]")]
    for place, (value, _) in enumerate(CLEANED):
        for name in ("BertTokenizer", "PreTrainedTokenizerFast"):
            own = {"clean_up_tokenization_spaces": value, "tokenizer_class": name}
            folder = tmp_path / f"{name}{place}"
            folder.mkdir()
            put(folder, files(WORDPIECE, **own, **NAMES, **CASED))
            peer = transformers.AutoTokenizer.from_pretrained(folder)
            assert Tokenizer.load(folder).decode(ids) == peer.decode(ids), own
