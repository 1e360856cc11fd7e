"""The tokenizer gives the same ids as transformers' and Google's do today.

What they gave once, for harder texts and every rule, test_tokenizer.py has from a recording.
"""

import os
import unicodedata

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import tokenizers
from helpers import texts
from helpers.marks import nightly

from kbert.data.tokenization.tokenizer import Tokenizer

pytestmark = pytest.mark.full

CASINGS = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])


def peer_of(folder, **rules):
    """transformers' tokenizer of a folder, without the truncation its file may hold."""
    transformers = pytest.importorskip("transformers", reason="transformers is the peer")
    peer = transformers.BertTokenizer.from_pretrained(folder, **rules)
    peer.backend_tokenizer.no_truncation()
    peer.backend_tokenizer.no_padding()
    peer.model_max_length = 10**9
    return peer


def write_vocabulary(folder, tokens):
    (folder / "vocab.txt").write_text("".join(f"{t}\n" for t in tokens), "utf-8", newline="\n")
    return folder


def differences(ours: Tokenizer, peer, lines, pairs=None, **options) -> list[str]:
    """The texts where ids, segments, offsets or words differ."""
    mine = ours.encode_batch(lines, pairs, **options)
    if "max_length" in options:
        options["truncation"] = options.get("truncation", "longest_first")
    theirs = peer(lines, pairs, return_offsets_mapping=True, **options)
    assert len(mine) == len(lines) == len(theirs["input_ids"])
    return [
        line
        for place, line in enumerate(lines)
        if mine[place].ids != theirs["input_ids"][place]
        or mine[place].segment_ids != theirs["token_type_ids"][place]
        or mine[place].offsets != theirs["offset_mapping"][place]
        or mine[place].word_ids != theirs.word_ids(place)
        or mine[place].tokens != theirs.tokens(place)
    ]


@pytest.fixture(scope="module")
def real():
    folder = texts.real_vocabulary()
    return Tokenizer.load(folder), peer_of(folder)


@pytest.fixture(scope="module")
def trained(shared, tmp_path_factory):
    """A cased vocabulary of 9,001 tokens, learnt from Wikipedia: few unknown words, many pieces."""
    trainer = tokenizers.BertWordPieceTokenizer(lowercase=False)
    lines = [*texts.shared_lines(shared)[-3760:], *texts.UNICODE]
    trainer.train_from_iterator(lines, vocab_size=9001, min_frequency=1, show_progress=False)
    ids = trainer.get_vocab()
    folder = write_vocabulary(tmp_path_factory.mktemp("cased"), sorted(ids, key=ids.get))
    assert len(ids) == 9001
    peer = peer_of(folder, do_lower_case=False)
    return Tokenizer.from_vocab(folder / "vocab.txt", lowercase=False), peer


@pytest.fixture(params=["real", "trained"])
def both(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("step", [5, nightly(1)])
def test_lines_of_the_shared_data_have_transformers_ids(both, shared, step):
    lines = texts.shared_lines(shared)
    assert len(lines) == 17_731
    lines = lines[::step]
    assert differences(*both, lines) == []
    assert differences(*both, lines[::2], lines[::-2]) == []


@pytest.mark.parametrize("lowercase", [True, nightly(False)])
def test_every_code_point_is_cut_as_transformers_cuts_it(tmp_path, lowercase):
    folder = write_vocabulary(tmp_path, texts.character_vocabulary(texts.UNICODE))
    ours = Tokenizer.from_vocab(folder / "vocab.txt", lowercase=lowercase)
    peer = peer_of(folder, do_lower_case=lowercase)
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lines = ["a" + "b a".join(points[at : at + 256]) + "b" for at in range(0, len(points), 256)]
    assert differences(ours, peer, lines) == []


@pytest.mark.parametrize("pairs", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("kept", [1, 11, 509, *(nightly(n) for n in (0, 2, 3, 6, 30, 31))])
def test_truncation_keeps_what_transformers_keeps(both, shared, kept, pairs):
    lines = texts.shared_lines(shared)[:13_000:260]
    others = texts.shared_lines(shared)[13_000:17_000:80] if pairs else None
    max_length = kept + 2 + pairs
    assert differences(*both, lines, others, max_length=max_length) == []
    for encoding in both[0].encode_batch(lines, others, max_length=max_length):
        frame = [encoding.ids[0], encoding.ids[-1], encoding.ids.count(both[0].sep_id)]
        assert frame == [both[0].cls_id, both[0].sep_id, 1 + pairs]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pad_to_multiple_of": 8},
        {"max_length": 21},
        {"max_length": 21, "padding": "max_length"},
        {"max_length": 48, "padding": "max_length", "pad_to_multiple_of": 16},
    ],
    ids=str,
)
def test_padded_arrays_are_transformers(real, options):
    ours, peer = real
    lines, pairs = texts.UNICODE[3:12], texts.UNICODE[12:21]
    theirs = peer(
        lines,
        pairs,
        return_tensors="np",
        truncation="max_length" in options,
        **{"padding": "longest"} | options,
    )
    batch = ours.encode_batch(lines, pairs, **options)
    for mine, name in ((batch.token_ids, "input_ids"), (batch.segment_ids, "token_type_ids")):
        assert mine.dtype == np.int32
        np.testing.assert_array_equal(mine, theirs[name])


