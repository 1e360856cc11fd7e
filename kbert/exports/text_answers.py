"""Answers of a served model to texts, by its head: TensorFlow functions of strings.

Only `kbert.exports.saved_model` imports it, where tensorflow-text is installed.
"""

import logging
from collections.abc import Callable, Collection

import keras
import tensorflow as tf

from kbert.checkpoints import untrained_weights
from kbert.checkpoints.bert import label_names
from kbert.checkpoints.checkpoint import choose_activation
from kbert.checkpoints.sentence_settings import DEFAULT, settings_of
from kbert.data.tokenization.tokenizer import require_wordpiece
from kbert.exports import serving
from kbert.exports.text_graph import TextGraph
from kbert.graph import names
from kbert.heads import HEADS, load_function
from kbert.model.bert_model import BertModel
from kbert.model.summary import ids_of

CANDIDATES = 5  # of a [MASK], as by `kbert.fill_mask`
_MLM = (names.MLM_DENSE, names.MLM_NORM, names.MLM_SIMILARITY)
_WHAT = "text=True"

_logger = logging.getLogger("kbert")


def make_functions(bert, model) -> dict[str, Callable]:
    """Return TensorFlow functions of strings (N,), by the names of their signatures.

    These are "serving_default" of `texts`; and if the head takes two texts, "pairs" of `texts` and
    `pairs`. Each gives tensors by name; see `saved_model.write`. Raise a ValueError for a model
    that cannot answer texts within a SavedModel.
    """
    make_answers = _find_answers(bert.head)
    if bert.tokenizer is None:
        raise ValueError(f"{_WHAT} needs a tokenizer, and the checkpoint has no vocabulary")
    vocabulary = require_wordpiece(bert.tokenizer, f"a model that is saved with {_WHAT}")
    answer, answer_pairs = load_function(make_answers)(bert, model)

    graph = TextGraph(vocabulary)
    sentence = DEFAULT if bert.spec.variant.outputs else settings_of(bert, _WHAT)
    limit = serving.longest(bert, sentence.max_length)
    pad_id = bert.config.pad_token_id

    def inputs(texts, pairs=None):
        if sentence.default_prompt:
            texts = tf.strings.join([sentence.default_prompt, texts])
        ids, segments = graph.frame(texts, pairs, limit)
        return _pad(ids, pad_id), _pad(segments, 0)

    def make_signature(answer, *spec):
        def answer_texts(*arguments):
            return answer(*inputs(*arguments))

        return tf.function(answer_texts, spec, autograph=False)

    text = tf.TensorSpec((None,), tf.string, "texts")
    pair = tf.TensorSpec((None,), tf.string, "pairs")
    signatures = {"serving_default": make_signature(answer, text)}
    if answer_pairs is not None:
        signatures["pairs"] = make_signature(answer_pairs, text, pair)
    return signatures


def _find_answers(head: str) -> str:
    """Return the path of the function that makes a head's answers to texts."""
    path = HEADS[head].text_answers
    if path is None:
        with_answers = [name for name, other in HEADS.items() if other.text_answers]
        heads = ", ".join(with_answers)
        raise ValueError(
            f"{_WHAT} takes a model of the head {heads}, got {head}: leave it out, and "
            "tokenize with the files in the SavedModel's folder tokenizer; or serve kbert.tag and "
            "kbert.answer from Python"
        )
    return path


def answer_embedding(bert, model):
    """Return the function of ids that answers texts with their embeddings; pairs with nothing."""
    sentence = settings_of(bert, _WHAT)
    if sentence.lowercase and not bert.tokenizer.lowercase:
        raise ValueError(f"{_WHAT} needs a model without do_lower_case of sentence-transformers")
    if sentence.default_prompt and not sentence.include_prompt:
        raise ValueError(
            f"{_WHAT} needs a model that pools its prompt too, got include_prompt=False"
        )
    if "pooler" in sentence.poolings:
        _require_trained(bert, [names.POOLER])

    vector = serving.sentence_vector(model, sentence)
    view = BertModel(ids_of(model), vector, spec=None)

    def embed(*ids):
        embeddings = _outputs(view, ids)[0]
        return {serving.SENTENCE: embeddings}

    return embed, None


