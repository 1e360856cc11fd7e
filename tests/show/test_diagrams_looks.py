"""Diagrams are whole, legible and the same bytes everywhere."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.diagram_readers import DOCUMENT, FORMATS, SVG, ends, png_size
from helpers.sizes import ROOT

from kbert.graph.closed_form import Row
from kbert.show import diagrams, graphviz

# The same bytes, everywhere.

DRAW_ALL = """
import sys
from pathlib import Path
from kbert.show.plotting import plot
for ending in {formats}:
    for collapse in (True, False):
        plot("base", Path(sys.argv[1]) / f"{{'collapsed' if collapse else 'whole'}}.{{ending}}",
             collapse=collapse)
"""


@pytest.mark.full
def test_two_processes_write_the_same_bytes(drawn, tmp_path):
    """The other process has another hash seed, no `dot` and no settings for fonts."""
    (tmp_path / "bin").mkdir()
    env = os.environ | {"PYTHONHASHSEED": "12345", "PATH": str(tmp_path / "bin")}
    env.pop("FONTCONFIG_FILE", None)
    code = DRAW_ALL.format(formats=FORMATS)
    run = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    subprocess.run(run, cwd=ROOT, env=env, check=True, capture_output=True, timeout=300)
    for ending in FORMATS:
        for collapse in (True, False):
            mine = drawn(ending, collapse)
            assert mine.read_bytes() == (tmp_path / mine.name).read_bytes(), mine.name


def test_a_pdf_has_no_date_of_its_own(drawn):
    dates = re.findall(rb"/CreationDate \(D:(\d+)", drawn("pdf", True).read_bytes())
    assert set(dates) == {b"19700101000000"}


LETTERS = """
import sys
from kbert.show.diagrams import to_dot
from kbert.show.graphviz import draw
from kbert.graph.closed_form import Row
one, other = (draw(to_dot([Row(c * 4, c * 4, c * 4, 0, "")]), "png") for c in "HA")
pdf = draw(to_dot([Row("HAHA", "HAHA", "HAHA", 0, "")]), "pdf")
print(one != other, b"DejaVuSans" in pdf, "keras" in sys.modules)
"""


def run_letters(tmp_path, **settings):
    """In an environment where fontconfig's own settings name no fonts, and with no `dot`."""
    none = tmp_path / "fonts.conf"
    none.write_text(f"<fontconfig><cachedir>{tmp_path}/cache</cachedir></fontconfig>")
    env = {key: value for key, value in os.environ.items() if not key.startswith("FONTCONFIG")}
    env |= {"PATH": str(tmp_path), "FONTCONFIG_PATH": str(tmp_path)} | settings
    run = [sys.executable, "-W", "error", "-c", LETTERS]
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    return done.stdout.split(), done.stderr


def test_letters_are_letters_on_a_machine_without_fonts(tmp_path):
    """Keras is not needed to draw rows."""
    assert run_letters(tmp_path) == (["True", "True", "False"], "")


@pytest.mark.full
def test_the_users_own_fontconfig_counts_more(tmp_path):
    """Also the proof that the test above can fail: with no font at all, all letters are boxes."""
    told, _ = run_letters(tmp_path, FONTCONFIG_FILE=str(tmp_path / "fonts.conf"))
    assert told == ["False", "False", "False"]


