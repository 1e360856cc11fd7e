"""Names of other libraries are accepted, or answered with the right call."""

import copy
import pickle
import re

import click
import keras
import pytest
from helpers.command_line import kbert as run
from helpers.errors import check_named, raises
from helpers.peer_graph import HEADS
from helpers.peer_graph import TASKS as PIPELINES

import kbert
from kbert.cli.main import cli
from kbert.graph import aliases
from kbert.heads import HEADS as HEADS_BY_NAME
from kbert.tasks.finetuning.task import TASKS, task_of

TOKENIZER = kbert.Tokenizer.from_vocab(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"], lowercase=True
)


@pytest.mark.parametrize("task", PIPELINES)
def test_pipeline_task_resolves_to_the_head_of_its_class(peers, task):
    """transformers says which of its classes computes a pipeline's task."""
    head = aliases.resolve("head", task)
    assert head == aliases.resolve("head", peers["counts"]["pipelines"][task])
    assert kbert.account("tiny", head=task).head == head
    if task != "fill-mask":
        assert task_of(task).head == head


@pytest.mark.parametrize("head", HEADS)
def test_transformers_class_name_resolves_to_its_head(head):
    name, _ = HEADS[head]
    for alias in (name, f"TF{name}"):
        assert kbert.account("tiny", head=alias).head == aliases.resolve("head", alias) == head


def test_aliases_hide_no_name_and_suggest_existing_calls():
    rows = aliases.table()
    assert not set(rows["kbert"]) & set(kbert.__all__)
    assert not set(rows["Bert"]) & set(vars(kbert.Bert))
    assert not set(rows["Tokenizer"]) & set(dir(TOKENIZER))
    assert set(rows["task"].values()) == set(TASKS)
    assert not set(rows["command"]) & set(cli.commands)
    assert set(rows["command"].values()) <= set(cli.commands)
    assert not set(rows["no command"]) & (set(cli.commands) | set(rows["command"]))
    named = re.findall(r"kbert (\w+)", "\n".join(rows["no command"].values()))
    assert named and set(named) <= set(cli.commands)
    assert set(rows["head"].values()) == set(HEADS_BY_NAME)
    text = "\n".join(way for of in ("kbert", "Bert", "Tokenizer") for way in rows[of].values())
    for owner, pattern in (
        (kbert, r"\bkbert\.([A-Za-z]\w*)"),
        (kbert.Tokenizer, r"kbert\.Tokenizer\.(\w+)"),
        (TOKENIZER, r"(?<![.\w])tokenizer\.(\w+)"),
        (keras.Model, r"bert\.model\.(\w+)"),
    ):
        names = set(re.findall(pattern, text))
        assert names and all(hasattr(owner, name) for name in names), names


ROWS = [("a fine film", "good"), ("a bad one", "bad")]


def make_schedule():
    import keras

    return keras.optimizers.schedules.CosineDecay(1e-4, 100)


@pytest.mark.parametrize(
    ("call", "error", "things"),
    [
        (lambda: kbert.BertModel, AttributeError, ('kbert.load(path, head="encoder")',)),
        (lambda: kbert.TFBertForTokenClassification, AttributeError, ('head="tokens"',)),
        (lambda: kbert.load_model, AttributeError, ("kbert.load(path)",)),
        (lambda: kbert.from_pretrained, AttributeError, ("kbert.load(path)",)),
        (lambda: kbert.convert, AttributeError, ("kbert.save",)),
        (lambda: kbert.finetun, AttributeError, ("finetun", "finetune")),
        (lambda: kbert.Bert.from_pretrained, AttributeError, ("kbert.load(path)",)),
        (lambda: kbert.Tokenizer.from_pretrained, AttributeError, ("kbert.Tokenizer.load(path)",)),
        (lambda: TOKENIZER.tokenize, AttributeError, ("tokenizer.encode(text).tokens",)),
        (lambda: TOKENIZER.encode_bach, AttributeError, ("encode_bach", "encode_batch")),
        (lambda: TOKENIZER(["a"]), TypeError, ("tokenizer.encode_batch(texts)",)),
        (lambda: task_of("fill-mask"), ValueError, ("kbert.pretrain",)),
        (lambda: task_of("transalation"), ValueError, ("classify, regress", "transalation")),
        (lambda: task_of("clasify"), ValueError, ("'clasify'", "classify?")),
        (lambda: kbert.account("tiny", dtype="float23"), ValueError, ("'float23'", "float32?")),
        (
            lambda: kbert.build_bert("tiny", dtype="mixed_bf16"),
            ValueError,
            ("'mixed_bf16'", "mixed_bfloat16?"),
        ),
        (
            lambda: kbert.finetune("bert-base-uncased", "classify", train="trian.tsv"),
            FileNotFoundError,
            ("trian.tsv", "train="),
        ),
        (
            lambda: kbert.evaluate("bert-base-uncased", "tag", "no.tsv"),
            FileNotFoundError,
            ("no.tsv", "data="),
        ),
        (
            lambda: kbert.finetune("bert-base-uncased", "classify", train=[], optimizer="adamm"),
            ValueError,
            ("optimizer", "adamw", "adamm"),
        ),
        (
            lambda: kbert.finetune("bert-bsae-uncased", "classify", train=ROWS),
            FileNotFoundError,
            ("bert-bsae-uncased", "bert-base-uncased?"),
        ),
        (
            lambda: kbert.finetune("tiny", "classify", train=ROWS),
            FileNotFoundError,
            ("'tiny'", "weights"),
        ),
        (
            lambda: kbert.finetune(
                "bert-base-uncased", "classify", train=ROWS, teacher="bert-bsae-uncased"
            ),
            FileNotFoundError,
            ("bert-bsae-uncased", "bert-base-uncased?"),
        ),
        (
            lambda: kbert.pretrain("shards", output="run", steps=1, init="bert-bsae-uncased"),
            FileNotFoundError,
            ("bert-bsae-uncased", "bert-base-uncased?"),
        ),
        (
            lambda: kbert.glue("bert-bsae-uncased", "data", output="run"),
            FileNotFoundError,
            ("bert-bsae-uncased", "bert-base-uncased?"),
        ),
        (
            lambda: kbert.finetune(
                "bert-base-uncased", "classify", train=ROWS, learning_rate=make_schedule()
            ),
            ValueError,
            ("CosineDecay", "schedule="),
        ),
        (
            lambda: kbert.finetune("bert-base-uncased", "classify", train=ROWS, verbose=1),
            TypeError,
            ("verbose", "progress"),
        ),
        (
            lambda: kbert.finetune("bert-base-uncased", "classify", train=1, validation_data=1),
            TypeError,
            ("validation_data", "dev"),
        ),
        (
            lambda: kbert.finetune("bert-base-uncased", "classify", train=1, min_learning_rate=1),
            TypeError,
            ("'min_learning_rate'", "min_learning_rate_ratio"),
        ),
        (
            lambda: kbert.finetune("bert-base-uncased", "classify", train=ROWS, zzz=1),
            TypeError,
            ("finetune", "'zzz'"),
        ),
    ],
)
def test_call_of_another_library_is_answered_with_kberts(call, error, things):
    with raises(error, *things) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_objects_with_aliases_can_be_copied_and_pickled():
    for again in (copy.deepcopy(TOKENIZER), pickle.loads(pickle.dumps(TOKENIZER))):
        assert again.encode("a").ids == TOKENIZER.encode("a").ids
    bert = kbert.Bert(kbert.PRESETS["tiny"], "encoder", None)
    assert copy.copy(bert) == bert and not hasattr(bert, "nothing")
    with raises(AttributeError, "save_pretrained", "kbert.save"):
        bert.save_pretrained  # noqa: B018


