"""Small shards for the tests of a run, and what a run on them is asked for."""

import random
from pathlib import Path

WORDS = ["cat", "dog", "sun", "moon", "red", "big", "tree", "mat", "sat", "ran", "the", "a"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS, "##s"]
DOCUMENTS = 30
CONFIG = {
    "vocab_size": 31,
    "hidden_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 17,
}
SETTINGS = {
    "steps": 22,
    "batch_size": 6,
    "seq_len": 17,
    "dev_ratio": 0.2,
    "learning_rate": 3e-3,
    "evaluate_every": 5,
    "evaluation_batches": 2,
    "save_every": 4,
}
OF_TIME = ("tokens_per_second", "mfu", "seconds")


def make_shards(folder: Path, seed: int = 4) -> Path:
    """Prepares a corpus of random sentences into `folder`/shards."""
    from kbert.data.corpus.preparing import prepare
    from kbert.data.tokenization.tokenizer import Tokenizer

    draw = random.Random(seed)

    def sentence():
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 9))) + " ."

    documents = ["\n".join(sentence() for _ in range(draw.randint(3, 8))) for _ in range(DOCUMENTS)]
    corpus = folder / "corpus.txt"
    corpus.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.from_vocab(VOCABULARY, lowercase=True)
    prepare(corpus, tokenizer, folder / "shards", processes=1)
    return folder / "shards"


def without_times(records: list[dict]) -> list[dict]:
    """Lines of metrics.jsonl without what depends on the clock."""
    return [{key: line[key] for key in line if key not in OF_TIME} for line in records]
