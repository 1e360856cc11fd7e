"""Multiple choice: transformers' numbers, fine-tuning on SWAG's layout, and refused data."""

import csv
import importlib.util
import json
import shutil

import keras
import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command
from helpers.errors import raises
from helpers.peer_tasks import VOCABULARY
from helpers.small_berts import small_bert

import kbert
from kbert.checkpoints import transfer, weight_names
from kbert.data.labelled.length_buckets import BucketedBatches, Examples
from kbert.graph.keras_config import read_graph
from kbert.graph.spec import GraphSpec
from kbert.model.builder import build
from kbert.tasks.choosing import TASK, Question
from kbert.training import backends
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer

CHOICES, BATCH, LENGTH = 3, 5, 7
SIZES = {
    **{"vocab_size": 99, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"intermediate_size": 37, "max_position_embeddings": 41, "initializer_range": 0.2},
}
UNDROPPED = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
UNDROPPED |= {"dropout": 0, "attention_dropout": 0, "seq_classif_dropout": 0}  # DistilBERT's
HEADER = ["", "video-id", "sent1", "sent2", *(f"ending{n}" for n in range(CHOICES)), "label"]
QUIET = {"progress": False, "peak_flops": 1e9}
SETTINGS = {"epochs": 12, "batch_size": 6, "learning_rate": 1e-2, "seed": 4}
PROMPT, START = "the cat sat on the mat .", "the dog"
ROW = {"prompt": "cat", "choices": ["dog", "sun", "mat"], "label": 2}


