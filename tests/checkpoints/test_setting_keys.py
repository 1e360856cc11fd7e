"""Each row of the table of keys beside a checkpoint's weights is tested."""

import dataclasses
import json

import numpy as np
import pytest
import tokenizers
from helpers.damaged_checkpoints import change_json, load_error
from helpers.errors import raises
from helpers.peer_outputs import run_peer
from helpers.sizes import SIZES
from safetensors.numpy import load_file, save_file

import kbert
from kbert import BertConfig
from kbert.graph.families import FAMILIES
from kbert.io.setting_keys import setting_keys
from kbert.tasks.common.checks import longest

WEIGHTS = "model.safetensors"
TRUNCATION = {"max_length": 9, "strategy": "LongestFirst", "stride": 0, "direction": "Left"}
# Obeyed keys with tests of their own.
OTHERWISE = (
    *("model_max_length", "max_len", "tokenizer_class", "add_prefix_space", "trim_offsets"),
    *("truncation_side", "model_input_names", "architectures", "problem_type"),
    "kbert_newly_initialized",
    *("id2label", "num_labels", "_num_labels", "tie_word_embeddings"),
    *("kbert_split_punctuation", "sentence_transformers", "sbert_ce_default_activation_function"),
    "clean_up_tokenization_spaces",
    *(
        "embedding_size",
        "embedding_width",
        "num_key_value_heads",
        "head_dim",
        "attention_head_size",
    ),
)
HANDLINGS = ("obeyed", "refused", "ignored")


def obeyed(*files) -> list:
    found = [row for row in setting_keys() if row.handling == "obeyed" and row.file in files]
    return [row for row in found if row.key not in OTHERWISE]


def rows(handling, *files):
    every = [row for row in setting_keys() if row.handling == handling and row.file in files]
    found = obeyed(*files) if handling == "obeyed" else every
    return pytest.mark.parametrize("row", found, ids=[f"{row.file}-{row.key}" for row in found])


def test_each_key_has_one_row_and_a_reason():
    table = setting_keys()
    assert len({(row.file, row.key) for row in table}) == len(table)
    for row in table:
        assert row.handling in HANDLINGS and row.why.endswith("."), row
        assert bool(row.allowed) == (row.handling == "refused"), row


@rows("refused", "config.json")
def test_a_key_that_changes_the_graph_is_refused(row):
    for value in row.allowed:
        assert BertConfig.from_dict(SIZES | {row.key: value}) == BertConfig(**SIZES)
    with raises(ValueError, row.key, "'odd'"):
        BertConfig.from_dict(SIZES | {row.key: "odd"}, source="its config")


@rows("ignored", "config.json")
def test_a_key_that_changes_nothing_is_ignored(row):
    assert BertConfig.from_dict(SIZES | {row.key: "odd"}) == BertConfig(**SIZES)


OTHER_VALUES = {"model_type": "xlm-roberta", "hidden_act": "relu", "activation": "relu"}


@rows("obeyed", "config.json")
def test_an_obeyed_key_is_in_the_configuration(row):
    values = SIZES | {"type_vocab_size": 1}
    if row.key in {ours for ours, _ in FAMILIES["distilbert"].renamed} | {"qa_dropout"}:
        values = {"vocab_size": 41, "dim": 12, "n_heads": 4, "model_type": "distilbert"}
    before, (old,) = BertConfig.from_dict(values), [values.get(row.key, 1)]
    odd = 0.3 if any(word in row.key for word in ("dropout", "eps", "range")) else 3 * old
    changed = BertConfig.from_dict(values | {row.key: OTHER_VALUES.get(row.key, odd)})
    assert changed != before


