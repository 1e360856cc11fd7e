"""The notebooks run, and print what they are committed with."""

import ast
import contextlib
import copy
import itertools
import json
import os
import re
from pathlib import Path

import pytest
from helpers.hub_cache import MINILM, add_minilm, use_cache
from helpers.sizes import ROOT, SHARED

import kbert

BUDGET = "KBERT_STEPS"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TRAINING = [path for path in NOTEBOOKS if BUDGET in path.read_text(encoding="utf-8")]

# Removes what the notebook before left in the kernel.
NEW = "%reset -f\nimport gc, keras\nkeras.utils.clear_session()\ngc.collect()\n%reset -f"
# To draw hundreds of millions of first weights takes half of the time; nothing shown is of them.
ZEROS = """import keras
keras.initializers.TruncatedNormal.__call__ = keras.initializers.Zeros.__call__"""

pytestmark = pytest.mark.full


def printed(cell) -> str:
    """What a cell printed; rounding differences, 3.8e-06 or none, are not compared."""
    texts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        elif output.output_type in ("execute_result", "display_data"):
            texts.append(", ".join(sorted(output.data)))
    return re.sub(r"\d\.\de-\d\d|\b0\.0e\+00", "(rounding)", "".join(texts))


def shape(cell) -> tuple[int, list[str]]:
    """How many lines a cell printed, and its pictures."""
    outputs = cell.get("outputs", [])
    pictures = [kind for output in outputs for kind in output.get("data", ()) if "image" in kind]
    return printed(cell).count("\n"), pictures


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Hugging Face's cache, of the kernels too: nothing is downloaded."""
    with use_cache(tmp_path_factory.mktemp("cache")) as folder:
        yield folder


def need_checkpoint(path: Path) -> None:
    """Put the model that a notebook loads into the cache; skip its test where that is not there."""
    if MINILM in path.read_text(encoding="utf-8"):
        add_minilm(Path(os.environ["HF_HUB_CACHE"]))


def cells_of(path: Path) -> list:
    """The cells of code, as committed."""
    need_checkpoint(path)
    nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[notebooks]'")
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@contextlib.contextmanager
def started(first: str = ""):
    """A kernel that ran `first`, and a function that runs a notebook as if the kernel was new."""
    nbformat = pytest.importorskip("nbformat", reason="pip install -e '.[notebooks]'")
    nbclient = pytest.importorskip("nbclient", reason="pip install -e '.[notebooks]'")
    resources = {"metadata": {"path": str(ROOT / "notebooks")}}
    options = {"timeout": 600, "kernel_name": "python3", "resources": resources}
    client = nbclient.NotebookClient(nbformat.v4.new_notebook(), **options)

    def run(cells: list) -> None:
        client.nb = nbformat.v4.new_notebook(cells=cells)
        for place, cell in enumerate(cells):
            client.execute_cell(cell, place)

    def executed(path: Path):
        """The cells of a notebook as committed, and run anew."""
        need_checkpoint(path)
        committed = nbformat.read(path, as_version=4)
        fresh = copy.deepcopy(committed.cells)
        run([nbformat.v4.new_code_cell(NEW)])
        run(fresh)
        return zip(committed.cells, fresh, strict=True)

    with client.setup_kernel():
        run([nbformat.v4.new_code_cell(first)])
        yield executed


@pytest.fixture(scope="module")
def executed(cache):
    with started(ZEROS) as executed:
        yield executed


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path not in TRAINING], ids=lambda path: path.stem
)
@pytest.mark.filterwarnings("ignore")  # Jupyter's own
def test_notebook_prints_its_committed_output(path, executed):
    for before, after in executed(path):
        assert printed(after) == printed(before)


def test_files_that_notebooks_name_exist():
    paths = r"\.\./[\w./-]+|(?<=\]\()\w+\.ipynb"
    named = [re.findall(paths, path.read_text(encoding="utf-8")) for path in NOTEBOOKS]
    ours = {name for names in named for name in names if not name.startswith("../../shared")}
    assert len(ours) > 10 and not [
        name for name in ours if not (NOTEBOOKS[0].parent / name).exists()
    ]