def make_questions(count: int, seed: int) -> list[list]:
    """Rows of SWAG; the right ending is the red one, and every fourth has only two."""
    random, rows = np.random.default_rng(seed), []
    for number in range(count):
        choices = CHOICES - (number % 4 == 0)
        label = int(random.integers(choices))
        words = random.choice(["sun", "moon", "tree", "big"], (choices, 2))
        endings = [" ".join([*pair, "red"] if n == label else pair) for n, pair in enumerate(words)]
        endings += [""] * (CHOICES - choices)
        rows.append([number, "v", PROMPT, START, *endings, label])
    return rows


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_peer(family: str, folder, **changes):
    """Save a random model of transformers with a vocabulary, and return it."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(3)
    sizes = SIZES | changes | {"dim": 24, "n_heads": 3, "n_layers": 2, "hidden_dim": 37}
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = getattr(transformers, f"{family}ForMultipleChoice")(config).eval()
    model.save_pretrained(folder)
    lines = [*VOCABULARY, *(f"[unused{n}]" for n in range(99))][:99]
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return model


@pytest.fixture(scope="module", params=["Bert", "DistilBert"])
def peer(request, tmp_path_factory):
    """A model of transformers, and its folder."""
    folder = tmp_path_factory.mktemp(request.param)
    return write_peer(request.param, folder, **UNDROPPED), folder


def to_peer(ids, segments, model) -> dict:
    import torch

    inputs = {"input_ids": ids, "token_type_ids": segments}
    inputs["attention_mask"] = (np.asarray(ids) > 0).astype(int)
    if "DistilBert" in type(model).__name__:
        del inputs["token_type_ids"]
    return {name: torch.tensor(np.asarray(array, "int64")) for name, array in inputs.items()}


def compute_logits(bert, ids, segments):
    """Return the logits of (B, C, S) ids, (B, C)."""
    inputs = {"Input-Token": ids, "Input-Segment": segments}
    flat = [inputs[name].reshape(-1, LENGTH) for name in bert.model.input_names]
    return keras.ops.convert_to_numpy(bert.model(flat, training=False)).reshape(BATCH, CHOICES)


@pytest.mark.full
def test_values_files_and_counts_equal_transformers(peer, tmp_path):
    model, folder = peer
    bert = kbert.load(folder)
    assert bert.head == "choice" and bert.report.initialized == ()
    random = np.random.default_rng(1)
    ids = random.integers(1, 99, (BATCH, CHOICES, LENGTH)).astype("int32")
    segments = random.integers(0, 2, ids.shape).astype("int32")
    expected = model(**to_peer(ids, segments, model)).logits.detach().numpy()
    np.testing.assert_allclose(compute_logits(bert, ids, segments), expected, atol=1e-5)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert kbert.account(bert.config, head=type(model).__name__).params == count
    assert bert.model.count_params() == count and kbert.verify(bert.model).ok
    kbert.save(bert, tmp_path / "saved")
    assert "She walks in." in bert_card(bert)
    again = type(model).from_pretrained(tmp_path / "saved").eval()
    saved = again(**to_peer(ids, segments, model)).logits.detach().numpy()
    np.testing.assert_allclose(saved, expected, atol=1e-5)
    kbert.save(bert, tmp_path / "model.keras")
    for path in (tmp_path / "saved", tmp_path / "model.keras"):
        reloaded = kbert.load(path)
        assert (reloaded.head, reloaded.labels) == ("choice", None)
        np.testing.assert_allclose(compute_logits(reloaded, ids, segments), expected, atol=1e-5)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # of the peer's
@pytest.mark.parametrize(
    ("kind", "task"),
    [("ForMultipleChoice", None), ("ForMultipleChoice", "SEQ_CLS"), ("Model", None)],
)
def test_adapters_of_pefts_give_its_numbers_in_both_directions(peer, tmp_path, kind, task):
    """PEFT has no task for multiple choice: it names the class, or people take SEQ_CLS."""
    peft = pytest.importorskip("peft")
    import torch

    model, folder = peer
    base = tmp_path / "base"
    shutil.copytree(folder, base)
    if kind == "Model":
        getattr(model, model.base_model_prefix).save_pretrained(base)
    heads = ["classifier", *["pre_classifier"] * ("DistilBert" in type(model).__name__)]
    options = {"task_type": task, "modules_to_save": heads, "r": 3, "lora_alpha": 5}
    targets = ["q_lin", "v_lin"] if len(heads) == 2 else ["query", "value"]
    plain = type(model).from_pretrained(base)
    theirs = peft.get_peft_model(plain, peft.LoraConfig(target_modules=targets, **options)).eval()
    torch.manual_seed(7)
    for parameter in theirs.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, 0, 0.2)
    theirs.save_pretrained(tmp_path / "adapter")
    bert = kbert.load(base, adapter=tmp_path / "adapter")
    ids = np.random.default_rng(1).integers(1, 99, (BATCH, CHOICES, LENGTH)).astype("int32")
    inputs = to_peer(ids, 0 * ids, model)
    expected = theirs.get_base_model()(**inputs).logits.detach().numpy()
    assert bert.head == "choice"
    np.testing.assert_allclose(compute_logits(bert, ids, 0 * ids), expected, atol=1e-5)
    kbert.save(bert, tmp_path / "again", format="peft")
    again = peft.PeftModel.from_pretrained(type(model).from_pretrained(base), tmp_path / "again")
    found = again.eval().get_base_model()(**inputs).logits.detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def bert_card(bert) -> str:
    from kbert.hub.model_card import make_card

    return make_card(bert)


@pytest.mark.full
def test_loss_and_gradients_equal_transformers(peer):
    """Of examples with 3 and with 2 choices."""
    import torch

    model, folder = peer
    bert, random = kbert.load(folder), np.random.default_rng(2)
    counts, labels = (3, 2, 3, 3, 2), [2, 1, 0, 1, 0]
    ids = [random.integers(1, 99, tokens).tolist() for tokens in random.integers(2, 8, sum(counts))]
    segments = [random.integers(0, 2, len(row)).tolist() for row in ids]
    examples = Examples(ids, segments, {"Classifier": labels}, counts=counts)
    batch = BucketedBatches(examples, batch_size=BATCH, lengths=(LENGTH,)).batch(0)
    backend = backends.start()
    engine = Engine(backend, bert.model, Optimizer(total_steps=9))
    gradients = engine.gradients(batch, 0)
    loss = engine.evaluate(batch)["Classifier_loss"][0]
    losses, first = [], 0
    for count, label in zip(counts, labels, strict=True):
        rows = range(first, first + count)
        padded = [
            [[*each[n], *[0] * (LENGTH - len(each[n]))] for n in rows] for each in (ids, segments)
        ]
        logits = model(**to_peer([padded[0]], [padded[1]], model)).logits
        losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor([label])))
        first += count
    expected = sum(losses) / BATCH
    assert loss == pytest.approx(expected.item(), abs=1e-5)
    model.zero_grad()
    expected.backward()
    for weight in bert.model.weights:  # written as weights, they get transformers' names and shapes
        if weight.path in gradients:
            weight.assign(gradients[weight.path])
    entries = weight_names.entries_of(bert.spec, weight_names.column_of(bert.config))
    arrays = transfer.arrays_of(bert.model, entries)
    prefix = model.base_model_prefix + "."
    for name, parameter in model.named_parameters():
        array = arrays[name.removeprefix(prefix)]
        np.testing.assert_allclose(array, parameter.grad.numpy(), atol=1e-5, err_msg=name)
    assert len(arrays) == len(list(model.parameters()))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A run on SWAG's layout, and its folder's parent."""
    folder = tmp_path_factory.mktemp("choice")
    write_peer("Bert", folder / "source")
    train = write(folder / "train.csv", [HEADER, *make_questions(31, 1)])
    dev = write(folder / "dev.csv", [HEADER, *make_questions(11, 2)])
    options = {"output": folder / "run", **SETTINGS, **QUIET}
    return kbert.finetune(folder / "source", "choice", train=train, dev=dev, **options), folder


