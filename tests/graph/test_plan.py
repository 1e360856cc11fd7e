"""`kbert plan` agrees with the TPU compiler, the datasheets and independent sums."""

import json

import pytest
from helpers.command_line import kbert as run
from helpers.errors import raises
from helpers.sizes import SIZES

import kbert
from kbert.graph.accelerators import accelerators, gpu, tpu
from kbert.planning.plan import plan

# libtpu 0.0.42's compiler of base, mixed_bfloat16, on v5e:2x2, of a chip: weights, moments and
# batch; gradients and activations; FLOPs
COMPILED = {
    (128, 64, 20): (1256 * 2**20, 2529 * 2**20, 4.511e12),
    (512, 16, 76): (1256 * 2**20, 3413 * 2**20, 4.873e12),
}


@pytest.mark.parametrize("sizes", COMPILED)
def test_plan_is_near_the_tpu_compilers_counts(sizes):
    length, each, predictions = sizes
    arguments, temporary, flops = COMPILED[sizes]
    options = {"seq_len": length, "batch_size": 4 * each, "max_predictions": predictions}
    found = plan("base", tpu="v5e:2x2", **options)
    held = found.memory.weights + found.memory.moments
    assert held == pytest.approx(arguments, rel=0.01)
    assert found.flops / 4 == pytest.approx(flops, rel=0.05)
    assert found.memory.total == pytest.approx(arguments + temporary, rel=0.15)


@pytest.mark.parametrize(("precision", "width"), [("mixed_bfloat16", 2), ("float32", 4)])
def test_attention_keeps_one_tensor_of_scores_size_on_tpus_and_none_on_gpus(precision, width):
    """Where Korthikanti et al. 2022, equation 1, have three: 5·A·S/H of a block is 2·A·S/H or 0.

    On GPUs the masks of the other two dropouts, 2 bytes of their 34, are not kept either.
    """
    options = {"batch_size": 14, "seq_len": 511, "precision": precision}
    scores, tokens = 12 * 511**2 * 14, 768 * 511 * 14
    unkept = {"gpu": scores * (2 * width + 1) + 2 * tokens, "tpu": scores * (width + 1)}
    dtype = "float32" if width == 4 else "mixed_bfloat16"
    one = kbert.account("base", 511, 14, max_predictions=76, dtype=dtype)
    block = one.groups["encoder"].activation_bytes // 12
    inputs = 12 * tokens * width
    for kind, name in {"gpu": "A100", "tpu": "v5e:1x1"}.items():
        found = plan("base", **{kind: name}, **options).memory.activations
        assert found == one.activation_bytes - 12 * unkept[kind]
        again = plan("base", **{kind: name}, **options, gradient_checkpointing=True)
        kept = one.activation_bytes - 12 * block + inputs + block - unkept[kind]
        assert again.memory.activations == kept


def test_memory_on_a_b200_is_within_5_percent_of_the_compilers():
    """The compiler's 5,015 MiB are of base, 64 × 128, in mixed_bfloat16."""
    found = plan("base", gpu="B200", batch_size=64).memory.total
    assert found == pytest.approx(5015 * 2**20, rel=0.05)


def test_flops_equal_kaplans_formula_with_attention_and_head():
    """Kaplan et al. 2020, section 2.1, with the attention's own products and the MLM head."""
    hidden, layers, length, batch, predictions = 1024, 24, 512, 24, 76
    blocks = layers * 12 * hidden**2
    attention = 3 * layers * 4 * length**2 * hidden * batch
    head = 6 * batch * predictions * (hidden**2 + hidden * kbert.large.vocab_size)
    expected = 6 * blocks * batch * length + attention + head
    found = plan("large", gpu="H100:3", batch_size=batch, seq_len=length)
    assert found.flops == pytest.approx(expected, rel=1e-3)
    assert found.seconds == pytest.approx(expected / (0.4 * 3 * 989e12), rel=1e-3)
    assert found.chip_hours == pytest.approx(found.seconds * 3 * 1e6 / 3600)
    double = plan(
        "large", gpu="H100:3", batch_size=batch, seq_len=length, utilization=0.2, steps=500
    )
    assert double.hours == pytest.approx(2 * found.hours / 2000)


