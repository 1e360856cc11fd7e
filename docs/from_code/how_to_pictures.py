"""The pictures of the how-to guides that need a trained model, and the outputs shown there.

`python docs/from_code/how_to_pictures.py DATA WORK` trains small models in the folder WORK (half an
hour on two CPU cores), writes the pictures to docs/how_to, and prints the outputs. DATA has
sst2/train.tsv, sst2/dev.tsv and wikitext-2/*.txt. all-MiniLM-L6-v2 must be in the cache of
Hugging Face, and Chromium, Playwright and Pillow installed. A finished run in WORK is kept.
"""

import itertools
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import sync_playwright

import kbert
from kbert.cli.main import cli
from kbert.io import palette

PAGES = Path(__file__).parents[1] / "how_to"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
SENTENCES = (
    "A cat sat on the mat.",
    "A kitten sleeps on the rug.",
    "Rain is expected tomorrow.",
    "It will be a wet day.",
    "The stock market fell today.",
    "Share prices dropped.",
)
REPORTS = {  # a run, its picture, and how much of its report that shows, in pixels
    "classify": ("finetune.png", 1080),
    "embed": ("embed_training.png", 1080),
    "pretrain": ("pretrain.png", 1080),
    "distil": ("distil.png", 1060),
}
WITHOUT_COMMIT = """document.body.innerHTML =
document.body.innerHTML.replace(/, commit [0-9a-f]{40}/, '')"""
DRAWN = ("loss.png", "classify.png", "embed.png", "train_less.png", "memory.png")
_STEP = {"seq_len": 128, "batch_size": 32}
_CLASSIFIER = _STEP | {"head": "classifier"}
LESS_TO_TRAIN = {
    "everything": _CLASSIFIER,
    "lora_rank=8": _CLASSIFIER | {"lora_rank": 8},
    'freeze="embeddings,1-8"': _CLASSIFIER | {"freeze": "embeddings,1-8"},
    'lora_rank=8, freeze="1-8"': _CLASSIFIER | {"lora_rank": 8, "freeze": "1-8"},
}
_PREDICTED = _STEP | {"max_predictions": 19}
_SHORTER = {"seq_len": 64, "batch_size": 32, "max_predictions": 10}
LESS_MEMORY = {
    "all positions predicted": _STEP,
    "1. max_predictions=19": _PREDICTED,
    "2. and max_length=64": _SHORTER,
    "3. and mixed_bfloat16": _SHORTER | {"dtype": "mixed_bfloat16"},
    "4. and accumulation_steps=4": _SHORTER | {"dtype": "mixed_bfloat16", "batch_size": 8},
}
COMMANDS = (
    ("classify", "classify", "A fine film."),
    ("tag", "tag", "Ada Lovelace lived in London."),
    ("multilabel", "classify", "The team lost because of the rain."),
    ("regress", "regress", "a great concert"),
    ("qa", "answer", "When?", "Ada Lovelace wrote the first program in 1843."),
)
PEOPLE = (
    "Emmy Noether",
    "Alan Turing",
    "Grace Hopper",
    "Mary Jackson",
    "Niels Bohr",
    "Marie Curie",
)
TOWNS = ("Paris", "Berlin", "Rome", "Vienna", "Madrid", "Boston", "Cairo", "Tokyo", "Oslo")
TOPICS = {
    "sport": ("the goal", "a match", "the team", "a race", "the players"),
    "politics": ("the election", "taxes", "a minister", "the parliament", "a law"),
    "weather": ("rain", "a storm", "the snow", "warm days", "the wind"),
}
STARS = {
    "awful": 1,
    "bad": 2,
    "poor": 2,
    "fine": 3,
    "decent": 3,
    "good": 4,
    "great": 5,
    "perfect": 5,
}
THINGS = ("film", "book", "play", "song", "story", "show", "meal", "hotel", "game", "trip")


