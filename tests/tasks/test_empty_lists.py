"""An empty list of texts gives no results, with the shape that NumPy gives no rows of an array."""

import json

import numpy as np
import pytest
from helpers.command_line import kbert as run

import kbert

LISTS = {  # the head that each call needs
    "classify": ("classifier", lambda bert: kbert.classify(bert, [])),
    "classify pairs": ("classifier", lambda bert: kbert.classify(bert, [], [])),
    "tag": ("tokens", lambda bert: kbert.tag(bert, [])),
    "answer": ("qa", lambda bert: kbert.answer(bert, [], [])),
    "fill_mask": ("pretraining", lambda bert: kbert.fill_mask(bert, [])),
    "attention": ("encoder", lambda bert: kbert.attention(bert, [])),
    "search no texts": ("encoder", lambda bert: kbert.search(bert, "a cat", [])),
    "search no queries": ("encoder", lambda bert: kbert.search(bert, [], ["a cat"])),
    "rank": ("encoder", lambda bert: kbert.rank(bert, "a cat", [])),
    "rank pairs": ("classifier", lambda bert: kbert.rank(bert, "a cat", [], label="LABEL_0")),
}
ARRAYS = {  # a call for some texts
    "embed": ("encoder", kbert.embed),
    "embed windows": ("encoder", lambda bert, texts: kbert.embed(bert, texts, long="window")),
    "embed two": ("encoder", lambda bert, texts: kbert.embed(bert, texts, pooling=["cls", "max"])),
    "next_sentence": ("pretraining", lambda bert, texts: kbert.next_sentence(bert, texts, texts)),
}


@pytest.mark.full
@pytest.mark.parametrize("name", LISTS)
def test_lists_of_results_are_empty(berts, name):
    head, call = LISTS[name]
    assert call(berts[head]) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_have_no_rows_and_the_same_columns(berts, name):
    head, call = ARRAYS[name]
    some, none = call(berts[head], ["a cat", "the dog"]), call(berts[head], [])
    assert (none.shape, none.dtype) == (some[:0].shape, some.dtype)


def test_similarity_of_no_texts_has_neither_rows_nor_columns(berts):
    assert kbert.similarity(berts["encoder"], []).shape == (0, 0)


@pytest.mark.full
def test_an_empty_file_gives_empty_results_and_a_line(berts, tmp_path, capsys):
    for head in ("encoder", "classifier"):
        kbert.save(berts[head], tmp_path / head)
    texts = tmp_path / "texts.txt"
    texts.touch()
    done = run(capsys, "classify", tmp_path / "classifier", "--lines", texts, "--format", "json")
    assert (done.status, json.loads(done.out)) == (0, [])
    assert done.err.count("\n") == 1 and "is empty" in done.err
    output = tmp_path / "embeddings.npy"
    done = run(capsys, "embed", tmp_path / "encoder", texts, "-o", output)
    assert done.status == 0
    assert np.load(output).shape == (0, berts["encoder"].config.hidden_size)