@pytest.fixture
def encoder(small, tmp_path):
    """A folder with an encoder, as transformers' BertModel."""
    config = small.replace(num_hidden_layers=1)
    kbert.save(kbert.Bert(config, "encoder", kbert.build_encoder(config)), tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ({"id2label": {"0": "no", "1": "maybe", "2": "yes"}}, ("no", "maybe", "yes")),
        ({"num_labels": 3}, ("LABEL_0", "LABEL_1", "LABEL_2")),
    ],
)
def test_a_new_head_has_the_labels_of_config_json(encoder, tmp_path, said, labels):
    """As AutoModelForSequenceClassification of transformers; a save writes them both ways."""
    change_json(encoder / "config.json", **said)
    for head in ("classifier", "tokens"):
        bert = kbert.load(encoder, head=head)
        assert (bert.labels, bert.spec.num_labels) == (labels, 3)
    kbert.save(bert, tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert saved["id2label"] == {str(place): label for place, label in enumerate(labels)}
    assert saved["label2id"] == {label: place for place, label in enumerate(labels)}
    assert kbert.load(encoder, head="classifier", num_labels=5).labels is None
    assert kbert.load(encoder).labels is None


def test_head_that_a_family_lacks_is_named_and_its_encoder_opens(tmp_path):
    config = BertConfig(**SIZES | {"type_vocab_size": 1}, model_type="roberta", pad_token_id=1)
    folder = tmp_path / "roberta"
    kbert.save(kbert.Bert(config, "encoder", kbert.build_encoder(config), None), folder)
    tensors = {f"roberta.{name}": array for name, array in load_file(folder / WEIGHTS).items()}
    tensors |= {"classifier.weight": np.ones((1, 24), "f4"), "classifier.bias": np.ones(1, "f4")}
    save_file(tensors, folder / WEIGHTS)
    change_json(folder / "config.json", architectures=["RobertaForMultipleChoice"])
    load_error(folder, "RobertaForMultipleChoice", "head='encoder'")
    assert kbert.load(folder, head="encoder").report.initialized == ()


def test_untied_embeddings_open_without_an_mlm_head(encoder, tmp_path):
    change_json(encoder / "config.json", tie_word_embeddings=False)
    bert = kbert.load(encoder)
    assert bert.head == "encoder"
    both = kbert.Bert(bert.config, "pretraining", kbert.build_bert(bert.config))
    kbert.save(both, tmp_path / "mlm", architecture="BertForMaskedLM")
    change_json(tmp_path / "mlm" / "config.json", tie_word_embeddings=False)
    tensors = load_file(tmp_path / "mlm" / WEIGHTS)
    tensors["cls.predictions.decoder.weight"] = np.ones((99, 24), "f4")
    save_file(tensors, tmp_path / "mlm" / WEIGHTS)
    load_error(tmp_path / "mlm", "decoder.weight", "embeddings.word_embeddings")


TOKENS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[A]", "[B]", "[C]"),
    *("the", "cat", "dog", "The", "é", "e", "##at", "c", "中", "国", "中国"),
]
TEXT = "The cat é 中国 [A] the[B] dog [C] catdog [unused0] e"
# A value for each obeyed key of a tokenizer's files that changes what TEXT becomes.
OBEYED = {
    "do_lower_case": False,
    "strip_accents": False,
    "tokenize_chinese_chars": False,
    **{f"{role}_token": "[A]" for role in ("unk", "sep", "cls", "mask", "bos", "eos")},
    "pad_token": {"content": "[B]", "lstrip": True, "__type": "AddedToken"},
    "*_token": {"entity_token": "[C]"},
    "additional_special_tokens": ["[A]", "[B]"],
    "extra_special_tokens": ["[C]", "catdog"],
    "added_tokens_decoder": {"6": {"content": "[A]"}, "20": {"content": "catdog"}},
    "*": {"catdog": 20, "[B]": 7},
}


TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
UNCASED = {"do_lower_case": True}
CUT = ["the cat the dog e e", "e", "the " * 5000], ["dog cat", "the e dog " * 3, "e"]
PAIR = ["the cat", "e dog"], ["dog e the", "c"]
PADDED = "the [PAD] cat"
OLDER = {"special_tokens_map.json": {"sep_token": "[C]"}, "added_tokens.json": {"catdog": 20}}
NEWER = {"added_tokens_decoder": {"6": {"content": "[A]"}}}
BYTES = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
MERGES = ["t h", "th e", "c a", "ca t", "Ġ the", "Ġ cat"]
BPE = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *BYTES, *(m.replace(" ", "") for m in MERGES)]
BPE_FILES = {
    "vocab.json": json.dumps({token: place for place, token in enumerate(BPE)}),
    "merges.txt": "\n".join(["#version: 0.2", *MERGES]) + "\n",
}


def files(**changes) -> dict[str, str]:
    """The texts of an uncased WordPiece tokenizer's files, some with other keys."""
    values = {"tokenizer_config": UNCASED} | changes
    texts = {f"{name}.json": json.dumps(value) for name, value in values.items()}
    return {"vocab.txt": "\n".join(TOKENS) + "\n"} | texts


def case(files, *calls, kind="BertTokenizer", **options) -> dict:
    return {"class": kind, "files": files, "calls": [(call, options) for call in calls]}


def changed_by(row) -> dict[str, str]:
    value = OBEYED[row.key] if row.key[0] == "*" else {row.key: OBEYED[row.key]}
    first = UNCASED if row.file == "tokenizer_config.json" else {}
    return files(**{row.file.removesuffix(".json"): first | value})


def names_of_inputs(*names) -> dict[str, str]:
    return files(tokenizer_config=UNCASED | {"model_input_names": names})


def older_and(**newer) -> dict[str, str]:
    older = {name.removesuffix(".json"): values for name, values in OLDER.items()}
    return files(**older, tokenizer_config=UNCASED | {"sep_token": "[B]"} | newer)