def test_peak_of_tpus_equals_the_datasheets():
    """4 × 128 × 128 multiply-adds a cycle at 1.5 GHz; 8 MXUs of v5p at 1.75 GHz."""
    assert accelerators()["v5e"].peak_flops == pytest.approx(4 * 128**2 * 2 * 1.5e9, rel=2e-3)
    assert accelerators()["v5p"].peak_flops == pytest.approx(8 * 128**2 * 2 * 1.75e9, rel=2e-3)
    assert tpu("v5p:4x4x8").chips == 128 and gpu("H100:8").chips == 8 and gpu("L4").chips == 1
    for one in accelerators().values():
        assert one.source and (one.kind == "TPU") == bool(one.slices)


# Streaming multiprocessors, their highest clock in GHz, and multiply-adds of one in a cycle by the
# architectures' whitepapers: dense, of 16 bits, summed in float32 (a GeForce's are half of a data
# centre's of the same architecture); bits of the memory's bus and Gbit/s of a pin.
CHIPS = {
    "B200": (148, 1.855, 4096, 8192, 8.0),
    "H100": (132, 1.83, 2048, 5120, 5.23),
    "A100": (108, 1.41, 1024, 5120, 3.19),
    "A100-40GB": (108, 1.41, 1024, 5120, 2.43),
    "L40S": (142, 2.52, 512, 384, 18),
    "A10": (72, 1.695, 512, 384, 12.5),
    "L4": (58, 2.04, 512, 192, 12.5),
    "V100": (80, 1.53, 512, 4096, 1.752),
    "T4": (40, 1.59, 512, 256, 10),
    "RTX-5090": (170, 2.407, 256, 512, 28),
    "RTX-4090": (128, 2.52, 256, 384, 21),
    "RTX-3090": (82, 1.695, 256, 384, 19.5),
}


@pytest.mark.parametrize("name", CHIPS)
def test_peak_and_bandwidth_of_gpus_equal_units_times_clock(name):
    """Without sparsity and without sums in float16, each of which is twice as much."""
    units, clock, each, bits, rate = CHIPS[name]
    one = accelerators()[name]
    assert one.peak_flops == pytest.approx(2 * units * clock * 1e9 * each, rel=0.02)
    assert one.bandwidth == pytest.approx(bits / 8 * rate * 1e9, rel=0.03)
    assert len(one.source) <= 76


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("RTX 4090", "RTX-4090"),
        ("rtx4090:2", "RTX-4090"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
        ("5090", "RTX-5090"),
        ("a100-80gb", "A100"),
        ("A100 40GB:8", "A100-40GB"),
        ("Tesla V100-32GB", "V100-32GB"),
        ("V100-16GB", "V100"),
    ],
)
def test_gpu_names_in_common_spellings_are_understood(name, row):
    assert gpu(name).accelerator == accelerators()[row]


@pytest.mark.parametrize("peak", [97.5e12, "97.5e12", "97.5T", "97.5 TFLOP/s", "97.5TFLOPS"])
def test_gpu_given_by_peak_and_memory(peak):
    found = plan("base", gpu="RTX 4080:2", peak_flops=peak, memory="16GiB", batch_size=64)
    assert found.seconds == pytest.approx(found.flops / (0.4 * 2 * 97.5e12))
    assert found.memory.capacity == int(0.95 * 16 * 2**30)
    same = plan("base", peak_flops=peak, memory=17_179_869_184, precision="float32", batch_size=64)
    assert same.seconds == pytest.approx(2 * found.seconds)  # the peak is of that precision
    known = plan("base", gpu="L4", peak_flops=peak, batch_size=64)
    assert known.memory == plan("base", gpu="L4", batch_size=64).memory
    assert known.seconds == pytest.approx(2 * found.seconds)


@pytest.mark.parametrize("accumulation_steps", [1, 3])
@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_largest_batch_is_the_last_that_fits(accumulation_steps, gradient_checkpointing):
    options = {
        "seq_len": 512,
        "accumulation_steps": accumulation_steps,
        "gradient_checkpointing": gradient_checkpointing,
    }
    step = 4 * accumulation_steps
    largest = plan("base", tpu="v5e:2x2", batch_size=step, **options).largest_batch
    assert largest % step == 0
    assert plan("base", tpu="v5e:2x2", batch_size=largest, **options).memory.fits
    assert not plan("base", tpu="v5e:2x2", batch_size=largest + step, **options).memory.fits


def test_checkpointing_and_accumulation_save_memory():
    plain = plan("base", gpu="A100", batch_size=64)
    again = plan("base", gpu="A100", batch_size=64, gradient_checkpointing=True)
    parts = plan("base", gpu="A100", batch_size=64, accumulation_steps=4)
    assert again.memory.activations < plain.memory.activations / 4
    assert parts.memory.activations == plain.memory.activations / 4
    assert parts.memory.gradients == 2 * plain.memory.gradients
    assert plain.flops == again.flops == parts.flops and plain.recomputed_flops == 0
    encoder = kbert.account("base", 128, 64, max_predictions=19).groups["encoder"].flops
    assert again.recomputed_flops == encoder
    assert again.seconds / plain.seconds == pytest.approx(1 + encoder / plain.flops)


