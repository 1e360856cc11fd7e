"""Sentence vectors and scores are sentence-transformers'."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from helpers import peer_sentence_folders
from helpers.errors import logged
from helpers.marks import nightly
from helpers.peer_outputs import run_peer
from helpers.small_berts import change_weights, small_bert
from numpy.testing import assert_allclose

import kbert
from kbert import SentenceSettings
from kbert.checkpoints.sentence_settings import SentenceDense

pytestmark = [
    pytest.mark.filterwarnings("ignore")  # of the peer's
]

TEXTS = [
    "the CAT sat on the mat.",
    "moon",
    "",
    "The ΣUN of it [MASK] Σ",
    "playing dogs, a tree, he",
]
PROMPTS = {"query": "the cat ", "document": "a big ", "other": "Red "}
RNG = np.random.default_rng(3)


def dense(inputs, outputs, activation, bias=True):
    kernel, row = RNG.normal(0, 0.3, (inputs, outputs)), RNG.normal(0, 0.3, outputs)
    return SentenceDense(
        kernel.astype("float32"), row.astype("float32") if bias else None, activation
    )


EVERY = ("weightedmean", "max", "cls", "lasttoken", "mean_sqrt_len_tokens", "mean")
CASES = {
    "several": SentenceSettings(("cls", "mean"), True, 7),
    "every one, in another order": SentenceSettings(EVERY, False, similarity="manhattan"),
    "LaBSE": SentenceSettings("cls", True, dense=(dense(24, 13, "tanh"),)),
    "two dense layers": SentenceSettings(
        ("max", "mean"), False, dense=(dense(48, 7, "gelu", False), dense(7, 11, "linear"))
    ),
    "lowercased": SentenceSettings(
        "mean", True, lowercase=True, prompts=PROMPTS, default_prompt_name="other"
    ),
    "cut vectors": SentenceSettings("lasttoken", True, dimensions=5),
    "no default prompt": SentenceSettings("max", False, prompts=PROMPTS, similarity="dot"),
    "a default prompt alone": SentenceSettings(
        "mean",
        False,
        prompts={"other": "Red "},
        default_prompt_name="other",
        similarity="euclidean",
    ),
    "the prompt is left out": SentenceSettings(EVERY, False, prompts=PROMPTS, include_prompt=False),
}


NIGHTLY = ("several", "two dense layers", "cut vectors", "a default prompt alone")
EVERY_CASE = [nightly(case) if case in NIGHTLY else case for case in CASES]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Folders that sentence-transformers wrote, its vectors and its scores."""
    out = tmp_path_factory.mktemp("written")
    run_peer("peer_sentence_folders:write_folders", out)
    return out


@pytest.mark.full
@pytest.mark.parametrize("case", peer_sentence_folders.CASES)
def test_written_folders_give_sentence_transformers_vectors(written, tmp_path, case):
    bert = kbert.load(written / case)
    wanted = np.load(written / f"{case}.npy")
    assert_allclose(kbert.embed(bert, peer_sentence_folders.TEXTS), wanted, atol=1e-5)
    kbert.save(bert, tmp_path)
    again = kbert.load(tmp_path)
    assert again.sentence.pooling == bert.sentence.pooling
    assert_allclose(kbert.embed(again, peer_sentence_folders.TEXTS), wanted, atol=1e-5)


def test_written_cross_encoder_gives_its_scores(written):
    texts = peer_sentence_folders.TEXTS
    hits = kbert.rank(kbert.load(written / "cross"), peer_sentence_folders.QUERY, texts)
    scores = {hit.place: hit.score for hit in hits}
    assert_allclose(
        [scores[n] for n in range(len(texts))], np.load(written / "cross.npy"), atol=1e-5
    )


@pytest.fixture(scope="module")
def bert(small):
    pytest.importorskip("sentence_transformers", reason="the peer")
    found = small_bert(small, "encoder")
    tokens = found.tokenizer.tokens
    return dataclasses.replace(found, tokenizer=kbert.Tokenizer.from_vocab(tokens, lowercase=False))


