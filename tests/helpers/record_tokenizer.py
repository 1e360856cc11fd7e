"""Record the ids that transformers' and Google's tokenizers give, in tests/files/tokenizer.npz.

    PYTHONPATH=.:tests python -m helpers.record_tokenizer

needs transformers and bert-tensorflow 1.0.4. tests/data/test_tokenizer.py compares kbert with the
file; tests/data/test_tokenizer_parity.py compares the file with what the two give today.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np

from helpers import texts
from helpers.sizes import FILES

FILE = FILES / "tokenizer.npz"
NAMES = ("lowercase", "strip_accents", "tokenize_chinese_chars")
RULES = [
    dict(zip(NAMES, rule, strict=True))
    for rule in itertools.product([True, False], [None, True, False], [True, False])
]
CALLS = {
    "one text": (texts.ALL, None, {}),
    "no special tokens": (texts.ALL, None, {"add_special_tokens": False}),
    "two texts cut to 31": (texts.ALL, texts.ALL[::-1], {"max_length": 31}),
    "only_first": (["one two three " * 9], ["a b"], {"max_length": 12, "truncation": "only_first"}),
    "only_second": (["a b"], ["one two " * 9], {"max_length": 12, "truncation": "only_second"}),
}
VOCABULARY = texts.piece_vocabulary(texts.ALL)


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


def record_transformers() -> dict[str, np.ndarray]:
    """`flatten`'s rows by rule and call; the decoded texts; ids and words of split words."""
    import transformers

    recorded = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vocab.txt")
        path.write_text("".join(f"{token}\n" for token in VOCABULARY), "utf-8", newline="\n")
        for n, rule in enumerate(RULES):
            options = {
                "do_lower_case" if name == "lowercase" else name: rule[name] for name in rule
            }
            peer = transformers.BertTokenizer.from_pretrained(folder, **options)
            for name, (lines, pairs, options) in calls_of(rule).items():
                if "max_length" in options:
                    options = {"truncation": "longest_first"} | options
                encodings = peer(lines, pairs, return_offsets_mapping=True, **options)
                words = [encodings.word_ids(number) for number in range(len(lines))]
                columns = (
                    encodings[key] for key in ("input_ids", "token_type_ids", "offset_mapping")
                )
                recorded[f"{n} {name}"] = flatten(*columns, words)
            for skip in (True, False) if n == 0 else ():
                ids = peer(texts.ALL)["input_ids"]
                decoded = [peer.decode(one, skip_special_tokens=skip) for one in ids]
                recorded[f"decoded, skip={skip}"] = np.array(decoded)
            for number, words in enumerate(texts.SPLIT_WORDS) if n == 0 else ():
                encodings = peer(list(words), is_split_into_words=True)
                numbers = [-1 if word is None else word for word in encodings.word_ids()]
                recorded[f"words {number}"] = np.array([encodings["input_ids"], numbers], "int16")
    return recorded


def record_google() -> dict[str, np.ndarray]:
    """The ids of each text's pieces by Google's tokenization.py, with the texts' numbers."""
    from bert import tokenization as google

    if not google.FLAGS.is_parsed():
        google.FLAGS.mark_as_parsed()
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    # 100 characters a word: its first release, and every peer; its last one says 200.
    pieces = google.WordpieceTokenizer(ids, max_input_chars_per_word=100)
    recorded = {}
    other = list(texts.NOT_AS_GOOGLE)
    for lowercase in (True, False):
        basic = google.BasicTokenizer(do_lower_case=lowercase)
        for name, lines in (("UNICODE", texts.UNICODE), ("OTHER", other)):
            rows = [
                (number, ids[piece])
                for number, text in enumerate(lines)
                for word in basic.tokenize(text)
                for piece in pieces.tokenize(word)
            ]
            recorded[f"google {name}, lowercase={lowercase}"] = np.array(rows, "int16").T.copy()
    return recorded


if __name__ == "__main__":
    np.savez_compressed(FILE, **record_transformers(), **record_google())
