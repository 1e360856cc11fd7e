"""A trace's tensors and outputs are those of kbert's model, of its tasks and of transformers."""

import dataclasses

import numpy as np
import pytest
from helpers.errors import raises
from helpers.marks import full
from helpers.small_berts import small_bert
from numpy.testing import assert_allclose

import kbert
from kbert.graph import names
from kbert.graph.config import ACTIVATIONS
from kbert.graph.families import FAMILIES
from kbert.model.probes import build_attention_maps, build_hidden_states
from kbert.show.explorer.live import activations
from kbert.show.explorer.live.contents import model_of_bert
from kbert.show.explorer.live.tracing import Tracer
from kbert.show.explorer.weights import open_model

TEXT, PAIR = "the dog sees [MASK].", "it was big"


def tracer_of(bert: kbert.Bert) -> Tracer:
    """What traces a `Bert`, as a notebook's page has it."""
    return Tracer(model_of_bert(bert))


def arrays_of(model, encoding) -> list[np.ndarray]:
    import keras

    ids = [np.array([encoding.ids], "int32"), np.array([encoding.segment_ids], "int32")]
    outputs = model(ids[: len(model.inputs)], training=False)
    return [keras.ops.convert_to_numpy(one)[0] for one in keras.tree.flatten(outputs)]


@pytest.fixture(scope="module")
def berts(small):
    """A `Bert` by its family and head."""
    found = {}
    for family, head in (
        *(("bert", head) for head in ("pretraining", "classifier", "tokens", "qa", "encoder")),
        *(("roberta", head) for head in ("pretraining", "classifier")),
        *(("distilbert", head) for head in ("pretraining", "classifier", "qa")),
    ):
        sizes = {"type_vocab_size": small.type_vocab_size if FAMILIES[family].segments else 1}
        config = small.replace(model_type=family, layer_norm_eps=1e-12, **sizes)
        found[family, head] = small_bert(config, head)
    return found


@pytest.mark.full
@pytest.mark.parametrize("family", ["bert", full("roberta"), "distilbert"])
def test_tensors_are_those_of_the_keras_model(berts, family):
    bert = berts[family, "classifier"]
    trace = tracer_of(bert).trace({"text": TEXT, "pair": PAIR})
    encoding = bert.tokenizer.encode(TEXT, PAIR)
    states = arrays_of(build_hidden_states(bert.model), encoding)
    for block, state in enumerate(states):
        assert_allclose(trace.tensors[names.encoder_output(block)], state, atol=1e-5)
    others = arrays_of(build_attention_maps(bert.model, vectors=True), encoding)
    blocks = bert.config.num_hidden_layers
    for block in range(1, blocks + 1):
        name = names.encoder(block, names.ATTENTION)
        queries_and_keys = others[blocks + 2 * (block - 1) : blocks + 2 * block]
        assert_allclose(trace.tensors[f"{name}/probs"], others[block - 1], atol=1e-5)
        for part, array in zip(("query", "key"), queries_and_keys, strict=True):
            assert_allclose(trace.tensors[f"{name}/{part}"], array, atol=2e-5)
    assert trace.tensors.keys() >= {
        *(names.TOKEN_EMBEDDING, names.POSITION_EMBEDDING, "Embedding-Position/position"),
        *(f"Encoder-3-{names.ATTENTION}/{part}" for part in ("value", "scores", "context")),
        *(f"Encoder-3-{names.FEED_FORWARD}/{part}" for part in ("intermediate", "activation")),
        *(f"Encoder-3-{part}-Add" for part in (names.ATTENTION, names.FEED_FORWARD)),
    }
    assert (names.SEGMENT_EMBEDDING in trace.tensors) == FAMILIES[family].segments
    assert all(tensor.dtype == np.float32 for tensor in trace.tensors.values())


def trace_outputs(bert: kbert.Bert, pair: str | None = None) -> dict:
    return tracer_of(bert).trace({"text": TEXT, "pair": pair}).outputs


@pytest.mark.full
@pytest.mark.parametrize("family", ["bert", full("roberta"), full("distilbert")])
def test_masks_and_classes_are_those_of_kberts_tasks(berts, family):
    bert = berts[family, "pretraining"]
    (mask,) = trace_outputs(bert)["mlm"]
    expected = kbert.fill_mask(bert, TEXT, top_k=10)[0]
    assert mask["position"] == 4 and mask["blocks"][-1] == mask["candidates"]
    assert len(mask["blocks"]) == bert.config.num_hidden_layers
    assert [one["token"] for one in mask["candidates"]] == [one.token for one in expected]
    probs = [one["prob"] for one in mask["candidates"]]
    assert_allclose(probs, [one.probability for one in expected], rtol=1e-4)

    bert = berts[family, "classifier"]
    classes, labels = trace_outputs(bert)["classes"], kbert.classify(bert, TEXT)
    assert [one["label"] for one in classes] == [one.label for one in labels]
    assert_allclose([one["prob"] for one in classes], [one.probability for one in labels], 1e-4)


