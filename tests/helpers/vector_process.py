"""Steps of every loss of sentence embeddings, on one device and on two: what both end with.

The backend and, of torch, the processes come from the environment. Each process writes, by case,
the weights, both moments and the metrics of two devices, and those of one device where it is the
only process, or torch's first one.
"""

import os

import keras
import numpy as np

from helpers.sizes import SIZES

BATCH, LENGTH, UPDATES = 14, 7, 2
FULL = BATCH - 1  # the last record is filled up, as in an epoch's last batch
# loss, texts of a record, options of EmbeddingLoss, kind of model
KINDS = {
    "infonce": ("infonce", 3, {"dimensions": (24, 9)}, "table"),
    "cosent": ("cosent", 2, {"dimensions": (24, 9)}, "table"),
    "triplet": ("triplet", 3, {"dimensions": (11, 24)}, "table"),
    "cosine": ("cosine", 2, {"normalize": True}, "table"),
    "drawing": ("infonce", 2, {}, "drawing table"),
    "encoder": ("infonce", 2, {"pooling": "max"}, "encoder"),
    "adapters": ("infonce", 2, {"pooling": "cls"}, "adapters"),
}
# also the engine's options of two devices
CASES = {name: (*kind, {}) for name, kind in KINDS.items()}
CASES["encoder"] = (*KINDS["encoder"], {"gradient_checkpointing": True})
CASES |= {f"{name}_in_parts": (*kind, {"accumulation_steps": 7}) for name, kind in KINDS.items()}
BY_XLA = {
    f"{name}_by_xla": (*CASES[name][:4], CASES[name][4] | {"jit": True})
    for name in ("infonce", "infonce_in_parts", "encoder", "encoder_in_parts")
}


def batch(loss: str, columns: int, step: int):
    from kbert.data.training_batch import TrainingBatch
    from kbert.graph import names
    from kbert.training.losses.embedding_objective import EMBEDDINGS

    random = np.random.default_rng([step, columns])
    ids = random.integers(5, SIZES["vocab_size"], (BATCH, columns, LENGTH)).astype("int32")
    ids[np.arange(LENGTH) >= random.integers(2, LENGTH + 1, (BATCH, columns, 1))] = 0
    weights = np.where(np.arange(BATCH) < FULL, 1 / FULL, 0).astype("float32")
    if loss in ("cosine", "cosent"):
        labels = random.integers(0, 4, BATCH).astype("float32") / 3
    else:
        # larger than float32 counts; and duplicates, of each half of the batch in the other
        labels = np.arange(BATCH * columns, dtype="int32").reshape(BATCH, columns) + (1 << 24)
        labels[12, 0], labels[2, 1] = labels[1, 0], labels[9, 1]
    inputs = {names.TOKEN_IDS: ids, names.SEGMENT_IDS: np.zeros_like(ids)}
    return TrainingBatch(inputs, {EMBEDDINGS: labels}, {EMBEDDINGS: weights})


def table(drawing: bool):
    """A model of token vectors alone; `drawing`: with a dropout, which drops none."""
    from kbert.graph import names
    from kbert.model.bert_model import BertModel

    inputs = names.TOKEN_IDS, names.SEGMENT_IDS
    ids, segments = (keras.Input((None,), dtype="int32", name=name) for name in inputs)
    states = keras.layers.Embedding(SIZES["vocab_size"], SIZES["hidden_size"])(ids)
    states += keras.layers.Embedding(SIZES["type_vocab_size"], SIZES["hidden_size"])(segments)
    if drawing:
        states = keras.layers.Dropout(1e-12)(states)
    return BertModel([ids, segments], states, spec=None)


def encoder(adapted: bool):
    """One block, and what of it is trained."""
    import kbert
    from kbert.graph.spec import GraphSpec
    from kbert.graph.trained_parts import trained_parts
    from kbert.model.builder import build
    from kbert.tasks.embedding.embedding_model import encoder_of
    from kbert.training.step.trained_weights import select_weights

    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    spec = GraphSpec(kbert.BertConfig(**SIZES | rates | {"num_hidden_layers": 1}), "encoder")
    model = encoder_of(build(spec))
    return model, select_weights(model, trained_parts(spec, lora_rank=3), 5) if adapted else None


def prepared(backend, loss: str, columns: int, options: dict, kind: str, more: dict):
    """An engine of a model whose weights are the same each time."""
    from kbert.training.engine import Engine
    from kbert.training.losses.embedding_objective import EmbeddingLoss
    from kbert.training.optimization.optimizers import Optimizer

    keras.utils.set_random_seed(11)
    random, trained = np.random.default_rng(7), None
    with backend.scope():
        if "table" in kind:
            model = table("drawing" in kind)
        else:
            model, trained = encoder(kind == "adapters")
    for weight in model.trainable_weights:
        weight.assign(weight + random.normal(0, 0.2, weight.shape).astype("float32"))
    more = more | {"embedding_loss": EmbeddingLoss(loss, columns, SIZES["hidden_size"], **options)}
    # a large epsilon: with a small one Adam's steps are the same for gradients twice as large
    optimizer = Optimizer(learning_rate=0.003, total_steps=9, epsilon=0.1)
    return Engine(backend, model, optimizer, trained, clip_norm=None, **more)


def trained(engine, loss: str, columns: int) -> dict[str, np.ndarray]:
    """Train a few steps; return weights, moments and metrics."""
    metrics = []
    for step in range(UPDATES):
        rows = batch(loss, columns, step).select(engine.slice_examples(BATCH))
        metrics.append({name: float(one) for name, one in engine.update(rows, step).items()})
    weights, slots, _ = engine.state.variables
    state = {name: [own[name] for own in slots] for name in ("first", "second")}
    state["weights"] = weights
    arrays = {
        f"{kind} {n}": keras.ops.convert_to_numpy(variable.value)
        for kind, variables in state.items()
        for n, variable in enumerate(variables)
    }
    return arrays | {name: np.array([one[name] for one in metrics]) for name in metrics[0]}


def results(devices: int | None, cases: list[str]) -> dict[str, np.ndarray]:
    """Train every case; one device does a case once, whatever the options of two."""
    from kbert.training import backends

    arrays, done = {}, {}
    for name in cases:
        *shared, more = (CASES | BY_XLA)[name]
        more = {} if devices == 1 else more
        if (key := str((shared, more))) not in done:
            backend = backends.start(devices)
            assert backend.replicas == (devices or 2), backend.replicas
            engine = prepared(backend, *shared, more)
            done[key] = trained(engine, *shared[:2])
        arrays |= {f"{name}/{what}/{devices or 2}": values for what, values in done[key].items()}
    return arrays


def two_of_tensorflow() -> None:
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, parts)


def main(out: str, *cases: str) -> None:
    chosen, alone, devices = list(cases or CASES), {}, None
    if count := os.environ.pop("WORLD_SIZE", None):  # of torch
        alone = results(1, chosen) if os.environ["RANK"] == "0" else {}
        os.environ["WORLD_SIZE"] = count
    elif not {"TF_CONFIG", "KERAS_DISTRIBUTION_JOB_ADDRESSES"} & set(os.environ):
        if keras.backend.backend() == "tensorflow":
            two_of_tensorflow()
        alone, devices = results(1, chosen), 2
    np.savez(out, **alone, **results(devices, chosen))
