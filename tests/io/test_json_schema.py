"""JSON is parsed strictly; an error is one line that names the file and the key."""

import json
import math

import h5py
import numpy as np
import pytest
from helpers.errors import raises
from helpers.json_mutations import VALUES, Document, documents_of_folder, mutations, try_mutations
from helpers.run_shards import make_shards

import kbert
from kbert.checkpoints import hdf5
from kbert.checkpoints.transformers import tf_weights
from kbert.data.corpus.shards import open_shards
from kbert.io import json_schema as js
from kbert.io.bounds import damage_in_one_line
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training.backends import hosts
from kbert.training.run.records import read_records
from kbert.training.run.run_folder import RunFolder

KIND = js.fields(
    {"size": js.whole(1)},
    {
        "rate": js.number(0, 1),
        "names": js.or_null(js.list_of(js.TEXT)),
        "token": js.either(js.TEXT, js.fields({"content": js.TEXT}, closed=True)),
        "ids": js.mapping_of(js.whole(), "ids by token", keys="[a-z]+"),
        "kind": js.one_of("mean", "cls", True),
    },
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", ("object", "list")),
        ("{}", ("size", "at least 1", "nothing")),
        ('{"size": true}', ("size", "at least 1", "True")),
        ('{"size": 1.0}', ("size", "1.0")),
        ('{"size": 2147483648}', ("size", "2147483648")),
        ('{"size": 1, "rate": 2}', ("rate", "0 to 1", "got 2")),
        ('{"size": 1, "rate": false}', ("rate", "0 to 1", "False")),
        ('{"size": 1, "names": ["a", 3]}', ("names[1]", "text", "3")),
        ('{"size": 1, "token": {"content": null}}', ("token.content", "text", "None")),
        ('{"size": 1, "token": {"content": "a", "b": 1}}', ("token", "text", "object")),
        ('{"size": 1, "ids": {"a": -1}}', ("ids.a", "at least 0", "-1")),
        ('{"size": 1, "ids": {"A": 1}}', ("ids", "ids by token", "{'A': 1}")),
        ('{"size": 1, "kind": 1}', ("kind", "mean, cls or true", "got 1")),
        ('{"size": 1, "size": 1}', ("'size'", "twice")),
        ('{"size": 1e400}', ("size", "finite", "inf")),
        ('{"size": -Infinity}', ("size", "finite", "-inf")),
        ('{"size": ' + "9" * 65 + "}", ("65 digits",)),
        ('{"size": 1, "x": "\\udc00"}', ("surrogate",)),
        ('{"size": 1, "\\ud800": 1}', ("surrogate",)),
        ('{"size": 1, "x": ' + "[" * 64 + "]" * 64 + "}", ("64 levels",)),
        ("[" * 10**6, ("64 levels",)),
        (b'{"size": "\xff"}', ("UTF-8",)),
        ('{"size": 1', ("JSON", "line 1 column 11")),
    ],
    ids=lambda value: "" if len(value) > 80 else None,
)
def test_invalid_json_gives_one_line_with_file_and_key(text, said):
    with raises(ValueError, "F", *said) as raised:
        js.parse(text, KIND, "F")
    line = str(raised.value)
    assert line.startswith("F") and len(line) < 300 and line.isprintable()


def test_valid_json_is_parsed_as_python_does():
    text = (
        '{"size": 7, "rate": 1, "names": null, "token": {"content": "\\ud83d\\ude00"}, "x": [1e30]}'
    )
    assert js.parse("\ufeff".encode() + text.encode(), KIND, "F") == json.loads(text)
    assert math.isnan(js.parse('{"x": NaN}', js.OBJECT, "F", any_number=True)["x"])


def test_file_larger_than_its_bound_is_refused(tmp_path):
    (tmp_path / "a.json").write_text(f'["{"x" * 100}"]')
    with raises(ValueError, "a.json", "0 MiB"):
        js.read(tmp_path / "a.json", largest=103)
    assert js.read(tmp_path / "a.json", largest=104) == ["x" * 100]


@pytest.mark.parametrize("size", [10**9 + 7, 2**31 - 1])
def test_prime_hidden_size_is_refused(size):
    """The widths are primes: 1 and the width itself are all that divides them."""
    with raises(ValueError, "num_attention_heads", 12, f": 1, {size}"):
        kbert.BertConfig(hidden_size=size, num_attention_heads=12)
    with raises(ValueError, "vocab_size", "2,147,483,647", 2**31):
        kbert.BertConfig(vocab_size=2**31)


def every_mutation(document: Document, look) -> int:
    """The lower of two counts: values that are refused, and values that are taken."""
    counts = try_mutations(mutations([document], seed=1, count=None, most=6), look)
    return min(counts["read"], counts["refused"])


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return make_shards(tmp_path_factory.mktemp("mutated"))


