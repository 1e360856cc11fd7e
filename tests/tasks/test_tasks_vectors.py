"""Texts in, vectors out: in order, whatever the batches; long texts; compiled once."""

import dataclasses
import gc
import itertools
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from helpers.errors import check_logged, check_named, raises
from helpers.marks import full
from helpers.small_berts import TEXTS
from numpy.testing import assert_allclose

import kbert
from kbert.checkpoints.sentence_settings import CrossEncoderSettings
from kbert.tasks.common import running
from kbert.tasks.common.encoding import split_by_size
from kbert.tasks.embedding.texts import prepare_texts


@pytest.fixture
def bert(berts):
    return berts["encoder"]


def outputs_of(bert, ids: list[int]) -> list[np.ndarray]:
    """The sequence output (S, H) and the pooled one (H,) of one sequence, by Keras alone."""
    inputs = np.array([ids]), np.zeros((1, len(ids)), "int32")
    outputs = bert.model(inputs, training=False)
    return [keras.ops.convert_to_numpy(output)[0] for output in outputs]


# order, batches, lengths


@pytest.mark.full
@pytest.mark.parametrize("batch_size", [4, *(full(n) for n in (1, 32))])
def test_results_stand_in_the_order_of_the_texts(bert, batch_size):
    found = kbert.embed(bert, TEXTS, batch_size=batch_size)
    for text, vector in zip(TEXTS, found, strict=True):
        ids = bert.tokenizer.encode(text).ids
        assert_allclose(vector, outputs_of(bert, ids)[0].mean(0), atol=1e-5)


def test_chunks_of_texts_are_joined_in_order(bert, berts, monkeypatch):
    whole = kbert.embed(bert, TEXTS)
    monkeypatch.setattr(running, "CHUNK", 5)
    assert_allclose(kbert.embed(bert, TEXTS), whole, atol=1e-6)
    assert_allclose(kbert.embed(bert, TEXTS, long="window"), whole, atol=1e-6)
    words = [[word.word for word in words] for words in kbert.tag(berts["tokens"], TEXTS)]
    assert words == [text.split() for text in TEXTS]


def test_batches_computed_at_once_are_those_one_by_one(bert, small, monkeypatch):
    """Bit for bit; and what fails in one of them is raised."""
    found = kbert.embed(bert, TEXTS, batch_size=2)
    monkeypatch.setattr(running, "ThreadPoolExecutor", lambda workers: ThreadPoolExecutor(1))
    assert (kbert.embed(bert, TEXTS, batch_size=2) == found).all()

    def fail(ids, *segment_ids):
        raise MemoryError(f"{len(ids)} rows")

    monkeypatch.setattr(running, "compile_model", lambda model: fail)
    new = dataclasses.replace(bert, model=kbert.build_encoder(small, seq_len=None))
    with raises(MemoryError, "2 rows"):
        kbert.embed(new, TEXTS, batch_size=2)


@pytest.mark.full
def test_one_text_gives_one_result(berts):
    assert kbert.embed(berts["encoder"], "cat").shape == (24,)
    assert isinstance(kbert.next_sentence(berts["pretraining"], "cat", "dog"), float)
    assert kbert.next_sentence(berts["pretraining"], ["cat"], ["dog"]).shape == (1,)
    assert len(kbert.classify(berts["classifier"], "cat")) == 5
    assert len(kbert.classify(berts["classifier"], ["cat"])) == 1
    assert kbert.tag(berts["tokens"], "cat")[0].word == "cat"
    assert kbert.tag(berts["tokens"], ["cat"])[0][0].word == "cat"
    assert kbert.answer(berts["qa"], "who?", "cat").text == "cat"
    assert kbert.answer(berts["qa"], ["who?"], ["cat"])[0].text == "cat"
    assert kbert.attention(berts["encoder"], "cat").tokens == ["[CLS]", "cat", "[SEP]"]
    assert len(kbert.fill_mask(berts["pretraining"], "[MASK]", top_k=3)[0]) == 3


@pytest.mark.full
def test_a_model_of_a_fixed_length_gives_the_same(berts, small):
    bert = berts["encoder"]
    fixed = kbert.build_encoder(small, seq_len=9)
    fixed.set_weights(bert.model.get_weights())
    fixed = dataclasses.replace(bert, model=fixed)
    assert_allclose(kbert.embed(fixed, TEXTS), kbert.embed(bert, TEXTS, max_length=9), atol=1e-5)
    assert_allclose(
        kbert.attention(fixed, "cat sees dog").weights,
        kbert.attention(bert, "cat sees dog").weights,
        atol=1e-6,
    )


