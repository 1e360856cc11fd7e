"""Pictures of the graph in a browser: an SVG is light or dark as its reader's system is."""

import pytest

import kbert

pytestmark = pytest.mark.full

COLOURS = """() => [".graph > polygon", ".node.attention path", ".node text", ".cluster path"]
  .map((one) => getComputedStyle(document.querySelector(one)).fill
    .match(/[0-9]+/g).reduce((all, part) => all + Number(part), 0) / 3)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_svg_is_light_or_dark(open_page, tmp_path, scheme):
    path = kbert.plot("tiny", tmp_path / "tiny.svg")
    page = open_page(path, scheme=scheme)
    paper, box, text, frame = page.evaluate(COLOURS)  # 0, black, to 255
    if scheme == "light":
        assert min(paper, box, frame) > 230 and text < 60
    else:
        assert max(paper, box, frame) < 60 and text > 200