def answer_labels(bert, model):
    """Return the functions that answer texts and pairs with probabilities, or with values."""
    _require_trained(bert, [names.POOLER, names.CLASSIFIER])
    classifier = model.get_layer(names.CLASSIFIER)
    view = BertModel(ids_of(model), classifier.output, spec=None)
    count = view.outputs[0].shape[-1]
    labels = tf.constant(label_names(bert, count))
    activation = choose_activation(bert.problem_type, count)

    def answer(*ids):
        (logits,) = _outputs(view, ids)
        if activation == "linear" and count == 1:
            return {"value": logits[:, 0]}

        named = tf.broadcast_to(labels, tf.shape(logits))
        if activation == "linear":
            return {"values": logits, "labels": named}
        if activation == "sigmoid":
            return {"probabilities": tf.sigmoid(logits), "labels": named}

        label_indices = tf.argmax(logits, 1)
        best = tf.gather(labels, label_indices)
        probs = tf.nn.softmax(logits)
        return {"probabilities": probs, "labels": named, "label": best}

    return answer, answer if _tells_two_texts(bert) else None


def answer_tokens(bert, model):
    """Return the functions that fill in a text's masks, and that judge whether a text is next."""
    _require_trained(bert, _MLM)
    return _make_mask_filler(bert, model), _make_judge_of_pairs(bert, model)


def _make_mask_filler(bert, model):
    """Return the function of ids that gives the most likely tokens of every [MASK]."""
    last = names.encoder_output(bert.config.num_hidden_layers)
    state = model.get_layer(last).output
    states = BertModel(ids_of(model), state, spec=None)
    dense, norm, similarity = [model.get_layer(name) for name in _MLM]
    table = model.get_layer(names.TOKEN_EMBEDDING)
    tokens = tf.constant(bert.tokenizer.tokens)
    vocab_size = bert.tokenizer.vocab_size

    def fill(ids, segments):
        (hidden_states,) = _outputs(states, (ids, segments))
        mask_indices = tf.where(ids == bert.tokenizer.mask_id)
        masked_states = tf.gather_nd(hidden_states, mask_indices)
        at_masks = norm(dense(masked_states[None]))
        embeddings = keras.ops.convert_to_tensor(table.embeddings)
        logits = similarity([at_masks, embeddings])[0]

        named = tf.nn.softmax(logits)[:, :vocab_size]
        count = min(CANDIDATES, vocab_size)
        best, chosen = tf.math.top_k(named, count)
        batch_size = tf.shape(ids, tf.int64)[0]
        text_indices = mask_indices[:, 0]
        by_text = tf.RaggedTensor.from_value_rowids(chosen, text_indices, batch_size)
        chosen_tokens = by_text.with_values(tf.gather(tokens, chosen))
        probs = by_text.with_values(best)
        return {
            "tokens": chosen_tokens.to_tensor(""),
            "probabilities": probs.to_tensor(0.0),
        }

    return fill


def _make_judge_of_pairs(bert, model):
    """Return the function of ids that judges whether a text is next; None for other models."""
    predicts_next = bert.config.family.next_sentence
    if not (predicts_next and _tells_two_texts(bert)):
        return None
    if untrained_weights.find_untrained(bert, [names.POOLER, names.NSP]):
        _logger.warning(
            "the SavedModel takes no pairs of texts: the model was not trained on next sentences"
        )
        return None
    nsp_layer = model.get_layer(names.NSP)
    nsp = BertModel(ids_of(model), nsp_layer.output, spec=None)

    def judge(*ids):
        (logits,) = _outputs(nsp, ids)
        return {"probability": tf.nn.softmax(logits)[:, 0]}

    return judge


def _pad(ragged, filler: int):
    """Ragged rows filled up, (N, S); S is at least that of an empty text, 2."""
    padded = ragged.to_tensor(filler)
    length = tf.shape(padded)[1]
    missing = tf.maximum(0, 2 - length)
    paddings = [[0, 0], [0, missing]]
    return tf.pad(padded, paddings, constant_values=filler)


def _outputs(view, ids) -> list:
    """Compute the outputs for token ids and segments; a model without segments takes only ids."""
    inputs = list(ids[: len(view.inputs)])
    return keras.tree.flatten(view(inputs, training=False))


def _tells_two_texts(bert) -> bool:
    return not bert.config.family.segments or bert.config.type_vocab_size > 1


def _require_trained(bert, layers: Collection[str]) -> None:
    untrained = untrained_weights.find_untrained(bert, layers)
    if untrained:
        raise ValueError(
            f"{_WHAT} needs the weights of {', '.join(untrained)}, but they are not in the "
            "checkpoint: those in the model are random"
        )
