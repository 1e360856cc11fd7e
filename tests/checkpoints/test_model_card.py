"""Model cards: what huggingface_hub reads of their metadata, and what a reader finds in them."""

import re
from dataclasses import replace

import pytest
from huggingface_hub import ModelCard

import kbert
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.graph.spec import GraphSpec
from kbert.hub.model_card import Training, make_card

COMMIT = "3d" * 20
TRAINING = Training(
    verb="fine-tuned",
    base=f"hf://google-bert/bert-base-uncased@{COMMIT}",
    facts={"Started from": "…", "Data": "train.tsv, 67,349 examples", "Seen": "3 | 4 epochs"},
    dev="dev.tsv",
    metrics={"loss": 0.25, "accuracy": 0.9375, "matthews": 0.875},
    settings={"epochs": 3, "learning_rate": 2e-5, "lora_targets": ("query", "value")},
    intervals={"accuracy": (0.90625, 0.953125), "matthews": (0.8, 0.9)},
)
TAGS = {  # Hugging Face's names of tasks
    "encoder": "feature-extraction",
    "pretraining": "fill-mask",
    "classifier": "text-classification",
    "tokens": "token-classification",
    "qa": "question-answering",
}


def outline(small, head: str = "classifier", **facts) -> kbert.Bert:
    """A `Bert` without weights."""

    class Model:
        spec = GraphSpec(small, head, num_labels=2)

    return kbert.Bert(small, head, Model(), **facts)


def test_metadata_is_what_huggingface_hub_reads_back(small):
    bert = outline(small, labels=("bad", "good"), problem_type="single_label_classification")
    data = ModelCard(make_card(bert, training=TRAINING)).data
    assert data.base_model == "google-bert/bert-base-uncased"
    assert (data.library_name, data.pipeline_tag) == ("transformers", "text-classification")
    assert data.tags == ["kbert", "bert"]
    assert data.model_name == "bert-base-uncased fine-tuned for text classification"
    found = {one.metric_type: (one.metric_value, one.dataset_name) for one in data.eval_results}
    values = {"accuracy": 0.9375, "matthews_correlation": 0.875}
    assert found == {name: (value, "dev.tsv") for name, value in values.items()}
    assert {one.task_type for one in data.eval_results} == {"text-classification"}


def test_card_says_labels_base_commit_metrics_with_intervals_and_settings(small):
    card = make_card(outline(small, labels=("bad", "go|od")), training=TRAINING)
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", card, re.MULTILINE))
    assert rows["Labels"] == r"bad, go\|od"
    assert rows["Started from"].endswith(f"tree/{COMMIT}), commit `{COMMIT}`")
    assert (rows["Data"], rows["Seen"]) == ("train.tsv, 67,349 examples", r"3 \| 4 epochs")
    assert rows["accuracy"] == "0.9375 | 0.9062 to 0.9531"
    assert rows["loss"] == "0.2500 | "
    assert rows["`learning_rate`"] == "2e-05" and rows["`lora_targets`"] == "query, value"


@pytest.mark.parametrize("head", TAGS)
def test_each_head_has_its_task_and_its_function(small, head):
    card = make_card(outline(small, head))
    data = ModelCard(card).data
    assert (data.pipeline_tag, data.eval_results) == (TAGS[head], None)
    function = re.search(r"print\(kbert\.(\w+)\(bert, ", card)[1]
    assert callable(getattr(kbert, function))
    assert "## Metrics" not in card and "Hyperparameters" not in card


def test_sentence_embeddings_are_for_sentence_transformers(small):
    bert = outline(small, "encoder", sentence=SentenceSettings("mean", False))
    data = ModelCard(card := make_card(bert)).data
    assert data.library_name == "sentence-transformers"
    assert data.pipeline_tag == "sentence-similarity"
    assert 'SentenceTransformer("ORG/NAME")' in card
    data = ModelCard(card := make_card(bert, form="google")).data
    assert data.library_name == "kbert" and "sentence_transformers" not in card
    assert ModelCard(make_card(bert, form="keras_hub")).data.library_name == "keras-hub"


def test_example_of_a_classifier_of_pairs_has_two_texts(small):
    card = make_card(outline(small), training=replace(TRAINING, pairs=True))
    assert 'kbert.classify(bert, "a fine film", "a good film")' in card
    assert 'tokenizer("a fine film", "a good film", return_tensors="pt")' in card


def test_a_base_elsewhere_is_no_base_model(small):
    base = "kaggle://keras/bert/keras/bert_base_en/3"
    card = make_card(outline(small), training=replace(TRAINING, base=base))
    assert ModelCard(card).data.base_model is None and f"`{base}`" in card
    card = make_card(outline(small), training=replace(TRAINING, base=None))
    assert ModelCard(card).data.base_model is None and "# BERT fine-tuned for" in card


def test_without_dev_data_the_card_says_so(small):
    training = replace(TRAINING, dev=None, metrics={}, intervals={})
    card = make_card(outline(small), training=training)
    assert "The run had no dev data, so there are no metrics." in card
    assert ModelCard(card).data.eval_results is None


def test_without_intervals_the_card_says_why(small):
    training = replace(TRAINING, intervals={})
    card = make_card(outline(small), training=training)
    assert "There are no intervals: they need at least 10 dev examples" in card
    training = replace(training, verb="pretrained")
    card = make_card(outline(small, "pretraining"), training=training)
    assert "There are no intervals: these are means" in card and "95 %" not in card


def test_names_act_on_no_reader(small):
    """Marks of direction, controls and HTML in labels and names of files are escaped."""
    name = "<b>\u202egood\x1b[0m"
    facts = {"Data": f"{name}.tsv, 3 examples"}
    training = replace(TRAINING, facts=facts, dev=f"{name}.tsv")
    card = make_card(outline(small, labels=("bad", name)), training=training)
    assert "| Labels | bad, &lt;b&gt;\\u202egood\\u001b[0m |" in card
    assert "| Data | &lt;b&gt;\\u202egood\\u001b[0m.tsv, 3 examples |" in card
    assert not re.search("<b>|[\u202e\x1b]", card.partition("\n---\n")[2])
    assert not re.search("[\u202e\x1b]", card)
    assert ModelCard(card).data.eval_results[0].dataset_name.endswith("[0m.tsv")
