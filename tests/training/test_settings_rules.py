"""Every setting of a run refuses bad values by name, in functions and on the command line."""

import dataclasses
import inspect
import json
import math
import types
from fractions import Fraction

import numpy as np
import pytest
from helpers.command_line import kbert as kbert_command

import kbert
from kbert.cli.finetuning_commands import finetune as finetune_command
from kbert.cli.pretraining_commands import pretrain as pretrain_command
from kbert.tasks.finetuning.settings import FinetuningSettings
from kbert.tasks.pretraining.settings import PretrainingSettings
from kbert.training.engine import Engine
from kbert.training.optimization.optimizers import Optimizer
from kbert.training.settings.run_settings import RunOptions
from kbert.training.step.step import TrainingStep

NUMBERS = [math.nan, math.inf, -math.inf, -1, -0.5, 10**400, 1j]
OTHERS = [[3], {}, "", "x", "yes", b"1", np.array([1, 2])]
# By the type that a field says: what it cannot be, whatever the field.
BAD = {
    int: [True, 1.5, 2.0, "7", *NUMBERS, *OTHERS],
    float: [True, "0.1", *NUMBERS, *OTHERS],
    bool: [0, 1, 1.0, *NUMBERS, *OTHERS],
    str: [True, 0, *NUMBERS, *OTHERS],
    tuple: [True, 3, "48", (8, 4), (4, 4), (0, 4), (-1,), (1.5,), (True, 4), (), {4, 8}],
}
# What a number of that type may be, and these not: a step of 0 goes nowhere, a share has an end.
TOO_SMALL = {"learning_rate", "clip_norm", "epsilon", "peak_flops", "mlm_probability"}
NOT_ZERO = TOO_SMALL | {"steps", "total_steps", "epochs", "batch_size", "seq_len", "max_length"}
NOT_ZERO |= {"max_predictions", "accumulation_steps", "evaluate_every", "evaluation_batches"}
NOT_ZERO |= {"save_every", "log_every", "devices", "steps_per_execution", "patience"}
NOT_ZERO |= {"temperature", "hidden_loss_weight", "schedule_power", "schedule_timescale", "ema"}
# any text or whole number
NAMES = {"text_column", "text_pair_column", "label_column", "positive_label"}
NAMES |= {"sample_weight_column", "score"}
ANY_ORDER = {"dimensions", "label_columns"}  # of the others they ascend
SHARES = {
    "alpha",
    "mlm_probability",
    "short_seq_probability",
    "warmup_ratio",
    "dev_ratio",
    "beta_1",
    "beta_2",
    "ema",
    "min_learning_rate_ratio",
}


def kind_of(annotation) -> tuple[type, bool]:
    """The type, and whether None is allowed."""
    parts = annotation.__args__ if isinstance(annotation, types.UnionType) else (annotation,)
    kind = next(part for part in parts if part is not type(None))
    return getattr(kind, "__origin__", kind), type(None) in parts


def cases(names: dict[str, object]) -> list[tuple[str, object]]:
    """(field, a value that it cannot be), for all of them."""
    found = []
    for name, annotation in names.items():
        kind, may_be_none = kind_of(annotation)
        bad = BAD[kind] + [None] * (not may_be_none)
        bad = [value for value in bad if not (name in ANY_ORDER and value == (8, 4))]
        bad = [value for value in bad if not (name == "metrics" and value == ())]  # none
        bad = [
            value
            for value in bad
            if not (name in NAMES and (type(value) is int or str(value) in ("x", "yes")))
        ]
        bad += [0] * (name in NOT_ZERO) + [1.5] * (name in SHARES)
        found += [(name, value) for value in bad]
    return found


def fields_of(cls) -> dict[str, object]:
    return {field.name: field.type for field in dataclasses.fields(cls) if field.init}


def assert_refused(name: str, value, call) -> None:
    with pytest.raises(ValueError) as error:
        call(**{name: value})
    said = str(error.value)
    assert said.startswith(f"{name} must ") and f"got {value!r}" in said and "\n" not in said


def of_engine(**asked):
    return Engine(None, None, None, **asked)


def test_lora_targets_are_a_text_or_a_list_of_names():
    for targets in ("value, query", ["value", "query"], ("query", "value", "query")):
        settings = FinetuningSettings(lora_rank=2, lora_targets=targets)
        assert settings.lora_targets == "query,value"


