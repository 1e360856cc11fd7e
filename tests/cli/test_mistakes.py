"""A user's mistake is one line on stderr, with status 2, before Keras starts."""

import dataclasses
import json
import shutil
from pathlib import Path

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import numpy as np
import pytest
from helpers.command_line import kbert as run
from helpers.errors import check_named, raises
from helpers.sizes import SIZES
from safetensors.numpy import save_file

import kbert
from kbert.cli.main import cli
from kbert.io.bounds import refuse_url
from kbert.tasks.finetuning.task import TASKS

# No import of these gets through: what a command needs them for comes too late.
RUN = """
import contextlib, io, json, os, sys
HEAVY = {"keras", "tensorflow", "jax", "torch", "transformers", "tf2onnx", "onnx", "onnxscript"}

class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HEAVY:
            raise AssertionError(f"{name} was imported")

folder, lines, missing = map(json.loads, sys.argv[1:])
os.chdir(folder)
sys.meta_path.insert(0, Guard())
import importlib.util
find = importlib.util.find_spec

def find_spec(name, package=None):
    if name in ("onnx", "tf2onnx", "onnxscript"):
        return None if name in missing else object()
    return find(name, package)

importlib.util.find_spec = find_spec
os.access = lambda path, mode: "locked" not in str(path)  # root may write everywhere
from kbert.cli.main import main
for line in lines:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(line)
            status = 0
        except SystemExit as exit_:
            status = exit_.code
        except AssertionError as error:
            status = str(error)
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""
JSON = [  # what the file of a configuration holds; what the line must say
    (b'{"vocab_size": 99,', "JSON", "line 1"),
    (b"", "JSON"),
    (b"[99]", "JSON object", "list"),
    ('{"vocab_size": 99, "é": 1}'.encode("latin-1"), "UTF-8"),
    (b"[" * 100_000,),
    (b'{"vocab_size": ' + b"9" * 5000 + b"}",),
    (b"{}", "vocab_size"),
    (b'{"vocab_size": 99, "hiden_size": 24}', "'hiden_size'", "hidden_size"),
    (b'{"vocab_size": 99, "model_type": "albert"}', "model_type", "bert", "'albert'", "ALBERT"),
    (
        b'{"vocab_size": 99, "position_embedding_type": "relative_key"}',
        '"absolute"',
        "relative_key",
    ),
    (b'{"vocab_size": 99, "num_hidden_layers": 0}', "num_hidden_layers", "at least 1", "got 0"),
    (b'{"vocab_size": true}', "vocab_size", "whole number", "got True"),
    (b'{"vocab_size": 99, "hidden_size": 768.0}', "hidden_size", "whole number", "got 768.0"),
    (b'{"vocab_size": 99, "hidden_dropout_prob": NaN}', "hidden_dropout_prob", "finite", "got nan"),
    (b'{"vocab_size": 99, "num_attention_heads": 7}', "hidden_size", "768", "7", "6, 8"),
    (b'{"vocab_size": 99, "hidden_act": "prelu"}', "hidden_act", "gelu_new", "'prelu'"),
    (b'{"vocab_size": 99, "pad_token_id": 99}', "pad_token_id", "0 … 98", "got 99"),
]
HUB = "hf://google/bert"
READ = "hf download google/bert"  # the command that an address is answered with
WRITE = "kbert push FOLDER google/bert"
# A command line, and parts of what it says. A trailing = stands for an empty argument that follows.
MISTAKES = [(f"account {n}.json", f"{n}.json", *says) for n, (_, *says) in enumerate(JSON)]
MISTAKES += [
    ("acount", "'acount'", "account"),
    ("trian", "'trian'", "train"),
    ("nothing", "'nothing'", "kbert --help"),
    ("resume run", "kbert finetune --resume", "kbert pretrain --resume"),
    ("predict", "'predict'", "kbert classify"),
    ("--versoin", "'--versoin'", "--version"),
    ("summary --selected-positions", "selected_positions", "max_predictions"),
    ("summary --seq-len 0", "seq_len", "at least 1", "got 0"),
    ("summary --seq-len 513", "seq_len", "512", "got 513"),
    ("summary --seq-len all", "--seq-len", "any", "'all'"),
    ("summary --layers 2-1", "--layers", "'2-1'"),
    ("summary small.json --layers 0-1", "--layers", "1", "3", "0-1"),
    ("summary small.json --layers 1-4", "--layers", "3", "1-4"),
    ("completion tcsh", "bash", "zsh", "fish", "tcsh"),
    ("summary tiny --num-labels 3", "--num-labels"),
    ("summary --config tiny", "--config", "kbert summary"),
    ("summary qwertz.json", "qwertz.json", "kbert summary"),
    ("account basse", "'basse'", "base"),
    ("account=", "''", "base, large"),
    ("account bin.tsv", "bin.tsv", "a preset's name", ".json", "got another file"),
    ("account google/electra", "no such file", "a preset's name", ".json"),
    ("account nosuch.json", "nosuch.json", "No such file"),
    ("account no\nsuch.json", "such.json"),
    ("account empty", "empty", "config.json"),
    ("account folder.json", "folder.json", "directory"),
    ("account --nope", "'--nope'", "kbert account --help"),
    ("account --seqlen 3", "'--seqlen'", "--seq-len"),
    ("account --head token_", "'qa', ", "tokens?"),
    ("account base base", "base", "twice"),
    ("account base large --format csv", "give one"),
    ("account base large --rows", "give one"),
    ("summary tiny --collapse --layers 1", "--collapse", "--layers"),
    ("summary tiny --collapse --format tsv", "--collapse", "latex"),
    ("account --seq-len", "--seq-len"),
    ("account --seq-len 0", "seq_len", "at least 1", "got 0"),
    ("account --seq-len 513", "seq_len", "max_position_embeddings", "512", "got 513"),
    ("account --batch-size 0", "batch_size", "at least 1", "got 0"),
    ("account --max-predictions 8 --seq-len 7", "max_predictions", "7", "got 8"),
    ("account --max-predictions 3 --head qa", "max_predictions", "'qa'"),
    ("account --selected-positions --head qa", "selected_positions", "'qa'"),
    ("account --dtype fp16", "'fp16'", "float16"),
    ("account --format xml", "xml", "csv"),
    ("account bsae", "base?"),
    ("account BASE", "base?"),
    (f"account {HUB}", HUB, READ),
    ("plan --precision mixed", "mixed_bfloat16?"),
    ("plan tiny --tpu v5e:3x3", "v5e:3x3"),
    ("params --head qa", "--head"),
    ("params --format csv", "csv", "tsv"),
    ("heads basse", "basse"),
    ("verify basse", "basse"),
    ("plot base", "--output"),
    ("plot base -o bert.gif", ".png", ".svg", "bert.gif"),
    ("plot nosuch -o bert.png", "'nosuch'"),
    ("plot base large -o bert.png", "large", "--text"),
    ("plot base --style papr -o bert.svg", "'papr'", "paper"),
    ("plot base --style paper -o bert.dot", ".dot", ".tex"),
    ("plot base --style full --layout wide -o bert.svg", "wide", "'full'"),
    ("plot base --text dog -o bert.svg", "'base'", "vocabulary", "bert-base-uncased"),
    ("plot nosuch --text dog -o bert.svg", "'nosuch'"),
    ("plot base --text dog --head qa -o bert.svg", "--head"),
    ("plot base --cased -o bert.svg", "--cased", "--text"),
    ("plot base -o nowhere/x.svg", "no such folder"),
    ("plot base -o=", "path", "empty"),
    ("plot small.json --head tokens --num-labels 0 -o bert.svg", "num_labels", "got 0"),
    ("explore base -o x.svg", ".html"),
    ("explore base -o locked/x.html", "cannot write in this folder"),
    ("explore basse -o x.html", "no checkpoint is at that path"),
    ("explore tiny -o x.html --seq-len 600", "seq_len", "512", "600"),
    ("explore encoder -o x.html --head qa", "got a checkpoint"),
    ("explore empty -o x.html", "no checkpoint"),
    ("explore base", "-o page.html", "--serve", "got neither"),
    ("explore encoder -o x.html --serve", "got both"),
    ("explore base --serve", "--serve", "checkpoint"),
    ("explore tiny -o x.html --sentence a", "--sentence", "checkpoint"),
    ("explore nowhere -o x.html --sentence a", "nowhere"),
    ("explore empty --serve", "no checkpoint"),
    ("explore encoder -o x.html --sentence=", "has no token"),
    (f"explore encoder -o x.html --sentence {'a' * 60}", "17"),
    ("explore wordless -o x.html --sentence a", "vocab.txt"),
    ("explore wordless --serve", "vocab.txt"),
    ("demo -o bert.gif", ".png", "bert.gif"),
    ("demo base", "base"),
    ("demo -o bert.pgn", "bert.pgn", "bert.png"),
    ("demo -o mine.png", "mine.png", "PNG"),
    ("plot tiny -o mine.svg", "mine.svg", "SVG"),
    ("explore tiny -o mine.html", "mine.html", "is not a page that kbert wrote"),
    ("download nowhere", "nowhere"),
    ("download tiny", "build_bert('tiny')"),
    ("download encodr", "has an owner"),
    ("cache --format xml", "xml"),
    ("push nowhere owner/name", "no such folder"),
    ("push encoder name", "owner/name"),
    ("inspect nowhere", "nowhere"),
    ("inspect empty", "no checkpoint"),
    ("inspect encodr", "encodr", "encoder"),
    ("inspect bert-base-uncasd", "bert-base-uncasd", "bert-base-uncased"),
    ("inspect lines.txt", ".safetensors, .bin, .pt", "lines.txt"),
    ("inspect=", "path", "empty"),
    ("convert encoder out --to latex", "latex"),
    ("convert encoder out.zip", "out.zip"),
    ("convert encoder out --to keras", ".keras"),
    ("convert encoder nowhere/out.keras", "no such folder"),
    ("convert encoder empty --to onnx", ".onnx"),
    ("convert encoder out.kears", ".keras, .onnx, .tflite", "out.kears", "out.keras"),
    ("convert encoder out.safetensors", ".keras, .onnx, .tflite", "--to transformers"),
    ("convert encoder out.keras --to transformers", "written as a folder"),
    ("convert encoder lines.txt", ".keras, .onnx, .tflite", ".txt"),
    ("convert encoder locked/out", "cannot write in this folder"),
    ("convert encoder encoder --to google", "transformers"),
    ("convert encoder google", "google"),
    ("convert encoder qa", "qa", "--overwrite"),
    (
        "convert encoder encoder.keras",
        "encoder.keras",
        "--overwrite",
    ),
    ("convert encoder .", "--overwrite"),
    (
        "convert encoder tuning/model --overwrite",
        "tuning/model",
    ),
    ("convert nowhere out", "nowhere"),
    ("convert encoder=", "DST"),
    ("convert encoder out.keras --architecture BertModel", "architecture"),
    (f"convert x {HUB}", HUB, WRITE),
    ("fill-mask pretraining [MASK] --top-k 0", "--top-k"),
    ("fill-mask encoder [MASK]", "'pretraining'", "'encoder'", "kbert pretrain --init"),
    ("next-sentence classifier a b", "'pretraining'"),
    ("classify encoder.keras a", "'classifier'"),
    ("classify classifier", "--lines -"),
    ("classify classifier --pairs a b c", "--pairs", "two", "3"),
    ("classify classifier --pairs --lines good.tsv --pair", "--pairs?"),
    ("classify classifier --pairs --lines lines.txt", "lines.txt, line 1: --pairs", "1 columns"),
    ("classify classifier --lines none.txt", "none.txt"),
    ("classify encoder a", "'classifier'", "'encoder'", "kbert finetune --task classify"),
    ("classify classifier cat --lines -", "--lines", "both"),
    ("regress tokens a", "'classifier'"),
    ("regress classifier", "--lines -"),
    ("regress classifier --pairs --lines lines.txt", "lines.txt, line 1: --pairs", "1 columns"),
    ("tag --model run", "'--model'", "SRC"),
    ("answer qa a b --stride 0", "--stride"),
    ("answer qa a b --no-answer-threshold much", "--no-answer-threshold"),
    ("answer --model qa a b", "'--model'", "kbert answer"),
    ("answer tokens a b", "'qa'", "'tokens'", "kbert finetune --task qa"),
    ("choose classifier a b c", "'choice'"),
    ("choose classifier a b", "CHOICE", "two", "one"),
    ("embed encoder lines.txt -o v.txt", ".npy"),
    ("embed encoder lines.txt -o locked/v.npy", "cannot write in this folder"),
    ("embed encoder none.txt -o v.npy", "none.txt"),
    ("embed encoder lines.txt -o v.npy --max-length 0", "--max-length"),
    ("embed encoder bad.txt -o o.npy", "bad.txt, line 2", "UTF-8", "0xff"),
    ("embed encoder lines.txt bad.txt", "lines.txt", "--lines"),
    ("embed encoder lines.txt -o v.npx", ".npy", "v.npx", "v.npy"),
    ("embed encoder", "--lines"),
    ("similarity nowhere a b", "nowhere"),
    ("similarity encoder a", "at least two"),
    ("search encoder cat --lines none.txt", "none.txt"),
    ("rank encoder cat --lines none.txt", "none.txt"),
    ("attribute classifier a -o why.gif", ".png"),
    ("attention encoder a -o map.gif", ".png"),
    ("attention encoder a -o locked/map.html", "cannot write in this folder"),
    ("attention encoder a -o empty", ".html"),
    ("attention encoder a -o mine.html", "mine.html", "is not a page that kbert wrote"),
    ("attribute classifier a -o mine.html", "mine.html", "is not a page that kbert wrote"),
    ("embed encoder lines.txt -o mine.npy", "mine.npy", "--overwrite"),
    ("vocab lines.txt --size 90 -o data", "data", "holds files", "--overwrite"),
    ("vocab lines.txt --size 90 -o vocab.txt", "vocab.txt", "folder"),
    ("vocab lines.txt --size 9 -o=", "path", "empty"),
    ("vocab bad.txt --size 700 -o v", "bad.txt, line 2", "UTF-8"),
    ("vocab blank.txt --size 700 -o v", "blank.txt"),
    ("vocab bad.txt --size 700 --unused -1 -o v", "unused", "-1"),
    ("vocab bad.txt --size 7 --unused 3 -o v", "unused", "0 to 2", "3"),
    ("vocab bad.txt --size 5 -o v", "size", "5", "[PAD]"),
    ("vocab bad.txt --size x -o v", "--size", "'x'"),
    ("prepare lines.txt --vocab encoder -o=", "path", "empty"),
    ("prepare bad.txt --vocab none -o s", "none"),
    ("prepare bad.txt --vocab empty -o s", "tokenizer.json", "vocab.txt"),
    ("prepare none --vocab encoder -o s", "no such file"),
    (
        "finetune encoder --task classify --train empty -o o",
        "empty (--train)",
    ),
    ("prepare blank.txt --vocab encoder -o s", "blank.txt"),
    (
        "prepare bad.txt --vocab bad.txt --processes 0 -o s",
        "processes",
        "0",
    ),
    ("prepare lines.txt --vocab encoder --drop-duplicates 0 -o s", "--drop-duplicates", "got 0"),
    (f"prepare {HUB} --vocab x -o y", HUB, READ),
    ("pretrain --input x", "'--input'", "SHARDS"),
    ("pretrain --precision bf16", "mixed_bfloat16?"),
    ("pretrain nowhere -o run --steps 3", "nowhere"),
    ("pretrain empty -o run --steps 3", "kbert prepare"),
    ("pretrain empty -o run --steps 0", "steps"),
    ("pretrain empty -o run", "--steps"),
    ("pretrain empty -o encoder --steps 3", "encoder"),
    ("pretrain empty -o locked/run --steps 3", "cannot write in this folder"),
    ("pretrain empty -o run --steps 3 --config basse", "basse"),
    ("pretrain empty -o run --steps 3 --init encoder --config tiny", "--config"),
    ("pretrain empty -o tuning --steps 3", "tuning", "kbert finetune --resume tuning"),
    ("pretrain --resume empty", "no run"),
    ("pretrain --resume tuning", "kbert finetune --resume"),
    ("pretrain bad.txt --steps 3 -o r", "bad.txt", "folder"),
    (f"pretrain x --steps 1 -o {HUB}", HUB, WRITE),
    ("finetune --steps 3", "'--steps'", "kbert finetune --help"),
    ("finetune --bf16", "'--bf16'", "--precision mixed_bfloat16"),
    ("finetune --task clasify", f"{', '.join(map(repr, TASKS))}: did you mean classify?"),
    ("finetune --precision fp16", "fp16", "mixed_float16?"),
    ("finetune encoder --task classify --train none.tsv -o run", "none.tsv"),
    ("finetune encoder --task sing --train lines.txt -o run", "sing"),
    ("finetune encoder --task classify --train good.tsv -o empty/../encoder", "encoder"),
    ("finetune encoder --task classify --train lines.txt -o run --epochs 0", "epochs"),
    (
        "finetune encoder --task classify --train good.tsv -o tuning",
        "tuning",
        "kbert finetune --resume tuning",
    ),
    ("finetune nowhere --task classify --train lines.txt -o run", "nowhere"),
    (
        "finetune tuning --task classify --train lines.txt -o run",
        "kbert finetune --resume tuning",
    ),
    ("finetune encoder --task classify --train lines.txt -o run", "lines.txt, line 1"),
    ("finetune encoder --task tag --train short.tsv -o run", "short.tsv, line 3"),
    ("finetune encoder --task classify --train short.tsv -o run", "short.tsv, line 3", "2 columns"),
    (
        "finetune encoder --task classify --train good.tsv --dev short.tsv -o run",
        "short.tsv, line 3",
    ),
    (
        "finetune encoder --task classify --train good.tsv --dev other.tsv -o run",
        "other.tsv",
        "0, 1",
        "'2'",
    ),
    ("finetune encoder --task tag --train good.tsv --dev other.tsv -o run", "line 2", "label"),
    ("finetune encoder --task qa --train good.tsv -o run", "good.tsv", "'a\\t0'"),
    ("finetune encoder --task choice --train good.tsv -o run", "prompt"),
    ("finetune encoder", "--task", "kbert finetune"),
    ("finetune --resume tuning --task tag", "--task", "--resume"),
    (
        "finetune encoder --task classify --train good.tsv -o run --loss nonsense",
        "'nonsense'",
        "cross_entropy",
        "classify",
    ),
    (
        "finetune encoder --loss nonsense --train good.tsv --task regress -o run",
        "'nonsense'",
        "squared_error",
        "absolute_error",
        "huber",
        "regress",
    ),
    ("finetune encoder --task classify --train good.tsv -o run --loss huber", "cross_entropy"),
    ("finetune encoder --task classify --train good.tsv -o run --score f1", "dev"),
    ("finetune", "SRC", "kbert finetune --help"),
    ("finetune --resume tunin", "tunin", "tuning"),
    ("finetune --resume=", "path", "empty"),
    ("finetune encoder --task tag -o run --train=", "path", "empty"),
    (
        "finetune encoder --task tag --train samples.TRAINN -o run",
        "samples.TRAINN",
        "samples.TRAIN?",
    ),
    ("finetune encoder --task tag --train TOKEN -o run", "TOKEN", "--train"),
    ("finetune encoder --task tag --train encoder -o run", "encoder (--train)"),
    ("finetune encoder --task tag --train gone.tsv -o run", "gone.tsv", "good.tsv"),
    ("finetune nowhere --task tag --train good.tsv -o good.tsv", "good.tsv (--train and --output)"),
    (f"finetune x --task classify --train {HUB} -o run", HUB, READ),
    ("evaluate nowhere --task tag --data lines.txt", "nowhere"),
    ("evaluate encoder --data lines.txt", "--task", "kbert evaluate"),
    ("evaluate tokens --task classify --data lines.txt", "'classifier'"),
    ("recipe run cramming --corpus nowhere.txt --steps 3 -o run", "nowhere.txt"),
    ("recipe run GLU --corpus lines.txt --steps 3 -o run", "GLU", "cramming"),
    ("recipe run mosaic --corpus lines.txt --steps 3 --steps 4 -o run", "--steps"),
    ("glue encoder --data none -o run", "none"),
    ("glue encoder --data empty -o run", "CoLA"),
    ("glue encoder --data empty --tasks rte,sing -o run", "'sing'"),
    ("glue encoder --data empty --epochs 0 -o run", "epochs"),
    ("glue encoder --data empty --batch-sizes 16,x -o run", "--batch-sizes", "16,x"),
]

LATER = [  # these need the model
    ("convert pretraining out --architecture BertForQuestionAnswering", "pretraining"),
    ("convert pretraining out --architecture GPT2Model", "GPT2Model", "BertForPreTraining"),
    ("convert pretraining out --from-format google", "bert_model.ckpt.index"),
    ("fill-mask next [MASK]", "kbert pretrain --init"),
    ("fill-mask pretraining cat", "[MASK]", "'cat'"),
    ("next-sentence masked a b", "kbert pretrain --init"),
    ("similarity qa a b --pooling pooler", "pooling"),
    ("similarity wordless a b", "vocab.txt"),
    ("attention encoder a -o map.png --layer 3", "1 … 2", "got 3"),
]


@pytest.fixture(scope="module")
def place(saved, tmp_path_factory):
    """A folder with checkpoints, data and what is none of them."""
    place = tmp_path_factory.mktemp("mistakes") / "place"
    shutil.copytree(saved[0], place)
    kbert.save(saved[1]["encoder"], place / "encoder.keras")
    kbert.save(saved[1]["encoder"], place / "google", format="google")
    kbert.save(dataclasses.replace(saved[1]["encoder"], tokenizer=None), place / "wordless")
    for name, kind in (("next", "NextSentencePrediction"), ("masked", "MaskedLM")):
        kbert.save(saved[1]["pretraining"], place / name, architecture=f"BertFor{kind}")
    files = {f"{n}.json": content for n, (content, *_) in enumerate(JSON)} | {
        "small.json": json.dumps(SIZES).encode(),
        "bin.tsv": b"a fine film\t1\n",
        "lines.txt": b"a text\nanother\n",
        "bad.txt": b"fine\n\xff\n",
        "blank.txt": b"\n",
        "nothing.txt": b"",
        "good.tsv": b"a\t0\nb\t1\n",
        "other.tsv": b"a\t0\nb\t2\n",
        "short.tsv": b"a\t0\nb\t1\nc\n",
    }
    files |= {f"mine.{ending}": b"notes of mine" for ending in ("html", "npy", "png", "svg")}
    for name, content in files.items():
        (place / name).write_bytes(content)
    for name in ("empty", "locked", "tuning", "data/RTE", "folder.json", "bert-base-uncasedd"):
        (place / name).mkdir(parents=True)
    (place / "gone.tsv").symlink_to("missing")
    run = {"task": "finetune", "run": "1", "settings": {}, "fingerprint": {}}
    (place / "tuning" / "settings.json").write_text(json.dumps(run))
    adapter = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["query"]}
    adapter |= {"base_model_name_or_path": "encoder"}
    (place / "adapter").mkdir()
    (place / "adapter" / "adapter_config.json").write_text(json.dumps(adapter))
    matrix = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_{}.weight"
    arrays = {matrix.format("A"): np.ones((2, 24)), matrix.format("B"): np.ones((24, 2))}
    save_file(arrays, place / "adapter" / "adapter_model.safetensors")
    return place


@pytest.fixture(scope="module")
def answer(place, run_python):
    """(status, stdout, stderr) of each line, in a process where nothing heavy can be imported."""

    def call(lines, missing=()):
        words = [[part for word in line.split(" ") for part in arguments(word)] for line in lines]
        given = [json.dumps(one) for one in (str(place), words, missing)]
        done = run_python(f"import sys; sys.argv[1:] = {given!r}\n{RUN}", CUDA_VISIBLE_DEVICES="")
        return [json.loads(line) for line in done.stdout.splitlines()]

    return call


def arguments(word: str) -> list[str]:
    return [word[:-1], ""] if word.endswith("=") else [word]


@pytest.fixture(scope="module")
def answers(place, answer):
    before = sorted(place.rglob("*"))
    found = answer([line for line, *_ in MISTAKES])
    assert sorted(place.rglob("*")) == before
    return dict(zip((line for line, *_ in MISTAKES), found, strict=True))


@pytest.mark.parametrize(("line", "says"), [(line, says) for line, *says in MISTAKES])
def test_mistake_is_one_line_before_keras_starts(answers, line, says):
    check(says, *answers[line])


@pytest.mark.parametrize(("line", "says"), [(line, says) for line, *says in LATER])
def test_mistake_is_one_line(capsys, place, monkeypatch, line, says):
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    check(says, *run(capsys, *line.split()))
    assert sorted(place.rglob("*")) == before


def check(says, status, out, err):
    assert (status, out) == (2, ""), (status, out, err)
    assert err.startswith("kbert: ") and err.count("\n") == 1, err
    check_named(err, *says)
    assert "Traceback" not in err and "kbert.load(" not in err  # the same refusal would follow


def test_list_of_mistakes_has_every_command():
    assert {line.split(" ")[0] for line, *_ in MISTAKES} >= set(cli.commands)


def test_missing_package_is_named_before_keras_starts(answer):
    ((status, _, err),) = answer(["convert encoder out.onnx"], ["tf2onnx"])
    assert status == 2
    check_named(err, "tf2onnx", "pip install")


def test_import_guard_catches_a_valid_command_and_inspect_needs_no_backend(answer):
    valid = ["similarity encoder a b", "convert encoder out.onnx"]
    valid += ["finetune adapter --resume tuning"]  # the place of the adapter that it continues
    *found, (status, out, _) = answer([*valid, "inspect encoder"])
    assert [one for one, *_ in found] == ["keras was imported"] * len(valid), found
    assert not status and "Every tensor is there" in out


def test_graphviz_failure_gives_one_line(capsys, monkeypatch, tmp_path):
    def fail(*_):
        raise RuntimeError("Graphviz failed: status 1")

    monkeypatch.setattr("kbert.show.graphviz.draw", fail)
    done = run(capsys, "plot", "tiny", "-o", tmp_path / "bert.svg")
    assert (done.status, done.out, list(tmp_path.iterdir())) == (2, "", [])
    assert done.err.splitlines()[-1] == "kbert: Graphviz failed: status 1"


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
    done = run(capsys, *line.format(file).split())
    (warning,) = [line for line in done.err.splitlines() if way.format(file) in line]
    check_named(warning, f"kbert: {file}")


def test_saving_to_a_url_writes_nothing(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bert = kbert.Bert(small, "encoder", model=None)
    with raises(ValueError, "s3://bucket/run"):
        kbert.save(bert, "s3://bucket/run")
    assert list(tmp_path.iterdir()) == []


def test_paths_are_not_taken_for_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf:").mkdir()
    for path in ("C:/bert", r"C:\bert", "a/b", Path("hf:"), "hf:/", "12:/x", "a b://x"):
        refuse_url(path)
