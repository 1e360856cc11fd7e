"""A run's folder, records and predictions that are made up, for its page."""

import dataclasses
import json
from types import SimpleNamespace

import kbert
from kbert.graph.spec import GraphSpec
from kbert.training.run.predictions import (
    AnswerProb,
    Baseline,
    LabelScores,
    PredictedExample,
    Predictions,
    TextPiece,
)
from kbert.training.run.run_folder import RunFolder

PEAK = "the fastest of 3 products of 2 × 2 matrices"
ENVIRONMENT = {"devices": ["CPU"], "cpu_cores": 13, "replicas": 1, "processes": 1}
ENVIRONMENT |= {"started": "2026-11-29 14:03 UTC"}
ENVIRONMENT |= {"backend": "jax", "peak_flops": 7e9, "peak_flops_source": PEAK}
SPEC = GraphSpec(kbert.BertConfig(num_hidden_layers=3, hidden_size=24, num_attention_heads=4))
PRETRAINING = {"steps": 90, "precision": "float32", "jit": None, "optimizer": "<b>adamw</b> & co"}
TITLES = {"pretrain": ("Pretraining a BERT", "loss")}
TITLES |= {"finetune": ("Fine-tuning a classifier", "accuracy")}
BASELINE = Baseline("accuracy", 0.5625, "always “good”")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FINETUNING = PRETRAINING | {"task": "classify", "save_every": None, "labels": ["bad", "good"]}


def lines_of(task: str) -> list[dict]:
    """90 updates, evaluated after each thirtieth."""
    outputs = ("MLM", "NSP") if task == "pretrain" else ("Classifier",)
    found = []
    for step in range(1, 91):
        parts = {f"{name}_loss": 5 / step + n for n, name in enumerate(outputs)}
        parts |= {f"{name}_accuracy": step / (100 + n) for n, name in enumerate(outputs)}
        line = {"loss": sum(parts[f"{name}_loss"] for name in outputs)} | parts
        line |= {"gradient_norm": 1 + step / 7, "learning_rate": 1e-4 * step, "seconds": 1.5 * step}
        line |= {"tokens_per_second": 1000.0 + step, "mfu": 0.25}
        if step % 30 == 0:
            dev = {"loss": 7 / step, "accuracy": 0.5 + step / 1000, "f1": 0.123}
            if task == "pretrain":
                dev = {"loss": 9 / step, "MLM_loss": 8 / step, "MLM_accuracy": 0.0625 + step / 1e4}
            line |= {f"val_{name}": value for name, value in dev.items()}
        found.append({"step": step} | line)
    return found


@dataclasses.dataclass
class Settings:
    """What a user can set, with the defaults."""

    steps: int = 90
    precision: str = "float32"
    jit: bool | None = None
    optimizer: str = "adamw"


def plan_of(task: str) -> SimpleNamespace:
    """What the page needs of a run's plan."""
    title, score = TITLES[task]
    data = {"Data": "17 texts of <tags>", "Started from": f"hf://google-bert/bert@{COMMIT}"}
    return SimpleNamespace(
        title=title,
        score=score,
        steps=90,
        baseline=BASELINE if task == "finetune" else None,
        settings=Settings(),
        card=SimpleNamespace(pairs=False),
        model=SimpleNamespace(spec=SPEC),
        describe_training=lambda done: data,
    )


def make_run(folder, task: str, lines: list[dict], **options) -> RunFolder:
    """A run's folder with its environment and records."""
    settings = PRETRAINING if task == "pretrain" else FINETUNING
    run = RunFolder.create(folder, settings, {}, task=task, **options)
    run.begin(0)
    for line in lines:
        run.log(line["step"], {name: line[name] for name in line if name != "step"})
    run.close()
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT), encoding="utf-8")
    return run


PREDICTIONS = Predictions(
    3,
    labels=("bad", "<good>"),
    matrix=((1, 1), (0, 1)),
    examples=[
        PredictedExample(
            "/home/somebody/dev.tsv, line 2",
            (
                (
                    TextPiece("a <script>alert(1)</script> film\u202e"),
                    TextPiece("wrong", "B-X → O 97%"),
                ),
            ),
            (AnswerProb("<good>", 0.03),),
            (AnswerProb("bad", 0.97),),
            3.5,
        )
    ]
    * 12,
    label_scores=[
        LabelScores("bad", 1.0, 0.5, 2 / 3, 2),
        LabelScores("<good>", 0.5, 1.0, 2 / 3, 1),
    ],
)
