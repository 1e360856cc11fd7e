"""The tokenizer on its own: what it gives, and what it refuses."""

import json
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers import texts
from helpers.errors import raises
from helpers.peer_outputs import run_peer
from helpers.peer_tokenizers import RULES, VOCABULARY, calls_of, flatten
from helpers.texts import TOKENS

from kbert.data.tokenization.tokenizer import Tokenizer


@pytest.fixture
def uncased():
    return Tokenizer.from_vocab(TOKENS, lowercase=True)


def test_one_and_two_texts_are_framed_as_in_the_paper(uncased):
    """BERT paper, section 3: [CLS] A [SEP], and [CLS] A [SEP] B [SEP] with segments A and B."""
    one = uncased.encode("The dogs barked.")
    assert one.tokens == ["[CLS]", "the", "dog", "##s", "bark", "##ed", ".", "[SEP]"]
    assert one.ids == [3, 6, 7, 8, 9, 10, 11, 4]
    assert one.segment_ids == [0] * 8
    assert one.offsets == [(0, 0), (0, 3), (4, 7), (7, 8), (9, 13), (13, 15), (15, 16), (0, 0)]
    assert one.word_ids == [None, 0, 1, 1, 2, 2, 3, None]
    assert len(one) == 8 and not one.truncated
    two = uncased.encode("dog", "Café!")
    assert two.tokens == ["[CLS]", "dog", "[SEP]", "cafe", "!", "[SEP]"]
    assert two.segment_ids == [0, 0, 0, 1, 1, 1]
    assert two.offsets == [(0, 0), (0, 3), (0, 0), (0, 4), (4, 5), (0, 0)]
    assert uncased.encode("dog", add_special_tokens=False).ids == [7]


