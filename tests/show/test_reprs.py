"""What a result shows of itself at a prompt: one line with its key figures, or a small table."""

import inspect
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers.run_shards import make_shards
from helpers.small_berts import small_bert

import kbert
from kbert.checkpoints.transfer import TransferReport
from kbert.graph.closed_form import Row
from kbert.show.one_projection import HeadsReport
from kbert.show.verification import Comparison, Difference, VerificationReport
from kbert.tasks.answering.inference import Answer
from kbert.tasks.fill_mask.inference import Candidate
from kbert.tasks.finetuning.finetune import Finetuned
from kbert.tasks.pretraining.pretrain import Trained
from kbert.training.loop.history import History

MOST = 300  # characters
METRICS = {f"val_{name}": 0.125 for name in ("accuracy", "f1", "matthews", "precision", "recall")}


def history() -> History:
    lines = [{"step": step, "loss": 9.5 - step / 100} | METRICS for step in range(1, 701)]
    lines[-1]["val_loss"] = 3.25
    return History(lines, stopped="a signal, " * 50)


def differing() -> Comparison:
    found = [Difference(f"Encoder-{n}-FeedForward", "params", n, n + 1) for n in range(1, 78)]
    return Comparison("graph", "closed forms", "112 rows × 5 columns", tuple(found))


@pytest.fixture(scope="module")
def results(small, tmp_path_factory):
    """One of each public class, larger than life, and the figures that its line must hold."""
    folder = tmp_path_factory.mktemp("reprs")
    bert = small_bert(small.replace(num_hidden_layers=1), "encoder")
    kbert.save(bert, folder / "saved")
    loaded = kbert.load(folder / "saved")
    shards = kbert.open_shards(make_shards(folder))
    text = " ".join(["cat"] * 999)
    tokens = loaded.tokenizer.encode(text)
    mapped = kbert.attention(loaded, "cat sat .")
    # parameters and FLOPs of documents 004 and 000, by hand
    return [
        (kbert.account("base"), ["109,705,010", "512", "float32"]),
        (kbert.account("base").rows[6], ["Embedding-Dropout"]),
        (kbert.verify(small), ["ok", "0 differences"]),
        (VerificationReport((differing(),)), ["not ok", "77 differences"]),
        (differing(), ["graph", "closed forms", "77 differ"]),
        (kbert.model_rows(bert.model)[2], ["Embedding-Token"]),
        (Row(*"abc", 7, ", ".join(["Encoder-12-FeedForward[0][0]"] * 3)), ["7"]),
        (
            kbert.inspect(folder / "saved"),
            ["saved", "transformers", f"{loaded.model.count_params():,}", "99 tokens", "fits"],
        ),
        (kbert.compare_heads(small), ["4 of 24 × 6"]),
        (HeadsReport(kbert.base, ((1, 0, 63),) * 12, {"W_Q": 3.5e-06}), ["12 of 768 × 64"]),
        (history(), ["700", "9.49", "2.5", "3.25", "stopped"]),
        (History(), ["no steps"]),
        (Trained(loaded, history(), Path("/runs/first")), ["2.5", "first", "encoder"]),
        (Finetuned(loaded, history(), METRICS, Path("/runs/tuned")), ["0.125", "tuned"]),
        (Finetuned(loaded, History(), {}, None), ["no dev data", "None"]),
        (loaded, [f"{loaded.model.count_params():,}", "encoder", "99 tokens"]),
        (loaded.report, ["initialized: 0"]),
        (TransferReport((), ("a name",) * 199, (), ()), ["initialized: 199"]),
        (loaded.tokenizer, ["99 tokens"]),
        (tokens, ["1001 tokens", "[CLS] cat"]),
        (loaded.tokenizer.encode("cat"), ["[CLS] cat [SEP]"]),
        (loaded.tokenizer.encode_batch([text] * 3), ["3 encodings", "(3, 1001)"]),
        (mapped, ["cat", "(1, 4, 5, 5)"]),
        (type(mapped)(tokens.tokens, np.zeros((1, 1, 7, 7)), (1,), (1,)), ["1001 tokens"]),
        (shards, ["30 documents"]),
        (kbert.PretrainingBatches(shards, batch_size=13, seq_len=17), ["13 × 17", "seed 0"]),
        (kbert.SentenceSettings("mean", True), ["mean"]),
        (Candidate("cat", 0.125), ["cat", "0.125"]),
        (Answer("a red cat", 0.125, 3, 12, odds=2.5), ["a red cat", "0.125"]),
    ]


def test_every_result_repr_is_one_short_line(results):
    for result, figures in results:
        line = repr(result)
        assert len(line) < MOST and "\n" not in line, line
        assert not [figure for figure in figures if figure not in line], line


def test_every_public_class_has_a_repr_test(results):
    public = {value for name in kbert.__all__ if inspect.isclass(value := getattr(kbert, name))}
    assert public - {kbert.BertConfig} <= {type(result) for result, _ in results}
    assert eval(repr(kbert.base), {"BertConfig": kbert.BertConfig}) == kbert.base  # says all it is


def cells(result) -> list[list[str]]:
    """The rows of a result's table, as a reader of XML has them."""
    table = ElementTree.fromstring(result._repr_html_())
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_a_notebook_shows_an_account_as_a_table_that_adds_up():
    """Document 004's total is the sum of the groups."""
    header, *groups, total = cells(kbert.account("base"))
    params = [int(row[1].replace(",", "")) for row in groups]
    assert header[1] == "parameters" and total[1] == "109,705,010"
    assert sum(params) == 109_705_010
    assert sum(float(row[2].rstrip("%")) for row in groups) == pytest.approx(100, abs=0.3)


def test_a_notebook_shows_a_check_as_a_table(small):
    good = kbert.verify(small)
    _, *lines = cells(good)
    assert len(lines) == len(good.comparisons) and {row[-1] for row in lines} == {"ok"}
    _, one, *differences = cells(VerificationReport((differing(),)))
    assert one[-1] == "77 differ" and len(differences) == 77
    assert re.search(r"Encoder-77-FeedForward.* 77.* 78", differences[-1][0])


def test_a_table_shows_markup_as_text():
    from kbert.io.row_formats import to_html

    text = to_html(["<b>"], [("a & b <script>", 1234567, "12.5%")], "<i>")
    assert "<script>" not in text and "<b>" not in text and "<i>" not in text
    row = ElementTree.fromstring(text).find("tbody/tr")
    assert ["".join(cell.itertext()) for cell in row] == ["a & b <script>", "1,234,567", "12.5%"]
