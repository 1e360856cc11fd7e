"""A user's mistake is one line on stderr, with status 2, before Keras starts."""

import dataclasses
import json
import shutil
from pathlib import Path

import keras  # noqa: F401  started here, so that no command says that it is starting Keras
import numpy as np
import pytest
from helpers.command_line import kbert as run
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
    (b'{"vocab_size": 99, "model_type": "albert"}', "model_type", "bert", "'albert'", "ALBERT has"),
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
READ = f"kbert: {HUB} is an address, and kbert opens local paths only: download it first, "
READ += "hf download google/bert --local-dir FOLDER (a data set also needs --repo-type dataset), "
READ += "and give the folder\n"
WRITE = f"kbert: {HUB} is an address, and kbert writes to local paths here: write a folder, then "
WRITE += "kbert push FOLDER google/bert\n"
# A command line, and parts of what it says. A trailing = stands for an empty argument that follows.
MISTAKES = [(f"account {n}.json", f"{n}.json", *says) for n, (_, *says) in enumerate(JSON)]
MISTAKES += [
    ("acount", "No such command 'acount': did you mean account?"),
    ("trian", "No such command 'trian': did you mean train?"),
    ("nothing", "No such command 'nothing': kbert --help lists the commands."),
    ("resume run", "kbert finetune --resume RUN or kbert pretrain --resume RUN"),
    ("predict", "No such command 'predict': use kbert classify, "),
    ("--versoin", "No such option '--versoin': did you mean --version?"),
    ("summary --selected-positions", "selected_positions needs max_predictions"),
    ("summary --seq-len 0", "seq_len", "at least 1", "got 0"),
    ("summary --seq-len 513", "seq_len", "512", "got 513"),
    ("summary --seq-len all", "--seq-len", "any", "'all'"),
    ("summary --layers 2-1", "--layers", "'2-1'"),
    ("summary small.json --layers 0-1", "--layers", "1", "3", "0-1"),
    ("summary small.json --layers 1-4", "--layers", "3", "1-4"),
    ("completion tcsh", "bash", "zsh", "fish", "tcsh"),
    ("summary tiny --num-labels 3", "--num-labels goes with"),
    ("summary --config tiny", "give CONFIG without an option, as in kbert summary large"),
    ("summary qwertz.json", "Example: kbert summary large --layers 1-2"),
    ("account basse", "'basse'", "base"),
    ("account=", "unknown preset ''", "the presets are base, large"),
    ("account bin.tsv", "bin.tsv", "a preset's name", "ends in .json", "got another file"),
    ("account google/electra", "no such file", "a preset's name", "ends in .json"),
    ("account nosuch.json", "nosuch.json", "No such file"),
    ("account no\nsuch.json", "such.json"),
    ("account empty", "empty", "config.json"),
    ("account folder.json", "folder.json", "directory"),
    ("account --nope", "No such option '--nope': kbert account --help lists the options."),
    ("account --seqlen 3", "No such option '--seqlen': did you mean --seq-len?"),
    ("account --head token_", "'qa', ", "': did you mean tokens?"),
    ("account base base", "base twice"),
    ("account base large --format csv", "give one"),
    ("account base large --rows", "give one"),
    ("summary tiny --collapse --layers 1", "--collapse", "--layers"),
    ("summary tiny --collapse --format tsv", "--collapse", "latex"),
    ("account --seq-len", "--seq-len"),
    ("account --seq-len 0", "seq_len", "at least 1", "got 0"),
    ("account --seq-len 513", "seq_len", "max_position_embeddings = 512", "got 513"),
    ("account --batch-size 0", "batch_size", "at least 1", "got 0"),
    ("account --max-predictions 8 --seq-len 7", "max_predictions", "7", "got 8"),
    ("account --max-predictions 3 --head qa", "max_predictions", "'qa'"),
    ("account --selected-positions --head qa", "selected_positions", "'qa'"),
    ("account --dtype fp16", "'fp16': did you mean float16?"),
    ("account --format xml", "xml", "csv"),
    ("account bsae", "did you mean base?"),
    ("account BASE", "did you mean base?"),
    (f"account {HUB}", READ),
    ("plan --precision mixed", "did you mean mixed_bfloat16?"),
    ("plan tiny --tpu v5e:3x3", "v5e:3x3"),
    ("params --head qa", "--head"),
    ("params --format csv", "csv", "tsv"),
    ("heads basse", "basse"),
    ("verify basse", "basse"),
    ("plot base", "--output"),
    ("plot base -o bert.gif", ".png", ".svg", "bert.gif"),
    ("plot nosuch -o bert.png", "'nosuch'"),
    ("plot base large -o bert.png", "large", "--text"),
    ("plot base --style papr -o bert.svg", "did you mean paper?"),
    ("plot base --style paper -o bert.dot", ".dot", ".tex"),
    ("plot base --style full --layout wide -o bert.svg", "wide", "'full'"),
    ("plot base --text dog -o bert.svg", "'base'", "vocabulary", "bert-base-uncased"),
    ("plot nosuch --text dog -o bert.svg", "'nosuch'"),
    ("plot base --text dog --head qa -o bert.svg", "--head goes with a graph"),
    ("plot base --cased -o bert.svg", "--cased goes with --text"),
    ("plot base -o nowhere/x.svg", "no such folder"),
    ("plot base -o=", "expected a path, got an empty one"),
    ("plot small.json --head tokens --num-labels 0 -o bert.svg", "num_labels", "got 0"),
    ("explore base -o x.svg", ".html"),
    ("explore base -o locked/x.html", "cannot write in this folder"),
    ("explore basse -o x.html", "no checkpoint is at that path"),
    ("explore tiny -o x.html --seq-len 600", "seq_len must be at most"),
    ("explore encoder -o x.html --head qa", "got a checkpoint"),
    ("explore empty -o x.html", "no checkpoint"),
    ("explore base", "-o page.html", "--serve", "got neither"),
    ("explore encoder -o x.html --serve", "got both"),
    ("explore base --serve", "--serve goes with a checkpoint"),
    ("explore tiny -o x.html --sentence a", "--sentence goes with a checkpoint"),
    ("explore nowhere -o x.html --sentence a", "nowhere"),
    ("explore empty --serve", "no checkpoint"),
    ("explore encoder -o x.html --sentence=", "has no token"),
    (f"explore encoder -o x.html --sentence {'a' * 60}", "at most 17 tokens"),
    ("explore wordless -o x.html --sentence a", "put its vocab.txt into its folder"),
    ("explore wordless --serve", "put its vocab.txt into its folder"),
    ("demo -o bert.gif", ".png", "bert.gif"),
    ("demo base", "base"),
    ("demo -o bert.pgn", "did you mean bert.png?"),
    ("demo -o mine.png", "mine.png", "is not a PNG picture"),
    ("plot tiny -o mine.svg", "mine.svg", "is not an SVG picture"),
    ("explore tiny -o mine.html", "mine.html", "is not a page that kbert wrote"),
    ("download nowhere", "nowhere"),
    ("download tiny", "build_bert('tiny')"),
    ("download encodr", "has an owner"),
    ("cache --format xml", "xml"),
    ("push nowhere owner/name", "no such folder"),
    ("push encoder name", "owner/name"),
    ("inspect nowhere", "nowhere"),
    ("inspect empty", "no checkpoint"),
    ("inspect encodr", "did you mean encoder?"),
    ("inspect bert-base-uncasd", "did you mean bert-base-uncased?"),
    ("inspect lines.txt", ".safetensors, .bin, .pt", "got another file\n"),
    ("inspect=", "a checkpoint's path must be given, got an empty one"),
    ("convert encoder out --to latex", "latex"),
    ("convert encoder out.zip", "reads and does not write"),
    ("convert encoder out --to keras", "must end in .keras"),
    ("convert encoder nowhere/out.keras", "no such folder"),
    ("convert encoder empty --to onnx", "must end in .onnx"),
    ("convert encoder out.kears", ".keras, .onnx, .tflite", "did you mean out.keras?"),
    ("convert encoder out.safetensors", ".keras, .onnx, .tflite", "--to transformers"),
    ("convert encoder out.keras --to transformers", "written as a folder"),
    ("convert encoder lines.txt", ".keras, .onnx, .tflite, got .txt"),
    ("convert encoder locked/out", "cannot write in this folder"),
    ("convert encoder encoder --to google", "a checkpoint of another format (transformers)"),
    ("convert encoder google", "holds a checkpoint of another format (google)"),
    ("convert encoder qa", "qa holds a model: replace it with --overwrite, or choose another"),
    (
        "convert encoder encoder.keras",
        "encoder.keras exists: replace it with --overwrite, or choose",
    ),
    ("convert encoder .", ". holds files: write into it with --overwrite, or choose another place"),
    (
        "convert encoder tuning/model --overwrite",
        "tuning/model must not be the model of a run: choose",
    ),
    ("convert nowhere out", "nowhere"),
    ("convert encoder=", "DST"),
    ("convert encoder out.keras --architecture BertModel", "architecture is an option of the"),
    (f"convert x {HUB}", WRITE),
    ("fill-mask pretraining [MASK] --top-k 0", "--top-k"),
    ("fill-mask encoder [MASK]", "'pretraining'", "'encoder'", "kbert pretrain --init"),
    ("next-sentence classifier a b", "'pretraining'"),
    ("classify encoder.keras a", "'classifier'"),
    ("classify classifier", "neither (--lines - reads standard input)"),
    ("classify classifier --pairs a b c", "--pairs needs two texts per pair, got 3 in all"),
    ("classify classifier --pairs --lines good.tsv --pair", "did you mean --pairs?"),
    ("classify classifier --pairs --lines lines.txt", "lines.txt, line 1: --pairs", "1 columns"),
    ("classify classifier --lines none.txt", "none.txt"),
    ("classify encoder a", "'classifier'", "'encoder'", "kbert finetune --task classify"),
    ("classify classifier cat --lines -", "--lines", "both"),
    ("regress tokens a", "'classifier'"),
    ("regress classifier", "neither (--lines - reads standard input)"),
    ("regress classifier --pairs --lines lines.txt", "lines.txt, line 1: --pairs", "1 columns"),
    ("tag --model run", "No such option '--model': give SRC without an option, as in"),
    ("answer qa a b --stride 0", "--stride"),
    ("answer qa a b --no-answer-threshold much", "--no-answer-threshold"),
    ("answer --model qa a b", 'distilbert-base-cased-distilled-squad "Who wrote it?" "Ada'),
    ("answer tokens a b", "'qa'", "'tokens'", "kbert finetune --task qa"),
    ("choose classifier a b c", "'choice'"),
    ("choose classifier a b", "choose needs two CHOICEs or more, got one"),
    ("embed encoder lines.txt -o v.txt", ".npy"),
    ("embed encoder lines.txt -o locked/v.npy", "cannot write in this folder"),
    ("embed encoder none.txt -o v.npy", "none.txt"),
    ("embed encoder lines.txt -o v.npy --max-length 0", "--max-length"),
    ("embed encoder bad.txt -o o.npy", "bad.txt, line 2", "UTF-8", "0xff"),
    ("embed encoder lines.txt bad.txt", "lines.txt is a file", "--lines"),
    ("embed encoder lines.txt -o v.npx", ".npy", "did you mean v.npy?"),
    ("embed encoder", "give texts or --lines FILE"),
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
    ("vocab lines.txt --size 90 -o vocab.txt", "vocab.txt must be a folder"),
    ("vocab lines.txt --size 9 -o=", "expected a path, got an empty one"),
    ("vocab bad.txt --size 700 -o v", "bad.txt, line 2: must be UTF-8"),
    ("vocab blank.txt --size 700 -o v", "got no sentence in blank.txt"),
    ("vocab bad.txt --size 700 --unused -1 -o v", "unused must be"),
    ("vocab bad.txt --size 7 --unused 3 -o v", "from 0 to 2, size"),
    ("vocab bad.txt --size 5 -o v", "size must be more than 5 ([PAD]"),
    ("vocab bad.txt --size x -o v", "'x' is not a valid integer"),
    ("prepare lines.txt --vocab encoder -o=", "expected a path, got an empty one"),
    ("prepare bad.txt --vocab none -o s", "none"),
    ("prepare bad.txt --vocab empty -o s", "no tokenizer.json and no vocab.txt"),
    ("prepare none --vocab encoder -o s", "no such file"),
    (
        "finetune encoder --task classify --train empty -o o",
        "empty (--train): Is a directory. Expected: L",
    ),
    ("prepare blank.txt --vocab encoder -o s", "no sentence in blank.txt"),
    (
        "prepare bad.txt --vocab bad.txt --processes 0 -o s",
        "processes must be a whole number of at",
    ),
    (f"prepare {HUB} --vocab x -o y", READ),
    ("pretrain --input x", "'--input': give SHARDS without an option, as in kbert pre"),
    ("pretrain --precision bf16", "did you mean mixed_bfloat16?"),
    ("pretrain nowhere -o run --steps 3", "nowhere"),
    ("pretrain empty -o run --steps 3", "kbert prepare"),
    ("pretrain empty -o run --steps 0", "steps"),
    ("pretrain empty -o run", "--steps"),
    ("pretrain empty -o encoder --steps 3", "encoder"),
    ("pretrain empty -o locked/run --steps 3", "cannot write in this folder"),
    ("pretrain empty -o run --steps 3 --config basse", "basse"),
    ("pretrain empty -o run --steps 3 --init encoder --config tiny", "--config"),
    ("pretrain empty -o tuning --steps 3", "it with kbert finetune --resume tuning, or choose"),
    ("pretrain --resume empty", "no run"),
    ("pretrain --resume tuning", "kbert finetune --resume"),
    ("pretrain bad.txt --steps 3 -o r", "bad.txt: a file, not a folder"),
    (f"pretrain x --steps 1 -o {HUB}", WRITE),
    ("finetune --steps 3", "'--steps': kbert finetune --help lists the options."),
    ("finetune --bf16", "No such option '--bf16': it is called --precision mixed_bfloat16."),
    ("finetune --task clasify", f"{', '.join(map(repr, TASKS))}: did you mean classify?"),
    ("finetune --precision fp16", "did you mean mixed_float16?"),
    ("finetune encoder --task classify --train none.tsv -o run", "none.tsv"),
    ("finetune encoder --task sing --train lines.txt -o run", "sing"),
    ("finetune encoder --task classify --train good.tsv -o empty/../encoder", "encoder"),
    ("finetune encoder --task classify --train lines.txt -o run --epochs 0", "epochs"),
    (
        "finetune encoder --task classify --train good.tsv -o tuning",
        "holds a run: resume it with kbert finetune --resume tuning, or choose another folder",
    ),
    ("finetune nowhere --task classify --train lines.txt -o run", "nowhere"),
    (
        "finetune tuning --task classify --train lines.txt -o run",
        "To resume: kbert finetune --resume tuning",
    ),
    ("finetune encoder --task classify --train lines.txt -o run", "lines.txt, line 1: expected"),
    ("finetune encoder --task tag --train short.tsv -o run", "short.tsv, line 3: expected"),
    ("finetune encoder --task classify --train short.tsv -o run", "line 3: expected 2 columns"),
    ("finetune encoder --task classify --train good.tsv --dev short.tsv -o run", "line 3: expect"),
    ("finetune encoder --task classify --train good.tsv --dev other.tsv -o run", "0, 1, got '2'"),
    ("finetune encoder --task tag --train good.tsv --dev other.tsv -o run", "line 2: label must"),
    ("finetune encoder --task qa --train good.tsv -o run", "got text that begins with 'a\\t0'"),
    ("finetune encoder --task choice --train good.tsv -o run", "expected the columns prompt"),
    ("finetune encoder", "--task is missing: kbert finetune SRC --task classify --train FILE"),
    ("finetune --resume tuning --task tag", "--task cannot be given with --resume"),
    (
        "finetune encoder --task classify --train good.tsv -o run --loss nonsense",
        "'nonsense' must be cross_entropy for the task classify",
    ),
    (
        "finetune encoder --loss nonsense --train good.tsv --task regress -o run",
        "must be squared_error or absolute_error or huber for the task regress",
    ),
    ("finetune encoder --task classify --train good.tsv -o run --loss huber", "cross_entropy"),
    ("finetune encoder --task classify --train good.tsv -o run --score f1", "dev"),
    ("finetune", "SRC is missing", "kbert finetune --help"),
    ("finetune --resume tunin", "no such folder: did you mean tuning?"),
    ("finetune --resume=", "expected a path, got an empty one"),
    ("finetune encoder --task tag -o run --train=", "expected a path, got an empty one"),
    ("finetune encoder --task tag --train samples.TRAINN -o run", "you mean samples.TRAIN?"),
    ("finetune encoder --task tag --train TOKEN -o run", "Expected: Labelled training data:"),
    ("finetune encoder --task tag --train encoder -o run", "encoder (--train): Is a directory"),
    ("finetune encoder --task tag --train gone.tsv -o run", "directory: did you mean good.tsv?"),
    ("finetune nowhere --task tag --train good.tsv -o good.tsv", "good.tsv (--train and --output)"),
    (f"finetune x --task classify --train {HUB} -o run", READ),
    ("evaluate nowhere --task tag --data lines.txt", "nowhere"),
    ("evaluate encoder --data lines.txt", "--task is missing: kbert evaluate SRC --task classify"),
    ("evaluate tokens --task classify --data lines.txt", "'classifier'"),
    ("glue encoder --data none -o run", "none"),
    ("glue encoder --data empty -o run", "expected a folder CoLA, got nothing"),
    ("glue encoder --data empty --tasks rte,sing -o run", "'sing'"),
    ("glue encoder --data empty --epochs 0 -o run", "epochs"),
    ("glue encoder --data empty --batch-sizes 16,x -o run", "numbers separated by commas, got"),
]

