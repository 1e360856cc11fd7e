"""WordPiece, as the Rust tokenizer of a vocabulary."""

import tokenizers

from kbert.data.tokenization.rust_tokenizer import RustTokenizer
from kbert.data.tokenization.vocabulary import ADDED_TOKEN_FLAGS, Vocabulary


class WordPiece(RustTokenizer):
    """Rust tokenizer of a WordPiece vocabulary."""

    def __init__(self, vocabulary: Vocabulary):
        added = [entry["content"] for entry in vocabulary.added]
        super().__init__(_build(vocabulary), added, vocabulary.truncation_side)


def bert_normalizer(
    lowercase: bool, strip_accents: bool | None, tokenize_chinese_chars: bool
) -> tokenizers.normalizers.Normalizer:
    """Return the normalizer of texts before they are split; arguments as in `Vocabulary`."""
    return tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )


def _build(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Return the Rust tokenizer, as transformers builds BertTokenizer's."""
    special = vocabulary.special_tokens
    word_piece = tokenizers.models.WordPiece(
        {token: token_id for token_id, token in enumerate(vocabulary.tokens)},
        unk_token=special["unk"],
        max_input_chars_per_word=vocabulary.max_word_chars,
    )
    rust = tokenizers.Tokenizer(word_piece)
    rust.normalizer = bert_normalizer(
        vocabulary.lowercase, vocabulary.strip_accents, vocabulary.tokenize_chinese_chars
    )
    rust.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    rust.decoder = tokenizers.decoders.WordPiece(prefix="##", cleanup=True)
    for entry in vocabulary.added:
        flags = {flag: entry[flag] for flag in ADDED_TOKEN_FLAGS if flag in entry}
        rust.add_tokens([tokenizers.AddedToken(entry["content"], **flags)])
    cls, sep = special["cls"], special["sep"]
    rust.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
    )
    return rust