def test_checkpointing_keeps_block_inputs_and_one_block():
    """Chen et al. 2016, section 4.1, of 3 blocks, by hand from the rows of the accounting."""
    config = kbert.BertConfig(**SIZES)
    options = {"batch_size": 13, "seq_len": 7, "max_predictions": 3, "precision": "float32"}
    found = plan(config, gpu="L4", gradient_checkpointing=True, **options)
    rows = kbert.account(config, 7, 13, max_predictions=3).rows
    others = sum(row.activation_bytes for row in rows if not row.layer.startswith("Encoder-"))
    block = sum(row.activation_bytes for row in rows if row.layer.startswith("Encoder-1-"))
    inputs = 3 * 13 * 7 * SIZES["hidden_size"] * 4
    heads, hidden = SIZES["num_attention_heads"], SIZES["hidden_size"]
    unkept = heads * 7 * 7 * (4 + 1 + 4) + 2 * 7 * hidden  # probabilities, masks of dropout
    assert found.memory.activations == others + block + inputs - 13 * unkept
    assert found.seconds is None and found.chip_hours is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tpu": "v5e:4x5"}, ("tpu", "'v5e:4x5'", "v5e:4x8")),
        ({"tpu": "v5"}, ("tpu", "'v5'", "v5p")),
        ({"gpu": "H10"}, ("gpu", "'H10'", "H100")),
        ({"gpu": "H100:0"}, ("gpu", "H100:8", "'H100:0'")),
        (
            {"gpu": "H100:8", "batch_size": 13},
            ("batch_size", "multiple of 8", 13, 16),
        ),
        (
            {"gpu": "H100", "batch_size": 7, "accumulation_steps": 2},
            ("batch_size", "multiple of 2", 8),
        ),
        ({"gpu": "T4"}, ("precision", "mixed_float16", "float32", "T4", "mixed_bfloat16")),
        ({"gpu": "L4", "precision": "int8"}, ("precision", "float32", "'int8'")),
        ({"gpu": "L4", "utilization": 0}, ("utilization", "above 0", "at most 1", "got 0")),
        ({"gpu": "L4", "seq_len": 513}, ("seq_len", 512, 513)),
        ({"gpu": "L4", "steps": -1}, ("steps", -1)),
        (
            {"gpu": "MI300X"},
            ("gpu", "B200", "--peak-flops", "--memory"),
        ),
        ({"gpu": "L4", "peak_flops": 121}, ("peak_flops", "165e12", "165T", 121)),
        ({"gpu": "L4", "peak_flops": "-1T"}, ("peak_flops", "FLOP/s", "-1T")),
        ({"gpu": "L4", "peak_flops": True}, ("peak_flops", "FLOP/s", True)),
        ({"gpu": "L4", "memory": 24}, ("memory", "bytes", "24GiB", "got 24")),
        ({"gpu": "L4", "memory": "24TFLOPS"}, ("memory", "bytes", "24TFLOPS")),
        ({}, ("tpu", "gpu")),
        ({"memory": "24GiB"}, ("tpu", "gpu")),
        ({"gpu": "L4", "tpu": "v5e:2x2"}, ("tpu", "gpu", "one of")),
    ],
)
def test_bad_argument_gives_one_line(options, said):
    with raises(ValueError, *said) as error:
        plan("base", **options)
    assert "\n" not in str(error.value)


def test_plan_command_prints_memory_time_and_json(capsys):
    line = ["base", "--tpu", "v5e:4x4", "--batch-size", "4096"]
    done = run(capsys, "plan", *line)
    assert (done.status, done.err) == (0, "")
    assert "peak  " in done.out and "fits" in done.out and "chip-hours" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    found = json.loads(run(capsys, "plan", *line, "--format", "json").out)
    expected = plan("base", tpu="v5e:4x4", batch_size=4096)
    assert found["memory"]["total"] == expected.memory.total and found["memory"]["fits"]
    assert found["seconds"] == expected.seconds and found["devices"]["chips"] == 16
    small = run(
        capsys, "plan", "large", "--gpu", "L4", "--batch-size", 4096, "--precision", "float32"
    )
    assert "DOES NOT FIT" in small.out and "no peak for float32" in small.out
    own = run(capsys, "plan", "base", "--peak-flops", "9T", "--memory", "7GiB", "--batch-size", "3")
    assert own.status == 0 and "7 GiB and 9 TFLOP/s\n(peak and memory as given)" in own.out
    alone = run(capsys, "plan", "base", "--peak-flops", "9T")
    assert alone.status == 2 and "--peak-flops and --memory go together" in alone.err
    none = run(capsys, "plan", "large", "--gpu", "T4", "--precision", "float32", "--seq-len", 512)
    assert "DOES NOT FIT" in none.out


