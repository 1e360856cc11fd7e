"""A step is compiled for TPUs and GPUs: the compiler's text is parsed, its results are checked."""

import importlib.util
import json
import math

import pytest
from helpers.command_line import kbert as run
from helpers.errors import check_named, raises
from helpers.sizes import FILES, SIZES

import kbert
from kbert.graph import accelerators
from kbert.heads import HEADS
from kbert.io import extras
from kbert.planning import compiler, gpu_text, hlo_text
from kbert.planning.hlo_text import SCOPES

LIBTPU = importlib.util.find_spec("libtpu")
needs_compiler = pytest.mark.skipif(LIBTPU is None, reason='pip install ".[tpu]"')

# In the words of libtpu 0.0.42, by hand: a product fused in a loop of 4 turns, one all-reduce of a
# tuple, one of each kind of shape.
TEXT = (FILES / "update.hlo").read_text(encoding="utf-8")
PARTS = {"attention": "attention", "optimizer": "optimizer"}


def test_cycles_are_summed_by_part_and_loop_turn():
    found = hlo_text.cycles(TEXT, PARTS)
    assert found == {
        "attention": (4 * 100, 0),
        "optimizer": (0, 7),
        "collectives": (0, 50),
        "other": (0, 3),
    }


def test_each_layer_is_in_a_part_of_the_report():
    for head in HEADS:
        rows = kbert.account("tiny", head=head, selected_positions=head == "classifier").rows
        for row in rows:
            scope = f"jit(update)/transpose(jvp({row.layer}))/mul"
            is_input = row.layer.startswith("Input-")
            assert is_input or any(name in scope for name in SCOPES), row.layer


def test_loop_turns_are_read_from_the_condition():
    said = ', backend_config={"known_trip_count":{"n":"4"}}'
    compared = "  ROOT %compare = "
    assert said in TEXT and compared in TEXT
    text = TEXT.replace(said, "").replace(
        compared, f"  %d = s32[]{{:T(128)}} constant(4)\n{compared}"
    )
    assert hlo_text.cycles(text, PARTS) == hlo_text.cycles(TEXT, PARTS)


def test_collectives_count_the_bytes_of_their_results():
    assert hlo_text.collectives(TEXT) == {"all-reduce": (1, 13 * 5 * 4 + 7 * 5 * 2 + 11)}


def test_host_calls_and_dynamic_shapes_are_found():
    assert hlo_text.host_calls(TEXT) == hlo_text.dynamic_shapes(TEXT) == []
    line = "  %copy.1 = f32[13,5]{1,0:T(8,128)} copy(%x.1)"
    asking = TEXT.replace(line, "  %outfeed.1 = token[] outfeed(%x.1, %token.1)")
    assert asking != TEXT and hlo_text.host_calls(asking) == ["outfeed"]
    growing = TEXT.replace("copy(%x.1)", "copy(%x.2), shape=s32[<=7]")
    assert hlo_text.dynamic_shapes(growing) == ["s32[<=7]"]


ONE_BLOCK = SIZES | {"num_hidden_layers": 1}
REQUEST = {
    "config": ONE_BLOCK,
    "head": "pretraining",
    "seq_len": 7,
    "max_predictions": 3,
    "batch_size": 48,
    "precision": "mixed_bfloat16",
}
OPTIONS = {
    "v5e:2x2": {},
    "v5e:4x4": {},
    "v4:2x2x1": {},
    "accumulation_steps": {"accumulation_steps": 3},
    "gradient_checkpointing": {"gradient_checkpointing": True},
    "both, float32": {
        "accumulation_steps": 3,
        "gradient_checkpointing": True,
        "precision": "float32",
    },
    "every position": {"max_predictions": None},
    "classifier": {"head": "classifier", "max_predictions": None},
    "tagger": {"head": "tokens", "max_predictions": None, "precision": "float32"},
    "answers": {"head": "qa", "max_predictions": None},
    "evaluation": {"what": "evaluation"},
    "LAMB": {"optimizer": "lamb"},
    "all, float32": {
        "name": "v4:2x2x1",
        "accumulation_steps": 3,
        "gradient_checkpointing": True,
        "precision": "float32",
        "optimizer": "lamb",
    },
}
# Each takes the compiler half a minute: the rest are options of this one, with `pytest -m nightly`.
IN_THE_GATE = "all, float32"


