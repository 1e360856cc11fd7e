"""The graph that a model's folder or a config.json means: its head and its number of labels."""

import json

import pytest
from helpers.command_line import kbert as kbert_command

import kbert
from kbert.graph.closed_form import rows
from kbert.graph.spec import GraphSpec

LABELS = {"id2label": {str(n): f"B-{n}" for n in range(35)}}
SIZES = {"vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
BERT = SIZES | {"num_attention_heads": 2, "model_type": "bert"}
ROBERTA = BERT | {"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1}
DISTILBERT = {"vocab_size": 50, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}
DISTILBERT["model_type"] = "distilbert"

# transformers 5.24.0: num_parameters() of these classes with 35 labels; of question answering with
# 2, start and end.
PARAMETERS = {
    "BertModel": (BERT, 5064),
    "BertForTokenClassification": (BERT, 5307),
    "BertForSequenceClassification": (BERT, 5379),
    "BertForQuestionAnswering": (BERT, 5010),
    "BertForPreTraining": (BERT, 5220),
    "BertForMultipleChoice": (BERT, 5073),
    "RobertaModel": (ROBERTA, 5072),
    "RobertaForTokenClassification": (ROBERTA, 5315),
    "RobertaForSequenceClassification": (ROBERTA, 5387),
    "RobertaForMaskedLM": (ROBERTA, 5138),
    "DistilBertModel": (DISTILBERT, 4976),
    "DistilBertForTokenClassification": (DISTILBERT, 5291),
    "DistilBertForSequenceClassification": (DISTILBERT, 5363),
}


def write_config(folder, architecture, sizes, **others):
    """Write a config.json as transformers does, and return its path."""
    values = sizes | {"architectures": [architecture]} | LABELS | others
    file = folder / "config.json"
    file.write_text(json.dumps(values))
    return file


@pytest.mark.parametrize("architecture", PARAMETERS)
def test_folder_counts_as_transformers_does(tmp_path, capsys, architecture):
    sizes, parameters = PARAMETERS[architecture]
    write_config(tmp_path, architecture, sizes)
    assert kbert.account(tmp_path).params == parameters
    assert sum(row.params for row in rows(GraphSpec.of(tmp_path))) == parameters
    told = kbert_command(capsys, "account", tmp_path, "--format", "json").out
    assert json.loads(told)["params"] == parameters
    told = kbert_command(capsys, "summary", tmp_path, "--format", "json").out
    assert json.loads(told)["total_params"] == parameters


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel", "DistilBertModel"])
def test_params_of_a_folder_are_the_encoders(tmp_path, name):
    sizes, parameters = PARAMETERS[name]
    write_config(tmp_path, name, sizes)
    assert sum(entry.numel for entry in kbert.named_parameters(tmp_path)) == parameters


def test_named_head_and_number_win(tmp_path):
    """BertForTokenClassification with 4 labels: 5,307 − 31·(8 + 1)."""
    file = write_config(tmp_path, "BertModel", BERT)
    for source in (tmp_path, file):
        assert kbert.account(source, head="tokens").params == 5307
        assert kbert.account(source, head="tokens", num_labels=4).params == 5307 - 31 * 9
        assert kbert.account(source, head="pretraining").params == 5220
    assert kbert.account(file).head == "pretraining"  # a file has the sizes of any graph
    assert kbert.account(kbert.get_config(file), head="tokens").params == 5307 - 33 * 9


@pytest.mark.parametrize(
    ("said", "count"),
    [({"num_labels": 7}, 7), ({"_num_labels": 5}, 5), ({"id2label": None}, 2), ({}, 2)],
)
def test_number_of_labels_is_read_without_names(tmp_path, said, count):
    values = BERT | {"architectures": ["BertForTokenClassification"]} | said
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert GraphSpec.of(tmp_path).num_labels == count


@pytest.mark.full
def test_built_graphs_have_the_folders_labels(tmp_path):
    file = write_config(tmp_path, "BertForTokenClassification", BERT)
    for source in (tmp_path, file):
        assert kbert.build_token_classifier(source).count_params() == 5307
        assert kbert.build_bert(source, head="tokens").count_params() == 5307
        assert kbert.build_classifier(source).count_params() == 5379
    assert kbert.build_bert(tmp_path).count_params() == 5307
    assert kbert.build_classifier(tmp_path, num_labels=3).count_params() == 5379 - 32 * 9


def test_plots_and_pages_have_the_folders_labels(tmp_path, capsys):
    file = write_config(tmp_path, "BertForTokenClassification", BERT)
    drawn = tmp_path / "graph.mmd"
    assert kbert_command(capsys, "plot", file, "--head", "tokens", "-o", drawn).status == 0
    assert "35" in drawn.read_text()
    pytest.importorskip("pygraphviz")
    page = tmp_path / "page.html"
    assert kbert_command(capsys, "explore", file, "--head", "tokens", "-o", page).status == 0
    assert "5,307 parameters" in kbert.explore(GraphSpec.of(file, "tokens")).title


def test_text_of_an_account_is_of_its_labels(tmp_path, capsys):
    """Weights in float32: 4 bytes each, in MiB; 100,000 labels of width 8 are seen in them."""
    many = {"id2label": {str(n): str(n) for n in range(100_000)}}
    write_config(tmp_path, "BertForTokenClassification", BERT, **many)
    mebibytes = 4 * (5307 + (100_000 - 35) * 9) / 2**20
    told = kbert_command(capsys, "account", tmp_path).out
    (line,) = [line for line in told.splitlines() if line.startswith("float32")]
    assert line.split()[1] == f"{mebibytes:.1f}"
