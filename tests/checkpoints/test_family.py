"""RoBERTa, XLM-R and DistilBERT have transformers' numbers, tokens, files and counts.

Everything is compared with what transformers' own classes wrote in a process of their own: two
classes in the default round, all of them in the full one.
"""

import dataclasses
import functools
import json

import numpy as np
import pytest
from helpers.damaged_checkpoints import load_error
from helpers.errors import collected_logs, raises
from helpers.marks import full, nightly
from helpers.peer_family import CLASSES
from helpers.peer_outputs import run_peer
from helpers.texts import UNICODE
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file

import kbert
from kbert.graph.families import OTHER_GRAPHS

TEXTS = [*UNICODE, "paris is <mask>.", "a <mask>  b<mask>", "<s> framed </s>", "  two  blanks  "]
COPIES = {"lm_head.decoder.weight", "lm_head.decoder.bias", "vocab_projector.weight"}  # tied

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "bark", "##ed"]
QUICK = ("RobertaForTokenClassification", "DistilBertForSequenceClassification")
EVERY = [c if c in QUICK else full(c) for c in CLASSES]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Two classes, the tokenizers, and what they give."""
    out = tmp_path_factory.mktemp("quick")
    run_peer("peer_family:write_classes", out, TEXTS, QUICK)
    return out


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """All classes, by transformers in a process of its own."""
    out = tmp_path_factory.mktemp("family")
    run_peer("peer_family:write_classes", out, TEXTS)
    return out


@pytest.fixture
def there(request, name):
    return request.getfixturevalue("quick" if name in QUICK else "folders")


load = functools.cache(kbert.load)  # of folders and models that no test changes


@pytest.mark.parametrize("name", EVERY)
def test_every_class_gives_transformers_numbers(there, name):
    bert, peer = load(there / name), np.load(there / f"{name}.npz")
    assert bert.report.initialized == bert.report.ignored == ()
    found = list(kbert.predict(bert.model, peer["ids"]).values())
    real = peer["ids"] != bert.config.pad_token_id
    wanted = [peer[key] for key in peer.files if key.startswith("arr_")]
    for value, expected in zip(found, wanted, strict=True):
        place = real if value.shape[:2] == real.shape else slice(None)
        assert_allclose(value[place], expected[place], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_closed_form_graph_and_transformers_count_the_same(there, name):
    bert = load(there / name)
    counted = kbert.account(bert.config, head=bert.head, num_labels=bert.spec.num_labels)
    assert bert.model.count_params() == counted.params
    assert counted.params == np.load(there / f"{name}.npz")["params"]
    assert kbert.verify(bert.model).ok


@pytest.mark.full
@pytest.mark.parametrize("name", EVERY)
def test_what_is_saved_is_what_transformers_wrote_bit_for_bit(there, name, tmp_path):
    kbert.save(load(there / name), tmp_path)
    theirs, ours = (load_file(path / "model.safetensors") for path in (there / name, tmp_path))
    assert set(theirs) - COPIES == set(ours)
    for key in ours:
        assert_array_equal(theirs[key], ours[key], strict=True)
    values, wanted = (
        json.loads((path / "config.json").read_text()) for path in (tmp_path, there / name)
    )
    for key in ("model_type", "architectures", "vocab_size", "max_position_embeddings"):
        assert values[key] == wanted[key]
    again = kbert.load(tmp_path)
    assert again.spec == load(there / name).spec


@pytest.mark.full
@pytest.mark.parametrize("said", [{}, {"qa_dropout": 0.33, "seq_classif_dropout": 0.27}])
def test_distilbert_dropout_rates_are_kept(said, tmp_path):
    from transformers import DistilBertConfig

    sizes = {"vocab_size": 99, "dim": 24, "n_heads": 4, "n_layers": 1, "hidden_dim": 40}
    values = sizes | {"max_position_embeddings": 17, "model_type": "distilbert"} | said
    config, peer = kbert.BertConfig.from_dict(values), DistilBertConfig(**values)
    answering = kbert.build_question_answering(config)
    assert answering.get_layer("Span-Dropout").rate == peer.qa_dropout
    assert answering.get_layer("Span").input is answering.get_layer("Span-Dropout").output
    classifier = kbert.build_classifier(config)
    assert classifier.get_layer("Classifier-Dropout").rate == peer.seq_classif_dropout
    written = DistilBertConfig(**config.to_transformers_dict())
    dropouts = {"qa_dropout", "seq_classif_dropout", "dropout", "attention_dropout"}
    assert all(getattr(written, name) == getattr(peer, name) for name in dropouts)
    for model, rate in ((answering, "qa_dropout"), (classifier, "classifier_dropout")):
        assert kbert.verify(model).ok
        model.save(tmp_path / "own.keras")  # where the layers alone tell it
        assert getattr(kbert.load(tmp_path / "own.keras").config, rate) == getattr(config, rate)


@pytest.mark.full
def test_keras_file_keeps_family_models(folders, tmp_path):
    for name in ("RobertaForSequenceClassification", "DistilBertModel", "XLMRobertaModel"):
        bert = kbert.load(folders / name)
        if name.startswith("Roberta"):
            bert = with_tokens(folders, name)
        kbert.save(bert, tmp_path / "bert.keras", overwrite=True)
        again = kbert.load(tmp_path / "bert.keras")
        assert again.spec == bert.spec
        if bert.tokenizer:
            assert again.tokenizer.encode(UNICODE[0]).ids == bert.tokenizer.encode(UNICODE[0]).ids
        ids = np.load(folders / f"{name}.npz")["ids"]
        for one, other in zip(
            *(kbert.predict(b.model, ids).values() for b in (bert, again)), strict=True
        ):
            assert_array_equal(one, other)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_hard_texts_have_transformers_ids(quick, kind, tmp_path):
    wanted = json.loads((quick / "tokens.json").read_text())[kind]
    tokenizer = kbert.Tokenizer.load(quick / kind)
    tokenizer.save(tmp_path)
    for one in (tokenizer, kbert.Tokenizer.load(tmp_path)):
        pairs = [*TEXTS[1:], TEXTS[3]]
        cut = one.encode_batch(TEXTS, pairs, max_length=19)
        assert [e.ids for e in one.encode_batch(TEXTS)] == wanted["single"]
        assert [e.ids for e in one.encode_batch(TEXTS, pairs)] == wanted["pair"]
        assert [e.ids for e in cut] == wanted["cut"]
        assert not any(any(e.segment_ids) for e in cut)
        decoded = [one.decode(ids, skip_special_tokens=False) for ids in wanted["single"]]
        assert decoded == wanted["decoded"]


def test_vocab_and_merges_are_the_same_tokenizer(quick):
    whole, files = (kbert.Tokenizer.load(quick / kind) for kind in ("bpe", "bpe_files"))
    assert files.tokens == whole.tokens
    for text in UNICODE:
        assert files.encode(text).ids == whole.encode(text).ids
    # As RoBERTa's own, and transformers to 4, which trained so; 5 leaves the blank before a mask.
    assert files.encode("a <mask>").ids == files.encode("a<mask>").ids


def test_long_text_is_truncated_to_a_prefix(quick):
    tokenizer = kbert.Tokenizer.load(quick / "bpe")
    text = ("blanks" + " " * 37 + "naïve\n\n\n ") * 400
    ids = tokenizer.encode(text).ids
    for length in (7, 300, 901):
        assert tokenizer.encode(text, max_length=length).ids == [*ids[: length - 1], ids[-1]]


def with_tokens(folders, name):
    tokenizer = kbert.Tokenizer.load(folders / "bpe")
    return dataclasses.replace(kbert.load(folders / name), tokenizer=tokenizer)


@pytest.mark.full
def test_tasks_work_with_roberta(folders, tmp_path):
    bert = with_tokens(folders, "RobertaForMaskedLM")
    (candidates,) = kbert.fill_mask(bert, "a <mask>", top_k=3)
    ids = bert.tokenizer.encode("a <mask>").ids
    logits = kbert.predict(bert.model, ids)["MLM"][0, ids.index(bert.tokenizer.mask_id)]
    best = np.argsort(-logits)[:3]
    assert [one.token for one in candidates] == [bert.tokenizer.tokens[n] for n in best]
    one, both = kbert.embed(bert, "narrow"), kbert.embed(bert, ["narrow", "a longer text, padded"])
    assert_allclose(one, both[0], atol=1e-5)
    with raises(ValueError, "next_sentence"):
        kbert.next_sentence(bert, "a", "b")
    assert kbert.classify(with_tokens(folders, "RobertaForSequenceClassification"), "a", "b")


@pytest.mark.full
@pytest.mark.parametrize("name", ["RobertaModel", nightly("DistilBertModel")])
def test_finetuned_tagging_and_answering_reload(folders, name, tmp_path):
    """With a run's folder, whose checkpoints open again and answer alike."""
    bert, output = with_words(folders, name), {"output": tmp_path / "run"}
    (tmp_path / "train.conll").write_text("the O\ndogs ANIMAL\nbark O\n\n" * 8)
    question = {"question": "the dogs", "context": "the dog barked", "id": "q"}
    question["answers"] = {"text": ["dog"], "answer_start": [4]}
    options = {"epochs": 12, "batch_size": 8, "learning_rate": 3e-3, "max_length": 20}
    options |= {"progress": False, "peak_flops": 1e9}
    tagged = kbert.finetune(bert, "tag", train=tmp_path / "train.conll", **output, **options)
    found = [kbert.tag(b, "the dogs bark") for b in (tagged.bert, kbert.load(tmp_path / "run"))]
    assert found[0] == found[1] and [one.label for one in found[0]] == ["O", "ANIMAL", "O"]
    asked = kbert.finetune(bert, "qa", train=[question] * 8, **options)
    kbert.save(asked.bert, tmp_path / "qa")
    again = kbert.load(tmp_path / "qa")
    assert again.architecture == name.replace("Model", "ForQuestionAnswering")
    assert kbert.answer(again, "the dogs", "the dog barked").text == "dog"


