"""transformers' named parameters equal the documents' listings and transformers' own."""

import json
import math
import re
from pathlib import Path

import pytest
from helpers.command_line import kbert, read_table

from kbert import PRESETS, BertConfig, named_parameters
from kbert.graph import reference

# A line of a listing: a name, a shape, and perhaps a count.
LINE = re.compile(r"^(\S+)\s+(\((?:\d+, ?)*\d*\))(?:\s+(\d+))?$", re.MULTILINE)


def document(shared, number: str) -> str:
    return next((shared / "seeds").glob(f"{number}*.txt")).read_text(encoding="utf-8")


def listed(text: str) -> list[tuple[str, str]]:
    """The (name, shape) lines of a listing, in order."""
    return [(name, shape) for name, shape, _ in LINE.findall(text)]


def totals_below(text: str) -> dict[str, int]:
    """The sums by group that stand below a listing."""
    found = re.findall(r"^(embeddings|encoder|pooler|total) +([\d,]+)$", text, re.MULTILINE)
    return {group: int(total.replace(",", "")) for group, total in found}


@pytest.mark.parametrize(
    ("preset", "table"),
    [
        ("base_uncased", "hf_bert_base_uncased.tsv"),
        ("large_uncased", "hf_bert_large_uncased.tsv"),
    ],
)
def test_tsv_equals_the_reference_table_byte_for_byte(capsys, shared, preset, table):
    done = kbert(capsys, "params", preset, "--format", "tsv")
    assert done.out.encode() == (shared / "reference" / table).read_bytes()
    assert (done.status, done.err) == (0, "")


def test_packaged_tables_equal_the_reference_tables(shared):
    for path in (shared / "reference").glob("*.tsv"):
        packaged = Path(reference.__file__).parent / path.name
        assert packaged.read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize(("number", "lines_printed"), [("000", 39), ("003", 13)])  # 003 is cut off
def test_text_has_every_line_of_the_listing_in_its_order(capsys, shared, number, lines_printed):
    printed = listed(document(shared, number))
    assert len(printed) == lines_printed
    lines = listed(kbert(capsys, "params", "base_uncased").out)
    places = [lines.index(line) for line in printed]
    assert places == sorted(places)


def test_text_has_every_line_that_document_001_prints(capsys, shared):
    """Its counts too; the output in the document is cut off in the middle of a line."""
    arrows = re.findall(
        r"^(\S+) -> torch\.Size\(\[([\d, ]+)\]\) -> (\d+)$", document(shared, "001"), re.MULTILINE
    )
    assert len(arrows) == 13
    lines = LINE.findall(kbert(capsys, "params", "base_uncased").out)
    places = [
        lines.index((name, f"({shape})" if "," in shape else f"({shape},)", numel))
        for name, shape, numel in arrows
    ]
    assert places == list(range(len(arrows)))


def test_text_shows_the_number_of_parameters(capsys, shared):
    assert "199 different named parameters" in document(shared, "003")
    done = kbert(capsys, "params", "base_uncased")
    assert done.out.splitlines()[0] == "199 named parameters"
    assert len(listed(done.out)) == 199


def test_shapes_of_large_equal_document_002s(shared):
    """24 layers with 8 shapes each, as the document's loop prints them."""
    shapes = {entry.parameter: entry.shape for entry in named_parameters(PRESETS["large_uncased"])}
    _, *blocks = re.split(r"^Layer (\d+):$", document(shared, "002"), flags=re.MULTILINE)
    compared = 0
    for number, block in zip(blocks[::2], blocks[1::2], strict=True):
        part = re.compile(r"^  (Query|Key|Value|Output Dense) (Weight|Bias): torch\.Size\((.+)\)$")
        for line in block.strip("\n").splitlines():
            if found := part.match(line):
                place = {"Output Dense": "output.dense"}.get(found[1], f"self.{found[1].lower()}")
                name = f"encoder.layer.{int(number) - 1}.attention.{place}.{found[2].lower()}"
                assert list(shapes[name]) == json.loads(found[3]), name
                compared += 1
    assert (len(blocks) // 2, compared) == (24, 24 * 8)


def test_group_totals_equal_document_001s_and_the_pooler(capsys, shared):
    text = document(shared, "001")
    said = {
        key: int(value) for key, value in re.findall(r"^(embedding|encoder) (\d+)$", text, re.M)
    }
    total = int(re.search(r"print\(total_learnable_params\)\s+(\d+)", text)[1])
    assert "pooler 0" in text
    assert totals_below(kbert(capsys, "params", "base_uncased").out) == {
        "embeddings": said["embedding"],
        "encoder": said["encoder"],
        "pooler": 768 * 768 + 768,
        "total": total,
    }
    assert said["embedding"] + said["encoder"] + 768 * 768 + 768 == total


def test_total_of_large_equals_document_002s(capsys, shared):
    said = re.search(r"^Total Parameters: ([\d,]+)$", document(shared, "002"), re.MULTILINE)[1]
    totals = totals_below(kbert(capsys, "params", "large_uncased").out)
    assert totals.pop("total") == int(said.replace(",", "")) == sum(totals.values())


@pytest.mark.parametrize("form", ["tsv", "json", "markdown", "text"])
def test_every_format_holds_the_same_rows(capsys, form):
    expected = [
        (entry.parameter, entry.shape, entry.numel)
        for entry in reference.named_parameters("base_uncased")
    ]
    out = kbert(capsys, "params", "base_uncased", "--format", form).out
    lines = LINE.findall(out) if form == "text" else read_table(out, form)
    assert [
        (name, tuple(map(int, re.findall(r"\d+", str(shape)))), int(str(numel).replace(",", "")))
        for name, shape, numel in lines
        if numel
    ] == expected


@pytest.mark.parametrize("sizes", ["odd", "one block"])
def test_names_shapes_and_order_equal_transformers(peers, sizes):
    ours = named_parameters(BertConfig(**peers["sizes"][sizes]))
    assert [[one.parameter, list(one.shape)] for one in ours] == peers["counts"][sizes]["names"]
    assert [one.numel for one in ours] == [math.prod(one.shape) for one in ours]