@pytest.mark.parametrize("family", ["bert", full("distilbert")])
def test_answer_is_that_of_kberts_task(berts, family):
    bert = berts[family, "qa"]
    span, answer = trace_outputs(bert, PAIR)["answer"], kbert.answer(bert, TEXT, PAIR)
    assert (span["text"], span["start"], span["end"]) == (answer.text, answer.start, answer.end)
    assert_allclose(span["prob"], answer.score, rtol=1e-4)


@pytest.mark.full
def test_next_sentence_labels_and_vector_are_those_of_kberts_tasks(berts):
    bert = berts["bert", "pretraining"]
    is_next = trace_outputs(bert, PAIR)["nsp"]["isNext"]
    assert_allclose(is_next, kbert.next_sentence(bert, TEXT, PAIR), rtol=1e-4)
    bert = berts["bert", "tokens"]
    labels = [rows[0]["label"] for rows in trace_outputs(bert)["tags"][1:4]]
    assert labels == [word.label for word in kbert.tag(bert, TEXT)[:3]]
    bert = berts["bert", "encoder"]
    vector = kbert.embed(bert, TEXT, normalize=True)
    assert_allclose(trace_outputs(bert)["vector"], vector, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize(
    "pooling", ["pooler", "weightedmean", full("mean"), full("cls"), full("max"), full("lasttoken")]
)
def test_vector_is_pooled_as_by_embed(berts, pooling):
    from kbert.checkpoints.sentence_settings import SentenceDense, SentenceSettings

    kernel = np.random.default_rng(3).normal(0, 0.3, (24, 7)).astype("float32")
    settings = SentenceSettings(pooling, True, dimensions=5, dense=(SentenceDense(kernel),))
    bert = dataclasses.replace(berts["bert", "encoder"], sentence=settings)
    trace = tracer_of(bert).trace({"text": TEXT})
    assert_allclose(trace.outputs["vector"], kbert.embed(bert, TEXT), atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("include", [full(True), False])
def test_prompt_comes_before_the_text(berts, include):
    from kbert.checkpoints.sentence_settings import SentenceSettings

    options = {"prompts": {"query": "find it: "}, "default_prompt_name": "query"}
    settings = SentenceSettings("weightedmean", True, include_prompt=include, **options)
    bert = dataclasses.replace(berts["bert", "encoder"], sentence=settings)
    trace = tracer_of(bert).trace({"text": "the dog"})
    assert_allclose(trace.outputs["vector"], kbert.embed(bert, "the dog"), atol=1e-5)
    ((start, end),) = [(one["start"], one["end"]) for one in trace.tokens if one["text"] == "dog"]
    assert (start, end) == (4, 7)


def test_do_lower_case_of_sentence_transformers_leaves_special_tokens(berts):
    """A cased tokenizer gets texts lowercased, by kbert and by the page's own tokenizer."""
    pytest.importorskip("py_mini_racer")
    from helpers.live_pages import Page

    from kbert.checkpoints.sentence_settings import SentenceSettings

    encoder = berts["bert", "encoder"]
    cased = kbert.Tokenizer.from_vocab(encoder.tokenizer.tokens, lowercase=False)
    settings = SentenceSettings("mean", True, lowercase=True)
    bert = dataclasses.replace(encoder, tokenizer=cased, sentence=settings)
    text = "The DOG [MASK] İ Mat"
    expected = kbert.embed(bert, text)
    trace = tracer_of(bert).trace({"text": text})
    assert_allclose(trace.outputs["vector"], expected, atol=1e-5)
    assert "[MASK]" in [one["text"] for one in trace.tokens]
    page = Page(kbert.explore(bert, weights="float32").html)
    assert_allclose(page.run(text)["outputs"]["vector"], expected, atol=1e-5)


def change_model(bert: kbert.Bert, change) -> kbert.Bert:
    """A copy of a `Bert` whose weights `change` has changed, given a layer and its weights."""
    model = kbert.build_bert(bert.config, head=bert.head, seq_len=None, num_labels=5)
    for layer, original in zip(model.layers, bert.model.layers, strict=True):
        weights = [weight.numpy().copy() for weight in original.weights]
        change(layer, weights)
        layer.set_weights(weights)
    return dataclasses.replace(bert, model=model)


def zero_head(layer, weights) -> None:  # head 3 of block 2: its rows of W_O
    if layer.name == names.encoder(2, names.ATTENTION):
        weights[6][2] = 0


def zero_attention(layer, weights) -> None:
    if layer.name == names.encoder(2, names.ATTENTION):
        weights[6][:] = weights[7][:] = 0


def zero_positions(layer, weights) -> None:
    if layer.name == names.POSITION_EMBEDDING:
        weights[0][:] = 0


def cool(layer, weights) -> None:  # the scores halved: those of temperature 2
    if layer.name.endswith(names.ATTENTION):
        weights[0][:] *= 0.5
        weights[1][:] *= 0.5


@pytest.mark.full
@pytest.mark.parametrize(
    ("request_", "change"),
    [
        ({"off": {"heads": [[2, 3]]}}, zero_head),
        ({"off": {"attention": [2]}}, zero_attention),
        ({"off": {"positions": True}}, zero_positions),
        ({"temperature": 2}, cool),
    ],
)
def test_switches_do_what_other_weights_do(berts, request_, change):
    bert = berts["bert", "classifier"]
    found = tracer_of(bert).trace({"text": TEXT} | request_)
    changed = arrays_of(
        build_hidden_states(change_model(bert, change).model), bert.tokenizer.encode(TEXT)
    )
    plain = tracer_of(bert).trace({"text": TEXT})
    last = names.encoder_output(bert.config.num_hidden_layers)
    assert_allclose(found.tensors[last], changed[-1], atol=1e-5)
    assert np.abs(found.tensors[last] - plain.tensors[last]).max() > 1e-3


def test_switched_off_residual_leaves_the_sublayer_alone(berts):
    name = names.encoder(2, names.FEED_FORWARD)
    request = {"text": TEXT, "off": {"residuals": [f"{name}-Add"]}}
    tensors = tracer_of(berts["bert", "classifier"]).trace(request).tensors
    assert_allclose(tensors[f"{name}-Add"], tensors[name])
    others = names.encoder(1, names.FEED_FORWARD)
    before = tensors[names.encoder(1, names.ATTENTION, "Norm")]
    assert_allclose(tensors[f"{others}-Add"], before + tensors[others], atol=1e-6)


def test_offsets_are_those_of_javascript(berts):
    trace = tracer_of(berts["bert", "encoder"]).trace({"text": "\U0001f600 dog", "pair": "a cat"})
    rows = [(one["text"], one["start"], one["end"], one["segment"]) for one in trace.tokens]
    assert rows == [
        *(("[CLS]", 0, 0, 0), ("[UNK]", 0, 2, 0), ("dog", 3, 6, 0), ("[SEP]", 0, 0, 0)),
        *(("a", 0, 1, 1), ("cat", 2, 5, 1), ("[SEP]", 0, 0, 1)),
    ]
    assert [one["special"] for one in trace.tokens] == [True, True, False, True, False, False, True]


def test_long_text_is_truncated_and_an_empty_one_is_not_refused(berts):
    tracer = tracer_of(berts["bert", "encoder"])
    long = tracer.trace({"text": "dog " * 50})
    assert long.truncated and len(long.tokens) == berts["bert", "encoder"].config.positions
    empty = tracer.trace({"text": ""})
    assert not empty.truncated and [one["text"] for one in empty.tokens] == ["[CLS]", "[SEP]"]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"text": 7}, ("text",)),
        ({}, ("text",)),
        ({"text": "a", "temperature": 0}, ("temperature",)),
        ({"text": "a", "off": {"heads": [[9, 1]]}}, ("block",)),
        ({"text": "a", "off": {"heads": [[1, 9]]}}, ("head",)),
        ({"text": "a", "off": {"heads": [[1]]}}, ("heads",)),
        ({"text": "a", "off": {"attention": [0]}}, ("attention",)),
        ({"text": "a", "off": {"residuals": ["Embedding-Norm"]}}, ("Embedding-Norm",)),
        ({"text": "[PAD]"}, ("padding",)),
    ],
)
def test_bad_requests_are_refused(berts, request_, said):
    with raises(ValueError, *said):
        tracer_of(berts["bert", "classifier"]).trace(request_)