@pytest.mark.full
def test_mutated_shard_index_is_read_or_refused(shards):
    (index,) = (d for d in documents_of_folder(shards) if d.name == "index.json")

    def look():
        found = open_shards(shards)
        assert found.take(np.arange(3)).dtype == np.int32 and found.vocab_size == 31 - 12
        json.dumps(found.fingerprint)

    assert every_mutation(index, look) > 20


def test_shards_are_refused_with_another_vocabulary(shards):
    documents = {document.name: document for document in documents_of_folder(shards)}
    tokenizer = documents["vocabulary/tokenizer.json"]
    ids = json.loads(tokenizer.text)["model"]["vocab"]
    swapped = json.loads(tokenizer.text)
    swapped["model"]["vocab"] |= {"cat": ids["dog"], "dog": ids["cat"]}
    tokenizer.write(json.dumps(swapped))
    with raises(ValueError, "tokenizer.json", "vocabulary"):
        open_shards(shards)
    tokenizer.write(tokenizer.text)
    settings = documents["vocabulary/tokenizer_config.json"]
    settings.write(settings.text.replace('"do_lower_case": true', '"do_lower_case": false'))
    with raises(ValueError, "lowercase=True", "lowercase=False"):
        open_shards(shards)
    settings.write(settings.text)
    assert open_shards(shards).documents == 30


def test_mutated_run_files_are_read_or_refused(tmp_path):
    settings = vars(PretrainingSettings.from_options({"steps": 7})) | {
        "config": kbert.BertConfig().to_dict()
    }
    run = RunFolder.create(tmp_path / "run", settings, {"train": {}}, data_paths={"shards": "s"})
    (run.path / "result.json").write_text('{"steps": 7, "loss": 1.5, "metrics": {"f1": null}}')

    def look():
        found = RunFolder.open(run.path)
        PretrainingSettings.from_run(found)
        assert type(found.settings["batch_size"]) is int and found.result["steps"] >= 0
        assert found.task in ("pretrain", "finetune") and type(found.settings["config"]) is dict

    for document in documents_of_folder(run.path):
        assert every_mutation(document, look) > 3


def test_mutated_metrics_lines_are_ignored(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = ['{"step": 1, "loss": 2.5}\n', '{"step": 2, "loss": null}\n']
    for name, literal in VALUES.items():
        for line in (f'{{"step": {literal}, "loss": 1}}\n', f'{{"step": 3, "loss": {literal}}}\n'):
            path.write_text("".join([*whole, line]))
            found = read_records(path)
            assert [found[0], found[1]["step"]] == [{"step": 1, "loss": 2.5}, 2], name
            assert all(type(one["step"]) is int for one in found)
            assert all(isinstance(one["loss"], (int, float)) for one in found)


def test_mutated_tf_config_is_read_or_refused(monkeypatch):
    text = json.dumps(
        {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
    )
    document = Document("TF_CONFIG", text, lambda text: monkeypatch.setenv("TF_CONFIG", text))
    document.write(text)
    assert hosts.read_tf_config() == json.loads(text)

    def look():
        found = hosts.read_tf_config()
        assert found is None or found["task"]["index"] in (0, 1)

    try_mutations(mutations([document], seed=1, count=None, most=9), look, names=())


@pytest.fixture
def file(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as opened:
        yield tmp_path / "a.h5", opened


def test_hdf5_dtype_attribute_must_match_the_data(file):
    path, opened = file
    for dtype, said in {"int32": "float32", "complex64": "float32", "float16": "bfloat16"}.items():
        dataset = opened.create_dataset(dtype, data=np.arange(5).astype(dtype))
        assert hdf5.list_tensors(path, opened)[dtype].dtype == dtype
        dataset.attrs["dtype"] = said
        with raises(ValueError, dtype, said):
            hdf5.list_tensors(path, opened)
        del opened[dtype]


def test_empty_hdf5_dataset_is_named(file):
    path, opened = file
    opened["bert/kernel:0"] = h5py.Empty("f4")
    with raises(ValueError, "bert/kernel:0"):
        hdf5.list_tensors(path, opened)
    opened.close()
    with raises(ValueError, "bert/kernel:0"):
        tf_weights.tensors_of(path)


def test_h5py_error_is_one_line_that_names_the_file(tmp_path):
    for error in (TypeError, AttributeError, IndexError, KeyError, ValueError, OverflowError):
        with (
            raises(ValueError, "some.h5", "HDF5"),
            damage_in_one_line(tmp_path / "some.h5", "HDF5"),
        ):
            raise error("no NumPy equivalent")
