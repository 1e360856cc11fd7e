"""Export of a transformers folder with onnx/model.onnx, for embedding servers and others.

sentence-transformers (backend="onnx") and optimum look for `onnx/model.onnx`, give int64 input_ids,
attention_mask and token_type_ids (of a BERT alone: RoBERTa's and DistilBERT's tokenizers make none)
and read last_hidden_state or logits. text-embeddings-inference's
ONNX backend (huggingface/text-embeddings-inference, backends/ort/src/lib.rs) does too, pools by
1_Pooling/config.json, whose four `pooling_mode_…` it wants, and reads config.json and
tokenizer.json.
"""

from collections.abc import Sequence
from pathlib import Path

from kbert.checkpoints.transformers import folder
from kbert.exports import onnx, quantization, serving
from kbert.graph import names

check = onnx.check
# Outputs by transformers' names, and the layers that give them, by what a class is for. The others
# have the logits of their only layer.
_OUTPUTS = {
    "ForPreTraining": {
        "prediction_logits": names.MLM_SIMILARITY,
        "seq_relationship_logits": names.NSP,
    },
    "ForMaskedLM": {"logits": names.MLM_SIMILARITY},
    "ForNextSentencePrediction": {"logits": names.NSP},
    "ForQuestionAnswering": {"start_logits": names.SPAN_START, "end_logits": names.SPAN_END},
}


def write(
    bert,
    path: Path,
    architecture: str | None = None,
    quantize: str | None = None,
    calibration: Sequence[str] | None = None,
) -> None:
    """Write the folder of `kbert.checkpoints.transformers.folder`, and onnx/model.onnx.

    Its inputs are int64 (batch, length) of any size, up to the configuration's positions. Positions
    with 0 in attention_mask are not attended to; of a RoBERTa they must follow the text. Only a
    BERT has token_type_ids. Outputs are float32, by the class: last_hidden_state (a class with no
    head), logits, start_logits and end_logits, prediction_logits and seq_relationship_logits.
    `quantize` and `calibration` are those of `kbert.save`, for the ONNX file alone.
    """
    quantization.check(bert, quantize, calibration)
    name = folder.class_to_write(bert, architecture)
    model = _build_served_model(bert, name, path)
    proto = onnx.convert_model(model, bert.config.positions)
    proto = quantization.quantize_graph(proto, bert, quantize, calibration)

    def also(part: Path) -> None:
        (part / folder.ONNX).parent.mkdir(exist_ok=True)
        (part / folder.ONNX).write_bytes(proto.SerializeToString())

    folder.write(bert, path, name, also)


def _build_served_model(bert, architecture: str, path: Path):
    """Return the model with transformers' inputs and outputs."""
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    if bert.config.model_type != "bert":
        inputs.remove("token_type_ids")
    model = serving.free_model(bert, max_predictions=None)
    layers = _list_outputs(bert, architecture)
    outputs = {name: model.get_layer(layer).output for name, layer in layers.items()}
    serving.warn_of_untrained(bert, path / folder.ONNX, model, outputs)
    reads_token_table = names.MLM_SIMILARITY in layers.values()
    tensors = list(outputs.values())
    before, rest = _split_model(model, tensors, reads_token_table)
    return _join_graphs(before, rest, inputs, list(outputs))


def _join_graphs(before, rest, inputs: list[str], outputs: list[str]):
    """Return one model of the embeddings and the rest; it hands the mask from one to the other."""
    import keras

    class Served(keras.Model):
        """The embeddings, and what follows under the mask that is given."""

        def __init__(self):
            super().__init__()
            self.before = before
            self.rest = rest
            tensors = []
            for name in inputs:
                tensor = keras.KerasTensor((None, None), "int64", name=name)
                tensors.append(tensor)
            self.inputs = tensors
            self.output_names = outputs
            self.built = True

        def call(self, inputs, training=None):
            tensors = [keras.ops.cast(tensor, "int32") for tensor in inputs]
            ids, mask, *segments = tensors
            segments = segments or [ids * 0]
            inputs = [ids, *segments][: len(self.before.inputs)]
            states = self.before(inputs, training=False)
            real = [keras.ops.not_equal(mask, 0)]  # of the states; the table has none
            return self.rest.call(states, training=False, mask=real)

    return Served()


def _list_outputs(bert, architecture: str) -> dict[str, str]:
    """Return the layers that give the outputs of a class, by the outputs' names."""
    for kind, layers in _OUTPUTS.items():
        if architecture.endswith(kind):
            return layers
    name = "logits" if bert.spec.variant.outputs else "last_hidden_state"
    return {name: bert.spec.outputs[0]}  # without a head the last hidden state


def _split_model(model, outputs: list, reads_token_table: bool):
    """Return the embeddings of a model, and the model of what follows them."""
    import keras

    from kbert.model.probes import cut_after_embeddings, cut_embeddings

    before = cut_embeddings(model)
    if not reads_token_table:
        return before, cut_after_embeddings(model, outputs)
    token_embedding = model.get_layer(names.TOKEN_EMBEDDING)
    table = token_embedding.output[1]
    tensors = [*before.outputs, table]
    before = keras.Model(before.inputs, tensors)
    rest = keras.Model(tensors, outputs)
    return before, rest