def test_newly_initialized_heads_give_no_output(berts, tmp_path):
    kbert.save(berts["bert", "encoder"], tmp_path / "encoder")
    bert = kbert.load(tmp_path / "encoder", head="classifier")
    assert "classes" not in tracer_of(bert).trace({"text": TEXT}).outputs
    assert "classes" in tracer_of(berts["bert", "classifier"]).trace({"text": TEXT}).outputs


@pytest.mark.parametrize("form", ["transformers", "google", "keras_hub"])
def test_files_of_every_format_give_the_same_trace(berts, form, tmp_path):
    bert = berts["bert", "encoder"]
    path = tmp_path / "model"
    kbert.save(bert, path, format=form)
    found = Tracer(open_model(path)).trace({"text": TEXT})
    expected = tracer_of(kbert.load(path)).trace({"text": TEXT})  # KerasHub's GELU is another
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert_allclose(found.tensors[name], tensor, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS.values()) | {"elu", "selu", "softplus"}))
def test_activations_are_those_of_keras(name):
    import keras

    from kbert.ops import activations as kbert_activations

    names_of = {function: hidden_act for hidden_act, function in ACTIVATIONS.items()}
    if name in names_of:
        function = kbert_activations.activation(names_of[name])
    else:
        function = keras.activations.get(name)
    x = np.concatenate([np.linspace(-12, 12, 4001), [0, 60, -60]]).astype("float32")
    expected = keras.ops.convert_to_numpy(function(keras.ops.convert_to_tensor(x)))
    assert_allclose(activations.activate(x, name), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.full
@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
def test_tensors_are_those_of_transformers(family, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from helpers.peer_family import bpe
    from helpers.peer_models import draw_weights, write_tokenizer
    from helpers.peer_tasks import VOCABULARY

    folder = tmp_path / "model"
    folder.mkdir()
    sizes = {"vocab_size": 120, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 37, "max_position_embeddings": 40}
    if family == "Roberta":
        size, _ = bpe(["a cat sat on the mat", "dogs see it", "it rained", "a b c"] * 3, tmp_path)
        sizes |= {"vocab_size": size, "pad_token_id": 1, "type_vocab_size": 1}
        for file in (tmp_path / "bpe").iterdir():
            file.rename(folder / file.name)
    else:
        write_tokenizer(tmp_path, VOCABULARY, 120).save_pretrained(folder)
    if family == "DistilBert":
        config = transformers.DistilBertConfig(
            **{"vocab_size": 120, "dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 37},
            attn_implementation="eager",
        )
    else:
        config = getattr(transformers, f"{family}Config")(**sizes, attn_implementation="eager")
    model = getattr(transformers, f"{family}Model")(config).eval()
    draw_weights(model, 11)
    model.save_pretrained(folder)

    trace = Tracer(open_model(folder)).trace({"text": "a cat sees it", "pair": "dogs sat"})
    peer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = peer("a cat sees it", "dogs sat", return_tensors="pt")
    if family == "DistilBert":
        inputs.pop("token_type_ids", None)
    kept = {}
    for name, layer in model.named_modules():
        layer.register_forward_hook(lambda _, given, output, name=name: kept.update({name: output}))
    with torch.no_grad():
        output = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert [one["id"] for one in trace.tokens] == inputs["input_ids"][0].tolist()
    for block, state in enumerate(output.hidden_states):
        assert_allclose(trace.tensors[names.encoder_output(block)], state[0], atol=1e-5)
    for block, probs in enumerate(output.attentions, 1):
        name = names.encoder(block, names.ATTENTION)
        assert_allclose(trace.tensors[f"{name}/probs"], probs[0], atol=1e-5)
        if family == "DistilBert":
            layer = f"transformer.layer.{block - 1}"
            theirs = {"query": "attention.q_lin", "key": "attention.k_lin"}
            theirs |= {"value": "attention.v_lin", "intermediate": "ffn.lin1", "output": "ffn.lin2"}
        else:
            layer = f"encoder.layer.{block - 1}"
            theirs = {part: f"attention.self.{part}" for part in ("query", "key", "value")}
            theirs |= {"intermediate": "intermediate.dense", "output": "output.dense"}
        feed_forward = names.encoder(block, names.FEED_FORWARD)
        ours = {part: f"{name}/{part}" for part in ("query", "key", "value")}
        ours |= {"intermediate": f"{feed_forward}/intermediate", "output": feed_forward}
        for part, place in theirs.items():
            array = kept[f"{layer}.{place}"][0].numpy()
            found = trace.tensors[ours[part]].reshape(array.shape)
            assert_allclose(found, array, atol=2e-5, err_msg=part)