def test_the_environment_stays_as_it_was(monkeypatch):
    for key in ("FONTCONFIG_FILE", "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(key, raising=False)
    before = dict(os.environ)
    graphviz.draw(diagrams.to_dot(DOCUMENT[:3]), "png")
    assert dict(os.environ) == before


# What the eye wants.


def bounds(element, fonts):
    """(left, top, right, bottom) of a drawn element of Graphviz's SVG."""
    if element.tag == f"{SVG}text":
        bold = element.get("font-weight") == "bold"
        size = float(element.get("font-size"))
        left, line = float(element.get("x")), float(element.get("y"))
        wide = fonts[bold].getlength(element.text) * size / 100
        left -= {"start": 0, "middle": wide / 2, "end": wide}[element.get("text-anchor")]
        return left, line - size, left + wide, line + size / 4
    points = [float(n) for n in re.findall(r"-?[\d.]+", element.get("d") or element.get("points"))]
    return min(points[::2]), min(points[1::2]), max(points[::2]), max(points[1::2])


@pytest.fixture(scope="module")
def fonts():
    """DejaVu's two faces at 100 points, to measure text with."""
    from PIL import ImageFont

    folder = Path(find_spec("matplotlib").origin).parent / "mpl-data" / "fonts" / "ttf"
    faces = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
    return [ImageFont.truetype(folder / face, 100) for face in faces]


@pytest.fixture(params=[True, False], ids=["collapsed", "whole"])
def collapse(request):
    return request.param


@pytest.fixture
def root(drawn, collapse):
    """Base's diagram as SVG."""
    return ElementTree.fromstring(drawn("svg", collapse).read_text(encoding="utf-8"))


def groups_of(root, *kinds: str) -> list:
    return [g for g in root.iter(f"{SVG}g") if g.get("class").split()[0] in kinds]


def test_nothing_is_cut_off_in_the_svg(root, fonts):
    left, top, width, height = map(float, root.get("viewBox").split())
    assert float(root.get("width")[:-2]) == pytest.approx(width, abs=1)
    assert float(root.get("height")[:-2]) == pytest.approx(height, abs=1)
    graph = root.find(f"{SVG}g")
    place = r"scale\(1 1\) rotate\(0\) translate\(([\d.]+) ([\d.]+)\)"
    right, down = map(float, re.fullmatch(place, graph.get("transform")).groups())
    drawn_parts = [e for e in graph.iter() if e.tag[len(SVG) :] in ("path", "polygon", "text")]
    assert len(drawn_parts) > 24 * 3
    background, *others = [bounds(element, fonts) for element in drawn_parts]
    for a, b, c, d in others:
        assert left <= a + right and c + right <= left + width
        assert top <= b + down and d + down <= top + height
    assert background[2] - background[0] == pytest.approx(width, abs=1)


def test_text_stands_in_the_middle_of_its_box_in_any_font(root, fonts, collapse):
    """Browsers and rsvg set the text anew: anchored in its middle, another width moves nothing."""
    boxes = groups_of(root, "node", "cluster")
    assert len(boxes) == (26 if collapse else 112)
    for group in boxes:
        left, top, right, bottom = bounds(group.find(f"{SVG}path"), fonts)
        for text in group.iter(f"{SVG}text"):
            a, b, c, d = bounds(text, fonts)
            assert left + 2 <= a and c <= right - 2, text.text
            assert top - 1 <= b and d <= bottom + 1, text.text
            if group.get("class").startswith("node"):
                assert text.get("text-anchor") == "middle"
                assert float(text.get("x")) == pytest.approx((left + right) / 2, abs=0.02)
                assert a - left >= 6 and right - c >= 6, text.text  # points to the border


def test_every_edge_goes_up(root, fonts):
    """As in Figure 1 of the paper, and in the explorer."""
    nodes = groups_of(root, "node")
    tops = {g.get("id"): bounds(g.find(f"{SVG}path"), fonts)[1] for g in nodes}
    edges = [ends(g.find(f"{SVG}title").text) for g in groups_of(root, "edge")]
    assert len(edges) > 24 and all(tops[source] > tops[target] for source, target in edges)


def along(path):
    """Points on a drawn edge, which is a chain of cubic Bézier curves."""
    numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d"))]
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    for first in range(0, len(points) - 1, 3):
        for share in (n / 50 for n in range(51)):
            weights = [(1 - share) ** 3, 3 * share * (1 - share) ** 2]
            weights += [3 * share**2 * (1 - share), share**3]
            curve = list(zip(weights, points[first : first + 4], strict=True))
            yield sum(w * x for w, (x, _) in curve), sum(w * y for w, (_, y) in curve)


@pytest.mark.parametrize("collapse", [True, pytest.param(False, marks=pytest.mark.full)])
def test_edges_run_clear_of_boxes_and_of_the_frames_text(root, fonts, collapse):
    nodes = groups_of(root, "node")
    boxes = {g.get("id"): bounds(g.find(f"{SVG}path"), fonts) for g in nodes}
    frame = [text for g in groups_of(root, "cluster") for text in g.iter(f"{SVG}text")]
    boxes |= {text.text: bounds(text, fonts) for text in frame}
    assert len(boxes) == (25 + 4 if collapse else 112)
    for title, group in ((g.find(f"{SVG}title").text, g) for g in groups_of(root, "edge")):
        for name, (left, top, right, bottom) in boxes.items():
            apart = -1 if name in ends(title) else 2  # points
            for x, y in along(group.find(f"{SVG}path")):
                inside = left - apart < x < right + apart and top - apart < y < bottom + apart
                assert not inside, (title, name)


def test_the_collapsed_png_is_crisp_and_small(drawn):
    data = drawn("png", True).read_bytes()
    root = ElementTree.fromstring(drawn("svg", True).read_text(encoding="utf-8"))
    points = (float(root.get("width")[:-2]), float(root.get("height")[:-2]))
    assert png_size(data) == pytest.approx([2 * side for side in points], abs=3)  # 144 dpi
    assert points[0] < 640 and points[1] < 900
    assert len(data) < 1_000_000


@pytest.mark.parametrize("count", [210, pytest.param(900, marks=pytest.mark.full)])
def test_a_png_of_any_depth_stays_below_cairos_limit(count):
    """210 layers: as many as large has, at full sharpness; 900 only fit at a lower one."""
    rows = [Row("Layer-0", "InputLayer", "(None, 7)", 0, "")]
    rows += [
        Row(f"Layer-{n}", "Dense", "(None, 7)", 56, f"Layer-{n - 1}[0][0]") for n in range(1, count)
    ]
    dot = diagrams.to_dot(rows)
    root = ElementTree.fromstring(graphviz.draw(dot, "svg"))
    _, height = png_size(graphviz.draw(dot, "png"))
    doubled = 2 * float(root.get("height")[:-2])
    assert height < 32_767
    assert height == pytest.approx(min(doubled, 32_000), abs=10)
    assert (doubled > 32_767) == (count == 900)