def in_a_run(function, *arguments, **needed):
    """The function of the user: nothing is written, and nothing heavy done, before the check."""
    return lambda **asked: function(*arguments, **(needed | {"output": "no/run"} | asked))


PREPARED = {
    name: parameter.annotation
    for name, parameter in inspect.signature(Engine).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}
OF_STEP = ("clip_norm", "accumulation_steps", "gradient_checkpointing")
PREPARED |= {name: fields_of(TrainingStep)[name] for name in OF_STEP}
AROUND = {name: kind for name, kind in fields_of(RunOptions).items() if name != "callbacks"}
WAYS = {
    "Settings": (
        lambda **asked: PretrainingSettings(**({"steps": 9} | asked)),
        fields_of(PretrainingSettings),
    ),
    "FinetuningSettings": (FinetuningSettings, fields_of(FinetuningSettings)),
    "RunOptions": (RunOptions, AROUND),
    "engine": (of_engine, PREPARED),
    "pretrain": (
        in_a_run(kbert.pretrain, "no/shards", steps=9),
        fields_of(PretrainingSettings) | AROUND,
    ),
    "finetune": (
        in_a_run(kbert.finetune, "no/source", "classify", train="no.tsv"),
        fields_of(FinetuningSettings) | AROUND,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_setting_refuses_bad_values(way):
    call, names = WAYS[way]
    tried = cases(names)
    assert {name for name, _ in tried} == set(names) and len(tried) > 9 * len(names)
    for name, value in tried:
        assert_refused(name, value, call)


def an_optimizer(**asked):
    return Optimizer(**{"name" if name == "optimizer" else name: asked[name] for name in asked})


def test_optimizer_refuses_bad_values():
    names = fields_of(Optimizer)
    for name, value in cases({"optimizer": names.pop("name")} | names):
        assert_refused(name, value, an_optimizer)


def test_every_setting_has_a_rule():
    """A field that is added to a run is checked, or fails here."""
    from kbert.training.settings.setting_rules import RULES

    named = {name for _, names in WAYS.values() for name in names} | set(fields_of(Optimizer))
    assert named - {"name"} <= set(RULES)


@pytest.mark.parametrize("cls", [PretrainingSettings, FinetuningSettings])
def test_numpy_numbers_are_accepted_as_settings(cls):
    needed = {"steps": np.int32(90)} if cls is PretrainingSettings else {}
    asked = {"batch_size": np.int64(13), "learning_rate": np.float32(0.5), "jit": np.True_}
    settings = cls(**needed, **asked, weight_decay=Fraction(1, 4), clip_norm=None)
    found = json.loads(json.dumps(dataclasses.asdict(settings)))
    assert (found["batch_size"], found["learning_rate"], found["jit"]) == (13, 0.5, True)
    assert (found["weight_decay"], found["clip_norm"]) == (0.25, None)


def on_the_command_line(command) -> list[tuple[str, str]]:
    """Each option that takes a number, with texts that click reads as one."""
    bad = {"integer": ["0", "-1"], "float": ["nan", "inf", "-inf", "-1", "-0.5"]}
    found = []
    for option in command.params:
        texts = bad.get(option.type.name, [])
        if option.type.name == "float" and option.name in NOT_ZERO:
            texts = [*texts, "0"]
        if option.name in ("seed", "warmup_steps"):
            texts = ["-1"]
        found += [(option.name, text) for text in texts]
    return found


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (pretrain_command, ["no_shards", "-o", "run", "--steps", "9"]),
        (finetune_command, ["no_source", "--task", "classify", "--train", "no.tsv", "-o", "run"]),
    ],
    ids=["pretrain", "finetune"],
)
def test_commands_refuse_bad_values_first(command, arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tried = on_the_command_line(command)
    assert len({name for name, _ in tried}) > 11
    for name, text in tried:
        option = f"--{name.replace('_', '-')}={text}"
        status, out, err = kbert_command(capsys, command.name, *arguments, option)
        assert (status, out) == (2, ""), option
        assert err.startswith(f"kbert: {name} must ") and err.count("\n") == 1, option
        assert "got " in err and not (tmp_path / "run").exists()
