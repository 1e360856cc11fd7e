"""A transformers folder with onnx/model.onnx in it: what other people's servers open.

sentence-transformers (backend="onnx") and optimum look for `onnx/model.onnx`, give int64 input_ids,
attention_mask and token_type_ids and read last_hidden_state or logits. text-embeddings-inference's
ONNX backend (huggingface/text-embeddings-inference, backends/ort/src/lib.rs) does too, pools by
1_Pooling/config.json, whose four `pooling_mode_…` it wants, and reads config.json and
tokenizer.json.
"""

from collections.abc import Sequence
from pathlib import Path

from kbert.checkpoints import only_bert
from kbert.checkpoints.exports import onnx, quantization, serving
from kbert.checkpoints.transformers import folder
from kbert.graph import names

_WHAT = "an ONNX file"
_BACKENDS = ("tensorflow", "torch")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Each class's outputs, by transformers' names, and the layers that give them.
_OUTPUTS = {
    "BertForPreTraining": {
        "prediction_logits": names.MLM_SIMILARITY,
        "seq_relationship_logits": names.NSP,
    },
    "BertForMaskedLM": {"logits": names.MLM_SIMILARITY},
    "BertForNextSentencePrediction": {"logits": names.NSP},
    "BertForSequenceClassification": {"logits": names.CLASSIFIER},
    "BertForTokenClassification": {"logits": names.TOKEN_CLASSIFIER},
    "BertForQuestionAnswering": {"start_logits": names.SPAN_START, "end_logits": names.SPAN_END},
}


def write(
    bert,
    path: Path,
    architecture: str | None = None,
    quantize: str | None = None,
    calibration: Sequence[str] | None = None,
) -> None:
    """Writes the folder of `kbert.checkpoints.transformers.folder`, and onnx/model.onnx.

    Its inputs are int64 (batch, length) of any size, up to the configuration's positions; what
    attention_mask has 0 at is not attended to. Outputs are float32, by the class: last_hidden_state
    (BertModel), logits, start_logits and end_logits, prediction_logits and seq_relationship_logits.

    Args:
        bert: a `kbert.Bert`.
        path: the folder.
        architecture: transformers' class to write.
        quantize, calibration: as for `kbert.save`, of the ONNX file; the other weights stay.

    Raises:
        ValueError: the backend JAX; weights of 2 GiB or more; what the writer of the folder or
            `quantization` refuses.
        ImportError: a package is missing.
        OSError: it cannot be written; an old one stays.
    """
    serving.check_backend(_WHAT, _BACKENDS)
    only_bert.check_model(bert, "format transformers_onnx", ": save it with format='onnx'")
    quantization.check(bert, quantize, calibration)
    name = folder.class_to_write(bert, architecture)
    proto = onnx.converted(_served(bert, name), bert.config.positions)
    if quantize is not None:
        proto = quantization.quantized(proto, bert, quantize, calibration, _feed)

    def also(place: Path) -> None:
        (place / folder.ONNX).parent.mkdir(exist_ok=True)
        (place / folder.ONNX).write_bytes(proto.SerializeToString())

    folder.write(bert, path, name, also)


def check(path: Path) -> None:
    """Raises for a backend that does not write it, and where a package is missing."""
    onnx.check(path)


def _feed(ids, segment_ids) -> dict:
    arrays = (ids, ids * 0 + 1, segment_ids)
    return {name: array.astype("int64") for name, array in zip(_INPUTS, arrays, strict=True)}


def _served(bert, architecture: str):
    """The model with transformers' inputs and outputs."""
    import keras

    from kbert.model.from_embeddings import after_embeddings, embeddings_of, with_table

    model = serving.free_model(bert, max_predictions=None)
    last = names.encoder_output(bert.config.num_hidden_layers)
    wanted = _OUTPUTS.get(architecture, {"last_hidden_state": last})
    outputs = [model.get_layer(layer).output for layer in wanted.values()]
    if names.MLM_SIMILARITY in wanted.values():
        before, after = with_table(model)
        rest = after(outputs)
    else:
        before, rest = embeddings_of(model), after_embeddings(model, outputs)

    class Served(keras.Model):
        """The embeddings, and what follows under the mask that is given."""

        def __init__(self):
            super().__init__()
            self.before, self.rest = before, rest
            self.inputs = [keras.KerasTensor((None, None), "int64", name=name) for name in _INPUTS]
            self.output_names = list(wanted)
            self.built = True

        def call(self, inputs, training=None):
            ids, mask, segments = (keras.ops.cast(part, "int32") for part in inputs)
            states = self.before([ids, segments], training=False)
            real = [keras.ops.not_equal(mask, 0)]  # of the states; the table has none
            return self.rest.call(states, training=False, mask=real)

    return Served()
