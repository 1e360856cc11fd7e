"""Class of kbert's models: a functional Keras model with a complete summary."""

import functools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras

from kbert.graph import aliases, names
from kbert.graph.config import require_positive
from kbert.graph.keras_config import read_graph
from kbert.graph.short_summary import latex_text, short_text
from kbert.graph.spec import GraphSpec
from kbert.graph.summary_table import select, summary_text, trainable_columns, width_shown
from kbert.graph.trained_parts import LORA_TARGETS, trained_parts
from kbert.io.wording import check_choice
from kbert.model.jax_inference import keep_weights
from kbert.model.layers.heads import Masked
from kbert.model.summary import model_rows
from kbert.ops.forks import check_process
from kbert.ops.keras_internals import without_tensorflow

_UNREAD = object()


def _keep_weights_in(method: Callable) -> Callable:
    """Return a method of Keras's that keeps the weights on JAX, whatever ends it."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        check_process()
        with keep_weights(self):
            return method(self, *args, **kwargs)

    return call


def _check_process_in(method: Callable) -> Callable:
    """Return a method of Keras's that a forked process refuses."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        check_process()
        return method(self, *args, **kwargs)

    return call


def _mark_trainable(layer) -> str:
    """Return the mark of a layer in the column of the trainable ones."""
    if not layer.weights:
        return "-"
    return "Y" if layer.trainable else "N"


