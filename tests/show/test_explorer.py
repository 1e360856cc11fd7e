"""A page of the explorer: one file that needs nothing else, of whatever it is made."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import kbert as run_kbert
from helpers.errors import raises
from helpers.live_pages import own_code
from helpers.page_elements import Elements
from helpers.sizes import SIZES
from helpers.small_berts import small_bert
from safetensors.numpy import load_file, save_file

import kbert
from kbert.graph.reference import document_004
from kbert.graph.spec import GraphSpec
from kbert.heads import HEADS
from kbert.show.explorer import explore as explore_module
from kbert.show.explorer import scripts, writing
from kbert.show.explorer.counting import graphs
from kbert.show.explorer.figure import STATES, figure_data
from kbert.show.explorer.weights import describe_tensor
from kbert.show.explorer.writing import FOLDER

LOADS = {"src", "href", "srcset", "data", "poster", "action", "background", "xlink:href"}


def data_of(page: str) -> dict:
    """The page's data, as its scripts read it."""
    return json.loads(re.search(r"^const DATA = (.*);$", page, re.MULTILINE)[1])


@pytest.fixture(scope="module")
def base():
    return kbert.explore("base").html


def test_a_page_needs_nothing_but_itself(base):
    for tag, attributes in Elements(base).found:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base")
        assert not LOADS & set(attributes)
    assert all(url.startswith("data:") for url in re.findall(r"url\(([^)]*)\)", base))
    addresses = set(re.findall(r"https?://[^\s\"'<>)]+", base))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nothing loads
    assert not re.search(r"\b(fetch|XMLHttpRequest|import)\s*\(|@import|require\(", base)
    assert len(base.encode()) < 400_000


SCRIPT = """\
// a comment
const one = 1;  // behind code, with 'a' text
  // indented
const text = `first
// in a literal: ${one}  // too
/* too */`;
/* of a style */
.a { b: "/* in a text */"; }
/* two */ .c { } /* on a line */
const two = "  // in a text";
"""


def test_comments_are_left_out_and_texts_are_not():
    lines = SCRIPT.split("\n")
    lines[1] = "const one = 1;"
    expected = [line for place, line in enumerate(lines) if place not in (0, 2, 6)]
    assert writing.drop_comments(SCRIPT).split("\n") == expected


# Bytes of script and styles, without a sentence and with one that the page computes.
MOST_BYTES = {"still": 115_000, "live": 250_000}


@pytest.mark.full
def test_script_and_styles_stay_small(base, tmp_path):
    kbert.save(small_bert(kbert.BertConfig(**SIZES), "encoder"), tmp_path / "model")
    live = kbert.explore(tmp_path / "model", weights="int8").html
    assert 'id="weights"' in live
    sizes = {name: len(own_code(page).encode()) for name, page in (("still", base), ("live", live))}
    assert all(MOST_BYTES[name] * 0.9 < size < MOST_BYTES[name] for name, size in sizes.items())
    title = f"{tmp_path.name}/model"
    assert data_of(live)["title"] == title  # a run's folder is called model, as every other's is


def test_a_notebook_gets_one_frame_with_the_whole_page_in_it(base):
    shown = kbert.explore(GraphSpec.of("base"), title="base")
    assert shown.html == base  # the same graph gives the same bytes
    ((tag, attributes),) = Elements(shown._repr_html_()).found
    assert tag == "iframe" and attributes["srcdoc"] == base
    assert repr(shown) == (
        "Explorer('base: BERT with head pretraining, 109,705,010 parameters', "
        f"{len(base.encode()):,} bytes)"
    )


def test_every_row_of_the_document_is_in_its_data(base):
    data = data_of(base)
    rows = [row for place in ("before", "block", "after") for row in data["graphs"]["all"][place]]
    names = [row["name"].replace("{n}", "1") for row in rows]
    assert names == [
        row.layer for row in document_004() if not re.match(r"Encoder-(?!1-)", row.layer)
    ]
    noted = set(data["notes"])
    for head in HEADS:
        for parts in graphs(GraphSpec.of("tiny", head)).values():
            assert {row.name for place in parts.values() for row in place} <= noted
    assert len(data["errata"]) == 11
    assert all(set(erratum["layers"]) <= noted for erratum in data["errata"])