CASES = {
    f"{row.file} {row.key}": case(changed_by(row), [TEXT]) for row in obeyed(*TOKENIZER_FILES)
} | {
    "left": case(
        files(tokenizer_config=UNCASED | {"truncation_side": "left"}),
        *([CUT[0]], CUT),
        truncation=True,
        max_length=6,
    ),
    "segments": case(names_of_inputs("input_ids", "token_type_ids"), PAIR),
    "no segments": case(names_of_inputs("input_ids", "attention_mask"), PAIR),
    "older": case(older_and(), [TEXT]),
    "newer": case(older_and(**NEWER), [TEXT]),
    "padded": case(files(), [PADDED]),
}
for key in ("add_prefix_space", "trim_offsets"):
    for value in (False, True):
        written = BPE_FILES | {"tokenizer_config.json": json.dumps({key: value})}
        options = {"kind": "RobertaTokenizer", "return_offsets_mapping": True}
        CASES[f"{key} {value}"] = case(written, ["the cat"], **options)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """What transformers' tokenizers return for each case."""
    out = tmp_path_factory.mktemp("transformers")
    run_peer("peer_bert:encode", out, CASES)
    return json.loads((out / "ids.json").read_text())


@pytest.fixture
def folder(tmp_path):
    return put(tmp_path, files())


def put(folder, texts: dict[str, str]):
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@rows("obeyed", *TOKENIZER_FILES)
def test_an_obeyed_key_gives_transformers_ids(folder, theirs, row):
    before = kbert.Tokenizer.load(folder).encode(TEXT).ids
    put(folder, changed_by(row))
    ids = kbert.Tokenizer.load(folder).encode(TEXT).ids
    assert ids == theirs[f"{row.file} {row.key}"][0]["input_ids"]
    assert ids != before or row.key == "mask_token"


@pytest.mark.parametrize("key", ["model_max_length", "max_len"])
def test_the_tokenizers_length_goes_before_more_positions(folder, key, small):
    change_json(folder / "tokenizer_config.json", **{key: 7})
    tokenizer = kbert.Tokenizer.load(folder)
    bert = kbert.Bert(small, "encoder", kbert.build_encoder(small, seq_len=None), tokenizer)
    assert small.positions > 9 and (longest(bert), longest(bert, 9)) == (7, 9)
    change_json(folder / "tokenizer_config.json", **{key: int(1e30)})
    assert kbert.Tokenizer.load(folder).max_length is None


@pytest.mark.parametrize("form", ["vocab.txt", "tokenizer.json"])
def test_the_side_that_is_cut_is_transformers(tmp_path, theirs, form):
    folder = put(tmp_path, CASES["left"]["files"])
    if form == "tokenizer.json":
        kbert.Tokenizer.load(folder).save(folder, overwrite=True)
        change_json(folder / "tokenizer.json", truncation=TRUNCATION)
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    ours = kbert.Tokenizer.load(folder)
    ours.save(folder / "again")
    for tokenizer in (ours, kbert.Tokenizer.load(folder / "again")):
        for texts, wanted in zip(([CUT[0]], CUT), theirs["left"], strict=True):
            found = [e.ids for e in tokenizer.encode_batch(*texts, max_length=6)]
            assert found == wanted["input_ids"]


def test_without_token_type_ids_all_segments_are_0(tmp_path, theirs):
    for name in ("segments", "no segments"):
        (found,) = theirs[name]
        wanted = found.get("token_type_ids", [[0] * len(ids) for ids in found["input_ids"]])
        tokenizer = kbert.Tokenizer.load(put(tmp_path, CASES[name]["files"]))
        tokenizer.save(tmp_path / name)
        for one in (tokenizer, kbert.Tokenizer.load(tmp_path / name)):
            assert [encoding.segment_ids for encoding in one.encode_batch(*PAIR)] == wanted
            assert one.second_segment == max(map(max, wanted))


@rows("refused", "tokenizer_config.json", "tokenizer.json")
def test_a_setting_that_kbert_cannot_follow_is_refused(folder, row):
    if row.file == "tokenizer.json":
        kbert.Tokenizer.load(folder).save(folder, overwrite=True)
    first, _, inner = row.key.partition(".")
    for value in (*row.allowed, "odd"):
        before = json.loads((folder / row.file).read_text(encoding="utf-8")).get(first)
        inside = (before or {}) | {inner: value} if inner else value
        change_json(folder / row.file, **{first: inside})
        if value != "odd":
            kbert.Tokenizer.load(folder)
    with raises(ValueError, row.file, row.key, "'odd'"):
        kbert.Tokenizer.load(folder)