@keras.saving.register_keras_serializable("kbert")
class BertModel(keras.Model):
    """A functional `keras.Model`, built by `kbert.build_bert` and the other `build_…` functions.

    Args:
        as of `keras.Model`.
        spec: the spec of the graph; None for a model that is not the whole graph of one head.
    """

    train_function: Any  # Keras's; it has no type

    def __init__(self, *args, spec=_UNREAD, **kwargs):
        super().__init__(*args, **kwargs)
        self._spec = spec

    @property
    def spec(self) -> GraphSpec | None:
        """Spec of the graph as it was built; None if it is not the graph of one head.

        When Keras rebuilds a model, from a .keras file or as a clone, it has only the layers'
        settings: the spec is then derived from them.
        """
        if self._spec is _UNREAD:
            values = {"class_name": type(self).__name__, "config": self.get_config()}
            try:
                as_json = json.loads(json.dumps(values))
                spec = read_graph(as_json, self.name)
            except (TypeError, ValueError):  # layers of its user's among them
                spec = None
            has_outputs_of_spec = spec is not None and list(spec.outputs) == self.output_names
            self._spec = spec if has_outputs_of_spec else None
        return self._spec

    @aliases.answer_old_names
    def summary(
        self,
        line_length: int | None = None,
        positions: Sequence[float] | None = None,
        print_fn: Callable[[str], object] | None = None,
        expand_nested: bool = False,
        show_trainable: bool = False,
        layer_range: Sequence[str] | None = None,
        *,
        collapse: bool = False,
        format: str = "text",
        freeze: str | None = None,
        lora_rank: int | None = None,
        lora_targets: str = LORA_TARGETS,
    ) -> None:
        """Print keras_bert's summary: nothing is cut, and no optimizer is in the totals.

        The arguments are Keras's. `expand_nested` changes nothing, because the graph nests no
        models. With `freeze` or `lora_rank`, as in `kbert.finetune`, the summary shows what would
        be trained. If a terminal or notebook is narrower than the table, each name gets a line of
        its own. A pipe, a file and `print_fn` (called once per line) get the natural width.

        `collapse=True` prints a short form, in which equal encoder blocks stand once. A terminal
        that is narrower than the short form shows it without the types of the layers.
        `format="latex"` prints the table, or the short form, for LaTeX, without the connections.

        Raises:
            ValueError: parts or ranks that the graph does not have; see
                `kbert.graph.trained_parts.trained_parts`.
        """
        check_choice(format, ("text", "latex"), "format")

        if collapse or format == "latex":
            if freeze is not None or lora_rank is not None or show_trainable:
                raise ValueError(
                    "collapse and format='latex' must be without freeze, lora_rank and "
                    "show_trainable: leave these out"
                )
            width = line_length or (width_shown() if print_fn is None else None)
            text = self._short_summary(collapse, format, layer_range, width)
        else:
            if line_length is not None:
                require_positive("line_length", line_length)
            elif print_fn is None:
                line_length = width_shown()
            layers = model_rows(self)
            if freeze is not None or lora_rank is not None:
                options = self._trained_columns(layers, freeze, lora_rank, lora_targets)
            else:
                options = self._weight_columns(show_trainable)
            text = summary_text(
                layers, layer_range, width=line_length, positions=positions, **options
            )

        write = print_fn or print
        for line in text.splitlines():
            write(line)

    def _trained_columns(self, layers, freeze, lora_rank, lora_targets) -> dict:
        """Return the summary's options of what a fine-tuning would train."""
        if self.spec is None:
            raise ValueError("freeze and lora_rank must be of a whole graph, got a view into one")
        trained = trained_parts(self.spec, freeze, lora_rank, lora_targets)
        return trainable_columns(layers, trained)

    def _weight_columns(self, show_trainable: bool) -> dict:
        """Return the summary's options of the weights as they are."""
        options: dict = {"counts": self._count_weights()}
        if show_trainable:
            marks = {layer.name: _mark_trainable(layer) for layer in self.layers}
            options["mark"] = lambda row: marks.get(row.layer, "-")
        return options

    def _count_weights(self) -> tuple[int, int]:
        """Return the numbers of all and of the trainable parameters."""
        sizes = [math.prod(weight.shape) for weight in self.trainable_weights]
        trainable = sum(sizes)
        return self.count_params(), trainable

    def _short_summary(self, collapse: bool, format: str, layer_range, width: int | None) -> str:
        layers = select(model_rows(self), layer_range)
        if format == "latex":
            sum_name = "Shown" if layer_range else "Total"
            return latex_text(layers, collapse=collapse, sum_name=sum_name)
        return short_text(layers, self._count_weights(), width)

    def save(self, *args, **kwargs):
        """Save as Keras does, without importing TensorFlow on JAX and torch.

        Raises:
            ValueError: Keras's `quantize` changed a layer of which it cannot open a file again; no
                file is touched.
        """
        with without_tensorflow():
            self.get_config()  # refuses such a layer; Keras asks for it after it opened the file
            super().save(*args, **kwargs)

    def get_config(self):
        """Return Keras's configuration; see `save`."""
        with without_tensorflow():
            return super().get_config()

    predict = _keep_weights_in(keras.Model.predict)
    predict_on_batch = _keep_weights_in(keras.Model.predict_on_batch)
    evaluate = _keep_weights_in(keras.Model.evaluate)
    test_on_batch = _keep_weights_in(keras.Model.test_on_batch)
    fit = _check_process_in(keras.Model.fit)
    train_on_batch = _check_process_in(keras.Model.train_on_batch)

    def make_train_function(self, force=False):
        """Make the function of a training step, as Keras does; TensorFlow traces the step once.

        Keras creates the optimizer's variables while it traces the first step, and then traces it
        again. Here they are created before, but after the callbacks' `on_train_begin`, which may
        change what is trained.
        """
        if self.train_function and not force:
            return self.train_function
        super().make_train_function(force)
        if keras.backend.backend() != "tensorflow":
            return self.train_function
        train = self.train_function

        def build_and_train(iterator):
            optimizer = self.optimizer
            if not optimizer.built and self.trainable_variables:
                with self.distribute_strategy.scope():
                    optimizer.build(self.trainable_variables)
            return train(iterator)

        self.train_function = build_and_train
        return build_and_train

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Compute Keras's metrics over the positions that are not masked.

        On JAX, `fit` computes gradients between the call and the metrics, and the outputs lose
        their masks: they are set again here.
        """
        if names.TOKEN_IDS in self.input_names:  # else a part of a graph, cut out by its user
            y_pred = self._mask_outputs(self._name_inputs(x), y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _name_inputs(self, x) -> dict:
        """Return the inputs by name; `fit` hands them over in any integer or float type."""
        if isinstance(x, dict):
            x = [x[name] for name in self.input_names]
        inputs = {}
        arrays = keras.tree.flatten(x)
        for expected, ids in zip(self.inputs, arrays, strict=True):
            inputs[expected.name] = keras.ops.convert_to_tensor(ids, expected.dtype)
        return inputs

    def _mask_outputs(self, inputs: dict, y_pred):
        """Set the masks of the outputs that have a label per position."""
        pad_token_id = self.get_layer(names.TOKEN_EMBEDDING).pad_token_id
        real = keras.ops.not_equal(inputs[names.TOKEN_IDS], pad_token_id)
        masks = {names.TOKEN_CLASSIFIER: keras.ops.cast(real, "int32")}  # one per position
        if names.MASKED_POSITIONS in inputs:
            masks[names.MLM] = inputs[names.MASKED_POSITIONS]
        elif names.MASKED in inputs:
            masks[names.MLM] = masks[names.TOKEN_CLASSIFIER] * inputs[names.MASKED]

        masked = []
        outputs = keras.tree.flatten(y_pred)
        for name, output in zip(self.output_names, outputs, strict=True):
            if name in masks:
                mask_output = Masked(dtype=output.dtype)
                output = mask_output([output, masks[name]])
            masked.append(output)
        return keras.tree.pack_sequence_as(y_pred, masked)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in the model's order."""
        return [tensor.name for tensor in self.inputs]


# Keras's .h5 has the class of the model without its package, and looks it up by that name.
keras.saving.get_custom_objects().setdefault("BertModel", BertModel)
