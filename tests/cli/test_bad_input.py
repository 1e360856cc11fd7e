"""A user's mistake gives one line on stderr, nothing else, and exit status 2."""

import json

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import pytest
from helpers.command_line import kbert
from helpers.sizes import SIZES

FILES = {
    "not_json.json": b'{"vocab_size": 99,',
    "nothing.json": b"",
    "list.json": b"[99]",
    "number.json": b"99",
    "latin.json": '{"vocab_size": 99, "é": 1}'.encode("latin-1"),
    "deep.json": b"[" * 100_000,
    "long_number.json": b'{"vocab_size": ' + b"9" * 5000 + b"}",
    "no_sizes.json": b"{}",
    "unknown_key.json": b'{"vocab_size": 99, "hiden_size": 24}',
    "foreign.json": b'{"vocab_size": 99, "model_type": "albert"}',
    "relative.json": b'{"vocab_size": 99, "position_embedding_type": "relative_key"}',
    "zero.json": b'{"vocab_size": 99, "num_hidden_layers": 0}',
    "negative.json": b'{"vocab_size": -99}',
    "true.json": b'{"vocab_size": true}',
    "float.json": b'{"vocab_size": 99, "hidden_size": 768.0}',
    "text.json": b'{"vocab_size": "99"}',
    "null.json": b'{"vocab_size": null}',
    "nan.json": b'{"vocab_size": 99, "hidden_dropout_prob": NaN}',
    "infinity.json": b'{"vocab_size": 99, "attention_probs_dropout_prob": Infinity}',
    "heads.json": b'{"vocab_size": 99, "hidden_size": 768, "num_attention_heads": 7}',
    "activation.json": b'{"vocab_size": 99, "hidden_act": "prelu"}',
    "activations.json": b'{"vocab_size": 99, "hidden_act": ["gelu"]}',
    "padding.json": b'{"vocab_size": 99, "pad_token_id": 99}',
    "small.json": json.dumps(SIZES).encode(),
    "bin.tsv": b"a fine film\t1\n",
}
CONFIGURATIONS = [  # the configuration; what the line must say
    ("basse", ["'basse'", "base"]),
    ("larg_cased", ["'larg_cased'", "large_cased"]),
    ("bert-base-unkased", ["'bert-base-unkased'", "base_uncased"]),
    ("L4_H257", ["'L4_H257'", "L4_H256"]),
    ("", ["unknown preset ''", "the presets are base, large"]),
    ("electra", ["unknown preset 'electra'", "the presets are base, large"]),
    ("bin.tsv", ["bin.tsv", "a preset's name", "ends in .json", "got another file"]),
    ("mini.tsv", ["mini.tsv", "no such file", "a preset's name", "ends in .json"]),
    ("google/electra", ["google/electra", "no such file", "a preset's name", "ends in .json"]),
    ("nosuch.json", ["nosuch.json", "No such file"]),
    ("no\nsuch.json", ["such.json"]),
    ("folder", ["folder", "config.json"]),
    ("folder.json", ["folder.json", "directory"]),
    ("not_json.json", ["not_json.json", "JSON", "line 1"]),
    ("nothing.json", ["nothing.json", "JSON"]),
    ("list.json", ["list.json", "JSON object", "list"]),
    ("number.json", ["number.json", "JSON object", "int"]),
    ("latin.json", ["latin.json", "UTF-8"]),
    ("deep.json", ["deep.json"]),
    ("long_number.json", ["long_number.json"]),
    ("no_sizes.json", ["no_sizes.json", "vocab_size"]),
    ("unknown_key.json", ["unknown_key.json", "'hiden_size'", "hidden_size"]),
    ("foreign.json", ["foreign.json", "model_type", "bert", "'albert'", "ALBERT has one block's"]),
    ("relative.json", ["position_embedding_type", '"absolute"', "'relative_key'"]),
    ("zero.json", ["zero.json", "num_hidden_layers", "at least 1", "got 0"]),
    ("negative.json", ["vocab_size", "at least 1", "got -99"]),
    ("true.json", ["vocab_size", "whole number", "got True"]),
    ("float.json", ["hidden_size", "whole number", "got 768.0"]),
    ("text.json", ["vocab_size", "whole number", "got '99'"]),
    ("null.json", ["vocab_size", "whole number"]),
    ("nan.json", ["hidden_dropout_prob", "finite", "got nan"]),
    ("infinity.json", ["attention_probs_dropout_prob", "finite", "got inf"]),
    ("heads.json", ["hidden_size", "num_attention_heads", "768", "7", "6, 8"]),
    ("activation.json", ["hidden_act", "gelu_new", "'prelu'"]),
    ("activations.json", ["activations.json", "hidden_act", "gelu_new", "['gelu']"]),
    ("padding.json", ["pad_token_id", "0 … 98", "got 99"]),
]
COMMANDS = [  # the command line; what the line must say
    (["acount"], ["No such command 'acount': did you mean account?"]),
    (["trian"], ["No such command 'trian': did you mean train?"]),
    (["nothing"], ["No such command 'nothing': kbert --help lists the commands."]),
    (["resume", "run"], ["kbert finetune --resume RUN or kbert pretrain --resume RUN"]),
    (["predict"], ["No such command 'predict': use kbert classify, "]),
    (["--versoin"], ["No such option '--versoin': did you mean --version?"]),
    (["account", "--nope"], ["No such option '--nope': kbert account --help lists the options."]),
    (["account", "--seqlen", "3"], ["No such option '--seqlen': did you mean --seq-len?"]),
    (["tag", "--model", "run"], ["No such option '--model': give SRC without an option, as in"]),
    (["pretrain", "--input", "x"], ["'--input': give SHARDS without an option, as in kbert pre"]),
    (["finetune", "--steps", "3"], ["'--steps': kbert finetune --help lists the options."]),
    (["finetune", "--bf16"], ["No such option '--bf16': it is called --precision mixed_bfloat16."]),
    (["plan", "--precision", "mixed"], ["did you mean mixed_bfloat16?"]),
    (["finetune", "--task", "clasify"], ["'choice', 'embed': did you mean classify?"]),
    (["account", "--head", "token_"], ["'qa', 'choice': did you mean tokens?"]),
    (["account", "base", "large"], ["large"]),
    (["account", "--seq-len"], ["--seq-len"]),
    (["account", "--seq-len", "0"], ["seq_len", "at least 1", "got 0"]),
    (["account", "--seq-len", "-3"], ["seq_len", "at least 1", "got -3"]),
    (["account", "--seq-len", "513"], ["seq_len", "max_position_embeddings = 512", "got 513"]),
    (["account", "--seq-len", "1.5"], ["--seq-len", "1.5"]),
    (["account", "--batch-size", "0"], ["batch_size", "at least 1", "got 0"]),
    (["account", "--max-predictions", "0"], ["max_predictions", "at least 1", "got 0"]),
    (["account", "--max-predictions", "8", "--seq-len", "7"], ["max_predictions", "7", "got 8"]),
    (["account", "--max-predictions", "3", "--head", "qa"], ["max_predictions", "'qa'"]),
    (["account", "--selected-positions", "--head", "qa"], ["selected_positions", "'qa'"]),
    (["summary", "--selected-positions"], ["selected_positions needs max_predictions"]),
    (["account", "--dtype", "fp16"], ["'fp16': did you mean float16?"]),
    (["pretrain", "--precision", "bf16"], ["did you mean mixed_bfloat16?"]),
    (["finetune", "--precision", "fp16"], ["did you mean mixed_float16?"]),
    (["account", "--num-labels", "0", "--head", "tokens"], ["num_labels", "got 0"]),
    (["account", "--head", "decoder"], ["decoder", "classifier"]),
    (["account", "--dtype", "int8"], ["dtype", "bfloat16", "'int8'"]),
    (["account", "--format", "xml"], ["xml", "csv"]),
    (["params", "--head", "qa"], ["--head"]),
    (["params", "--format", "csv"], ["csv", "tsv"]),
    (["summary", "--seq-len", "0"], ["seq_len", "at least 1", "got 0"]),
    (["summary", "--seq-len", "513"], ["seq_len", "512", "got 513"]),
    (["summary", "--seq-len", "all"], ["--seq-len", "any", "'all'"]),
    (["summary", "--seq-len", "²"], ["--seq-len", "'²'"]),
    (["summary", "--layers", "2-1"], ["--layers", "'2-1'"]),
    (["summary", "--layers", "1-"], ["--layers", "'1-'"]),
    (["summary", "--layers", "1-²"], ["--layers", "'1-²'"]),
    (["summary", "small.json", "--layers", "0-1"], ["--layers", "1", "3", "0-1"]),
    (["summary", "small.json", "--layers", "1-4"], ["--layers", "3", "1-4"]),
    (["summary", "--num-labels", "0", "--head", "tokens"], ["num_labels", "got 0"]),
    (["plot", "base"], ["--output"]),
    (["plot", "base", "-o", "bert.gif"], [".png", ".svg", "bert.gif"]),
    (["plot", "base", "-o", "nosuch/bert.png"], ["nosuch"]),
    (["plot", "nosuch", "-o", "bert.png"], ["'nosuch'"]),
    (["demo", "-o", "bert.gif"], [".png", "bert.gif"]),
    (["demo", "base"], ["base"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    (place / "folder").mkdir()
    (place / "folder.json").mkdir()
    return place


@pytest.fixture
def refused(capsys, folder, monkeypatch):
    """Runs a command line in the folder of bad files; asserts that it is refused in one line."""
    monkeypatch.chdir(folder)

    def run(*arguments, says):
        before = sorted(folder.iterdir())
        done = kbert(capsys, *arguments)
        assert done.status == 2, done
        assert done.out == ""
        assert done.err.startswith("kbert: ") and done.err.endswith("\n")
        assert done.err.count("\n") == 1, done.err
        assert "Traceback" not in done.err
        for part in says:
            assert part in done.err
        assert sorted(folder.iterdir()) == before

    return run


@pytest.mark.parametrize(("config", "says"), CONFIGURATIONS, ids=[c for c, _ in CONFIGURATIONS])
def test_bad_configuration_gives_one_line(refused, config, says):
    refused("account", config, says=says)


@pytest.mark.parametrize("command", ["summary", "params", "heads", "verify", "plot"])
@pytest.mark.parametrize("config", ["basse", "zero.json", "nosuch.json"])
def test_every_command_refuses_a_bad_configuration(refused, command, config):
    output = ["-o", "bert.svg"] if command == "plot" else []
    refused(command, config, *output, says=dict(CONFIGURATIONS)[config])


@pytest.mark.parametrize(("arguments", "says"), COMMANDS, ids=[" ".join(c) for c, _ in COMMANDS])
def test_bad_option_gives_one_line(refused, arguments, says):
    refused(*arguments, says=says)


def test_length_beyond_the_positions_of_a_file_is_refused(refused):
    refused("account", "small.json", "--seq-len", "18", says=["17", "got 18"])
    refused("summary", "small.json", "--seq-len", "18", says=["17", "got 18"])


def test_close_preset_name_is_suggested_in_any_case(refused):
    for typo, meant in (
        ("bsae", "base"),
        ("Large", "large"),
        ("bert-base-uncase", "base_uncased"),
        ("BASE", "base"),
        ("tinny", "tiny"),
    ):
        refused("account", typo, says=[f"did you mean {meant}?"])


@pytest.mark.parametrize(
    "line",
    [
        "summary basse",
        "summary small.json --seq-len 18",
        "summary small.json --layers 1-4",
        "summary small.json --head tokens --num-labels 0",
        "heads basse",
        "verify basse",
        "plot small.json -o nosuch/bert.png",
        "plot small.json --head tokens --num-labels 0 -o bert.svg",
    ],
)
def test_mistakes_are_refused_before_keras_starts(refused, monkeypatch, line):
    def started():
        raise AssertionError("Keras was started")

    monkeypatch.setattr("kbert.cli.graph_commands.starting_keras", started)
    refused(*line.split(), says=[])


def test_graphviz_failure_gives_one_line(refused, monkeypatch):
    import kbert.show.graphviz

    def fail(*_):
        raise RuntimeError("Graphviz failed: status 1")

    monkeypatch.setattr(kbert.show.graphviz, "draw", fail)
    refused("plot", "tiny", "-o", "bert.svg", says=["Graphviz failed: status 1"])


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("classify none {}", "--lines {}"),
        ("tag none {}", "--lines {}"),
        ("search none query {}", "--lines {}"),
        ("rank none query {}", "--lines {}"),
        ("rank none {} text", '"$(cat {})"'),
        ("similarity none text {}", '"$(cat {})"'),
        ("answer none who? {}", '"$(cat {})"'),
        ("attribute none {}", '"$(cat {})"'),
    ],
)
def test_text_that_is_the_path_of_a_file_is_reported(capsys, tmp_path, line, way):
    file = tmp_path / "short.txt"
    file.write_text("A fine film.\n")
    done = kbert(capsys, *line.format(file).split())
    assert f"kbert: {file} is a file: give {way.format(file)} to read it\n" in done.err
    assert done.err.count(" is a file:") == 1
