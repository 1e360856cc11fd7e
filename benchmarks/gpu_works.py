"""What a process of benchmarks/gpu.py does; heavy packages are imported in its functions alone.

Each function gives another that does a number of units of work, waits for the device, and says the
bytes that it has held there at most. `precision` is a policy of Keras's.
"""

import collections
import functools
import itertools
import os
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu_table import predictions, shapes

FULL = re.compile(r"RESOURCE_EXHAUSTED|ResourceExhausted|out of memory|OutOfMemory|ALLOC_FAILED")


def told(make):
    """Has a library's error, which may be pages, end the process with one line."""

    @functools.wraps(make)
    def made(**options):
        run = _one_line(make, **options)
        return lambda count: _one_line(run, count)

    return made


def _one_line(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except Exception as error:
        print(said(error), file=sys.stderr, flush=True)
        os._exit(1)  # nothing is printed after it, and the device's memory is free at once


def said(error: Exception) -> str:
    """An error as a line of at most 200 characters, behind "out of memory" where it is that."""
    text = f"{type(error).__name__}: {error}"
    full = "out of memory: " if FULL.search(text) else ""
    return full + " ".join(text.split())[: 200 - len(full)]


@told
def probe():
    """Name and kind, "CPU", "GPU" or "TPU", of the first device that Keras's backend sees."""
    from kbert.ops.devices import device_names

    name = device_names()[0]
    kind = name if name == "CPU" else "TPU" if name.startswith("TPU") else "GPU"
    return lambda count: {"name": name, "kind": kind}


@told
def kbert(kind: str, size: str, length: int, batch: int, precision: str):
    return {"update": _kbert_update, "inference": _kbert_forward}[kind](
        size, length, batch, precision
    )


def _kbert_update(size, length, batch, precision):
    (engine, fed), steps = _engine_and_batch(size, length, batch, precision), itertools.count()

    def run(count):
        before = 0.0
        for _ in range(count):
            loss = engine.update(fed, next(steps))["loss"]
            float(before)  # one update is in flight, as in kbert's own loop
            before = loss
        wait(loss)
        return {"device_memory": device_memory()}

    return run


def _engine_and_batch(size, length, batch, precision):
    import numpy as np

    import kbert
    from kbert.data.training_batch import TrainingBatch
    from kbert.graph import names
    from kbert.training import backends
    from kbert.training.determinism import make_deterministic
    from kbert.training.engine import Engine
    from kbert.training.optimization.optimizers import Optimizer

    config, arrays = given(size, length, batch)
    make_deterministic()  # as every run of kbert's
    backend = backends.start(1)
    options = {"max_predictions": predictions(length), "dtype": precision}
    with backend.scope():
        model = kbert.build_bert(config, seq_len=length, **options)
    engine = Engine(backend, model, Optimizer(total_steps=100_000))
    inputs = {names.TOKEN_IDS: arrays["tokens"], names.SEGMENT_IDS: arrays["segments"]}
    inputs[names.MASKED_POSITIONS] = arrays["positions"]
    labels = {names.MLM: arrays["predicted"], names.NSP: arrays["pairs"]}
    weights = {name: np.full(one.shape, 1 / one.size, "float32") for name, one in labels.items()}
    return engine, TrainingBatch(inputs, labels, weights)


@told
def kernels(size: str, length: int, batch: int, precision: str, name: str):
    """kbert's update on JAX, profiled: its kernels, see `beside`; `name` is the datasheet's."""
    import jax

    from kbert.graph import accelerators

    engine, fed = _engine_and_batch(size, length, batch, precision)
    (arrays,), seeds = engine.split(fed), engine.seeds(0)
    lowered = engine.program.update_function.lower(engine.state.values(), [], arrays, seeds)
    text, chip = lowered.compile().as_text(), accelerators.gpu(name).accelerator

    def run(count):
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for step in range(count):
                    loss = engine.update(fed, step)["loss"]
                wait(loss)
            (path,) = Path(folder).rglob("*.xplane.pb")
            return beside(text, chip, jax.profiler.ProfileData.from_file(str(path)), count)

    return run


def beside(text: str, chip, profile, steps: int) -> dict[str, tuple[int, float, float]]:
    """The kernels of a step by kind: their number, estimated and measured seconds.

    Args:
        text: the compiled program.
        chip: the `Accelerator` of the estimate.
        profile: a `jax.profiler.ProfileData` of some steps; what is no kernel of the program, such
            as copies, is "other".
        steps: their number.
    """
    from kbert.planning import gpu_text

    counted = list(gpu_text.kernels(text, chip, {}))
    kinds = {one.name: one.kind for one in counted}
    measured = collections.Counter()
    planes = (plane for plane in profile.planes if plane.name.startswith("/device:GPU"))
    for line in itertools.chain.from_iterable(plane.lines for plane in planes):
        if line.name.startswith("Stream"):  # other lines repeat what is on these
            for event in line.events:
                kind = kinds.get(dict(event.stats).get("hlo_op"), "other")
                measured[kind] += event.duration_ns * 1e-9 / steps
    found = {kind: [0, 0.0, seconds] for kind, seconds in measured.items()}
    for one in counted:
        row = found.setdefault(one.kind, [0, 0.0, 0.0])
        row[0], row[1] = row[0] + one.times, row[1] + one.times * one.seconds
    return {kind: tuple(row) for kind, row in found.items()}


def _kbert_forward(size, length, batch, precision):
    import kbert

    config, arrays = given(size, length, batch)
    model = kbert.build_encoder(config, seq_len=length, dtype=precision)
    return forward(model, [arrays["tokens"], arrays["segments"]])


def given(size: str, length: int, batch: int):
    """Configuration and int32 arrays, as `benchmarks.updates.data` has them."""
    import kbert
    from benchmarks.updates import data

    config = kbert.get_config(size)
    return config, data(config.vocab_size, batch, length, predictions(length))


@told
def keras_hub(kind: str, size: str, length: int, batch: int, precision: str):
    """KerasHub's BertMaskedLM under Keras's `fit`, or its BertBackbone's forward pass."""
    import keras
    import keras_hub as peer

    config, arrays = given(size, length, batch)
    keras.config.set_dtype_policy(precision)
    backbone = peer.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_position_embeddings,
    )
    inputs = {"token_ids": arrays["tokens"], "segment_ids": arrays["segments"]}
    inputs["padding_mask"] = arrays["segments"] + 1
    if kind == "inference":
        return forward(backbone, inputs)
    task = peer.models.BertMaskedLM(backbone, preprocessor=None)
    model = keras.Model(task.input, task.output)  # the task's own fit asks for TensorFlow
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer=optimizer, loss=loss)
    return _fitting(model, inputs | {"mask_positions": arrays["positions"]}, arrays["predicted"])