@pytest.mark.full
def test_right_endings_are_learned(tuned):
    done, _ = tuned
    losses = [line["Classifier_loss"] for line in done.history.updates]
    assert np.mean(losses[-6:]) < 0.3 * np.mean(losses[:6])
    assert done.metrics["accuracy"] == 1 and done.intervals["accuracy"][1] == 1


@pytest.mark.full
def test_command_line_evaluates_and_chooses(tuned, capsys):
    done, folder = tuned
    model, data = folder / "run" / "model", folder / "dev.csv"
    options = ("--task", "choice", "--data", data, "--format", "json")
    metrics = json.loads(kbert_command(capsys, "evaluate", model, *options).out)
    assert metrics == pytest.approx(done.metrics, rel=1e-4)
    choices = ("big sun", "big moon", "sun red")
    first, *others = kbert.choose(done.bert, PROMPT, choices, start=START)
    assert (first.index, first.text) == (2, "sun red")
    assert sum(one.probability for one in (first, *others)) == pytest.approx(1)
    command = ("choose", folder / "run", PROMPT, "--start", START, *choices)
    printed = kbert_command(capsys, *command)
    assert printed.out.splitlines()[0] == f"{first.probability:.4f}  sun red"
    printed = json.loads(kbert_command(capsys, *command, "--format", "json").out)
    assert [one["index"] for one in printed] == [2, *(one.index for one in others)]


@pytest.fixture(scope="module")
def untrained(small):
    return small_bert(small, "choice")


@pytest.mark.full
def test_choices_have_the_probabilities_of_their_logits(untrained, tmp_path, capsys):
    kbert.save(untrained, tmp_path / "model")
    choices = ("big sun", "big moon", "sun red")
    firsts, seconds = ["the cat sat"] * 3, [f"it {choice}" for choice in choices]
    encodings = untrained.tokenizer.encode_batch(firsts, seconds)
    logits = [
        untrained.model([np.array([row.ids]), np.array([row.segment_ids])], training=False)
        for row in encodings
    ]
    powers = np.exp(np.ravel(logits))
    found = kbert.choose(untrained, "the cat sat", choices, start="it")
    assert [one.index for one in found] == np.argsort(-powers).tolist()
    assert [one.text for one in found] == [choices[one.index] for one in found]
    probabilities = [one.probability for one in found]
    np.testing.assert_allclose(probabilities, sorted(powers / powers.sum())[::-1], rtol=1e-4)

    command = ("choose", tmp_path / "model", "the cat sat", "--start", "it", *choices)
    printed = kbert_command(capsys, *command)
    assert printed.out.splitlines()[0] == f"{found[0].probability:.4f}  {found[0].text}"


def test_graph_is_known_by_its_name():
    spec = GraphSpec(kbert.get_config("tiny"), "multiple-choice", num_labels=7, seq_len=5)
    model = build(spec)
    assert (spec.head, spec.num_labels, spec.for_training().selected) == ("choice", 1, 1)
    values = json.loads(model.to_json())
    assert read_graph(values, "a model", spec.config).head == "choice"
    assert build(GraphSpec(spec.config, "classifier", num_labels=1)).spec.head == "classifier"
    with raises(ValueError, "'choice'", "model_type"):
        GraphSpec(kbert.BertConfig(model_type="roberta"), "choice")


def test_all_layouts_give_the_same_questions(tmp_path):
    expected = [("cat", ("a dog", "a sun", "a mat"), 2), ("red", ("a big", "a sun"), 0)]
    columns = ["label", "sent1", "sent2", "ending0", "ending1", "ending2"]
    rows = [[2, "cat", "a", "dog", "sun", "mat"], [0, "red", "a", "big", "sun", ""]]
    dicts = [dict(zip(columns, row, strict=True)) for row in rows]
    lists = [
        {"prompt": row[1], "start": row[2], "choices": [c for c in row[3:] if c], "label": row[0]}
        for row in rows
    ]
    tabs = "\n".join("\t".join(map(str, row)) for row in [columns, *rows])
    (tmp_path / "a.tsv").write_text(tabs)
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lists)))
    renamed = write(tmp_path / "b.csv", [["gold", "body", *columns[2:]], *rows])
    options = kbert_options(text="body", label="gold")
    for questions in (
        TASK.read(write(tmp_path / "a.csv", [columns, *rows])),
        TASK.read(tmp_path / "a.tsv"),
        TASK.read(tmp_path / "a.jsonl"),
        TASK.read(renamed, options=options),
        TASK.read(dicts, "train"),
        TASK.read(lists, "train"),
    ):
        assert [(one.texts[0], one.texts[1:], one.label) for one in questions] == expected
    if importlib.util.find_spec("pandas"):  # an empty cell is NaN
        import pandas

        assert TASK.read(pandas.read_csv(tmp_path / "a.csv"), "train")[1].texts == (
            "red",
            "a big",
            "a sun",
        )
    question = Question("cat", ("dog", "sun"), 1)
    assert TASK.read([question], "train") == [question]