def test_command_line_accepts_aliases(capsys, tmp_path):
    named = run(capsys, "account", "tiny", "--head", "ner")
    assert named.status == 0 and named == run(capsys, "account", "tiny", "--head", "tokens")
    options = ["--train", tmp_path / "none.tsv", "-o", tmp_path / "run"]
    done = run(capsys, "finetune", "x", "--task", "sentiment-analysis", *options)
    assert done.status == 2 and "none.tsv (--train)" in done.err
    done = run(capsys, "finetune", "x", "--task", "fill-mask", *options)
    assert done.status == 2 and "kbert.pretrain" in done.err


@pytest.mark.parametrize(
    ("name", "own"),
    [("ner", "tag"), ("question-answering", "answer"), ("sentence-similarity", "similarity")],
)
def test_command_has_the_names_of_the_field(capsys, name, own):
    assert f"kbert {own}" in run(capsys, name, "--help").out


def test_value_in_the_answer_to_an_old_option_is_accepted_by_the_command():
    """Such as `--precision bfloat16` for `--fp16`: whoever types it must not meet another error."""
    table, values = aliases.table(), 0
    old = {name.split()[-1] for of in ("option", "setting", "old setting") for name in table[of]}
    for name in cli.commands:
        context = click.Context(cli.commands[name], info_name=name)
        options = {opt: one for one in context.command.params for opt in one.opts}
        for alias in old:
            option, *value = aliases.option(name, f"--{alias}").split(" (")[0].split()
            if option in options and value:
                options[option].type.convert(value[0], options[option], context)
                values += 1
    assert values > 30


@pytest.mark.parametrize(
    ("line", "things"),
    [
        ("convert none x --to keras_bert", ("keras_bert", "google")),
        ("convert none x --to tensorflow", ("tensorflow", "saved_model")),
        ("convert none x --to tf", ("tf", "saved_model")),
        ("convert none x --to h5", ("h5", "keras")),
        ("account base --layers 6", ("config.json", "num_hidden_layers")),
        ("summary base --rich", ("--rich", "keras.Model.summary")),
        ("finetune none --optimizer lamb", ("--optimizer", "keras.optimizers.Lamb")),
        ("summary base --hidden-size 512", ("--hidden-size", "config.json")),
        ("account base --max-seq-length 64", ("--max-seq-length", "--seq-len")),
        ("pretrain none --max-seq-length 64", ("--max-seq-length", "--seq-len")),
        ("finetune none --max-seq-length 64", ("--max-seq-length", "--max-length")),
        ("classify base text", ("base", "kbert classify bert-base-uncased")),
        ("inspect base", ("base", "kbert inspect bert-base-uncased")),
    ],
)
def test_name_of_another_library_on_the_command_line_is_answered(capsys, line, things):
    done = run(capsys, *line.split())
    assert (done.status, done.err.count("\n")) == (2, 1)
    check_named(done.err, *things)


def test_search_names_top_k():
    with raises(TypeError, "search", "'top'", "top_k"):
        kbert.search(None, "query", ["text"], top=1)