@needs_compiler
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name == IN_THE_GATE else pytest.mark.nightly)
        for name in OPTIONS
    ],
)
def test_update_compiles_for_tpu_with_each_option(name):
    """No host is asked while it runs, nothing has a size that is not known."""
    slice_name = name if ":" in name else "v5e:2x2"
    found = compiler.compiled({"kind": "TPU", "name": slice_name, **REQUEST, **OPTIONS[name]})
    assert found["host_calls"] == found["dynamic_shapes"] == []
    assert set(found["collectives"]) == {"all-reduce"}
    assert found["estimate"]["attention"][0] > 0
    if name != "evaluation":  # each gradient once, and the sums that metrics are made of
        head = OPTIONS[name].get("head", "pretraining")
        gradients = kbert.account(kbert.BertConfig(**ONE_BLOCK), 7, head=head).params
        outputs = 2 if head in ("pretraining", "qa") else 1
        sums = 3 * (outputs + 1)  # of each output, and the stop flags
        assert found["collectives"]["all-reduce"][1] == 4 * (gradients + sums)


@pytest.mark.nightly
@needs_compiler
def test_too_small_tpu_says_what_would_fit(small):
    plan = kbert.plan(
        small, tpu="v5e:1x1", batch_size=2**21, seq_len=11, max_predictions=3, precision="float32"
    )
    with raises(ValueError, "v5e:1x1", "--acc") as error:
        kbert.compile_plan(plan)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "said",
    [
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.13G of 15.75G hbm. "
        "Exceeded hbm capacity by 4.38G.",
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (20.13G) exceeds available HBM (15.75G).",
    ],
)
def test_refusal_of_the_compiler_is_one_line(said, compiled, capsys):
    """Both are libtpu 0.0.42's words. The way out fits, by the accounting."""
    compiled[0](refused=said)
    line = ("plan", "base", "--tpu", "v5e:2x2", "--seq-len", 512, "--batch-size", 512)
    done = run(capsys, *line, "--compile", "--format", "json")
    assert (done.status, done.err.count("\n")) == (2, 1)
    check_named(done.err, "20.13GB", "15.75GB", "v5e:2x2", "512 × 512")
    options = done.err.partition("with ")[2].partition(" it would")[0].split()
    assert "fits" in run(capsys, *line, *options).out
    assert "DOES NOT FIT" in run(capsys, *line).out


def test_missing_compiler_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = run(capsys, "plan", "tiny", "--tpu", "v5e:2x2", "--compile", "--format", "json")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert 'pip install ".[tpu]"' in done.err


def test_compile_option_needs_a_device_that_is_known(monkeypatch, capsys):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    for name, words in {
        "L40S": ("'L40S'", "did you mean L4"),
        "H100:16": ("at most 8", "'H100:16'"),
        "H1000": ("'H1000'", "did you mean"),
    }.items():
        done = run(capsys, "plan", "tiny", "--gpu", name, "--compile", "--format", "json")
        assert (done.status, done.err.count("\n")) == (2, 1)
        assert all(word in done.err for word in words), done.err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = run(capsys, "plan", "tiny", "--gpu", "L4", "--compile", "--format", "json")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert 'pip install ".[jax-cuda]"' in done.err
    done = run(capsys, "plan", "tiny", "--compile")
    assert done.status == 2 and "--compile" in done.err and "--tpu" in done.err


