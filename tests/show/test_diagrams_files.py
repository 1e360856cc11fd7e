"""Bad paths, missing programs and failed drawings: one line, and nothing half-written."""

import os
import shlex
import shutil
import sys
from xml.etree import ElementTree

import pytest
from helpers.diagram_readers import FORMATS, PICTURES, SVG, read_svg, shown_collapsed
from helpers.errors import raises

from kbert.show import graphviz
from kbert.show.plotting import plot


def one_line(raised, *parts):
    message = str(raised.value)
    assert "\n" not in message
    for part in parts:
        assert part in message
    return True


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.svgz", ".png"])
def test_unknown_diagram_format_is_refused(tmp_path, name):
    with pytest.raises(ValueError) as raised:
        plot(None, tmp_path / name)
    assert one_line(raised, "must end in .png, .svg, .pdf, .dot, .mmd", repr(str(tmp_path / name)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", FORMATS)
def test_bad_diagram_path_is_refused_before_the_model(tmp_path, ending):
    with pytest.raises(FileNotFoundError) as raised:
        plot(None, tmp_path / "none" / f"a.{ending}")
    assert one_line(raised, str(tmp_path / "none"))
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        plot(None, tmp_path / "file" / f"a.{ending}")
    (tmp_path / f"b.{ending}").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        plot(None, tmp_path / f"b.{ending}")
    assert one_line(raised, f"b.{ending}")


def test_a_folder_that_is_not_writable_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError) as raised:
        plot(None, tmp_path / "a.svg")
    assert one_line(raised, str(tmp_path))


def test_a_model_without_a_graph_is_refused(tmp_path):
    with raises(ValueError, "functional"):
        plot(object(), tmp_path / "a.dot")


@pytest.fixture
def chain():
    """A small functional model of Keras's own layers."""
    import keras

    inputs = keras.Input((5,), name="in")
    return keras.Model(inputs, keras.layers.Dense(3, name="out")(inputs))


@pytest.mark.parametrize("ending", PICTURES)
def test_an_old_file_survives_a_failed_drawing(chain, tmp_path, monkeypatch, ending):
    path = plot(chain, tmp_path / f"a.{ending}")
    old = path.read_bytes()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(RuntimeError) as raised:
        plot(chain, path)
    assert one_line(raised, "Graphviz failed: status 1")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == old


def test_diagram_replaces_an_old_file_and_leaves_no_other(chain, tmp_path):
    path = tmp_path / "a.SVG"
    plot("tiny", path)
    assert plot(chain, str(path)) == path
    assert ElementTree.fromstring(path.read_bytes()).tag == f"{SVG}svg"
    assert list(tmp_path.iterdir()) == [path]


def test_text_formats_need_no_graphviz(chain, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for ending in ("dot", "mmd"):
        assert plot(chain, tmp_path / f"a.{ending}").stat().st_size > 0
    for ending in PICTURES:
        with pytest.raises(ImportError) as raised:
            plot(None, tmp_path / f"a.{ending}")
        assert one_line(raised, "pip install pygraphviz", "dot program", ".mmd need nothing")


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="the stand-in for dot is a script")
@pytest.mark.parametrize("ending", PICTURES)
def test_dot_program_draws_without_pygraphviz(chain, tmp_path, monkeypatch, ending):
    expected = plot(chain, tmp_path / f"a.{ending}").read_bytes()
    folder = tmp_path / "bin"
    folder.mkdir()
    program, script = folder / "dot", folder / "dot.py"
    command = shlex.join([sys.executable, str(script)])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.write_text(
        f"import sys\nassert sys.argv[1:] == ['-T{ending}'] or "
        f"sys.argv[1:] == ['-Tsvg']\nopen({str(folder / 'used')!r}, 'w')"
        f"\n{graphviz.PYGRAPHVIZ}"
    )
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    monkeypatch.setenv("PATH", str(folder))
    assert plot(chain, tmp_path / f"b.{ending}").read_bytes() == expected
    assert (folder / "used").exists()


def test_edges_are_curves_where_right_angles_fail(tmp_path, monkeypatch):
    """Debian's 2.42 ends in assertions for some sizes of boxes."""
    draw = graphviz.draw

    def fail_at_right_angles(dot, format):
        if "splines=ortho" in dot:
            raise RuntimeError("Graphviz failed: dot: maze.c:311: Assertion `np->cells[0]' failed.")
        return draw(dot, format)

    monkeypatch.setattr(graphviz, "draw", fail_at_right_angles)
    nodes, edges, frames = read_svg(plot("base", tmp_path / "a.svg").read_text(encoding="utf-8"))
    assert (nodes, edges) == shown_collapsed() and len(frames) == 1
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(RuntimeError) as raised:  # another failure stays one
        plot("base", tmp_path / "b.svg")
    assert one_line(raised, "Graphviz failed: status 1")