def peer(folder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


@pytest.mark.full
@pytest.mark.parametrize("case", EVERY_CASE)
def test_vectors_are_those_of_sentence_transformers(bert, tmp_path, case):
    """kbert's folder there; what it saves of it, and kbert's own file, here."""
    kbert.save(dataclasses.replace(bert, sentence=CASES[case]), tmp_path / "ours")
    theirs = peer(tmp_path / "ours")
    kbert.save(kbert.load(tmp_path / "ours"), tmp_path / "ours.keras")
    places = ["ours", "ours.keras"]
    if not CASES[case].lowercase:  # version 6 loses it where it saves
        theirs.save(str(tmp_path / "theirs"), create_model_card=False)
        places.append("theirs")
    wanted = theirs.encode(TEXTS)
    queries, documents = theirs.encode_query(TEXTS[:2]), theirs.encode_document(TEXTS)
    similarities = theirs.similarity(queries, documents).numpy()
    for place in places:
        found = kbert.load(tmp_path / place)
        assert_allclose(kbert.embed(found, TEXTS), wanted, atol=1e-5)
    every = theirs.similarity(wanted, wanted).numpy()
    assert_allclose(kbert.similarity(found, TEXTS), every, atol=1e-4)
    prompts = found.sentence.prompts
    for name, vectors in (("query", queries), ("document", documents)):
        one = kbert.embed(found, TEXTS[: len(vectors)], prompt=prompts.get(name, ""))
        assert_allclose(one, vectors, atol=1e-5)
    for row, hits in enumerate(kbert.search(found, TEXTS[:2], TEXTS)):
        scores = {hit.place: hit.score for hit in hits}
        assert_allclose([scores[n] for n in range(5)], similarities[row], atol=1e-4)
        assert [hit.score for hit in hits] == sorted(scores.values(), reverse=True)


@pytest.mark.full
@pytest.mark.parametrize("opened", ["", "0_Transformer"])
def test_the_layout_of_before_version_2(bert, tmp_path, opened):
    """The model lies in a folder of its own, which finds modules.json around it."""
    kbert.save(dataclasses.replace(bert, sentence=SentenceSettings("cls", True, 6)), tmp_path)
    inner = tmp_path / "0_Transformer"
    inner.mkdir()
    for file in list(tmp_path.iterdir()):
        if file.is_file() and file.name not in (
            "modules.json",
            "config_sentence_transformers.json",
        ):
            shutil.move(file, inner / file.name)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "config.json").write_text('{"__version__": "0.4.1"}')
    found = kbert.load(tmp_path / opened)
    assert_allclose(kbert.embed(found, TEXTS), peer(tmp_path).encode(TEXTS), atol=1e-5)
    assert kbert.inspect(tmp_path / opened).problems == ()


ACTIVATIONS = {
    "none": {},
    "Identity": {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
    "an older folder's": {"sbert_ce_default_activation_function": "torch.nn.Tanh"},
    "both": {
        "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.GELU"},
        "sbert_ce_default_activation_function": "torch.nn.Tanh",
    },
    "of a regression": {"problem_type": "regression"},
}


@pytest.mark.full
@pytest.mark.parametrize(
    "case",
    [*("Identity", "both", "of a regression"), nightly("none"), nightly("an older folder's")],
)
def test_scores_are_those_of_a_cross_encoder(bert, small, tmp_path, case):
    from sentence_transformers import CrossEncoder

    model = change_weights(kbert.build_classifier(small, seq_len=None, num_labels=1))
    one = kbert.Bert(small, "classifier", model, bert.tokenizer, labels=("LABEL_0",))
    kbert.save(one, tmp_path / "ours")
    values = json.loads((tmp_path / "ours" / "config.json").read_text()) | ACTIVATIONS[case]
    (tmp_path / "ours" / "config.json").write_text(json.dumps(values))
    theirs = CrossEncoder(str(tmp_path / "ours"), device="cpu")
    wanted = theirs.predict([("a cat", text) for text in TEXTS])
    theirs.save(str(tmp_path / "theirs"), create_model_card=False)
    kbert.save(kbert.load(tmp_path / "ours"), tmp_path / "ours.keras")
    kbert.save(kbert.load(tmp_path / "ours"), tmp_path / "again")
    for place in ("ours", "theirs", "ours.keras", "again"):
        hits = kbert.rank(kbert.load(tmp_path / place), "a cat", TEXTS)
        scores = {hit.place: hit.score for hit in hits}
        assert_allclose([scores[n] for n in range(5)], wanted, atol=1e-5)
    again = CrossEncoder(str(tmp_path / "again"), device="cpu")
    assert_allclose(again.predict([("a cat", text) for text in TEXTS]), wanted, atol=1e-5)


@pytest.mark.full
def test_the_prompt_of_a_cross_encoder(bert, small, tmp_path):
    from sentence_transformers import CrossEncoder

    model = kbert.build_classifier(small, seq_len=None, num_labels=1)
    kbert.save(kbert.Bert(small, "classifier", model, bert.tokenizer), tmp_path / "ours")
    theirs = CrossEncoder(
        str(tmp_path / "ours"), device="cpu", prompts={"red": "red "}, default_prompt_name="red"
    )
    theirs.save(str(tmp_path / "theirs"), create_model_card=False)
    wanted = sorted(theirs.predict([("a cat", text) for text in TEXTS]), reverse=True)
    hits = kbert.rank(kbert.load(tmp_path / "theirs"), "a cat", TEXTS)
    assert [hit.score for hit in hits] == pytest.approx(wanted, abs=1e-5)
    for name in ("keras_hub", "google"):  # formats without a place for them say so
        with logged("cross-encoder", "activation", "prompt"):
            kbert.save(kbert.load(tmp_path / "theirs"), tmp_path / name, format=name)