def _fitting(model, inputs, labels):
    """Keras's `fit` of one batch, again and again, on any backend and without tf.data."""
    import keras

    class Same(keras.utils.PyDataset):
        def __init__(self, count):
            super().__init__()
            self.count = count

        def __len__(self):
            return self.count

        def __getitem__(self, place):
            return inputs, labels

    def run(count):
        history = model.fit(Same(count), verbose=0).history
        wait(history["loss"][-1])
        return {"device_memory": device_memory()}

    return run


@told
def transformers(kind: str, size: str, length: int, batch: int, precision: str, device: str):
    """BertForPreTraining, or BertModel's forward pass: sdpa, torch.compile, autocast."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"torch with CUDA is needed, got {torch.__version__}")
    import transformers as peer

    config, arrays = given(size, length, batch)
    settings = peer.BertConfig(**config.to_dict(), attn_implementation="sdpa")
    kinds = {"update": peer.BertForPreTraining, "inference": peer.BertModel}
    model = kinds[kind](settings).to(device)
    placed = {name: torch.from_numpy(one).long().to(device) for name, one in arrays.items()}
    inputs = {"input_ids": placed["tokens"], "token_type_ids": placed["segments"]}
    inputs["attention_mask"] = torch.ones_like(placed["tokens"])
    dtype = torch.float16 if precision == "mixed_float16" else torch.bfloat16
    mixed = functools.partial(torch.autocast, device, dtype, enabled=precision != "float32")
    called = torch.compile(model.train(kind == "update"))
    if kind == "update":
        labels = torch.full_like(placed["tokens"], -100)
        inputs["labels"] = labels.scatter(1, placed["positions"], placed["predicted"])
        inputs["next_sentence_label"] = placed["pairs"]
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-4, weight_decay=0.01, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=precision == "mixed_float16")

    def infer():
        with torch.no_grad(), mixed():
            return called(**inputs).pooler_output

    def update():
        with mixed():
            loss = called(**inputs).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return repeated(update, ahead=True) if kind == "update" else repeated(infer)


@told
def products(kind: str, size: str, length: int, batch: int, precision: str):
    """As `benchmarks.matmul`, on any backend: an update's products of the encoder's kernels."""
    from keras import ops, random

    dtype = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}.get(precision, "float32")
    rows, threes = batch * length, []
    for inner, outer in shapes(size):
        sizes = ((rows, inner), (inner, outer), (rows, outer))
        threes.append([random.normal(one, dtype=dtype) for one in sizes])

    def three(x, w, g):
        return ops.matmul(x, w), ops.matmul(g, ops.transpose(w)), ops.matmul(ops.transpose(x), g)

    call = compiled(three)
    return repeated(lambda: [call(*one) for one in threes][-1])


def forward(model, inputs):
    """A Keras model's forward pass, compiled."""
    import keras

    if keras.backend.backend() == "jax":  # weights as arguments: as constants they would be copied
        groups = model.trainable_variables, model.non_trainable_variables
        weights = [[variable.value for variable in group] for group in groups]
        call = compiled(lambda *values: model.stateless_call(*values, training=False)[0])
        return repeated(lambda: call(*weights, inputs))
    placed = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
    call = compiled(lambda ids: model(ids, training=False))
    return repeated(lambda: call(placed))


def compiled(function):
    """As the backend has it: jax.jit, tf.function (XLA on a GPU), torch as it stands."""
    backend = os.environ["KERAS_BACKEND"]
    if backend == "jax":
        import jax

        return jax.jit(function)
    if backend == "tensorflow":
        import tensorflow as tf

        jit = bool(tf.config.list_physical_devices("GPU"))
        return tf.function(function, jit_compile=jit, autograph=False)
    import torch

    return torch.no_grad()(function)


def repeated(call, ahead: bool = False):
    """`call` so many times; each is waited for, or the last alone: the outputs of all are held."""

    def run(count):
        for _ in range(count):
            found = call()
            if not ahead:
                wait(found)
        wait(found)
        return {"device_memory": device_memory()}

    return run


def wait(found) -> None:
    """Returns when the device has computed it."""
    backend = os.environ["KERAS_BACKEND"]
    if backend == "jax":
        import jax

        jax.block_until_ready(found)
    elif backend == "torch":
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
    else:
        import tensorflow as tf

        first = tf.convert_to_tensor(tf.nest.flatten(found)[0])
        first[(0,) * first.shape.rank].numpy()


def device_memory() -> int | None:
    """Bytes that the process's tensors have had on the device at most; None on a CPU."""
    backend = os.environ["KERAS_BACKEND"]
    if backend == "jax":
        import jax

        return (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if backend == "torch":
        import torch

        return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        return None
    return tf.config.experimental.get_memory_info("GPU:0")["peak"]
