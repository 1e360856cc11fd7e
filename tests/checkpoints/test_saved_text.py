"""A SavedModel of texts gives kbert's tokens and answers in a process without kbert."""

import dataclasses
import itertools
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import tokenizers
from helpers import page_blocks, texts
from helpers.errors import raises
from helpers.marks import nightly
from helpers.sizes import ROOT
from helpers.small_berts import TEXTS, small_bert
from numpy.testing import assert_allclose

import kbert
from kbert.data.tokenization.tokenizer import Tokenizer

pytestmark = pytest.mark.full
pytest.importorskip("tensorflow_text", reason="pip install --no-deps tensorflow-text")

FLAGS_OFF = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
SERVE = """
import sys
import numpy as np, tensorflow as tf, tensorflow_text
data = np.load(sys.argv[2], allow_pickle=True)
served = tf.saved_model.load(sys.argv[1]).signatures
given = {name: tf.constant(list(data[name])) for name in data.files}
found = served["pairs" if "pairs" in given else "serving_default"](**given)
np.savez(sys.argv[3], **{name: tensor.numpy() for name, tensor in found.items()})
assert not [name for name in sys.modules if name.split(".")[0] in ("kbert", "keras_hub")]
"""


def differences(tokenizer, lines, pairs=None, limit=512) -> list[str]:
    """The texts whose ids or segments in the graph are not the tokenizer's own."""
    import tensorflow as tf

    from kbert.exports.text_graph import TextGraph

    graph = TextGraph(tokenizer.vocabulary)
    found = graph.frame(tf.constant(lines), None if pairs is None else tf.constant(pairs), limit)
    ids, segments = (ragged.to_list() for ragged in found)
    wanted = tokenizer.encode_batch(lines, pairs, max_length=limit)
    assert len(ids) == len(segments) == len(lines)
    return [
        line
        for line, row, kinds, encoding in zip(lines, ids, segments, wanted, strict=True)
        if row != encoding.ids or kinds != encoding.segment_ids
    ]


def test_shared_lines_and_hard_texts_have_the_tokenizers_ids(shared):
    real = Tokenizer.load(texts.real_vocabulary())
    lines = texts.shared_lines(shared)[::3]
    assert len(lines) == 5911
    assert differences(real, texts.ALL + lines) == []


@pytest.mark.parametrize(
    ("lowercase", "strip", "chinese"),
    [(True, None, True), (True, False, True), (False, None, True), (False, True, False)],
)
def test_hard_texts_have_the_tokenizers_ids_by_every_rule(lowercase, strip, chinese):
    """With a vocabulary of characters, the control ones too: every character shows."""
    rules = {"strip_accents": strip, "tokenize_chinese_chars": chinese}
    tokens = texts.character_vocabulary(texts.ALL)
    tokenizer = Tokenizer.from_vocab(tokens, lowercase=lowercase, **rules)
    assert differences(tokenizer, texts.ALL) == []


@pytest.mark.parametrize("lowercase", [True, nightly(False)])
def test_every_code_point_has_the_tokenizers_ids(lowercase):
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    tokenizer = Tokenizer.from_vocab(texts.character_vocabulary(texts.UNICODE), lowercase=lowercase)
    lines = ["a" + "b a".join(points[at : at + 256]) + "b" for at in range(0, len(points), 256)]
    assert differences(tokenizer, lines, limit=10**6) == []


@pytest.mark.parametrize("lowercase", [True, False])
def test_combining_marks_have_the_tokenizers_order(lowercase):
    """Unicode's canonical order, where some marks are dropped and the tables are old."""
    marks = [chr(c) for c in range(0x300, 0x1E950) if unicodedata.combining(chr(c))]
    strip = tokenizers.normalizers.BertNormalizer(strip_accents=True).normalize_str
    kept = [mark for mark in marks if strip(mark)]
    assert len(kept) > 150 and len({unicodedata.combining(mark) for mark in kept}) > 5
    seeded = random.Random(3)
    others = ["a", "\u0947", " ", "[MASK]", "\x01", "中"]
    lines = ["".join(seeded.choices([*others, *marks, *kept * 3], k=40)) for _ in range(300)]
    pairs = ["".join(pair) for pair in itertools.product(kept, repeat=2)]
    moved = [pair for pair in pairs if strip(pair) != pair]
    assert len(moved) > 100
    pairs = [f"a{pair}" for pair in [*moved, *pairs[::5]]] + [
        f"a{pair[0]}\u0947{pair[1]}" for pair in moved
    ]
    tokens = texts.character_vocabulary([*marks, *others])
    tokenizer = Tokenizer.from_vocab(tokens, lowercase=lowercase)
    assert differences(tokenizer, lines + pairs) == []