def test_plan_command_without_chips_lists_all(capsys):
    done = run(capsys, "plan", "base")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    names = [line.split()[0] for line in lines if line and line.split()[0] in accelerators()]
    assert names == list(accelerators())
    row = next(line for line in lines if line.startswith("v5e")).split()
    assert int(row[5]) == plan("base", tpu="v5e:1x1").largest_batch
    wrong = run(capsys, "plan", "base", "--format", "json")
    assert wrong.status == 2 and wrong.err.count("\n") == 1 and "--tpu or --gpu" in wrong.err


FREEZE = {"freeze": "embeddings,1-8"}
LORA = {"lora_rank": 8, "lora_targets": "query,value", "freeze": "embeddings,1-8"}


@pytest.mark.parametrize("parts", [FREEZE, LORA], ids=["freeze", "lora"])
def test_plan_of_partial_training_equals_account(parts):
    """An update of 3 GPUs and 2 micro-batches; `account` is measured against the engines."""
    options = {"seq_len": 64, "precision": "float32", "max_predictions": 9}
    found = plan(
        "base_uncased", gpu="A100:3", batch_size=30, accumulation_steps=2, **options, **parts
    )
    one = kbert.account("base_uncased", 64, 5, max_predictions=9, **parts)
    assert found.trainable_params == one.trainable_params
    assert found.flops == 6 * one.training_flops
    memory = found.memory
    assert memory.weights == one.memory.weights
    unkept = 12 * 64 * 64 * (4 + 1 + 4) + 2 * 64 * 768  # probabilities, masks of dropout
    assert memory.activations == one.memory.activations - 4 * 5 * unkept
    assert (memory.moments, memory.gradients) == (one.memory.adam, 2 * one.memory.gradients)
    whole = plan("base_uncased", gpu="A100:3", batch_size=30, accumulation_steps=2, **options)
    assert found.largest_batch > whole.largest_batch
    again = plan(
        "base_uncased", gpu="A100:3", batch_size=30, gradient_checkpointing=True, **options, **parts
    )
    assert (
        again.recomputed_flops
        == 4 * 30 * kbert.account("base_uncased", 64).groups["encoder"].flops // 12
    )
    inputs, block = 4 * 64 * 768 * 4, one.groups["encoder"].activation_bytes // 12
    kept = one.memory.activations - 4 * block
    assert again.memory.activations == 2 * (kept + block - 5 * unkept) + 10 * inputs


def test_plan_counts_the_averages_of_trained_weights(capsys):
    """A float32 number for each trained parameter; a run's states have as many."""
    options = {"gpu": "L4", "batch_size": 8, "lora_rank": 8}
    with_averages, without = plan("base", ema=0.99, **options), plan("base", **options)
    assert with_averages.memory.averages == 4 * without.trainable_params
    assert with_averages.memory.fixed == without.memory.fixed + 4 * without.trainable_params
    assert with_averages.memory.total == without.memory.total + 4 * without.trainable_params
    done = run(capsys, "plan", "base", "--gpu", "L4", "--ema", "0.99")
    assert done.status == 0 and "averages" in done.out
    assert "averages" not in run(capsys, "plan", "base", "--gpu", "L4").out
    for words in (["--ema", "1"], ["--ema", "0.9", "--compile"]):
        done = run(capsys, "plan", "base", "--gpu", "L4", *words)
        assert done.status == 2 and "ema" in done.err and done.err.count("\n") == 1


def test_plan_command_with_lora_and_freeze(capsys):
    words = ["plan", "base", "--gpu", "L4", "--lora-rank", "8", "--format", "json"]
    done = run(capsys, *words)
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["lora_rank"] == 8 and found["trainable_params"] < 2e7
    assert run(capsys, *words[:4], "--lora-targets", "key").status == 2
    done = run(capsys, "plan", "base", "--tpu", "v5e:1x1", "--freeze", "1", "--compile")
    assert done.status == 2 and "--compile goes with the whole model" in done.err