def train(data: Path, work: Path) -> None:
    """Train every model that is not in the folder `work` yet."""
    write_examples(data, work)
    tsv = {"train": work / "train.tsv", "dev": work / "dev.tsv"}
    finetune(work, "classify", MINILM, "classify", **tsv, max_length=64)
    student = cut(kbert.load(MINILM))
    teacher = {"teacher": work / "classify" / "model", "alpha": 0.5, "hidden_loss": "mse"}
    finetune(
        work, "distil", student, "classify", **tsv, **teacher, max_length=64, learning_rate=1e-4
    )
    pairs = {"train": work / "pairs.tsv", "dev": work / "dev_pairs.tsv"}
    options = {"epochs": 1, "max_length": 64, "learning_rate": 3e-5, "evaluate_every": 18}
    finetune(work, "embed", MINILM, "embed", **pairs, **options)
    few = {"epochs": 4, "batch_size": 8, "learning_rate": 2e-4, "max_length": 32}
    finetune(work, "tag", MINILM, "tag", train=work / "tag.conll", **few)
    finetune(work, "multilabel", MINILM, "multilabel", train=work / "multilabel.tsv", **few)
    longer = few | {"epochs": 12}
    finetune(work, "regress", MINILM, "regress", train=work / "regress.tsv", **longer)
    finetune(work, "qa", MINILM, "qa", train=work / "qa.json", **few | {"max_length": 64})
    if not (work / "pretrain" / "result.json").exists():
        texts = data / "wikitext-2"
        kbert.train_vocab(texts, 8000, work / "vocabulary")
        kbert.prepare(texts, work / "vocabulary", work / "shards")
        shutil.rmtree(work / "pretrain", ignore_errors=True)
        options = {"seq_len": 64, "batch_size": 32, "learning_rate": 1e-3}
        kbert.pretrain(work / "shards", "mini", output=work / "pretrain", steps=500, **options)


def finetune(work: Path, name: str, source, task: str, **options) -> None:
    if not (work / name / "result.json").exists():
        shutil.rmtree(work / name, ignore_errors=True)
        kbert.finetune(source, task, output=work / name, **options)


def cut(bert: kbert.Bert) -> kbert.Bert:
    """Return a model of the third and the sixth block, as the student."""
    config = bert.config.replace(num_hidden_layers=2)
    model = kbert.build_encoder(config)
    for layer in model.layers:
        name = re.sub(r"Encoder-(\d+)-", lambda one: f"Encoder-{3 * int(one[1])}-", layer.name)
        layer.set_weights(bert.model.get_layer(name).get_weights())
    return kbert.Bert(config, "encoder", model, bert.tokenizer)