def test_bad_embed_options_are_refused(bert):
    for options, says in (
        ({"max_length": 0}, ("max_length", "1", "got 0")),
        ({"max_length": 2}, ("max_length", "3")),
        ({"max_length": 1000}, ("max_length", "17")),
        ({"batch_size": 0}, ("batch_size", "1", "got 0")),
        ({"pooling": "last", "num_layers": 3}, ("num_layers", "2", "got 3")),
        (
            {"num_layers": 2},
            ("num_layers", "pooling='last'", "pooling='mean'"),
        ),
        ({"pooling": "sum"}, ("pooling", "mean, cls", "pooler, last", "'sum'")),
        ({"pooling": "avg"}, ("'avg'", "mean")),
        ({"pooling": "POOL_MAX"}, ("max",)),
        ({"pooling": ["cls", "last"]}, ("'last'",)),
        (
            {"prompt": "a ", "prompt_name": "query"},
            ("prompt", "prompt_name", "got both"),
        ),
        ({"prompt_name": "no"}, ("prompt_name", "query, document", "'no'")),
        ({"long": "cut"}, ("long", "truncate, window", "'cut'")),
    ):
        with raises(ValueError, *says):
            kbert.embed(bert, "cat", **options)


# the compiled functions


@pytest.mark.full
def test_compiled_function_is_freed_with_its_model(small, berts, monkeypatch):
    compiled, compile_model = [], running.compile_model

    def compile_and_count(model):
        compiled.append(model.name)
        return compile_model(model)

    monkeypatch.setattr(running, "compile_model", compile_and_count)
    model = kbert.build_encoder(small, seq_len=None)
    bert = dataclasses.replace(berts["encoder"], model=model)
    for texts in ("cat", TEXTS, TEXTS[:3]):
        kbert.embed(bert, texts)
        kbert.attention(bert, texts)
    assert len(compiled) == 3  # attention's of one text has queries and keys as well
    kbert.embed(bert, TEXTS)
    assert len(compiled) == 3
    kept = weakref.ref(model)
    del bert, model
    gc.collect()
    assert kept() is None


def test_new_weights_reach_compiled_functions(small, berts):
    model = kbert.build_encoder(small, seq_len=None)
    bert = dataclasses.replace(berts["encoder"], model=model)
    before = kbert.embed(bert, "cat")
    model.set_weights(berts["encoder"].model.get_weights())
    assert np.abs(kbert.embed(bert, "cat") - before).max() > 0.1
    assert_allclose(kbert.embed(bert, "cat"), kbert.embed(berts["encoder"], "cat"), atol=1e-6)


def test_one_trace_serves_all_batch_shapes(bert):
    """TensorFlow: one trace, however many shapes there are."""
    traces = []
    function = running.compile_model(Traced(bert.model, traces))
    for rows, length in ((1, 3), (1, 7), (4, 7), (13, 11)):
        ids = np.ones((rows, length), "int32")
        assert function(ids, ids * 0)[0].shape == (rows, length, 24)
    assert len(traces) == 1


class Traced:
    """A model that counts how often its Python is run."""

    def __init__(self, model, traces):
        self._model, self._traces, self.inputs = model, traces, model.inputs

    def __call__(self, inputs, training):
        self._traces.append(1)
        return self._model(inputs, training=training)


# sentence vectors


def test_pooling_of_the_checkpoint_is_the_default(bert):
    own = dataclasses.replace(
        bert, sentence=kbert.checkpoints.sentence_settings.SentenceSettings("max", True, 6)
    )
    wanted = kbert.embed(bert, TEXTS, pooling="max", max_length=6)
    wanted /= np.sqrt((wanted**2).sum(1, keepdims=True))
    assert_allclose(kbert.embed(own, TEXTS), wanted, atol=1e-6)
    plain = kbert.embed(own, TEXTS, pooling="mean", normalize=False, max_length=17)
    assert_allclose(plain, kbert.embed(bert, TEXTS), atol=1e-6)
    assert np.abs(np.linalg.norm(plain, axis=1) - 1).max() > 0.1


def test_bad_uses_of_a_prompt_are_refused(bert, berts, messages):
    sentence = kbert.SentenceSettings(
        "mean",
        False,
        prompts={"query": "red ", "passage": "big "},
        default_prompt_name="query",
        include_prompt=False,
    )
    own = dataclasses.replace(bert, sentence=sentence)
    for call, says in (
        (
            lambda: kbert.embed(own, "cat", max_length=3, prompt="a red "),
            ("prompt", "3 tokens"),
        ),
        (lambda: kbert.embed(own, "cat", long="window"), ("long='window'",)),
        (
            lambda: kbert.attribute(own, "cat", similar_to="dog"),
            ("similar_to",),
        ),
        (lambda: kbert.evaluate(own, "embed", [("a", "b"), ("c", "d")]), ("include_prompt=False",)),
        (lambda: kbert.rank(berts["classifier"], "a", ["b"], query_prompt_name="x"), ("prompt",)),
    ):
        with raises(ValueError, *says):
            call()
    kbert.search(own, "cat", ["dog"])
    check_logged(messages, "'passage'")
    messages.clear()
    kbert.search(own, "cat", ["dog"], text_prompt_name="passage")
    assert not messages


