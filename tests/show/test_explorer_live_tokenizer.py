"""The page's WordPiece, in V8 without a browser: the ids are the Rust tokenizer's."""

import json
import random

import pytest
import tokenizers

import kbert

pytest.importorskip("py_mini_racer", reason="pip install -e '.[test]': an engine of JavaScript")
from helpers.live_pages import start_v8

from kbert.show.explorer.live.tokenizer_rules import describe_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
UNASSIGNED_PLANES = range(0x40000, 0xE0000)
POINTS = [
    chr(number)
    for number in range(0x110000)
    if not 0xD800 <= number < 0xE000 and number not in UNASSIGNED_PLANES
]
RULES = [(True, None, True), (False, None, False), (True, False, False), (False, True, True)]
LINES = [
    "Größe zählt nicht, naïve CAFÉ; ﬁn",
    "東京 12日、日本語 한국어 각",
    "a\u0301\u0323 \u1e69\u0307 q\u0323\u0307 \u0f71\u0f72",
    "İstanbul ΣΊΣΥΦΟΣ ΌΔΥΣΣΕΎΣ",
    "tab\tnew\nline\u00a0blank\u200bzero\u00adsoft\ufeff",
    "[MASK] [mask] a[SEP]b [CLS [MASK]. ##s",
    "😀👨‍👩‍👧 e\u0301\u0301 \u0345\u0301 \U0001d15e\U0001d165",
    "x\u08d4\u1b44 y\u302e\ua953 z\U0001d16d\U0001d165 x\u08d4\u093f\u1b44",  # marks that stay
    "",
    "   ",
    "x" * 101,
    "x" * 100,
]


@pytest.fixture(scope="module")
def context():
    return start_v8()


def make_tokenizer(lowercase, strip_accents, chinese, points=POINTS):
    """A vocabulary of every character that a text can become, so that ids show each one."""
    normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=chinese,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    characters = sorted(set(normalizer.normalize_str("".join(points))) | set("xz"))
    characters = [one for one in characters if not one.isspace()]
    return kbert.Tokenizer.from_vocab(
        [*SPECIAL, *characters, *(f"##{one}" for one in characters)],
        lowercase=lowercase,
        strip_accents=strip_accents,
        tokenize_chinese_chars=chinese,
    )


def find_differences(context, tokenizer, texts) -> list[str]:
    rules = describe_tokenizer(tokenizer, 10**9)
    context.eval(f"var wordpiece = makeTokenizer({json.dumps(rules)});")
    different = []
    for start in range(0, len(texts), 2000):
        part = texts[start : start + 2000]
        encode = "(text) => wordpiece.encode(text, null).tokens.map((token) => token.id)"
        found = json.loads(context.eval(f"JSON.stringify({json.dumps(part)}.map({encode}))"))
        expected = [encoding.ids for encoding in tokenizer.encode_batch(part).encodings]
        different += [
            text for text, ids, rust in zip(part, found, expected, strict=True) if ids != rust
        ]
    return different


def join_points(points) -> list[str]:
    words = [f"x{point}z" for point in points]
    return [" ".join(words[start : start + 64]) for start in range(0, len(words), 64)]


@pytest.mark.full
def test_code_points_of_most_scripts_are_read_as_rust_reads_them(context):
    points = [point for point in POINTS if ord(point) < 0x3400 or ord(point) % 97 == 0]
    tokenizer = make_tokenizer(*RULES[0], points=[*points, *"".join(LINES)])
    assert find_differences(context, tokenizer, join_points(points) + LINES) == []


@pytest.mark.full
@pytest.mark.parametrize("rules", RULES)
def test_every_code_point_and_runs_of_tricky_ones(context, rules):
    tokenizer = make_tokenizer(*rules)
    chance = random.Random(7)
    special = tokenizers.normalizers.NFD()
    tricky = [
        point
        for point in POINTS
        if (not point.isalnum() and ord(point) < 0xF0000)
        or (special.normalize_str(point) != point and not "가" <= point <= "힣")
    ]
    runs = ["".join(chance.choices(tricky, k=chance.randint(2, 12))) for _ in range(4000)]
    assert find_differences(context, tokenizer, join_points(POINTS) + runs + LINES) == []


def test_own_special_tokens_and_added_tokens_are_found(context):
    names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    added = (
        {"content": "New York"},
        {"content": "york", "single_word": True},
        {"content": "<mask>", "lstrip": True, "special": True},
        {"content": "CAPS", "normalized": True},
        {"content": "[A-B]"},
    )
    letters = "abcdefghijklmnopqrstuvwxyz<>/."
    tokenizer = kbert.Tokenizer.from_vocab(
        [*names.values(), *letters, *(f"##{letter}" for letter in letters)],
        lowercase=True,
        special_tokens=names,
        added=added,
    )
    texts = ["a <mask> b", "New York yorkyork york", "a caps CAPS b", "<s>x</s> [MASK]", "a<mask>"]
    texts += ["a\x85\u3000<mask>", "a\ufeff<mask>", "x [A-B] y"]
    texts += ["york.york", "New Yorker", "acapsb", "x <mask><mask>  <mask>", "yorkNew York"]
    assert find_differences(context, tokenizer, texts) == []