def test_added_tokens_are_found_as_the_tokenizer_finds_them():
    """The first that begins, of those the longest; beside characters that stand in for them."""
    words = ["##", "#", "###", "a", "##a", "a b", "\ue000", "", "Ab", "\x00x", "<e>", "a\\E"]
    added = ["a\\E", "bcd[MA", "xbc", "[E1]", "\U0010fffd"]
    places = enumerate(added, start=len(texts.SPECIAL) + len(words) - 1)
    entries = tuple({"id": place, "content": token} | FLAGS_OFF for place, token in places)
    tokenizer = Tokenizer.from_vocab(texts.SPECIAL + words, lowercase=True, added=entries)
    lines = ["## # a ##a \ue000 Ab <e> aa\\Eb abcd[MASK] xbcd[MASK] [E1][E1]a", "[MASK]" * 9]
    lines += ["", "\x00", "a\ufdd0 b", "[E[E1]1]"]
    lines += [f"[MA{chr(point)}SK] {chr(point)}a" for point in range(0x10FFE0, 0x10FFFE)]
    assert differences(tokenizer, lines) == []


@pytest.mark.parametrize("limit", [3, nightly(4), 7, nightly(12), nightly(31)])
def test_pairs_and_long_texts_are_cut_as_the_tokenizer_cuts_them(limit):
    tokenizer = Tokenizer.from_vocab([*texts.SPECIAL, "a", "##b"], lowercase=True)
    cases = list(itertools.product(range(0, 18), range(0, 18)))
    lines, pairs = ([" ".join("a" * case[side]) for case in cases] for side in (0, 1))
    assert differences(tokenizer, lines, pairs, limit) == []
    assert differences(tokenizer, lines, None, limit) == []


def served(tmp_path, bert, **given) -> dict:
    """What a process that knows TensorFlow and tensorflow_text alone makes of texts."""
    kbert.save(bert, tmp_path / "saved", format="saved_model", text=True)
    arrays = {name: [text.encode() for text in lines] for name, lines in given.items()}
    np.savez(tmp_path / "in.npz", **{name: np.array(a, object) for name, a in arrays.items()})
    paths = [str(tmp_path / name) for name in ("saved", "in.npz", "out.npz")]
    subprocess.run([sys.executable, "-c", SERVE, *paths], check=True, cwd=tmp_path)
    with np.load(tmp_path / "out.npz", allow_pickle=True) as found:
        return dict(found)


def test_vectors_are_those_of_embed_in_a_process_without_kbert(berts, tmp_path):
    prompts = {"prompts": {"red": "red "}, "default_prompt_name": "red"}
    sentence = kbert.SentenceSettings("mean", True, 6, **prompts)
    bert = dataclasses.replace(berts["encoder"], sentence=sentence)
    found = served(tmp_path, bert, texts=TEXTS + texts.ALL)
    assert list(found) == ["sentence_embedding"]
    wanted = kbert.embed(bert, TEXTS + texts.ALL)
    assert_allclose(found["sentence_embedding"], wanted, atol=1e-5)


def signatures(bert, folder):
    import tensorflow as tf

    kbert.save(bert, folder, format="saved_model", text=True)
    loaded = tf.saved_model.load(str(folder))
    return loaded, {name: loaded.signatures[name] for name in loaded.signatures}


def by_label(ranked) -> list[dict]:
    return [{one.label: one.probability for one in row} for row in ranked]


@pytest.mark.parametrize("kind", [None, "multi_label_classification"])
def test_probabilities_are_those_of_classify(berts, tmp_path, kind):
    import tensorflow as tf

    labels = ("bad", "poor", "fair", "good", "best")
    bert = dataclasses.replace(berts["classifier"], labels=labels, problem_type=kind)
    loaded, answers = signatures(bert, tmp_path / "saved")
    first, second = tf.constant(TEXTS), tf.constant(TEXTS[::-1])
    for found, wanted in (
        (answers["serving_default"](texts=first), kbert.classify(bert, TEXTS)),
        (answers["pairs"](texts=first, pairs=second), kbert.classify(bert, TEXTS, TEXTS[::-1])),
        (loaded.serve(first), kbert.classify(bert, TEXTS)),
    ):
        named = {tuple(label.decode() for label in row) for row in found["labels"].numpy()}
        assert named == {labels}
        expected = [[row[label] for label in labels] for row in by_label(wanted)]
        assert_allclose(found["probabilities"], expected, atol=1e-5)
        if kind is None:
            assert [b.decode() for b in found["label"].numpy()] == [row[0].label for row in wanted]
        else:
            assert "label" not in found
    assert answers["serving_default"](texts=first[:0])["probabilities"].shape == (0, 5)


def test_a_regression_gives_its_value(small, tmp_path):
    import tensorflow as tf

    model = kbert.build_classifier(small, num_labels=1, seq_len=None)
    tokenizer = small_bert(small, "encoder").tokenizer
    bert = kbert.Bert(small, "classifier", model, tokenizer, problem_type="regression")
    _, answers = signatures(bert, tmp_path / "saved")
    found = answers["serving_default"](texts=tf.constant(TEXTS))
    assert list(found) == ["value"]
    assert_allclose(found["value"], kbert.regress(bert, TEXTS), atol=1e-5)


