"""What transformers and torch say of BERT's graph: counts, names and configurations."""

import json
from pathlib import Path

LABELS, BATCH, LENGTH, PREDICTIONS = 5, 13, 7, 3
HEADS = {
    "pretraining": ("BertForPreTraining", {}),
    "encoder": ("BertModel", {}),
    "classifier": ("BertForSequenceClassification", {"num_labels": LABELS}),
    "tokens": ("BertForTokenClassification", {"num_labels": LABELS}),
    "qa": ("BertForQuestionAnswering", {"num_labels": 2}),
}
OTHERS = ("Albert", "Electra", "BertGeneration", "ModernBert", "MPNet")
TASKS = (
    *("fill-mask", "text-classification", "sentiment-analysis"),
    *("token-classification", "ner", "feature-extraction"),
)


def build(head: str, sizes: dict):
    """Build a model on torch's `meta` device: every shape, no numbers."""
    import torch
    import transformers

    name, labels = HEADS[head]
    config = transformers.BertConfig(**sizes, **labels, attn_implementation="eager")
    with torch.device("meta"):
        return getattr(transformers, name)(config)


def count_flops(run, model) -> dict[str, int]:
    """Count the FLOPs of the products that torch runs, by module of the model."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run(model)
    name = type(model).__name__
    counts = counter.get_flop_counts().items()
    return {module.removeprefix(f"{name}."): sum(flops.values()) for module, flops in counts}


def count(sizes: dict) -> dict:
    import torch

    ids = torch.ones(BATCH, LENGTH, dtype=torch.long, device="meta")

    def train(model):
        outputs = model(ids)
        (outputs.prediction_logits.sum() + outputs.seq_relationship_logits.sum()).backward()

    def gather(model):
        outputs = model.bert(ids)
        model.cls(outputs.last_hidden_state[:, :PREDICTIONS], outputs.pooler_output)

    models = {head: build(head, sizes) for head in HEADS}
    flops = {head: count_flops(lambda model: model(ids), model) for head, model in models.items()}
    groups = {
        "embeddings": "bert.embeddings",
        "encoder": "bert.encoder",
        "pooler": "bert.pooler",
        "MLM": "cls.predictions",
        "NSP": "cls.seq_relationship",
    }
    return {
        "params": {head: sum(p.numel() for p in models[head].parameters()) for head in HEADS},
        "flops": {head: flops[head]["Global"] for head in HEADS},
        "groups": {name: flops["pretraining"].get(part, 0) for name, part in groups.items()},
        "training": count_flops(train, build("pretraining", sizes))["Global"],
        "gathered": count_flops(gather, build("pretraining", sizes))["Global"],
        "names": [[n, list(p.shape)] for n, p in models["encoder"].named_parameters()],
    }


def describe(out: Path, sizes: dict) -> None:
    """Write OUT/counts.json and OUT/configs.json; sizes are arguments of BertConfig by name."""
    import transformers
    from transformers.pipelines import check_task

    configs = {}
    for name, given in sizes.items():
        config = transformers.BertConfig(**given)
        written = (json.loads(config.to_json_string(use_diff=diff)) for diff in (True, False))
        configs[name] = dict(zip(("diff", "whole"), written, strict=True))
    for name in OTHERS:
        config = getattr(transformers, f"{name}Config")()
        configs[name] = {"whole": json.loads(config.to_json_string(use_diff=False))}
    counts = {name: count(given) for name, given in sizes.items()}
    counts["pipelines"] = {task: check_task(task)[1]["pt"][0].__name__ for task in TASKS}
    for file, content in (("counts.json", counts), ("configs.json", configs)):
        (out / file).write_text(json.dumps(content, indent=1), encoding="utf-8")