LATER = [  # these need the model
    ("convert pretraining out --architecture BertForQuestionAnswering", "for the head pretraining"),
    ("convert pretraining out --architecture GPT2Model", "must be one of BertForPreTraining"),
    ("convert pretraining out --from-format google", "bert_model.ckpt.index"),
    ("fill-mask next [MASK]", "kbert pretrain --init"),
    ("fill-mask pretraining cat", "[MASK]", "'cat'"),
    ("next-sentence masked a b", "kbert pretrain --init"),
    ("similarity qa a b --pooling pooler", "choose another pooling"),
    ("similarity wordless a b", "put its vocab.txt into its folder"),
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
    assert not [part for part in says if part not in err], err
    assert "Traceback" not in err and "kbert.load(" not in err  # the same refusal would follow


def test_list_of_mistakes_has_every_command():
    assert {line.split(" ")[0] for line, *_ in MISTAKES} >= set(cli.commands)


def test_missing_package_is_named_before_keras_starts(answer):
    ((status, _, err),) = answer(["convert encoder out.onnx"], ["tf2onnx"])
    assert status == 2 and "needs the package tf2onnx, which is not installed: pip" in err


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
    assert f"kbert: {file} is a file: give {way.format(file)} to read it\n" in done.err
    assert done.err.count(" is a file:") == 1


def test_saving_to_a_url_writes_nothing(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bert = kbert.Bert(small, "encoder", model=None)
    with pytest.raises(
        ValueError, match=r"s3://bucket/run is an address.*write to one, and copy that"
    ):
        kbert.save(bert, "s3://bucket/run")
    assert list(tmp_path.iterdir()) == []


def test_paths_are_not_taken_for_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf:").mkdir()
    for path in ("C:/bert", r"C:\bert", "a/b", Path("hf:"), "hf:/", "12:/x", "a b://x"):
        refuse_url(path)