@pytest.mark.parametrize("head", HEADS)
def test_explorer_boxes_never_overlap(head):
    found = figure_data(graphs(GraphSpec.of("tiny", head)))
    assert len(found) == len(STATES) * (2 if head == "pretraining" else 1)
    for key, figure in found.items():
        width, height = figure["size"]
        boxes = list(figure["nodes"].items())
        for place, (name, (x, y, wide, high)) in enumerate(boxes):
            assert x >= 0 and y >= 0 and x + wide <= width + 0.2 and y + high <= height + 0.2
            for other, (a, b, other_wide, other_high) in boxes[:place]:
                apart = x >= a + other_wide or a >= x + wide or y >= b + other_high or b >= y + high
                assert apart, (key, name, other)
        for source, target, _, points in figure["edges"]:
            assert near(points[:2], figure["nodes"][source]), (key, source, target)
            assert near(points[-2:], figure["nodes"][target]), (key, source, target)
            crossed = [
                name for name, box in boxes if name not in (source, target) and passes(points, box)
            ]
            assert not crossed, (key, source, target)
        for name, (x, y, wide, _) in figure["frames"].items():
            members = [box for node, box in boxes if node.startswith("Encoder-{n}-")]
            assert not out_of_frame(figure, name), key
            if name == "block":
                assert len(members) == (12 if "attention" in figure["frames"] else 8)
                assert all(x < a and y < b and a + c < x + wide for a, b, c, _ in members)


def out_of_frame(figure, name) -> list[tuple[str, str]]:
    """The edges between boxes in a frame that leave it."""
    frame = figure["frames"][name]
    x, y, wide, high = frame
    inside = {
        node
        for node, (a, b, c, d) in figure["nodes"].items()
        if x < a and y < b and a + c < x + wide and b + d < y + high
    }
    assert len(inside) > 4
    return [
        (source, target)
        for source, target, _, points in figure["edges"]
        if {source, target} <= inside
        and not all(
            near(points[place : place + 2], frame, -3) for place in range(0, len(points), 2)
        )
    ]


def near(point, box, by=3) -> bool:
    (x, y), (left, top, width, height) = point, box
    return left - by <= x <= left + width + by and top - by <= y <= top + height + by


def passes(points, box) -> bool:
    """Whether a line of right angles runs through a box."""
    left, top, width, height = box
    for place in range(0, len(points) - 2, 2):
        x1, y1, x2, y2 = points[place : place + 4]
        across = min(x1, x2) < left + width and max(x1, x2) > left
        if across and min(y1, y2) < top + height and max(y1, y2) > top:
            return True
    return False


def test_the_inputs_are_at_the_bottom():
    figure = figure_data(graphs(GraphSpec.of("base")))["all/closed"]
    levels = {name: top for name, (_, top, _, _) in figure["nodes"].items()}
    assert max(levels, key=levels.get).startswith("Input-")
    assert levels["Input-Token"] > levels["Embedding-Norm"] > levels["encoder"] > levels["NSP"]


@pytest.mark.parametrize("kind", ["float32", "float16", "float64", "bfloat16", "int64"])
def test_tensor_statistics_are_numpys(kind):
    import ml_dtypes

    random = np.random.default_rng(3)
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    array = (
        random.normal(0.3, 20, (3, 70_001)) if kind == "int64" else random.normal(0.3, 2, (41, 29))
    )
    array = array.astype(dtype)
    wide = array.astype("float64")
    found = describe_tensor(array)
    assert found["shape"] == list(array.shape) and found["dtype"] == kind
    assert found["mean"] == pytest.approx(wide.mean(), rel=1e-9, abs=1e-12)
    assert found["std"] == pytest.approx(wide.std(), rel=1e-9)
    assert found["norm"] == pytest.approx(np.linalg.norm(wide), rel=1e-9)
    assert (found["min"], found["max"]) == (wide.min(), wide.max())
    counts, _ = np.histogram(wide, 32)
    assert sum(found["histogram"]) == array.size
    if kind in ("float64", "float32"):
        assert np.abs(np.array(found["histogram"]) - counts).max() <= 1  # a number on an edge