def kbert_options(**options):
    from kbert.data.labelled.columns import ColumnOptions

    return ColumnOptions(**options)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (ROW | {"choices": ["b"]}, ("train[0]", "got 1")),
        (ROW | {"choices": "b"}, ("train[0]", "got 1")),
        (ROW | {"label": 3}, ("label", "0 … 2", "'3'")),
        (ROW | {"label": "A"}, ("0 … 2", "'A'")),
        (ROW | {"choices": ["a", " ", "b"]}, ('"choice 1"',)),
        (ROW | {"prompt": None}, ('"prompt"',)),
        (ROW | {"start": 3}, ("train[0]", '"start"', "got 3")),
        ({"text": "a", "label": 1}, ("prompt, choice0", "text, label")),
        (("a", "b", 0), ("train[0]", "prompt", "choices", "label")),
        (ROW | {"start": float("nan")}, ('"start"', "nan")),
        (ROW | {"start": 0}, ('"start"', "got 0")),
        (ROW | {"choices": ["a", "b", 0]}, ('"choice 2"', "got 0")),
        (ROW | {"label": "1" * 5000}, ("train[0]", "label")),
        (Question("cat", ("dog", "sun"), 2), ("0 … 1", "'2'")),
        (Question("cat", ("dog", "sun"), "1"), ("train[0]",)),
        (Question(None, ("dog", "sun"), 1), ("train[0]",)),
        (Question("cat", ("dog", 5), 1), ("train[0]",)),
    ],
)
def test_rows_that_are_no_questions_are_refused(row, says):
    with raises(ValueError, *says) as raised:
        TASK.read([row], "train")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], ("data.csv", "prompt")),
        ([HEADER], ("got none",)),
        ([["prompt", "choice1", "choice2", "label"]], ("0, 1", "choice1, choice2")),
        ([["prompt", "choice0", "choice00", "label"]], ("choice0, choice00",)),
        ([["cat", "", "dog", "sun", 0]], ("line 1", "prompt, choice0")),
        ([["text", "label"], ["cat", 1]], ("line 1", "prompt", "text, label")),
        ([HEADER, [0, "v", "cat", "", "dog", "sun", "mat", 3]], ("line 2", "label")),
        ([HEADER, [0, "v", "cat", "", "dog", "", "mat", 0]], ("line 2", '"choice 1"')),
        ([HEADER, [0, "v", "cat", "", "dog", "sun"]], ("line 2", "8")),
    ],
)
def test_files_that_are_no_questions_are_refused(tmp_path, rows, says):
    data = write(tmp_path / "data.csv", rows)
    with raises(ValueError, *says):
        TASK.read(data)


def test_table_without_a_header_is_refused(tmp_path):
    data = write(tmp_path / "data.csv", [HEADER, [0, "v", "cat", "", "dog", "sun", "mat", 0]])
    with raises(ValueError, "line 1", "no_header"):
        TASK.read(data, options=kbert_options(no_header=True))


def test_settings_and_choices_that_do_not_fit_are_refused(untrained, tmp_path):
    source = tmp_path / "source"
    kbert.save(untrained, source)
    for options, says in (
        ({"packing": True}, ("packing",)),
        ({"label_smoothing": 0.1}, ("label_smoothing",)),
        ({"teacher": source}, ("teacher", "choice")),
    ):
        with raises(ValueError, *says):
            kbert.finetune(source, "choice", train=[ROW], **options)
    with raises(ValueError, "choices"):
        kbert.choose(untrained, "a", ["b"])
    with raises(ValueError, "choices[1]", "only spaces"):
        kbert.choose(untrained, "a", ["b", " "])
    with raises(ValueError, "prompt", "only spaces"):
        kbert.choose(untrained, "", ["b", "c"])
    with raises(ValueError, "'classifier'", "'choice'"):
        kbert.classify(untrained, "a")
