"""The blocks of code of the site: what runs here runs, and prints what is shown.

On torch, which traces nothing: on TensorFlow in the gate only what is about it, and nightly all.
"""

import re

import keras
import pytest
from helpers.page_blocks import OURS, blocks, name_of, run, runs, same
from helpers.sizes import ROOT

# Blocks that are run elsewhere: by another test, or by the gate itself.
ELSEWHERE = {"docs/how_to/coming_from.md": "tests/project/test_docs.py", "README.md": ".ci/run"}
RUN_HERE = {  # other tests name them, and only read their text
    "docs/how_to/finetune.md",
    "docs/how_to/several_machines.md",
}


def pages_with_tests() -> set[str]:
    """Return the names of pages that a test names; then that runs what of them can be run."""
    texts = [test.read_text(encoding="utf-8") for test in (ROOT / "tests").rglob("test_*.py")]
    return set(re.findall(r'["/]([\w-]+\.md)"', "\n".join(texts)))


NAMED = pages_with_tests()
HERE = [
    page
    for page in OURS
    if name_of(page) not in ELSEWHERE and (page.name not in NAMED or name_of(page) in RUN_HERE)
]
WITH_CODE = [page for page in HERE if any(map(runs, blocks(page)))]


# Keras's own `fit`, and SavedModels, which only TensorFlow writes
ON_TENSORFLOW = {"build", "export"}
ON_TORCH = keras.backend.backend() == "torch"


def cases():
    """Each page with the round that runs it on this backend."""
    for page in WITH_CODE:
        own = page.stem in ON_TENSORFLOW
        if not (ON_TORCH and own):
            which = "full" if own or ON_TORCH else "nightly"
            yield pytest.param(page, id=name_of(page), marks=getattr(pytest.mark, which))


@pytest.mark.parametrize("page", list(cases()))
def test_code_on_a_page_prints_what_is_shown(page, tmp_path):
    for block, printed in run(page, tmp_path):
        shown = block.text if block.kind == "console" else block.shown and block.shown.text
        if shown is not None:
            assert same(shown, printed), f"{block.text}\nprints\n{printed}\nbut shows\n{shown}"
