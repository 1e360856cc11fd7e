"""One training update of each library, on the same arrays: pretraining, and a classifier.

Each function gives another that does a number of updates. `size` is a preset's name; `layers`
replaces its number of blocks. AdamW, decay 0.01, clip 1.0, dropout as configured, every position a
token. Losses are read once for a call, as a training loop that shows progress does.
"""

import contextlib
import itertools

PREDICTIONS = 20


def needed_flops(config, batch: int, length: int, head: str = "pretraining") -> int:
    """Of an update of the graph whose last block computes only what the heads read."""
    import kbert

    predicted = PREDICTIONS if head == "pretraining" else 0
    options = {"max_predictions": predicted} if predicted else {}
    counted = kbert.account(config, length, batch, head=head, selected_positions=True, **options)
    return counted.training_flops


def config_of(size: str, layers: int | None):
    import kbert

    config = kbert.get_config(size)
    return config.replace(num_hidden_layers=layers) if layers else config


def data(vocab_size: int, batch: int, length: int, predictions: int = PREDICTIONS) -> dict:
    """int32 arrays: tokens, segments (B, S); positions, predicted (B, M); pairs (B,)."""
    import numpy as np

    random = np.random.default_rng(3)
    order = random.permuted(np.tile(np.arange(1, length), (batch, 1)), axis=1)
    arrays = {
        "tokens": random.integers(1, vocab_size, (batch, length)),
        "segments": np.zeros((batch, length)),
        "positions": np.sort(order[:, :predictions], axis=1),
        "predicted": random.integers(1, vocab_size, (batch, predictions)),
        "pairs": random.integers(0, 2, batch),
    }
    return {name: array.astype("int32") for name, array in arrays.items()}


def kbert_engine(*arguments, **options):
    """kbert's own training step, as `kbert.pretrain` and `kbert.finetune` run it."""
    return engine_and_run(*arguments, **options)[1]


def engine_and_run(head, size, batch, length, precision, layers=None, **options):
    """Return a prepared engine, and a function that does a number of its updates."""
    import numpy as np

    from kbert.data.training_batch import TrainingBatch
    from kbert.graph import names
    from kbert.training import backends
    from kbert.training.engine import Engine
    from kbert.training.optimization.optimizers import Optimizer

    backend = backends.start()
    with backend.scope():
        model, config = kbert_model(head, size, length, precision, layers, selected_positions=True)
    engine = Engine(backend, model, Optimizer(total_steps=100_000), **options)
    arrays = data(config.vocab_size, batch, length)
    inputs = {names.TOKEN_IDS: arrays["tokens"], names.SEGMENT_IDS: arrays["segments"]}
    if head == "pretraining":
        inputs[names.MASKED_POSITIONS] = arrays["positions"]
        labels = {names.MLM: arrays["predicted"], names.NSP: arrays["pairs"]}
    else:
        labels = {names.CLASSIFIER: arrays["pairs"]}
    weights = {name: np.full(one.shape, 1 / one.size, "float32") for name, one in labels.items()}
    fed, steps = TrainingBatch(inputs, labels, weights), itertools.count()

    def run(count):
        for _ in range(count):
            loss = engine.update(fed, next(steps))["loss"]
        return float(loss)

    return engine, run


def kbert_fit(head, size, batch, length, precision, jit, layers=None, **variant):
    """Keras's own `compile` and `fit` of kbert's graph."""
    model, config = kbert_model(head, size, length, precision, layers, **variant)
    arrays = data(config.vocab_size, batch, length)
    inputs, labels = (arrays["tokens"], arrays["segments"]), (arrays["pairs"],)
    if head == "pretraining":
        inputs, labels = (*inputs, arrays["positions"]), (arrays["predicted"], *labels)
    return fit(model, inputs, labels, jit)


def kbert_model(head, size, length, precision, layers, **variant):
    import kbert

    config = config_of(size, layers)
    options = {"seq_len": length, "dtype": precision, **variant}
    if head == "pretraining":
        return kbert.build_bert(config, max_predictions=PREDICTIONS, **options), config
    return kbert.build_classifier(config, **options), config