def test_a_regression_of_several_outputs_gives_its_values(berts, tmp_path):
    import tensorflow as tf

    bert = dataclasses.replace(berts["classifier"], problem_type="regression")
    _, answers = signatures(bert, tmp_path / "saved")
    found = answers["serving_default"](texts=tf.constant(TEXTS))
    assert sorted(found) == ["labels", "values"]
    assert [label.decode() for label in found["labels"][0].numpy()] == [
        f"LABEL_{number}" for number in range(5)
    ]
    assert_allclose(found["values"], kbert.regress(bert, TEXTS), atol=1e-5)


def test_served_masks_and_next_sentences_are_kberts(berts, tmp_path):
    import tensorflow as tf

    bert = berts["pretraining"]
    _, answers = signatures(bert, tmp_path / "saved")
    lines = ["the cat [MASK] .", "[MASK] big [MASK] red", "sun"]
    found = answers["serving_default"](texts=tf.constant(lines))
    tokens, probabilities = found["tokens"].numpy(), found["probabilities"].numpy()
    assert tokens.shape == probabilities.shape == (3, 2, 5)
    for row, filled in enumerate(kbert.fill_mask(bert, lines[:2])):
        for mask, candidates in enumerate(filled):
            assert [t.decode() for t in tokens[row, mask]] == [one.token for one in candidates]
            expected = [one.probability for one in candidates]
            assert_allclose(probabilities[row, mask], expected, atol=1e-5)
    assert set(tokens[2].ravel()) == {b""} and not probabilities[2].any()
    found = answers["pairs"](texts=tf.constant(TEXTS), pairs=tf.constant(TEXTS[::-1]))
    wanted = kbert.next_sentence(bert, TEXTS, TEXTS[::-1])
    assert_allclose(found["probability"], wanted, atol=1e-5)


def test_bytes_that_are_no_utf8_are_left_out():
    import tensorflow as tf

    from kbert.exports.text_graph import TextGraph

    tokenizer = Tokenizer.from_vocab([*texts.SPECIAL, "a", "##b", "é", "e"], lowercase=True)
    lines = [b"a\xffb \xc3", b"\xe2\x82a \xc3\xa9"]
    found, _ = TextGraph(tokenizer.vocabulary).frame(tf.constant(lines), None, 9)
    assert found.to_list() == [tokenizer.encode(text).ids for text in ("ab", "a é")]


def test_serve_text_page_prints_what_it_shows(tmp_path):
    for block, printed in page_blocks.run(ROOT / "docs" / "how_to" / "serve_text.md", tmp_path):
        assert block.shown is None or page_blocks.same(block.shown.text, printed), printed


def test_unsupported_text_exports_are_one_line(berts, tmp_path):
    added = {"id": 99, "content": "Quark"} | FLAGS_OFF | {"normalized": True}
    tokens = list(berts["encoder"].tokenizer.tokens)
    quark = Tokenizer.from_vocab(tokens, lowercase=True, added=(added,))
    left_out = kbert.SentenceSettings(
        "mean", True, prompts={"red": "red "}, default_prompt_name="red", include_prompt=False
    )
    cases = [
        (berts["qa"], ("pretraining", "encoder", "classifier", "got qa")),
        (berts["tokens"], ("got tokens",)),
        (dataclasses.replace(berts["encoder"], tokenizer=None), ("tokenizer",)),
        (dataclasses.replace(berts["encoder"], tokenizer=quark), ("'Quark'", "normalized")),
        (dataclasses.replace(berts["encoder"], sentence=left_out), ("include_prompt=False",)),
        (dataclasses.replace(berts["encoder"], sentence_problem="an LSTM"), ("pooling", "an LSTM")),
    ]
    for bert, things in cases:
        with raises(ValueError, *things) as raised:
            kbert.save(bert, tmp_path / "out", format="saved_model", text=True)
        assert "\n" not in str(raised.value)
    with raises(ValueError, "format saved_model", "format onn"):
        kbert.save(berts["encoder"], tmp_path / "out.onnx", text=True)
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_of_another_kind_is_one_line(berts, tmp_path):
    from tokenizers.models import BPE

    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a"]
    rust = tokenizers.Tokenizer(BPE({word: place for place, word in enumerate(words)}, []))
    rust.add_special_tokens(words[:5])
    rust.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    rust.save(str(tmp_path / "tokenizer.json"))
    bert = dataclasses.replace(berts["encoder"], tokenizer=Tokenizer.load(tmp_path))
    with raises(ValueError, "WordPiece", "BPE"):
        kbert.save(bert, tmp_path / "out", format="saved_model", text=True)
