"""Of several files of weights in a folder the one counts that counts in its own library."""

import json
import shutil

import h5py
import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.damaged_checkpoints import change_json, load_error
from helpers.errors import logged, raises
from helpers.small_berts import small_bert
from safetensors.numpy import load_file, save_file

import kbert

SAFE, SAFE_INDEX = "model.safetensors", "model.safetensors.index.json"
TORCH, TORCH_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# modeling_utils.py of transformers 5.24, _get_resolved_checkpoint_files
ORDER = (SAFE, SAFE_INDEX, TORCH, TORCH_INDEX)
GAMMA = "embeddings.LayerNorm.weight"


@pytest.fixture
def folder(small, tmp_path):
    """An encoder of one block in model.safetensors."""
    path = tmp_path / "bert"
    kbert.save(small_bert(small.replace(num_hidden_layers=1), "encoder"), path)
    return path


def put(folder, name, number) -> None:
    """Write weights, alone or as the one shard of an index, that are told by a number."""
    shard = name.replace(".index.json", "").replace(".", "-00001-of-00001.")
    file = shard if name.endswith(".json") else name
    tensors = load_file(folder.parent / "first" / SAFE)
    tensors[GAMMA] = np.full_like(tensors[GAMMA], number)
    if file.endswith(".bin"):
        import torch

        torch.save(
            {key: torch.from_numpy(one.copy()) for key, one in tensors.items()}, folder / file
        )
    else:
        save_file(tensors, folder / file)
    if file != name:
        values = {"metadata": {}, "weight_map": dict.fromkeys(tensors, file)}
        (folder / name).write_text(json.dumps(values))


def number_of(folder) -> float:
    """Return the number of the file that was read."""
    return float(kbert.load(folder).model.get_layer("Embedding-Norm").get_weights()[0][0])


@pytest.fixture
def several(folder):
    """Every kind of file, each with its place in the order as its number."""
    pytest.importorskip("torch")
    shutil.copytree(folder, folder.parent / "first")
    (folder / SAFE).unlink()
    for place, name in enumerate(ORDER, 1):
        put(folder, name, place)
    return folder


def test_weights_are_read_in_transformers_order(several):
    for place, name in enumerate(ORDER, 1):
        report = kbert.inspect(several)
        assert number_of(several) == place and report.files[0] == name
        assert set(ORDER[place:]) <= set(report.other_files)
        (several / name).unlink()


@pytest.mark.full
def test_transformers_reads_the_same_file(several):
    transformers = pytest.importorskip("transformers")
    for place, name in enumerate(ORDER, 1):
        model = transformers.AutoModel.from_pretrained(several)
        assert float(model.embeddings.LayerNorm.weight.detach()[0]) == place
        (several / name).unlink()


def test_inspect_names_the_files(several, capsys):
    (several / "training_args.bin").write_bytes(b"no weights")
    done = run(capsys, "inspect", several)
    read, others = (
        line for line in done.out.splitlines() if line[2:].startswith(("weig", "not r"))
    )
    assert read.split() == ["weights", SAFE]
    assert "pytorch_model" in others and "training_args" not in others


def test_a_tensor_in_two_shards_is_one_line(several):
    (several / SAFE).unlink()
    tensors = load_file(several / "model-00001-of-00001.safetensors")
    save_file({GAMMA: tensors[GAMMA] + 1}, several / "model-00002-of-00002.safetensors")
    index = json.loads((several / SAFE_INDEX).read_text())
    index["weight_map"]["odd"] = "model-00002-of-00002.safetensors"
    (several / SAFE_INDEX).write_text(json.dumps(index))
    assert GAMMA in load_error(several, "shard")


@pytest.mark.parametrize("name", [SAFE_INDEX, TORCH_INDEX])
def test_an_index_that_names_no_file_is_one_line(folder, name):
    (folder / SAFE).unlink()
    (folder / name).write_text('{"weight_map": {}}')
    for read in (kbert.inspect, kbert.load):
        with raises(ValueError, name) as raised:
            read(folder)
        assert "\n" not in str(raised.value)


def test_an_adapter_beside_the_weights_is_named(folder):
    (folder / "adapter_config.json").write_text("{}")
    with logged("adapter_config.json", "adapter="):
        kbert.load(folder)
    assert any("adapter_config.json" in note for note in kbert.inspect(folder).notes)


@pytest.mark.parametrize("level", ["bert", "bert_1"])
def test_scopes_of_a_sessions_second_model(folder, tmp_path, level):
    """tf_model.h5 of a model that TensorFlow numbered, because it was the second of its class."""
    tensors = load_file(folder / SAFE)
    (folder / SAFE).unlink()
    with h5py.File(folder / "tf_model.h5", "w") as file:
        for name, array in tensors.items():
            path = (
                name.replace("layer.", "layer_._").replace(".", "/").replace("layer_/_", "layer_._")
            )
            path = path.replace("LayerNorm/weight", "LayerNorm/gamma")
            path = path.replace("LayerNorm/bias", "LayerNorm/beta")
            is_kernel = path.endswith("weight") and "_embeddings" not in path
            path = path.replace("/weight", "/kernel") if is_kernel else path
            file[f"{level}/tf_bert_model/{level}/{path}:0"] = array.T if is_kernel else array
        file["optimizer_weights/Adam/m:0"] = np.zeros(3)
    loaded = kbert.load(folder)
    assert loaded.report.initialized == ()
    found = loaded.model.get_layer("Embedding-Norm").get_weights()[0]
    assert np.array_equal(found, tensors[GAMMA])


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["model.onnx", "onnx/model_quantized.onnx", "openvino/openvino_model.xml", "m.gguf"]
)
def test_a_folder_for_inference_alone_is_named(folder, name):
    (folder / SAFE).unlink()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"a model")
    text = load_error(folder, "inference")
    assert name in text


def test_unexpected_tensors_are_left_out_by_a_pattern(folder, tmp_path, capsys):
    tensors = load_file(folder / SAFE)
    odd = {f"extra.{name}.weight": np.ones(3, "f4") for name in "ab"}
    save_file(tensors | odd, folder / SAFE)
    done = run(capsys, "convert", folder, tmp_path / "out")
    assert done.status == 2 and done.err.count("\n") == 1 and "--ignore" in done.err
    assert run(capsys, "inspect", folder).status == 1
    assert run(capsys, "inspect", folder, "--ignore", "extra.*").status == 0
    done = run(capsys, "convert", folder, tmp_path / "out", "--ignore", "extra.*")
    assert done.status == 0, done.err
    assert set(load_file(tmp_path / "out" / SAFE)) == set(tensors)
    assert set(kbert.load(folder, ignore=["extra.*"]).report.ignored) == set(odd)
    done = run(capsys, "convert", folder, tmp_path / "new", "--ignore", "no.*")
    assert done.status == 2 and "no.*" in done.err


def test_a_sparse_encoder_is_named(folder):
    """The folder that sentence_transformers.SparseEncoder 6.2 saves of a SPLADE model."""
    kind = "sentence_transformers.sparse_encoder.modules"
    modules = [("", "mlm_transformer.MLMTransformer"), ("1", "splade_pooling.SpladePooling")]
    listed = [{"path": path, "type": f"{kind}.{name}"} for path, name in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    for settings in ({"model_type": "SparseEncoder"}, {}):
        (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
        problem = kbert.inspect(folder).sentence_problem
        assert "SPLADE" in problem and "sentence_transformers.SparseEncoder" in problem
    change_json(folder / "config_sentence_transformers.json", model_type="MultiVectorEncoder")
    assert "ColBERT" in kbert.inspect(folder).sentence_problem