def keras_hub(head, size, batch, length, precision, jit, layers=None):
    """KerasHub's BertMaskedLM, without next sentences, or BertTextClassifier, and Keras's `fit`."""
    import keras
    import keras_hub

    keras.config.set_dtype_policy(precision)
    config = config_of(size, layers)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_position_embeddings,
    )
    arrays = data(config.vocab_size, batch, length)
    inputs = {"token_ids": arrays["tokens"], "segment_ids": arrays["segments"]}
    inputs["padding_mask"] = arrays["segments"] + 1
    if head == "pretraining":
        model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
        return fit(
            model, inputs | {"mask_positions": arrays["positions"]}, arrays["predicted"], jit
        )
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=None)
    return fit(model, inputs, arrays["pairs"], jit)


def fit(model, inputs, labels, jit):
    """A Keras model's `fit` on one batch, again and again."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = [loss] * len(labels) if isinstance(labels, tuple) else loss
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer=optimizer, loss=losses, jit_compile=jit)
    return fitting(model, inputs, labels)


def fitting(model, inputs, labels):
    import tensorflow as tf

    batches = tf.data.Dataset.from_tensors((inputs, labels)).repeat()
    # Its thread sleeps 10, 20, 40 … ms, and each fit's end waits for it: half of a short one.
    options = tf.data.Options()
    options.autotune.enabled = False
    batches = batches.with_options(options)
    return lambda count: model.fit(batches, steps_per_epoch=count, verbose=0)


def keras_bert(size, batch, length, layers=None):
    """keras_bert's training graph on tf-keras (TF_USE_LEGACY_KERAS=1): every position's logits."""
    import keras_bert as peer
    import numpy as np
    import tf_keras

    config = config_of(size, layers)
    model = peer.get_model(
        token_num=config.vocab_size,
        pos_num=config.max_position_embeddings,
        seq_len=length,
        embed_dim=config.hidden_size,
        transformer_num=config.num_hidden_layers,
        head_num=config.num_attention_heads,
        feed_forward_dim=config.intermediate_size,
        dropout_rate=config.hidden_dropout_prob,
    )
    arrays = data(config.vocab_size, batch, length)
    rows = np.arange(batch)[:, None]
    masked, tokens = np.zeros_like(arrays["tokens"]), arrays["tokens"].copy()
    masked[rows, arrays["positions"]] = 1
    tokens[rows, arrays["positions"]] = arrays["predicted"]
    # its own AdamWarmup cannot be made on today's tf-keras
    optimizer = tf_keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer, loss="sparse_categorical_crossentropy")
    inputs = (arrays["tokens"], arrays["segments"], masked)
    return fitting(model, inputs, (tokens, arrays["pairs"]))


def autocast(precision: str):
    """torch's autocast, or nothing; to be entered as often as one likes."""
    import torch

    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast("cpu", torch.bfloat16)


def transformers(head, size, batch, length, precision, compiled=False, layers=None):
    """transformers' BertForPreTraining, every position's logits, or the classifier, on torch."""
    import numpy as np
    import torch
    import transformers as peer

    config = peer.BertConfig(**config_of(size, layers).to_dict())
    arrays = data(config.vocab_size, batch, length)
    tokens, segments, pairs = (
        torch.from_numpy(arrays[name]).long() for name in ("tokens", "segments", "pairs")
    )
    inputs = {"input_ids": tokens, "token_type_ids": segments}
    inputs["attention_mask"] = torch.ones_like(tokens)
    if head == "pretraining":
        model = peer.BertForPreTraining(config)
        labels = np.full((batch, length), -100)
        np.put_along_axis(labels, arrays["positions"], arrays["predicted"], axis=1)
        inputs |= {"labels": torch.from_numpy(labels), "next_sentence_label": pairs}
    else:
        model, inputs["labels"] = peer.BertForSequenceClassification(config), pairs
    model.train()
    called = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def run(count):
        for _ in range(count):
            with autocast(precision):
                loss = called(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return float(loss.detach())

    return run
