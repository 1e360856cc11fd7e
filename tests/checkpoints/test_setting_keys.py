"""The table of keys beside a checkpoint's weights: each row is tested."""

import dataclasses
import json

import numpy as np
import pytest
import tokenizers

import kbert
from kbert import BertConfig
from kbert.graph.families import FAMILIES
from kbert.io.setting_keys import setting_keys
from kbert.tasks.checks import longest

SIZES = {
    "vocab_size": 41,
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
}
TRUNCATION = {
    "max_length": 9,
    "strategy": "LongestFirst",
    "stride": 0,
    "direction": "Left",
}
# Obeyed keys with tests of their own.
OTHERWISE = (
    *("model_max_length", "max_len", "tokenizer_class", "add_prefix_space", "trim_offsets"),
    *("truncation_side", "model_input_names", "architectures", "problem_type"),
    "kbert_newly_initialized",
    *("id2label", "num_labels", "_num_labels", "tie_word_embeddings"),
    *("kbert_split_punctuation", "sentence_transformers", "sbert_ce_default_activation_function"),
)
HANDLINGS = ("obeyed", "refused", "ignored")


def rows(handling, *files):
    found = [row for row in setting_keys() if row.handling == handling and row.file in files]
    if handling == "obeyed":
        found = [row for row in found if row.key not in OTHERWISE]
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
    with pytest.raises(ValueError, match=f"its config: {row.key} must be .*, got 'odd'"):
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


def saved_by_transformers(transformers, name, folder, **settings):
    sizes = SIZES | {"hidden_size": 12} | settings
    getattr(transformers, name)(transformers.BertConfig(**sizes)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    "said", [{"id2label": {"0": "no", "1": "maybe", "2": "yes"}}, {"num_labels": 3}], ids=str
)
def test_a_new_head_has_the_labels_of_config_json(tmp_path, transformers, said):
    saved_by_transformers(transformers, "BertModel", tmp_path)
    write(tmp_path / "config.json", said)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    for head in ("classifier", "tokens"):
        bert = kbert.load(tmp_path, head=head)
        assert dict(enumerate(bert.labels)) == theirs.config.id2label
        assert bert.spec.num_labels == theirs.num_labels == 3
    assert kbert.load(tmp_path, head="classifier", num_labels=5).labels is None
    assert kbert.load(tmp_path).labels is None


def test_multiple_choice_is_named_and_its_encoder_opens(tmp_path, transformers):
    saved_by_transformers(transformers, "BertForMultipleChoice", tmp_path)
    with pytest.raises(ValueError, match=r"got a BertForMultipleChoice: .* head='encoder'"):
        kbert.load(tmp_path)
    assert kbert.load(tmp_path, head="encoder").report.initialized == ()


def test_untied_embeddings_open_without_an_mlm_head(tmp_path, transformers):
    untied = {"tie_word_embeddings": False}
    saved_by_transformers(transformers, "BertModel", tmp_path / "encoder", **untied)
    assert kbert.load(tmp_path / "encoder").head == "encoder"
    saved_by_transformers(transformers, "BertForMaskedLM", tmp_path / "mlm", **untied)
    with pytest.raises(ValueError, match=r"decoder.weight must equal embeddings.word_embeddings"):
        kbert.load(tmp_path / "mlm")


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


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers", reason="pip install -e '.[test]'")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    write(tmp_path / "tokenizer_config.json", {"do_lower_case": True})
    return tmp_path


def write(file, values):
    """Changes a file of JSON."""
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    file.write_text(json.dumps(before | values), encoding="utf-8")