@rows("ignored", "tokenizer_config.json", "tokenizer.json")
def test_an_ignored_setting_changes_no_id(folder, row):
    tokenizer = kbert.Tokenizer.load(folder)
    values = {"truncation": TRUNCATION | {"direction": "Right"}, "padding": {"pad_id": 3}}
    if row.file == "tokenizer.json":
        tokenizer.save(folder, overwrite=True)
    change_json(folder / row.file, **{row.key: values.get(row.key, "odd")})
    assert kbert.Tokenizer.load(folder).encode(TEXT).ids == tokenizer.encode(TEXT).ids


@pytest.mark.parametrize("key", ["add_prefix_space", "trim_offsets"])
def test_an_obeyed_key_of_byte_level_bpe_gives_transformers_ids(tmp_path, theirs, key):
    found = []
    for name in (f"{key} False", f"{key} True"):
        encoding = kbert.Tokenizer.load(put(tmp_path, CASES[name]["files"])).encode("the cat")
        found.append((encoding.ids, [list(pair) for pair in encoding.offsets]))
        (wanted,) = theirs[name]
        assert found[-1] == (wanted["input_ids"], wanted["offset_mapping"])
    assert found[0] != found[1]


def test_tokenizer_class_of_config_json_is_the_fallback(folder):
    change_json(folder / "config.json", tokenizer_class="BertJapaneseTokenizer")
    with raises(ValueError, "BertTokenizer", "BertJapaneseTokenizer"):
        kbert.Tokenizer.load(folder)
    change_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    kbert.Tokenizer.load(folder)


@pytest.mark.parametrize("name", ["older", "newer"])
def test_added_tokens_decoder_goes_before_the_older_files(tmp_path, theirs, name):
    tokenizer = kbert.Tokenizer.load(put(tmp_path, CASES[name]["files"]))
    assert tokenizer.encode(TEXT).ids == theirs[name][0]["input_ids"]


@pytest.mark.full
def test_a_text_with_the_padding_token_is_refused(folder, theirs, small):
    """transformers attends to it; its ids are the same."""
    tokenizer, text = kbert.Tokenizer.load(folder), PADDED
    assert tokenizer.encode(text).ids == theirs["padded"][0]["input_ids"]
    assert tokenizer.pad_id in tokenizer.encode(text).ids
    bert = kbert.Bert(small, "encoder", kbert.build_encoder(small, seq_len=None), tokenizer)
    for call in (
        lambda: tokenizer.encode_batch(["the", text]),
        lambda: tokenizer.encode_batch(["the"], [text]),
        lambda: kbert.embed(bert, ["the", text]),
        lambda: kbert.attribute(bert, text, similar_to="the"),
        lambda: kbert.attribute(bert, "the", similar_to=text),
    ):
        with raises(ValueError, "'[PAD]'", "'the [PAD"):
            call()
    assert tokenizer.encode_batch([text], max_length=3)[0].ids  # it is cut off


@pytest.mark.full
def test_padding_is_masked_by_the_tokenizers_pad_id(folder, small):
    """[UNK] stands first, and config.json says that 0 is the padding."""
    first = ["[UNK]", "[SEP]", "[PAD]"]
    tokens = [*first, *(token for token in TOKENS if token not in first)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    model = kbert.build_encoder(small, seq_len=None)
    kbert.save(kbert.Bert(small, "encoder", model), folder / "bert")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).rename(folder / "bert" / name)
    bert, texts = kbert.load(folder / "bert"), ["the cat", "the § dog c", "é"]
    assert small.pad_token_id == 0
    assert bert.config.pad_token_id == kbert.inspect(folder / "bert").config.pad_token_id == 2
    alone = [kbert.embed(bert, [text], pooling="mean")[0] for text in texts]  # without padding
    np.testing.assert_allclose(kbert.embed(bert, texts, pooling="mean"), alone, atol=2e-5)
    other = dataclasses.replace(bert, config=small)
    with raises(ValueError, "embed", "pad_token_id", 2, "got 0"):
        kbert.embed(other, texts)


@pytest.mark.parametrize(
    ("key", "size"),
    [
        ("embedding_size", SIZES["hidden_size"]),
        ("embedding_width", SIZES["hidden_size"]),
        ("num_key_value_heads", SIZES["num_attention_heads"]),
        ("head_dim", SIZES["hidden_size"] // SIZES["num_attention_heads"]),
        ("attention_head_size", SIZES["hidden_size"] // SIZES["num_attention_heads"]),
    ],
)
def test_a_size_of_other_models_must_be_berts(key, size):
    """ALBERT's and ELECTRA's narrower embedding; grouped heads; heads of another width."""
    assert BertConfig.from_dict(SIZES | {key: size}) == BertConfig(**SIZES)
    with raises(ValueError, key, size, f"got {size + 1}"):
        BertConfig.from_dict(SIZES | {key: size + 1})
