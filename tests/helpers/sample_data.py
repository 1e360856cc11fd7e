"""The small real samples in tests/files, and a tokenizer for them."""

import re
from collections import Counter

import kbert
from helpers.sizes import FILES

DATA = FILES
TAGGED, ANSWERED = DATA / "wnut17.conll", DATA / "squad2.json"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def vocabulary() -> list[str]:
    """Every character of the samples, and the words that come twice or more."""
    text = (TAGGED.read_text(encoding="utf-8") + ANSWERED.read_text(encoding="utf-8")).lower()
    words = Counter(re.findall(r"[a-z]{2,}", text))
    characters = sorted(set(text) - set(" \n\t"))
    pieces = [f"##{character}" for character in characters]
    return [*SPECIAL, *characters, *pieces, *sorted(w for w, count in words.items() if count > 1)]


def tokenizer() -> kbert.Tokenizer:
    return kbert.Tokenizer.from_vocab(vocabulary(), lowercase=True)


def sample_bert(head: str = "encoder", positions: int = 128) -> kbert.Bert:
    """A model of the tokenizer's vocabulary, with its first weights."""
    import keras

    keras.utils.set_random_seed(5)
    config = kbert.BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=positions,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return kbert.Bert(config, head, kbert.build_encoder(config, seq_len=None), tokenizer())