@rows("obeyed", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
def test_an_obeyed_key_gives_transformers_ids(folder, transformers, row):
    before = kbert.Tokenizer.load(folder).encode(TEXT).ids
    value = OBEYED[row.key]
    write(folder / row.file, value if row.key[0] == "*" else {row.key: value})
    ids = kbert.Tokenizer.load(folder).encode(TEXT).ids
    assert ids == transformers.BertTokenizer.from_pretrained(folder)(TEXT)["input_ids"]
    assert ids != before or row.key == "mask_token"


@pytest.mark.parametrize("key", ["model_max_length", "max_len"])
def test_the_tokenizers_length_goes_before_more_positions(folder, key, small):
    write(folder / "tokenizer_config.json", {key: 7})
    tokenizer = kbert.Tokenizer.load(folder)
    bert = kbert.Bert(small, "encoder", kbert.build_encoder(small, seq_len=None), tokenizer)
    assert small.positions > 9 and (longest(bert), longest(bert, 9)) == (7, 9)
    write(folder / "tokenizer_config.json", {key: int(1e30)})
    assert kbert.Tokenizer.load(folder).max_length is None


@pytest.mark.parametrize("form", ["vocab.txt", "tokenizer.json"])
def test_the_side_that_is_cut_is_transformers(folder, transformers, form):
    write(folder / "tokenizer_config.json", {"truncation_side": "left"})
    texts, pairs = ["the cat the dog e e", "e", "the " * 5000], ["dog cat", "the e dog " * 3, "e"]
    if form == "tokenizer.json":
        kbert.Tokenizer.load(folder).save(folder)
        write(folder / "tokenizer.json", {"truncation": TRUNCATION})
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    peer = transformers.BertTokenizer.from_pretrained(folder)
    ours = kbert.Tokenizer.load(folder)
    ours.save(folder / "again")
    for tokenizer in (ours, kbert.Tokenizer.load(folder / "again")):
        for options in ((texts, None), (texts, pairs)):
            wanted = peer(*options, truncation=True, max_length=6)["input_ids"]
            assert [e.ids for e in tokenizer.encode_batch(*options, max_length=6)] == wanted


def test_without_token_type_ids_all_segments_are_0(folder, transformers):
    pair = ["the cat", "e dog"], ["dog e the", "c"]
    for names in (["input_ids", "token_type_ids"], ["input_ids", "attention_mask"]):
        write(folder / "tokenizer_config.json", {"model_input_names": names})
        found = transformers.BertTokenizer.from_pretrained(folder)(*pair)
        wanted = found.get("token_type_ids", [[0] * len(ids) for ids in found["input_ids"]])
        tokenizer = kbert.Tokenizer.load(folder)
        tokenizer.save(folder / "again")
        for one in (tokenizer, kbert.Tokenizer.load(folder / "again")):
            assert [encoding.segment_ids for encoding in one.encode_batch(*pair)] == wanted
            assert one.second_segment == max(map(max, wanted))


@rows("refused", "tokenizer_config.json", "tokenizer.json")
def test_a_setting_that_kbert_cannot_follow_is_refused(folder, row):
    if row.file == "tokenizer.json":
        kbert.Tokenizer.load(folder).save(folder)
    first, _, inner = row.key.partition(".")
    for value in (*row.allowed, "odd"):
        before = json.loads((folder / row.file).read_text(encoding="utf-8")).get(first)
        inside = (before or {}) | {inner: value} if inner else value
        write(folder / row.file, {first: inside})
        if value != "odd":
            kbert.Tokenizer.load(folder)
    with pytest.raises(ValueError, match=rf"{row.file}: {row.key} must be .*, got 'odd'\. "):
        kbert.Tokenizer.load(folder)


@rows("ignored", "tokenizer_config.json", "tokenizer.json")
def test_an_ignored_setting_changes_no_id(folder, row):
    tokenizer = kbert.Tokenizer.load(folder)
    values = {"truncation": TRUNCATION | {"direction": "Right"}, "padding": {"pad_id": 3}}
    if row.file == "tokenizer.json":
        tokenizer.save(folder)
    write(folder / row.file, {row.key: values.get(row.key, "odd")})
    assert kbert.Tokenizer.load(folder).encode(TEXT).ids == tokenizer.encode(TEXT).ids


@pytest.mark.parametrize("key", ["add_prefix_space", "trim_offsets"])
def test_an_obeyed_key_of_byte_level_bpe_gives_transformers_ids(tmp_path, transformers, key):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(["the cat the cat"] * 3, vocab_size=300, special_tokens=special)
    made.save_model(str(tmp_path))
    found = {}
    for value in (False, True):
        write(tmp_path / "tokenizer_config.json", {key: value})
        encoding = kbert.Tokenizer.load(tmp_path).encode("the cat")
        peer = transformers.RobertaTokenizer.from_pretrained(tmp_path)
        wanted = peer("the cat", return_offsets_mapping=True)
        found[value] = encoding.ids, encoding.offsets
        assert found[value] == (wanted["input_ids"], wanted["offset_mapping"])
    assert found[False] != found[True]


def test_tokenizer_class_of_config_json_is_the_fallback(folder):
    write(folder / "config.json", {"tokenizer_class": "BertJapaneseTokenizer"})
    with pytest.raises(ValueError, match="must be BertTokenizer, got BertJapaneseTokenizer"):
        kbert.Tokenizer.load(folder)
    write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    kbert.Tokenizer.load(folder)


def test_added_tokens_decoder_goes_before_the_older_files(folder, transformers):
    write(folder / "special_tokens_map.json", {"sep_token": "[C]"})
    write(folder / "added_tokens.json", {"catdog": 20})
    for decoder in ({}, {"added_tokens_decoder": {"6": {"content": "[A]"}}}):
        write(folder / "tokenizer_config.json", {"sep_token": "[B]"} | decoder)
        wanted = transformers.BertTokenizer.from_pretrained(folder)(TEXT)["input_ids"]
        assert kbert.Tokenizer.load(folder).encode(TEXT).ids == wanted


def test_a_text_with_the_padding_token_is_refused(folder, transformers, small):
    """transformers attends to it; its ids are the same."""
    tokenizer, text = kbert.Tokenizer.load(folder), "the [PAD] cat"
    wanted = transformers.BertTokenizer.from_pretrained(folder)(text)["input_ids"]
    assert tokenizer.encode(text).ids == wanted and tokenizer.pad_id in wanted
    bert = kbert.Bert(small, "encoder", kbert.build_encoder(small, seq_len=None), tokenizer)
    for call in (
        lambda: tokenizer.encode_batch(["the", text]),
        lambda: tokenizer.encode_batch(["the"], [text]),
        lambda: kbert.embed(bert, ["the", text]),
        lambda: kbert.attribute(bert, text, similar_to="the"),
        lambda: kbert.attribute(bert, "the", similar_to=text),
    ):
        with pytest.raises(ValueError, match=r"must not hold '\[PAD\]', the padding .* 'the \[PAD"):
            call()
    assert tokenizer.encode_batch([text], max_length=3)[0].ids  # it is cut off


def test_padding_is_masked_by_the_tokenizers_pad_id(folder, transformers, small):
    """[UNK] stands first, and config.json says that 0 is the padding."""
    torch = pytest.importorskip("torch")
    tokens = [
        "[UNK]",
        "[SEP]",
        "[PAD]",
        *(t for t in TOKENS if t not in ("[UNK]", "[SEP]", "[PAD]")),
    ]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    model = kbert.build_encoder(small, seq_len=None)
    kbert.save(kbert.Bert(small, "encoder", model), folder / "bert")
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).rename(folder / "bert" / name)
    bert, texts = kbert.load(folder / "bert"), ["the cat", "the § dog c", "é"]
    assert small.pad_token_id == 0
    assert bert.config.pad_token_id == kbert.inspect(folder / "bert").config.pad_token_id == 2
    peer = transformers.BertModel.from_pretrained(folder / "bert").eval()
    read = transformers.BertTokenizer.from_pretrained(folder / "bert")
    inputs = read(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states, mask = peer(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
    wanted = ((states * mask).sum(1) / mask.sum(1)).numpy()
    np.testing.assert_allclose(kbert.embed(bert, texts, pooling="mean"), wanted, atol=2e-5)
    other = dataclasses.replace(bert, config=small)
    with pytest.raises(ValueError, match=r"embed needs a model whose pad_token_id is .*, 2, got 0"):
        kbert.embed(other, texts)