def test_nonfinite_weights_are_counted_and_left_out():
    array = np.array([1.0, np.nan, 3.0, np.inf, -np.inf], "float32")
    found = describe_tensor(array)
    assert found["notFinite"] == 3 and found["mean"] == 2.0 and sum(found["histogram"]) == 2
    assert describe_tensor(np.full((2, 2), np.nan, "float32")) == {
        "shape": [2, 2],
        "dtype": "float32",
        "notFinite": 4,
    }
    assert describe_tensor(np.zeros(5, "float32"))["histogram"][0] == 5


@pytest.fixture(scope="module")
def checkpoint(small, tmp_path_factory):
    """A checkpoint's folder, and the `Bert` that is in it."""
    bert = kbert.Bert(small, "pretraining", kbert.build_bert(small, seq_len=None))
    folder = tmp_path_factory.mktemp("checkpoint") / "bert"
    kbert.save(bert, folder)
    return folder, bert


@pytest.mark.full
def test_a_checkpoint_shows_what_is_in_its_tensors(checkpoint):
    folder, bert = checkpoint
    from_file, from_bert, from_model = (
        data_of(kbert.explore(source).html) for source in (folder, bert, bert.model)
    )
    assert from_file["head"] == "pretraining" and from_file["missing"] == []
    assert "transformers" in from_file["origin"] and "built model" in from_bert["origin"]
    assert from_bert == from_model and from_file["tensors"].keys() == from_bert["tensors"].keys()
    places = 0
    for layer in bert.model.layers:
        for weight in layer.weights:
            place = f"{layer.name}/{weight.path.rpartition(layer.name + '/')[2]}"
            numbers = weight.numpy().astype("float64")
            places += 1
            for data in (from_file, from_bert):
                found = data["tensors"][place]
                assert np.prod(found["shape"]) == numbers.size
                assert found["norm"] == pytest.approx(np.linalg.norm(numbers), rel=1e-6)
                assert found["std"] == pytest.approx(numbers.std(), rel=1e-6)
    assert places == len(from_file["tensors"]) == 62


def test_explorer_says_what_a_checkpoint_lacks(checkpoint, tmp_path):
    shutil.copytree(checkpoint[0], tmp_path / "part")
    file = tmp_path / "part" / "model.safetensors"
    kept = {name: one for name, one in load_file(file).items() if "seq_relationship" not in name}
    save_file(kept, file)
    data = data_of(kbert.explore(tmp_path / "part").html)
    assert data["missing"] == ["NSP/kernel", "NSP/bias"]
    assert "NSP/kernel" not in data["tensors"]


def test_own_model_is_explored_as_it_is(tmp_path):
    import keras

    x = keras.Input((7,), name="<b>given")
    y = keras.layers.Dense(5, name="wide & deep")(x)
    z = keras.layers.Dense(5, name="other")(x)
    model = keras.Model(x, keras.layers.Add(name="sum")([y, z]), name="own")
    page = kbert.explore(model, tmp_path / "own.html").html
    data = data_of(page)
    assert "<b>given" not in page and "not a graph of kbert" in page
    rows = {row["name"]: row for row in data["graphs"]["all"]["before"]}
    assert rows["wide & deep"]["params"] == "40" and rows["sum"]["output_shape"] == "(None, 5)"
    assert set(data["figure"]["all/closed"]["nodes"]) == set(rows)
    assert data["tensors"]["other/kernel"]["shape"] == [7, 5]