def test_texts_are_lowercased_as_the_rust_tokenizers_do_it(bert):
    """A capital sigma at a word's end too; special tokens stay."""
    from tokenizers.normalizers import Lowercase

    tokens = bert.tokenizer.tokens
    cased = kbert.Tokenizer.from_vocab(tokens, lowercase=False)
    settings = kbert.SentenceSettings("mean", False, lowercase=True)
    text = "ΌΔΟΣ İstanbul ǅ STRASSE ẞ"
    found = prepare_texts(cased, settings, [f"{text} [MASK] A", text], "The ")
    lowered = Lowercase().normalize_str(f"The {text}")
    assert found == [f"{lowered} [MASK] a", lowered]
    assert prepare_texts(bert.tokenizer, settings, [text], "") == [text]  # it lowercases itself


def test_an_activation_that_is_not_known_is_refused(berts, small):
    model = kbert.build_classifier(small, seq_len=None, num_labels=1)
    settings = CrossEncoderSettings("os.system")
    bert = dataclasses.replace(berts["classifier"], model=model, cross_encoder=settings)
    with raises(ValueError, "activation_fn", "torch.nn", "'os.system'"):
        kbert.rank(bert, "cat", ["dog"])


@pytest.mark.full
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "pooler"])
@pytest.mark.parametrize("tokens", [44, *(full(n) for n in (15, 16, 27))])
def test_a_long_texts_vector_is_the_mean_over_its_windows(bert, pooling, tokens):
    """17 positions: windows of 15 tokens, 3 of them shared; the last ends with the text."""
    text = " ".join(itertools.islice(itertools.cycle(["red", "cat", "sun", "big"]), tokens))
    starts = {15: [0], 16: [0, 1], 27: [0, 12], 44: [0, 12, 24, 29]}[tokens]
    ids = bert.tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) == tokens
    vectors = []
    for start in starts:
        window = [2, *ids[start : start + 15], 3]
        states, pooled = outputs_of(bert, window)
        own = {"mean": states.mean(0), "cls": states[0], "max": states.max(0), "pooler": pooled}
        vectors.append(own[pooling])
    wanted = np.mean(vectors, axis=0)
    found = kbert.embed(bert, ["cat", text], pooling=pooling, long="window")
    assert_allclose(found[1], wanted, atol=1e-5)
    normal = kbert.embed(bert, text, pooling=pooling, long="window", normalize=True)
    assert_allclose(normal, wanted / np.sqrt((wanted**2).sum()), atol=1e-5)


def test_one_warning_counts_the_texts_that_were_cut(bert, messages, monkeypatch):
    monkeypatch.setattr(running, "CHUNK", 5)
    long = ["cat " * 16, *TEXTS, "sun " * 99]
    kbert.embed(bert, long)
    (warning,) = messages
    check_named(warning, "2 of 15", "17 tokens")
    messages.clear()
    kbert.embed(bert, TEXTS)
    kbert.embed(bert, long, long="window")
    assert not messages


def test_similarity_is_the_cosine(bert):
    vectors = kbert.embed(bert, TEXTS).astype("float64")
    lengths = np.sqrt((vectors**2).sum(1))
    found = kbert.similarity(bert, TEXTS)
    assert_allclose(found, vectors @ vectors.T / np.outer(lengths, lengths), atol=1e-5)
    assert np.abs(found).max() <= 1


def test_progress_is_shown_only_when_it_takes_long(bert, capfd, monkeypatch):
    kbert.embed(bert, TEXTS)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr("kbert.io.progress.PROGRESS_DELAY_S", 0.0)
    kbert.embed(bert, TEXTS)
    assert f"0/{len(TEXTS)}" in capfd.readouterr().err


def test_jax_compiles_for_few_shapes(bert, monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    lengths = {running.pad_length(bert, tokens) for tokens in range(3, 18)}
    assert lengths == {8, 16, 17}  # 17 positions


@pytest.mark.full
def test_many_models_in_one_process_bring_no_warning(berts):
    """TensorFlow's own of retracing: a function a model is what is wanted."""
    with unittest.TestCase().assertNoLogs(level="WARNING"):
        for pooling in ("mean", "cls", "max", "pooler"):
            for head in ("encoder", "pretraining", "classifier"):
                kbert.embed(berts[head], ["cat", "dog sees"], pooling=pooling)


def test_texts_are_tokenized_in_portions_of_characters():
    """About 2²⁰ characters at a time; a longer text is a portion of its own."""
    texts = ["a" * 600_000, "b" * 400_000, "c" * 100_000, "d" * 2_000_000, "", "e"]
    parts = list(split_by_size(texts))
    assert [len(texts[part]) for part in parts] == [2, 1, 1, 2]
    assert [text for part in parts for text in texts[part]] == texts
    assert [len(texts[part]) for part in split_by_size(texts, texts, most=1)] == [1] * 6
    assert list(split_by_size([])) == list(split_by_size()) == []