def write_examples(data: Path, work: Path) -> None:
    """Write the first sentences of SST-2, pairs of WikiText-2, and sentences made of templates."""
    lines = (data / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines(True)
    write(work / "train.tsv", lines[:2000])
    shutil.copy(data / "sst2" / "dev.tsv", work / "dev.tsv")
    for part, name, most in (("test", "pairs", 1705), ("valid", "dev_pairs", 1000)):
        text = (data / "wikitext-2" / f"{part}.txt").read_text(encoding="utf-8")
        found = [
            line.strip().split(" . ") for line in text.splitlines() if not line.startswith(" =")
        ]
        pairs = [f"{one[0]} .\t{one[1].removesuffix(' .')} .\n" for one in found if len(one) > 1]
        write(work / f"{name}.tsv", pairs[:most])
    pairs = list(itertools.product(PEOPLE, TOWNS))
    write(work / "tag.conll", [tagged(*pair) for pair in pairs])
    write(work / "qa.json", [json.dumps({"version": "1.1", "data": questions(pairs)})])
    one = [(text, topic) for topic, texts in TOPICS.items() for text in texts]
    two = [
        (f"{a} and {b}", f"{x},{y}") for (a, x), (b, y) in itertools.permutations(one, 2) if x != y
    ]
    write(work / "multilabel.tsv", [f"{text}\t{topics}\n" for text, topics in one + two])
    reviews = [f"a {word} {thing}\t{stars}\n" for word, stars in STARS.items() for thing in THINGS]
    write(work / "regress.tsv", reviews)


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8")


def tagged(person: str, town: str) -> str:
    """Return two sentences in CoNLL's format."""
    first, last = person.split()
    name, place = f"{first} B-PER\n{last} I-PER\n", f"{town} B-LOC\n"
    return f"{name}lived O\nin O\n{place}. O\n\nIn O\n{place}we O\nmet O\n{name}. O\n\n"


def questions(pairs: list[tuple[str, str]]) -> list[dict]:
    """Return questions on generated contexts, as SQuAD's JSON has them."""
    articles = []
    for number, (person, town) in enumerate(pairs):
        year = str(1800 + 7 * number % 200)
        context = f"{person} wrote the paper in {year}. The family lived in {town}."
        asked = {
            "Who wrote it?": person,
            "When was it written?": year,
            "Where did they live?": town,
        }
        qas = [
            {
                "id": f"{number} {question}",
                "question": question,
                "answers": [{"text": answer, "answer_start": context.index(answer)}],
            }
            for question, answer in asked.items()
        ]
        paragraphs = [{"context": context, "qas": qas}]
        articles.append({"title": person, "paragraphs": paragraphs})
    return articles


def draw(work: Path) -> None:
    """Write the pictures to docs/how_to."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1000, "height": 1080}, color_scheme="light")
        for run, (picture, height) in REPORTS.items():
            page.goto((work / run / "report.html").as_uri())
            page.evaluate(WITHOUT_COMMIT)
            shown = {"x": 0, "y": 0, "width": 1000, "height": height}
            page.screenshot(path=PAGES / picture, clip=shown, full_page=True)
        page.goto((work / "pretrain" / "report.html").as_uri())
        page.locator("figure").first.screenshot(path=PAGES / "loss.png")
        browser.close()
    bert = kbert.load(work / "classify" / "model")
    (PAGES / "classify.png").unlink(missing_ok=True)  # with fewer colours it is no file of kbert's
    kbert.attribute(bert, "a clever , warm film that is never dull .").save(PAGES / "classify.png")
    draw_similarity(kbert.similarity(kbert.load(MINILM), SENTENCES), PAGES / "embed.png")
    draw_memory(LESS_TO_TRAIN, PAGES / "train_less.png")
    draw_memory(LESS_MEMORY, PAGES / "memory.png")
    for picture in (*(name for name, _ in REPORTS.values()), *DRAWN):
        colours = Image.open(PAGES / picture).convert("RGB").quantize(256)
        colours.save(PAGES / picture, optimize=True)


def draw_similarity(cosines: np.ndarray, path: Path) -> None:
    figure = Figure((6.4, 4.2))
    axes = figure.add_subplot()
    colours = palette.as_fractions(palette.WEIGHTS["light"])
    ramp = LinearSegmentedColormap.from_list("weights", colours)
    axes.imshow(cosines, vmin=0, vmax=1, cmap=ramp)
    axes.set_yticks(range(len(SENTENCES)), [f"{n}  {s}" for n, s in enumerate(SENTENCES, 1)])
    axes.set_xticks(range(len(SENTENCES)), range(1, len(SENTENCES) + 1))
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for (row, column), cosine in np.ndenumerate(cosines):
        colour = "white" if cosine > 0.6 else "black"
        axes.text(column, row, f"{cosine:.2f}", ha="center", va="center", color=colour)
    figure.savefig(path, dpi=100, bbox_inches="tight")  # else the longest sentences are cut off


def draw_memory(rows: dict[str, dict], path: Path) -> None:
    """Draw the memory of a training step of BERT base, a bar per row of options of `account`."""
    figure = Figure((9, 0.5 * len(rows) + 1.3), layout="constrained")
    axes = figure.add_subplot()
    names = ("weights", "gradients", "adam", "activations")
    found = [kbert.account("base_uncased", **options).memory for options in rows.values()]
    shades = (*palette.WEIGHTS["light"][4:1:-1], palette.KINDS["attention"][1].light)
    left = np.zeros(len(rows))
    for name, colour in zip(names, shades, strict=True):
        width = np.array([getattr(memory, name) / 2**30 for memory in found])
        axes.barh(list(rows), width, left=left, label=name.replace("adam", "Adam"), color=colour)
        left += width
    for row, total in enumerate(left):
        axes.text(total + 0.05, row, f"{total:.2f}", va="center")
    axes.invert_yaxis()
    axes.set_xlim(0, left.max() * 1.1)
    axes.set_xlabel("GiB")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=100)


def show(work: Path) -> None:
    """Print what the pages' commands print with these models."""
    for run, command, *texts in COMMANDS:
        print(f"$ kbert {command} run {' '.join(map(repr, texts))}", flush=True)
        cli([command, str(work / run), *texts], standalone_mode=False)


if __name__ == "__main__":
    data, work = map(Path, sys.argv[1:])
    work.mkdir(parents=True, exist_ok=True)
    train(data, work)
    draw(work)
    show(work)