def test_bad_explore_options_are_one_line(tmp_path, monkeypatch):
    import keras

    sequential = keras.Sequential([keras.layers.Dense(3)])
    for source, said in (
        ("basse", ("'basse'",)),
        (7, ("int",)),
        ([], ("list",)),
        (sequential, ("functional",)),
    ):
        with raises(ValueError, *said):
            kbert.explore(source)
    with raises(ValueError, ".html"):
        kbert.explore("tiny", tmp_path / "x.txt")
    with raises(ValueError, "batch_size"):
        kbert.explore("tiny", batch_size=0)
    with raises(FileNotFoundError, tmp_path / "none"):
        kbert.explore("tiny", tmp_path / "none" / "x.html")
    monkeypatch.setattr(explore_module.os, "access", lambda path, mode: False)
    with raises(PermissionError, tmp_path):
        kbert.explore("tiny", tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_command_line_options_set_the_first_view(tmp_path, capsys):
    path = tmp_path / "x.html"
    line = "--head pretraining --max-predictions 5 --seq-len 33 --batch-size 7 --dtype bfloat16"
    done = run_kbert(capsys, "explore", "tiny", "-o", path, *line.split())
    assert done.status == 0 and done.out.startswith(f"wrote {path} (")
    values = data_of(path.read_text(encoding="utf-8"))["values"]
    assert [values[name] for name in ("S", "B", "M", "dtype")] == [33, 7, 5, "bfloat16"]


@pytest.mark.parametrize("option", ["--head qa", "--seq-len 5", "--dtype float16"])
def test_checkpoint_sets_its_own_head(checkpoint, capsys, option):
    done = run_kbert(capsys, "explore", checkpoint[0], "-o", "x.html", *option.split())
    assert done.status == 2 and "a checkpoint" in done.err


def test_no_two_functions_of_the_page_have_one_name():
    """All scripts of a page share one scope, where the later of two silently replaces the other."""
    everything = {"outputs": ["mlm", "nsp", "classes", "tags", "answer", "vector"]}
    everything |= {"attribution": {}, "recordings": [{"attention": {}}]}
    page, engine = set(scripts.COUNTING), set()
    for head in HEADS:
        page |= set(scripts.list_scripts({"head": head}))
    for place in ("inside", "beside", "recorded", "served"):
        live = everything | {"place": place}
        page |= {*scripts.list_scripts({"live": live}), *scripts.list_live_scripts(live)}
        engine |= set(scripts.list_engine_scripts(live))  # a scope of its own
    written = {str(path.relative_to(FOLDER)) for path in Path(str(FOLDER)).rglob("*.js")}
    assert page | engine == written and not page & engine
    for names in (list_names(page), list_names(engine)):
        assert len(names) > 50 and {name for name in names if names.count(name) > 1} == set()


def list_names(files) -> list[str]:
    """The names that scripts declare outside of functions."""
    code = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in files)
    return re.findall(r"^(?:async )?(?:function\*?|const|let|class) +(\w+)", code, re.MULTILINE)


@pytest.mark.full
def test_a_page_has_only_the_scripts_that_its_data_can_need(tmp_path):
    kbert.save(small_bert(kbert.BertConfig(**SIZES), "encoder"), tmp_path / "model")
    pages = {
        "inside": kbert.explore(tmp_path / "model", weights="int8").html,
        "recorded": kbert.explore(tmp_path / "model", sentences=["a"]).html,
        "still": kbert.explore(GraphSpec.of("tiny", "pretraining")).html,
    }
    needed = {
        "function openEngine(": {"inside"},
        "function makeTokenizer(": {"inside"},
        "function findRecording(": {"recorded"},
        "function drawStage(": {"inside", "recorded"},
        "OUTPUTS.vector =": {"inside"},
        "ANSWERS.vector =": {"inside", "recorded"},
        "ANSWERS.mlm =": set(),
        "PLACES.served =": set(),
        "function loadParts(": set(),
        "function attributionOf(": set(),
        "HEAD_OUTPUTS.encoder =": {"inside", "recorded"},
        "HEAD_OUTPUTS.pretraining =": {"still"},
    }
    found = {code: {name for name, page in pages.items() if code in page} for code in needed}
    assert found == needed


@pytest.mark.parametrize(
    ("name", "value"), [("start", 5), ("start", None), ("title", 5), ("beside", "no")]
)
def test_options_of_another_type_are_refused_by_name(tmp_path, name, value):
    with raises(ValueError, name):
        kbert.explore("tiny", tmp_path / "x.html", **{name: value})
    assert not list(tmp_path.iterdir())