@pytest.mark.parametrize(
    "rules",
    [
        {"lowercase": True},
        {"lowercase": False},
        {"lowercase": True, "strip_accents": False},
        {"lowercase": False, "strip_accents": True, "tokenize_chinese_chars": False},
    ],
    ids=str,
)
def test_a_saved_folder_opens_in_transformers_with_the_same_ids(tmp_path, rules):
    ours = Tokenizer.from_vocab(texts.character_vocabulary(texts.ALL), **rules)
    ours.save(tmp_path / "new" / "folder", max_length=77)
    transformers = pytest.importorskip("transformers", reason="transformers is the peer")
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path / "new" / "folder")
    assert auto.model_max_length == 77
    assert differences(ours, auto, texts.ALL, texts.ALL[::-1]) == []
    assert differences(ours, peer_of(tmp_path / "new" / "folder"), texts.ALL) == []
    for name in ("vocab.txt", "tokenizer.json"):
        again = Tokenizer.load(tmp_path / "new" / "folder" / name)
        assert differences(again, auto, texts.ALL) == []
        assert again.vocabulary.added == ours.vocabulary.added


def test_tokenizer_saved_by_transformers_has_the_same_ids(tmp_path):
    """Other names of special tokens, a token added at the end: both in tokenizer.json."""
    transformers = pytest.importorskip("transformers", reason="transformers is the peer")
    names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    tokens = [*texts.character_vocabulary(texts.UNICODE)[5:], *names.values()]
    folder = write_vocabulary(tmp_path, tokens)
    roles = {f"{role}_token": name for role, name in names.items()}
    peer = peer_of(folder, do_lower_case=False, **roles)
    peer.add_tokens(["Quark", transformers.AddedToken("[E1]", special=True, normalized=False)])
    peer.save_pretrained(tmp_path / "saved")
    ours = Tokenizer.load(tmp_path / "saved")
    lines = [*texts.ALL, "a Quark is no quark[E1]quarkQuarks <mask> </s>"]
    assert differences(ours, peer, lines, lines[::-1], max_length=99) == []
    ids = [ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id, ours.id_of("[E1]")]
    assert ids == [*range(len(tokens) - 5, len(tokens)), len(tokens) + 1]
    assert ours.vocab_size == len(tokens) + 2
    ours.save(tmp_path / "again")
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert differences(ours, auto, lines, lines[::-1]) == []


@pytest.fixture(scope="module")
def google():
    """Google's own tokenization.py, as the package bert-tensorflow ships it."""
    module = pytest.importorskip("bert.tokenization", reason="pip install bert-tensorflow==1.0.4")
    if not module.FLAGS.is_parsed():
        module.FLAGS.mark_as_parsed()
    return module


@pytest.mark.parametrize("ending", ["\n", " \r\n", "\t\n"])
def test_a_vocab_txt_is_read_as_google_reads_it(google, tmp_path, ending):
    tokens = [f"{token}{ending}" for token in texts.character_vocabulary(texts.UNICODE)]
    (tmp_path / "vocab.txt").write_bytes("".join(tokens).encode())
    ours = Tokenizer.from_vocab(tmp_path / "vocab.txt", lowercase=True)
    theirs = google.load_vocab(str(tmp_path / "vocab.txt"))
    assert list(theirs) == list(ours.tokens) and len(theirs) == len(tokens)


def google_tokens(google, ours: Tokenizer, text: str) -> list[str]:
    basic = google.BasicTokenizer(do_lower_case=ours.lowercase)
    pieces = google.WordpieceTokenizer(set(ours.tokens), max_input_chars_per_word=100)
    return [piece for word in basic.tokenize(text) for piece in pieces.tokenize(word)]


def test_shared_lines_have_googles_pieces(google, both, shared):
    ours = both[0]
    for text in texts.shared_lines(shared)[::9]:
        expected = google_tokens(google, ours, text)
        assert ours.encode(text, add_special_tokens=False).tokens == expected


@CASINGS
def test_every_old_code_point_is_cut_as_google_cuts_it(google, lowercase):
    """Characters of Unicode 3.2 that are still of the same category; private use is apart."""
    old = unicodedata.ucd_3_2_0
    points = [
        character
        for character in map(chr, range(1, 0x10000))
        if old.category(character) not in ("Cn", "Co", "Cs")
        and old.category(character) == unicodedata.category(character)
    ]
    assert len(points) > 44_000
    everything = [chr(c) for c in range(1, 0xFFFF) if not 0xD800 <= c < 0xE000]
    ours = Tokenizer.from_vocab(texts.character_vocabulary(everything), lowercase=lowercase)
    basic = google.BasicTokenizer(do_lower_case=lowercase)
    batch = ours.encode_batch([f"a{point}b" for point in points], add_special_tokens=False)
    different = []
    for point, encoding in zip(points, batch, strict=True):
        pieces = " ".join(encoding.tokens).replace(" ##", "")
        if pieces.split(" ") != basic.tokenize(f"a{point}b"):
            different.append(point)
    assert different == []
