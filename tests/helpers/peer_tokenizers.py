"""The ids that transformers' and Google's tokenizers give hard texts."""

import itertools
import tempfile
from pathlib import Path

import numpy as np

from helpers.texts import ALL, NOT_AS_GOOGLE, SPLIT_WORDS, UNICODE, piece_vocabulary

NAMES = ("lowercase", "strip_accents", "tokenize_chinese_chars")
RULES = [
    dict(zip(NAMES, rule, strict=True))
    for rule in itertools.product([True, False], [None, True, False], [True, False])
]
CALLS = {
    "one text": (ALL, None, {}),
    "no special tokens": (ALL, None, {"add_special_tokens": False}),
    "two texts cut to 31": (ALL, ALL[::-1], {"max_length": 31}),
    "only_first": (["one two three " * 9], ["a b"], {"max_length": 12, "truncation": "only_first"}),
    "only_second": (["a b"], ["one two " * 9], {"max_length": 12, "truncation": "only_second"}),
}
VOCABULARY = piece_vocabulary(ALL)


def calls_of(rule: dict) -> dict:
    """Every call by the first rule, and one by the others."""
    return CALLS if rule == RULES[0] else {"one text": CALLS["one text"]}


def flatten(ids, segments, offsets, words) -> np.ndarray:
    """Columns per token of some texts: the text's number, id, segment, start, end, word or -1."""
    rows = [
        (number, token, segment, *span, -1 if word is None else word)
        for number, text in enumerate(zip(ids, segments, offsets, words, strict=True))
        for token, segment, span, word in zip(*text, strict=True)
    ]
    return np.array(rows, "int16").T.copy()


def encode_by_transformers(out: Path) -> None:
    """Write OUT/ids.npz: `flatten`'s rows by rule and call; decoded texts; ids of split words."""
    import transformers

    recorded = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vocab.txt")
        path.write_text("".join(f"{token}\n" for token in VOCABULARY), "utf-8", newline="\n")
        for n, rule in enumerate(RULES):
            renamed = {"do_lower_case": rule["lowercase"]} | {key: rule[key] for key in NAMES[1:]}
            peer = transformers.BertTokenizer.from_pretrained(folder, **renamed)
            for name, (lines, pairs, options) in calls_of(rule).items():
                if "max_length" in options:
                    options = {"truncation": "longest_first"} | options
                encodings = peer(lines, pairs, return_offsets_mapping=True, **options)
                words = [encodings.word_ids(number) for number in range(len(lines))]
                keys = ("input_ids", "token_type_ids", "offset_mapping")
                recorded[f"{n} {name}"] = flatten(*(encodings[key] for key in keys), words)
            if n == 0:
                recorded |= decode(peer)
    np.savez_compressed(out / "ids.npz", **recorded)


def decode(peer) -> dict[str, np.ndarray]:
    recorded, ids = {}, peer(ALL)["input_ids"]
    for skip in (True, False):
        decoded = [peer.decode(one, skip_special_tokens=skip) for one in ids]
        recorded[f"decoded, skip={skip}"] = np.array(decoded)
    for number, words in enumerate(SPLIT_WORDS):
        encodings = peer(list(words), is_split_into_words=True)
        numbers = [-1 if word is None else word for word in encodings.word_ids()]
        recorded[f"words {number}"] = np.array([encodings["input_ids"], numbers], "int16")
    return recorded


def encode_by_google(out: Path) -> None:
    """Write OUT/ids.npz: ids of the pieces by Google's tokenization.py, with the texts' numbers."""
    from bert import tokenization as google  # the package bert-tensorflow 1.0.4

    if not google.FLAGS.is_parsed():
        google.FLAGS.mark_as_parsed()
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    # 100 characters a word: its first release, and every peer; its last one says 200.
    pieces = google.WordpieceTokenizer(ids, max_input_chars_per_word=100)
    recorded = {}
    for lowercase in (True, False):
        basic = google.BasicTokenizer(do_lower_case=lowercase)
        for name, lines in (("UNICODE", UNICODE), ("OTHER", list(NOT_AS_GOOGLE))):
            rows = [
                (number, ids[piece])
                for number, text in enumerate(lines)
                for word in basic.tokenize(text)
                for piece in pieces.tokenize(word)
            ]
            recorded[f"google {name}, lowercase={lowercase}"] = np.array(rows, "int16").T.copy()
    np.savez_compressed(out / "ids.npz", **recorded)