def test_special_tokens_are_found_by_name(uncased):
    ids = (uncased.pad_id, uncased.unk_id, uncased.cls_id, uncased.sep_id, uncased.mask_id)
    assert ids == (0, 2, 3, 4, 5)
    names = {"pad": "<p>", "unk": "<u>", "cls": "<c>", "sep": "<s>", "mask": "<m>"}
    tokens = ["a", *reversed(names.values())]
    other = Tokenizer.from_vocab(tokens, lowercase=True, special_tokens=names)
    ids = (other.pad_id, other.unk_id, other.cls_id, other.sep_id, other.mask_id)
    assert ids == (5, 4, 3, 2, 1)
    assert other.encode("a <m> zz").tokens == ["<c>", "a", "<m>", "<u>", "<s>"]
    np.testing.assert_array_equal(other.encode_batch(["", "a"]).token_ids, [[3, 2, 5], [3, 0, 2]])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What transformers' and Google's tokenizers give."""
    found = {}
    for peer in ("transformers", "google"):
        out = tmp_path_factory.mktemp(peer)
        run_peer(f"peer_tokenizers:encode_by_{peer}", out)
        found |= np.load(out / "ids.npz")
    return found


@pytest.mark.parametrize("place", range(len(RULES)), ids=str)
def test_ids_offsets_and_words_equal_transformers(recorded, place):
    tokenizer = Tokenizer.from_vocab(VOCABULARY, **RULES[place])
    for name, (lines, pairs, options) in calls_of(RULES[place]).items():
        names = ("ids", "segment_ids", "offsets", "word_ids")
        batch = tokenizer.encode_batch(lines, pairs, **options)
        found = flatten(*([getattr(e, n) for e in batch] for n in names))
        np.testing.assert_array_equal(found, recorded[f"{place} {name}"], name)


@pytest.mark.parametrize("place", [3, 7])
def test_saved_tokenizer_has_the_same_ids(recorded, tmp_path, place):
    Tokenizer.from_vocab(VOCABULARY, **RULES[place]).save(tmp_path / "folder")
    for path in ("folder", "folder/vocab.txt", "folder/tokenizer.json"):
        batch = Tokenizer.load(tmp_path / path).encode_batch(texts.ALL)
        ids = [token for encoding in batch for token in encoding.ids]
        assert ids == recorded[f"{place} one text"][1].tolist(), path


@pytest.mark.parametrize(("strip_accents", "place"), [(None, 0), (True, 2), (False, 4)])
def test_tokenizer_config_wins_over_tokenizer_json(recorded, tmp_path, strip_accents, place):
    """As transformers reads the two, see test_tokenizer_parity.py."""
    tokenizer = Tokenizer.from_vocab(VOCABULARY, lowercase=False, strip_accents=False)
    tokenizer.save(tmp_path)
    config = {"do_lower_case": True, "strip_accents": strip_accents}
    config["tokenizer_class"] = "BertTokenizer"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    batch = Tokenizer.load(tmp_path).encode_batch(texts.ALL)
    ids = [token for encoding in batch for token in encoding.ids]
    assert ids == recorded[f"{place} one text"][1].tolist()


@pytest.mark.parametrize(
    ("name", "lines", "lowercase"),
    [
        ("UNICODE", texts.UNICODE, True),
        ("UNICODE", texts.UNICODE, False),
        ("OTHER", list(texts.NOT_AS_GOOGLE), True),  # which says why they differ
    ],
)
def test_ids_equal_googles(recorded, name, lines, lowercase):
    tokenizer = Tokenizer.from_vocab(VOCABULARY, lowercase=lowercase)
    numbers, ids = recorded[f"google {name}, lowercase={lowercase}"]
    for number, text in enumerate(lines):
        found = tokenizer.encode(text, add_special_tokens=False).ids
        assert (found == ids[numbers == number].tolist()) == (name == "UNICODE"), text


@pytest.mark.parametrize("skip", [True, False])
def test_decoded_texts_equal_transformers(recorded, skip):
    tokenizer = Tokenizer.from_vocab(VOCABULARY, **RULES[0])
    ids = [encoding.ids for encoding in tokenizer.encode_batch(texts.ALL)]
    found = [tokenizer.decode(one, skip_special_tokens=skip) for one in ids]
    assert found == recorded[f"decoded, skip={skip}"].tolist()


def test_a_batch_pads_its_arrays_and_not_its_encodings(uncased):
    batch = uncased.encode_batch(iter(["the dogs", "dog", ""]), pad_to_multiple_of=7)
    expected = [[3, 6, 7, 8, 4, 0, 0], [3, 7, 4, 0, 0, 0, 0], [3, 4, 0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(batch.token_ids, expected)
    assert batch.token_ids.dtype == batch.segment_ids.dtype == np.int32
    assert [encoding.ids for encoding in batch] == [[3, 6, 7, 8, 4], [3, 7, 4], [3, 4]]
    assert len(batch) == 3 and batch[1].tokens == ["[CLS]", "dog", "[SEP]"]
    assert uncased.encode_batch([]).token_ids.shape == (0, 0)
    assert uncased.encode_batch([], max_length=5, padding="max_length").token_ids.shape == (0, 5)


def test_truncation_ends_with_its_call(uncased):
    batch = uncased.encode_batch(["the dog barked the dog", "dog"], max_length=5)
    assert [encoding.truncated for encoding in batch] == [True, False]
    assert batch[0].tokens == ["[CLS]", "the", "dog", "bark", "[SEP]"]
    assert not uncased.encode("the dog barked the dog").truncated


def test_threads_do_not_change_one_anothers_truncation(uncased):
    wrong = []

    def work(length):
        for _ in range(5):
            batch = uncased.encode_batch(["dog " * 50] * 100, max_length=length)
            wrong.extend(len(e) for e in batch if len(e) != length)

    threads = [threading.Thread(target=work, args=(length,)) for length in (5, 11, 17, 31)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_decoding_joins_pieces_and_leaves_special_tokens_out(uncased):
    ids = uncased.encode("The dogs barked, the dog's [MASK]!").ids
    assert uncased.decode(ids) == "the dogs barked, the dog ' s!"
    with_them = uncased.decode(np.array(ids), skip_special_tokens=False)
    assert with_them == "[CLS] the dogs barked, the dog ' s [MASK]! [SEP]"
    assert uncased.decode([]) == ""


def test_tokens_and_ids_go_both_ways(uncased):
    assert uncased.vocab_size == len(TOKENS) and uncased.tokens == tuple(TOKENS)
    assert [uncased.id_of(uncased.token_of(i)) for i in range(21)] == list(range(21))


def test_a_tokenizer_survives_pickling(uncased):
    again = pickle.loads(pickle.dumps(uncased))
    assert again.encode("The dogs").ids == uncased.encode("The dogs").ids


@pytest.mark.parametrize(
    ("call", "things"),
    [
        (lambda t: t.encode(b"dog"), ("text", "str", "bytes")),
        (lambda t: t.encode("dog", 5), ("pair", "str", "int")),
        (lambda t: t.encode("a\ud800"), ("text", "surrogate", "character 1")),
        (lambda t: t.encode_batch("dog"), ("texts", "list of str")),
        (lambda t: t.encode_batch(["a", "b", None]), ("texts[2]", "str", "NoneType")),
        (lambda t: t.encode_batch(["a", "b"], ["a", 1.5]), ("pairs[1]", "str", "float")),
        (lambda t: t.encode_batch(["a"], ["\udfff"]), ("pairs[0]", "surrogate")),
        (lambda t: t.encode_batch(["a", "b"], ["c"]), ("pairs", "texts", 2, "got 1")),
        (
            lambda t: t.encode("dog", max_length=1),
            ("max_length", "at least 2", "[CLS]", "[SEP]", "got 1"),
        ),
        (
            lambda t: t.encode("a", "b", max_length=2),
            ("max_length", "at least 3", "[CLS]", "[SEP]"),
        ),
        (
            lambda t: t.encode("a", max_length=0, add_special_tokens=False),
            ("max_length", "whole number"),
        ),
        (lambda t: t.encode("a", max_length=2.5), ("max_length", "whole number", 2.5)),
        (lambda t: t.encode("a", truncation=True), ("truncation", "longest_first", "True")),
        (lambda t: t.encode("a", max_length=5, truncation="only_second"), ("only_second", "pair")),
        (
            lambda t: t.encode("a " * 9, "b", max_length=5, truncation="only_second"),
            ("max_length=5",),
        ),
        (lambda t: t.encode_batch(["a"], padding="max_length"), ("padding", "max_length")),
        (lambda t: t.encode_batch(["a"], padding=True), ("padding", "longest", "True")),
        (
            lambda t: t.encode_batch(["a"], pad_to_multiple_of=0),
            ("pad_to_multiple_of", "at least 1", "got 0"),
        ),
        (
            lambda t: t.encode_batch(["a"], max_length=9, pad_to_multiple_of=8),
            ("max_length", "pad_to_multiple_of", 8, 9),
        ),
        (lambda t: t.decode([7, 21]), ("ids[1]", "0 … 20", "got 21")),
        (lambda t: t.decode([-1]), ("ids[0]", "got -1")),
        (lambda t: t.decode([1.5]), ("ids", "whole numbers")),
        (lambda t: t.decode([[1, 2]]), ("ids", "one sequence")),
        (lambda t: t.token_of(21), ("0 … 20", "21")),
        (lambda t: t.id_of("cat"), ("'cat'",)),
        (lambda t: Tokenizer.from_vocab([], lowercase=True), ("tokens", "none")),
        (lambda t: Tokenizer.from_vocab([*TOKENS, 7], lowercase=True), ("one line", "got 7")),
        (lambda t: Tokenizer.from_vocab([*TOKENS, "a\nb"], lowercase=True), ("one line",)),
        (
            lambda t: Tokenizer.from_vocab(TOKENS, lowercase=None),
            ("lowercase", "True or False", "None"),
        ),
        (
            lambda t: Tokenizer.from_vocab(TOKENS, lowercase=True, special_tokens={"eos": "."}),
            ("special_tokens", "pad, unk, cls, sep, mask", "eos"),
        ),
    ],
)
def test_bad_input_is_one_line(uncased, call, things):
    with raises(ValueError, *things) as error:
        call(uncased)
    assert "\n" not in str(error.value)


def test_the_tokenizer_needs_no_keras_and_no_backend(run_python):
    code = f"""
import os, sys
os.environ.pop("KERAS_BACKEND", None)
from kbert.data.tokenization.tokenizer import Tokenizer
tokenizer = Tokenizer.from_vocab({TOKENS!r}, lowercase=True)
print(tokenizer.encode_batch(["the dogs"]).token_ids.tolist(), tokenizer.decode([6, 7, 8]))
print(sorted({{"keras", "tensorflow", "jax", "torch", "transformers"}} & set(sys.modules)))
"""
    assert run_python(code).stdout.splitlines() == ["[[3, 6, 7, 8, 4]] the dogs", "[]"]


@pytest.mark.parametrize("vocabulary", ["vocab.txt", Path("vocab.txt"), ["[PAD]", "a"]])
def test_a_tokenizer_of_a_path_or_tokens_names_from_vocab(vocabulary):
    with raises(TypeError, "from_vocab"):
        Tokenizer(vocabulary)