def read_cells(path: Path, kind: str) -> list[dict]:
    """Return a notebook's cells of one kind, "code" or "markdown"; a source is one string."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    chosen = [cell for cell in cells if cell["cell_type"] == kind]
    return [cell | {"source": "".join(cell["source"])} for cell in chosen]


def find_kbert_names(source: str) -> set[str]:
    """Return what code takes from kbert: "kbert", "kbert.load", "kbert.tasks.resume.resume"."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "kbert":
            names.add(f"kbert.{node.attr}")
    return {name for name in names if name.partition(".")[0] == "kbert"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_uses_only_public_names(path):
    code = "\n".join(cell["source"] for cell in read_cells(path, "code"))
    public = {"kbert"} | {f"kbert.{name}" for name in kbert.__all__}
    used = find_kbert_names(code)
    assert len(used) > 2 and used <= public


def test_page_of_notebooks_has_the_title_of_each():
    page = (ROOT / "docs" / "concepts" / "notebooks.md").read_text(encoding="utf-8")
    links = re.findall(r"\[([^\]]+)\]\(../../notebooks/([^)]+)\)", page)
    titles = [read_cells(path, "markdown")[0]["source"].splitlines()[0] for path in NOTEBOOKS]
    assert links == [
        (title.removeprefix("# "), path.name) for title, path in zip(titles, NOTEBOOKS, strict=True)
    ]


def test_first_notebook_reads_its_picture_in_the_direction_of_the_picture():
    """Its explanation has steps; the boxes of each step are above those of the step before."""
    cells = read_cells(NOTEBOOKS[0], "code")
    outputs = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    (picture,) = ("".join(data["image/svg+xml"]) for data in outputs if "image/svg+xml" in data)
    texts = re.findall(r'<text [^>]*y="(-?[\d.]+)"[^>]*>([\w-]+)<', picture)
    height = {name: -float(y) for y, name in texts}

    explanations = [cell["source"] for cell in read_cells(NOTEBOOKS[0], "markdown")]
    (numbered,) = (text for text in explanations if re.search(r"^1\. ", text, re.MULTILINE))
    steps = re.split(r"^\d\. ", numbered, flags=re.MULTILINE)[1:]
    boxes = [re.findall(r"`([\w-]+)`", step) for step in steps]
    assert len(boxes) == 3 and all(boxes)
    for below, above in itertools.pairwise(boxes):
        assert max(height[name] for name in below) < min(height[name] for name in above)


@pytest.mark.nightly
@pytest.mark.parametrize("data", ["there", "none"])
@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # Jupyter's own
def test_training_notebook_lowers_the_loss(path, data, monkeypatch, tmp_path):
    """Also in a clone, which has no data: the next test has what it makes up."""
    monkeypatch.setenv(BUDGET, "8")
    monkeypatch.setenv("KBERT_DATA", str(SHARED / "data" if data == "there" else tmp_path))
    losses = []
    with started() as executed:  # a kernel of its own, which reads these variables
        for committed, fresh in executed(path):
            assert shape(fresh) == shape(committed)
            losses += re.findall(r"loss: ([\d.]+) before, ([\d.]+) after", printed(fresh))
    ((before, after),) = losses
    assert float(after) < float(before)


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.stem)
def test_notebook_without_data_makes_up_a_sample(path, monkeypatch, tmp_path, capsys):
    """Its cells up to the first model, which is trained on what they have read."""
    monkeypatch.setenv(BUDGET, "8")
    monkeypatch.setenv("KBERT_DATA", str(tmp_path))
    monkeypatch.chdir(path.parent)
    names, read = {}, 0
    for cell in cells_of(path):
        if re.search(r"kbert\.(build_bert|finetune)\(", cell.source):
            break
        exec(cell.source, names)
        read += printed(cell).count("\n")
    names["temporary"].cleanup()  # what a kernel's end does
    captured = capsys.readouterr()
    assert "made up" in captured.err and read > 2
    assert captured.out.count("\n") == read
