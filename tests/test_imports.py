"""Imports point one way, and the light parts stay light."""

import ast
import json
import sys
from pathlib import Path

import pytest

import kbert

PACKAGE = Path(kbert.__file__).parent

ANYWHERE = {"json_schema", "printable"}  # the standard library alone, and of no subject
# Each module, and the modules of the package that it may import beside those.
STDLIB = {"config", "files", "names", "rows", "formulas", "registration"}
STDLIB |= {"bounds", "folders", "leftovers"}
CLOSED = STDLIB | {"presets", "reference", "graph", "graph_layers", "accounting"}
LAYERS = {"layers", "model", "summary"}
READER = {"checkpoints", "checkpoints.checkpoint", "checkpoints.tables", "checkpoints.transfer"}
READER |= {"bounds", "config", "files", "folders", "names", "sentence"}
TASK = {"bert", "names", "tasks.checks", "tasks.running"}
ALLOWED = {
    "json_schema": set(),
    "printable": set(),
    "bounds": set(),
    "files": {"leftovers"},
    "folders": {"leftovers"},
    "leftovers": set(),
    "config": {"files"},
    "names": set(),
    "rows": set(),
    "formulas": set(),
    "tables": set(),
    "html_tables": set(),
    "registration": {"graphviz", "layers", "model"},
    "presets": {"config"},
    "reference": {"rows"},
    "reference.errata": {"reference"},
    "graph_layers": {"config", "names"},
    "graph": {"config", "formulas", "graph_layers", "names", "rows"},
    "accounting": {"config", "formulas", "graph", "graph_layers", "html_tables", "presets"},
    "bridge": {"accounting", "config", "presets"},
    "bert": {"builder", "checkpoints", "checkpoints.checkpoint", "checkpoints.deferred", "config"}
    | {"checkpoints.first_values", "checkpoints.fitting", "checkpoints.formats"}
    | {"checkpoints.transfer", "graph", "sentence"}
    | {"tokenizer"},
    "tasks": set(),
    "tasks.numbers": set(),
    "tasks.spans": set(),
    "tasks.windows": set(),
    "tasks.heat_map": {"files"},
    "tasks.checks": {"bert", "checkpoints", "checkpoints.first_values", "config", "names"},
    "tasks.running": {"bert", "config", "encodings", "model", "names", "patience", "tasks.checks"},
    "tasks.pooling": {"layers", "model", "names", "probes"},
    "tasks.embedding": TASK | {"config", "patience", "sentence", "tasks.pooling", "tasks.windows"},
    "tasks.masked": TASK | {"config", "probes", "tasks.numbers"},
    "tasks.sentences": TASK | {"tasks.numbers"},
    "tasks.words": TASK | {"tasks.numbers", "tasks.sentences"},
    "tasks.answers": TASK | {"config", "data.squad", "patience", "tasks.numbers"},
    "tasks.maps": {"bert", "encodings", "probes", "tasks.checks", "tasks.heat_map"}
    | {"tasks.running"},
    "inspection": {"checkpoints", "checkpoints.checkpoint", "checkpoints.fitting", "config"}
    | {"checkpoints.formats", "checkpoints.tables", "sentence", "tokenizer_files"},
    "sentence": {"config", "files"},
    "checkpoints": set(),
    "checkpoints.checkpoint": {"config", "sentence"},
    "checkpoints.deferred": set(),
    "checkpoints.first_values": set(),
    "checkpoints.fitting": {"checkpoints", "checkpoints.checkpoint", "checkpoints.tables"}
    | {"checkpoints.transfer", "config"},
    "checkpoints.damage": set(),
    "checkpoints.hdf5": {"bounds", "checkpoints.damage"},
    "checkpoints.torch_file": {"bounds", "checkpoints.checkpoint"},
    "checkpoints.zip_archive": {"bounds", "checkpoints.damage"},
    "checkpoints.tf_weights": {"checkpoints", "checkpoints.checkpoint", "checkpoints.damage"}
    | {"checkpoints.hdf5"},
    "checkpoints.weight_files": {"bounds", "checkpoints", "checkpoints.checkpoint", "files"}
    | {"checkpoints.tf_weights", "checkpoints.torch_file"},
    "checkpoints.transfer": {"checkpoints", "checkpoints.checkpoint", "checkpoints.deferred"}
    | {"checkpoints.tables", "config"},
    "checkpoints.formats": {"bounds", "checkpoints", "checkpoints.checkpoint", "config", "folders"}
    | {"checkpoints.run_folders", "checkpoints.zip_archive"},
    "checkpoints.run_folders": {"files"},
    "checkpoints.transformers_folder": READER
    | {"checkpoints.tf_weights", "checkpoints.weight_files"},
    "checkpoints.keras_archive": {"bounds", "checkpoints", "checkpoints.damage"}
    | {"checkpoints.hdf5"},
    "checkpoints.keras_graph": {"config", "graph", "names"},
    "checkpoints.keras_file": {"checkpoints.checkpoint", "checkpoints.keras_archive", "config"}
    | {"checkpoints.keras_graph", "checkpoints.tables", "files", "leftovers", "sentence"},
    "checkpoints.keras_hub_objects": {"config", "sentence", "vocabulary"},
    "checkpoints.keras_hub_weights": {"bounds", "checkpoints", "checkpoints.checkpoint"}
    | {"checkpoints.tables", "checkpoints.hdf5", "config", "files"},
    "checkpoints.keras_hub_preset": {"checkpoints.checkpoint", "checkpoints.keras_hub_objects"}
    | {"checkpoints.keras_hub_weights", "config", "files", "sentence", "vocabulary"},
    "checkpoints.keras_hub_writer": {"checkpoints.keras_hub_objects", "checkpoints.tables"}
    | {"checkpoints.keras_hub_weights", "checkpoints.transfer", "folders", "graph", "vocabulary"},
    "exports": set(),
    "exports.serving": {"builder", "model", "names", "tasks.pooling"},
    "exports.saved_model": {"exports.serving", "leftovers"},
    "exports.onnx": {"exports.serving", "files", "names"},
    "exports.litert": {"exports.saved_model", "exports.serving", "files"},
    "checkpoints.google_folder": READER | {"vocabulary"},
    "checkpoints.keras_bert_file": {"checkpoints", "checkpoints.checkpoint", "config", "names"}
    | {"checkpoints.damage", "checkpoints.hdf5"},
    "resizing": {"bert", "builder", "checkpoints", "checkpoints.deferred", "config", "names"}
    | {"checkpoints.first_values"}
    | {"tokenizer"},
    "encodings": set(),
    "vocabulary": {"bounds", "config"},
    "wordpiece": {"config", "vocabulary"},
    "tokenizer_files": {"folders", "vocabulary"},
    "tokenizer": {"config", "encodings", "tokenizer_files", "vocabulary", "wordpiece"},
    "checkpoints.tables": {"config", "graph", "names", "presets", "reference"},
    "layers": {"layers.activations", "layers.encoder", "layers.heads"},
    "layers.activations": set(),
    "layers.encoder": {"layers.activations"},
    "layers.heads": {"layers.encoder"},
    "summary": {"config", "rows"},
    "model": {"layers.heads", "names", "summary"},
    "builder": CLOSED | LAYERS | {"checkpoints", "checkpoints.deferred"},
    "probes": {"layers", "model", "names"},
    "inference": {"config", "names"},
    "heads": {"config", "layers", "presets"},
    "graphviz": set(),
    "diagrams": {"builder", "config", "graphviz", "names", "rows", "summary"},
    "verification": CLOSED
    | {"builder", "checkpoints", "checkpoints.tables", "html_tables", "reference.errata"}
    | {"reports", "summary"},
    "reports": CLOSED | {"bridge", "checkpoints.tables"},
    "patience": set(),
    "console": {"patience"},
    "cli": CLOSED
    | {"builder", "checkpoints.tables", "console", "diagrams", "heads", "reports", "summary"}
    | {"cli_checkpoints", "cli_tasks", "tables", "verification"}
    | {"cli_checks", "cli_data", "cli_finetune", "cli_training"},
    "cli_checks": {"checkpoints", "checkpoints.formats", "tasks.checks"},
    "cli_checkpoints": {
        "bert",
        "cli_checks",
        "checkpoints",
        "checkpoints.formats",
        "console",
        "inspection",
    }
    | {"checkpoints.google_folder", "presets", "tables"},
    "cli_tasks": {"bert", "builder", "console", "files", "tables", "tasks.answers", "tasks.maps"}
    | {"cli_checks", "tasks.checks"}
    | {"tasks.embedding", "tasks.heat_map", "tasks.masked", "tasks.sentences", "tasks.words"},
    "cli_data": {"cli_checks", "console", "data.preparing", "data.vocab_training"},
    "cli_finetune": {
        "cli_checks",
        "cli_settings",
        "cli_training",
        "console",
        "tasks.running",
        "training.evaluation",
        "training.finetuning",
        "training.finetuning_settings",
        "training.run_folder",
        "training.tasks",
    },
    "cli_settings": {"training.rules"},
    "cli_training": {
        "cli_checks",
        "cli_settings",
        "console",
        "training.kept",
        "training.loop",
        "training.pretraining",
        "training.run_folder",
        "training.settings",
        "training.stopping",
        "data.shards",
        "presets",
    },
    "data": set(),
    "data.batch": set(),
    "data.buckets": {"config", "data.batch", "data.draws", "names"},
    "data.classification": {
        "data.buckets",
        "data.columns",
        "data.given",
        "data.text_lines",
        "names",
    },
    "data.columns": set(),
    "data.corpus": set(),
    "data.draws": set(),
    "data.given": set(),
    "data.masking": {"data.draws", "data.rows"},
    "data.packed": {"data.draws", "data.rows", "data.shards"},
    "data.pairs": {"data.draws", "data.rows", "data.shards"},
    "data.preparing": {
        "config",
        "data.corpus",
        "data.shard_writer",
        "data.shards",
        "data.workers",
        "patience",
        "tokenizer",
        "wordpiece",
    },
    "data.pretraining_batches": {
        "config",
        "data.batch",
        "data.masking",
        "data.packed",
        "data.pairs",
        "data.shards",
        "names",
    },
    "data.rows": set(),
    "data.sentences": {"data.corpus"},
    "data.shard_writer": {"data.shards", "files", "folders", "tokenizer"},
    "data.shards": {"data.draws", "files", "tokenizer"},
    "data.squad": {"data.buckets", "data.given", "names", "tasks.spans", "tasks.windows"},
    "data.tagging": {"data.buckets", "data.given", "data.text_lines", "names", "tasks.windows"},
    "data.text_lines": set(),
    "data.vocab_training": {
        "config",
        "data.corpus",
        "data.sentences",
        "folders",
        "tokenizer",
        "vocabulary",
        "wordpiece",
    },
    "data.workers": {"data.corpus", "data.sentences"},
    "training": set(),
    "training.asked": {"training.rules", "training.throughput"},
    "training.callbacks": set(),
    "training.curves": set(),
    "training.determinism": set(),
    "training.diagnosis": {"data.batch"},
    "training.differences": set(),
    "training.engines": {
        "training.engines.jax_engine",
        "training.engines.tensorflow_engine",
        "training.engines.torch_engine",
    },
    "training.engines.engine": {
        "data.batch",
        "training.environment",
        "training.objectives",
        "training.engines.pieces",
        "training.engines.seeds",
        "training.optimizers",
        "training.precision",
        "training.rules",
        "training.stopping",
    },
    "training.engines.hosts": set(),
    "training.engines.pieces": {"names"},
    "training.engines.seeds": {"data.draws"},
    "training.engines.jax_engine": {
        "data.batch",
        "training.engines.engine",
        "training.engines.hosts",
        "training.objectives",
        "training.stopping",
    },
    "training.engines.tensorflow_engine": {
        "data.batch",
        "training.engines.engine",
        "training.engines.hosts",
        "training.objectives",
        "training.stopping",
    },
    "training.engines.torch_engine": {
        "data.batch",
        "training.engines.engine",
        "training.objectives",
        "training.stopping",
    },
    "training.environment": set(),
    "training.evaluation": {
        "bert",
        "config",
        "data.buckets",
        "encodings",
        "names",
        "tasks.checks",
        "tasks.running",
        "training.tasks",
    },
    "training.event_file": set(),
    "training.finetuning": {
        "bert",
        "training.asked",
        "training.determinism",
        "training.engines",
        "training.evaluation",
        "training.finetuning_run",
        "training.finetuning_settings",
        "training.loop",
        "training.run_folder",
        "training.tasks",
    },
    "training.finetuning_run": {
        "accounting",
        "bert",
        "builder",
        "data.buckets",
        "tasks.checks",
        "training.determinism",
        "training.evaluation",
        "training.optimizers",
        "training.precision",
        "training.pretraining_run",
        "training.tasks",
    },
    "training.finetuning_settings": {"training.asked"},
    "training.kept": set(),
    "training.live": {"patience"},
    "training.loop": {
        "data.batch",
        "training.callbacks",
        "training.diagnosis",
        "training.live",
        "training.plan",
        "training.precision",
        "training.prefetch",
        "training.rules",
        "training.run_folder",
        "training.stopping",
        "training.throughput",
    },
    "training.metrics": set(),
    "training.objectives": set(),
    "training.optimizers": {"training.rules"},
    "training.plan": set(),
    "training.precision": {"training.rules"},
    "training.prefetch": {"data.batch"},
    "training.pretraining": {
        "bert",
        "config",
        "data.pretraining_batches",
        "data.shards",
        "inspection",
        "training.asked",
        "training.determinism",
        "training.engines",
        "training.loop",
        "training.pretraining_run",
        "training.run_folder",
        "training.settings",
    },
    "training.pretraining_run": {
        "accounting",
        "bert",
        "builder",
        "config",
        "training.determinism",
        "training.loop",
        "training.optimizers",
        "training.precision",
        "training.run_folder",
    },
    "training.records": {"files"},
    "training.report": {"files", "training.curves", "training.live", "training.tasks"},
    "training.resuming": {"training.finetuning", "training.pretraining", "training.run_folder"},
    "training.rules": set(),
    "training.run_folder": {
        "bert",
        "files",
        "training.differences",
        "training.environment",
        "training.event_file",
        "training.records",
        "training.report",
        "training.rules",
        "training.state_files",
        "training.states",
    },
    "training.settings": {"config", "presets", "training.asked"},
    "training.state_files": {"files"},
    "training.states": {"training.state_files"},
    "training.stopping": set(),
    "training.tasks": {"data.buckets"},
    "training.tasks.answering_task": {"data.buckets", "data.squad", "names", "training.metrics"},
    "training.tasks.classification_task": {
        "data.buckets",
        "data.classification",
        "names",
        "training.metrics",
    },
    "training.tasks.tagging_task": {"data.buckets", "data.tagging", "names", "training.metrics"},
    "training.throughput": {"data.batch", "names", "training.environment"},
    "__main__": {"cli"},
    "__init__": {"registration"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or "__init__"


def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found = set()
    modules = {module_name(file) for file in PACKAGE.rglob("*.py")}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            is_module = [name.removeprefix("kbert.") in modules for name in inner]
            targets = [
                name if ok else node.module for name, ok in zip(inner, is_module, strict=True)
            ]
        else:
            continue
        found |= {name.removeprefix("kbert.") for name in targets if name.startswith("kbert.")}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=module_name)
def test_a_module_imports_only_what_the_table_allows(path):
    extra = imported(path) - ALLOWED[module_name(path)] - ANYWHERE
    assert not extra, f"{module_name(path)} must not import {sorted(extra)}"


def test_the_accounting_never_sees_the_builder():
    """Two independent derivations are what makes their equality a test."""
    seen, todo = set(), {"accounting", "graph"}
    while todo:
        module = todo.pop()
        seen.add(module)
        todo |= ALLOWED[module] - seen
    assert not seen & {"builder", "layers", "model"}


HEAVY = ("keras", "tensorflow", "jax", "torch", "numpy", "matplotlib", "pygraphviz")


@pytest.mark.parametrize(
    "code",
    [
        "import kbert; kbert.base, kbert.PRESETS, kbert.account('base')",
        "from kbert.console import run; from kbert.cli import cli; run(cli, ['account', 'base'])",
        "from kbert.console import run; from kbert.cli import cli; run(cli, ['params', 'tiny'])",
        "from kbert.console import run; from kbert.cli import cli; run(cli, ['--help'])",
    ],
)
def test_light_calls_import_nothing_heavy(run_python, code):
    report = "import sys, json; print(json.dumps(sorted(sys.modules)))"
    code = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{report}"
    modules = json.loads(run_python(code).stdout.splitlines()[-1])
    assert not [name for name in modules if name.split(".")[0] in HEAVY]


def test_every_public_name_resolves():
    for name in kbert.__all__:
        assert getattr(kbert, name) is not None
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        kbert.nothing_of_the_kind  # noqa: B018
    assert set(kbert.__all__) <= set(dir(kbert))
    assert "kbert" in sys.modules


@pytest.mark.parametrize("module", ["layers", "layers.heads", "model", "builder", "heads"])
def test_whichever_module_comes_first_all_layers_are_registered(run_python, module):
    code = f"""
import kbert.{module}, keras
names = ("BertModel", "Masked", "TokenEmbedding", "AttentionWeights", "gelu")
print([name for name in names if keras.saving.get_registered_object("kbert>" + name) is None])
"""
    assert run_python(code, backend="jax").stdout.strip() == "[]"