@pytest.mark.full
@pytest.mark.parametrize("name", ["DistilBertModel", nightly("RobertaModel")])
def test_sentence_vectors_are_trained(folders, name, tmp_path):
    """Nothing is said of a pooler, which DistilBERT has none of; RoBERTa's stays."""
    bert = with_words(folders, name)
    pairs = [("dog bark", "the dogs"), ("barked", "dogs bark"), ("the dog", "dog")]
    settings = {"epochs": 2, "batch_size": 3, "learning_rate": 1e-2}
    with collected_logs() as messages:
        found = kbert.finetune(bert, "embed", train=pairs, **settings)
    assert not any("pooler" in text for text in messages)
    kbert.save(found.bert, tmp_path)
    ours, again = (kbert.embed(b, ["dog", "barked"]) for b in (found.bert, kbert.load(tmp_path)))
    assert_allclose(again, ours, atol=1e-6)
    assert np.abs(ours - kbert.embed(bert, ["dog", "barked"], pooling="mean")).max() > 1e-3


def with_words(folders, name):
    """A model with a tokenizer whose words fit its table."""
    if name == "RobertaModel":
        return with_tokens(folders, name)
    tokenizer = kbert.Tokenizer.from_vocab(WORDS, lowercase=True)
    return dataclasses.replace(kbert.load(folders / name), tokenizer=tokenizer)


@pytest.mark.parametrize("model_type", [*OTHER_GRAPHS, "unheard-of"])
def test_other_model_types_are_named(tmp_path, model_type):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, "vocab_size": 99}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    load_error(tmp_path, OTHER_GRAPHS.get(model_type, model_type))


@pytest.mark.parametrize("form", ["google", "keras_hub"])
def test_bert_only_formats_refuse_distilbert(quick, form, tmp_path):
    with raises(ValueError, f"format {form}", "DistilBERT"):
        kbert.save(kbert.load(quick / QUICK[1]), tmp_path, format=form)


def test_pad_id_is_saved_from_the_tokenizer(quick, tmp_path):
    config = kbert.BertConfig(
        vocab_size=300, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=37, max_position_embeddings=19,
    )  # fmt: skip
    tokenizer = kbert.Tokenizer.load(quick / "unigram")
    model = kbert.build_encoder(config.replace(vocab_size=tokenizer.vocab_size), seq_len=None)
    config = config.replace(vocab_size=tokenizer.vocab_size)
    kbert.save(kbert.Bert(config, "encoder", model, tokenizer), tmp_path)
    again = kbert.load(tmp_path)
    assert (again.config.pad_token_id, again.tokenizer.cls_id) == (1, 0)