@pytest.fixture
def compiled(monkeypatch):
    """Has the compiler give a made-up answer, 2 ms and 1 MiB beside 2 MiB of arguments.

    Returns a function that changes the answer, and the list of what the compiler is asked.
    """
    asked = []
    answer = {
        "seconds": 1.5,
        "arguments": 2 * 2**20,
        "temporary": 2**20,
        "outputs": 0,
        "flops": 1e9,
        "estimate": {"attention": [0.0015, 0.0003], "other": [0, 0.0002]},
        "kernels": {},
        "collectives": {"all-reduce": [2, 2**20]},
        "host_calls": [],
        "dynamic_shapes": [],
    }
    monkeypatch.setattr(compiler, "compiled", lambda *request: asked.append(request) or answer)
    return answer.update, asked


def test_step_of_tensorflow_is_compiled_for_one_gpu(compiled, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    line = ("plan", "tiny", "--batch-size", "64", "--compile")
    assert "the step of TensorFlow" in run(capsys, *line, "--gpu", "H100").out
    assert "the step of JAX" in run(capsys, *line, "--tpu", "v5e:2x2").out
    several = run(capsys, *line, "--gpu", "H100:2")
    assert (several.status, several.err.count("\n")) == (2, 1)
    assert "gpu" in several.err and "TensorFlow" in several.err
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert "the step of JAX" in run(capsys, *line, "--gpu", "H100:2").out
    assert [request[-1] for request in compiled[1]] == ["tensorflow", "jax", "jax"]


def test_plan_compile_prints_utilization(compiled, capsys):
    """Utilization: the accounting's FLOPs of a chip in 2 ms, over 197e12."""
    line = ("plan", "tiny", "--tpu", "v5e:2x2", "--batch-size", "64", "--compile")
    found = json.loads(run(capsys, *line, "--format", "json").out)
    counted = kbert.account("tiny", 128, max_predictions=19, selected_positions=True)
    flops = counted.training_flops_per_sequence * 16
    expected = flops / 2e-3 / 197e12
    assert math.isclose(found["compiled"]["utilization"], expected, rel_tol=1e-9)
    assert found["compiled"]["memory"] == 3 * 2**20 and found["devices"]["chips"] == 4
    assert compiled[1][0][0].items() >= {"batch_size": 64, "name": "v5e:2x2"}.items()
    done = run(capsys, *line)
    assert done.status == 0 and max(map(len, done.out.splitlines())) <= 80
    assert "2 ms a step" in done.out and "Not measured." in done.out and " turn" not in done.out
    four = run(capsys, *line, "--accumulation-steps", "4").out
    assert "GFLOP of one of 4 turns" in four and "core" not in four
    of_v4 = run(capsys, "plan", "tiny", "--tpu", "v4:2x2x1", "--batch-size", "64", "--compile").out
    assert "one of a chip's two cores" in of_v4


def test_gpu_that_cannot_hold_the_program_is_one_line(compiled, capsys):
    kernels = {f"kind {number}": [number, 2**30, 1e-3] for number in range(1, 13)}
    compiled[0](temporary=23 * 2**30, kernels=kernels)
    line = ("plan", "base", "--gpu", "L4", "--batch-size", "64", "--compile")
    done = run(capsys, *line)
    assert (done.status, done.err.count("\n")) == (2, 1)
    check_named(done.err, "23.0GB", "24GB", "--accumulation-steps 2")
    compiled[0](temporary=2**20)
    done = run(capsys, *line)
    assert done.status == 0 and max(map(len, done.out.splitlines())) <= 80
    lines = [text.split() for text in done.out.splitlines()]
    assert ["others", "23", "2.00", "2.00"] in lines and ["all", "78", "12.00", "12.00"] in lines


# In the words of XLA's compiler for an H100 (jax 0.10.2), by hand: cuBLAS's product of (13, 7) and
# (7, 5) with its workspace, attention of packed heads, a fusion in a loop of 4 turns, and one that
# reads two slices of a vector, which an all-reduce sums.
GPU_TEXT = (FILES / "update_gpu.hlo").read_text(encoding="utf-8")


def test_kernels_of_a_gpu_are_counted():
    chip = accelerators.gpu("H100").accelerator
    found = list(gpu_text.kernels(GPU_TEXT, chip, {"FeedForward": "feed_forward"}))
    sliced, product, attention, fusion = found
    assert product[:5] == (
        "__cublas$lt$matmul",
        "feed_forward",
        1,
        2 * (91 + 35 + 65),
        2 * 13 * 7 * 5,
    )
    packed, context, sums = 2 * 3 * 11 * 3 * 2 * 16, 2 * 3 * 11 * 2 * 16, 4 * 3 * 2 * 11
    moved = packed + context + 2 * sums + 3 * 11 + 8
    flops = 2 * (2 * 3 * 2 * 11 * 11 * 16)
    assert attention[:5] == ("attention_kernel", "other", 1, moved, flops)
    assert hlo_text.collectives(GPU_TEXT) == {"all-reduce": (1, 4 * 5)}
    assert sliced[:5] == ("loop_slice_fusion", "other", 1, 4 * 5 * (2 + 1 + 1), 0)
    assert fusion[:5] == ("loop_add_fusion", "other", 4, 2 * 4 * 65, 0)
    for one in found:  # by the launch alone, so small are they
        assert math.isclose(one.seconds, 2.5e-6, rel_tol=1e-2)
    # distances of 8,192 numbers: up to 2,047; 4,095; less; 8,191; 2,048; less
    for count, passes in {2048: 1, 2049: 3, 8192: 6, 8193: 10}.items():
        text = f"(s32[{count}]{{0}}, s32[{count}]{{0}})"
        line = f"  %sort.1 = {text} sort(%x, %kernel), dimensions={{0}}, to_apply=%region"
        kernel = list(
            gpu_text.kernels(GPU_TEXT.replace("  %while.1 =", f"{line}\n  %while.1 ="), chip, {})
        )[3]
        assert kernel[:3] == ("sort", "other", passes) and kernel.moved == 8 * count + 2 * (91 + 35)
    large = GPU_TEXT.replace("[13,7]", "[8192,768]").replace("[7,5]", "[768,3072]")
    large = large.replace("[13,5]", "[8192,3072]")
    _, product, *_ = gpu_text.kernels(large, chip, {})
    assert math.isclose(product.seconds, 2 * 8192 * 768 * 3072 / (0.75 * 989e12) + 2.5e-6)


@pytest.mark.nightly
@pytest.mark.skipif(not extras.is_installed("jax_cuda12_plugin"), reason="jax-cuda")
@pytest.mark.parametrize(
    ("name", "backend", "precision"),
    [
        ("H100", "jax", "mixed_bfloat16"),
        ("L4:2", "jax", "mixed_bfloat16"),
        ("H100", "tensorflow", "mixed_float16"),
    ],
)
def test_update_compiles_for_gpus(name, backend, precision):
    options = {"kind": "GPU", "name": name, "seq_len": 128, "max_predictions": 19}
    sizes = SIZES | {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2}
    options |= {"config": sizes | {"max_position_embeddings": 128}, "precision": precision}
    found = compiler.compiled({**REQUEST, **options}, backend=backend)
    assert found["host_calls"] == found["dynamic_shapes"] == []
    kernels = found["kernels"]
    assert kernels["attention_kernel"][0] == kernels["attention_gradient_kernel"][0] == 2
    assert kernels["sort"][1] < 2**20  # of ids; a scatter that adds would sort their embeddings
    assert bool(found["collectives"]) == (":" in name)


@pytest.mark.full
def test_failing_compiler_is_one_line_error(monkeypatch):
    monkeypatch.setattr("kbert.io.extras.require", lambda *names: None)
    with raises(RuntimeError, "v9:1x1", "Error") as error:
        compiler.compiled({**REQUEST, "kind": "TPU", "name": "v9:1x1"})
    assert "\n" not in str(error.value)
