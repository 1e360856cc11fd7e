"""Every command reports a mistake before it starts Keras."""

import json
import shutil

import pytest

import kbert

LINES = "a text\nanother\n"
# No import of these gets through: what a command needs them for comes too late.
RUN = """
import contextlib, io, json, sys
HEAVY = {"keras", "tensorflow", "jax", "torch", "transformers", "tf2onnx", "onnx", "onnxscript"}

class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HEAVY:
            raise AssertionError(f"{name} was imported")

sys.meta_path.insert(0, Guard())
import importlib.util, os
find, missing = importlib.util.find_spec, json.loads(sys.argv[2])

def find_spec(name, package=None):
    if name in ("onnx", "tf2onnx", "onnxscript"):
        return None if name in missing else object()
    return find(name, package)

importlib.util.find_spec = find_spec
os.access = lambda path, mode: "locked" not in str(path)  # root may write everywhere
from kbert.cli.main import main
for line in json.loads(sys.argv[1]):
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
BAD = [  # command line, what the line must say
    ("summary basse", "basse"),
    ("summary tiny --seq-len 0", "seq_len"),
    ("summary tiny --layers 3-9", "--layers"),
    ("summary tiny --num-labels 3", "--num-labels goes with"),
    ("account tiny --batch-size 0", "batch_size"),
    ("plan tiny --tpu v5e:3x3", "v5e:3x3"),
    ("params none.json", "none.json"),
    ("heads basse", "basse"),
    ("verify basse", "basse"),
    ("plot base -o x.bmp", ".svg"),
    ("plot base -o nowhere/x.svg", "no such folder"),
    ("plot base -o .", "must end in"),
    ("plot base -o=", "expected a path, got an empty one"),
    ("explore base -o x.svg", ".html"),
    ("explore base -o nowhere/x.html", "no such folder"),
    ("explore base -o locked/x.html", "cannot write in this folder"),
    ("explore basse -o x.html", "no checkpoint is at that path"),
    ("explore tiny -o x.html --seq-len 600", "seq_len must be at most"),
    ("explore tiny -o x.html --batch-size 0", "batch_size"),
    ("explore encoder -o x.html --head qa", "got a checkpoint"),
    ("explore empty -o x.html", "no checkpoint"),
    ("demo -o x.bmp", ".svg"),
    ("download nowhere", "nowhere"),
    ("download tiny", "build_bert('tiny')"),
    ("cache --format xml", "xml"),
    ("push nowhere owner/name", "no such folder"),
    ("push encoder name", "owner/name"),
    ("inspect nowhere", "nowhere"),
    ("inspect nowhere.zip", "nowhere.zip"),
    ("inspect empty", "no checkpoint"),
    ("convert encoder out --to latex", "latex"),
    ("convert encoder out.zip", "reads and does not write"),
    ("convert encoder out --to keras", "must end in .keras"),
    ("convert encoder nowhere/out.keras", "no such folder"),
    ("convert encoder empty --to onnx", "a folder, not a file"),
    ("convert encoder lines.txt", "a file, not a folder"),
    ("convert encoder locked/out", "cannot write in this folder"),
    ("convert encoder encoder --to google", "another checkpoint"),
    ("convert nowhere out", "nowhere"),
    ("convert encoder=", "DST"),
    ("convert encoder out.keras --architecture BertModel", "architecture is an option of the"),
    ("fill-mask encoder [MASK]", "'pretraining'"),
    ("fill-mask pretraining [MASK] --top-k 0", "--top-k"),
    ("next-sentence classifier a b", "'pretraining'"),
    ("classify encoder.keras a", "'classifier'"),
    ("classify classifier", "neither"),
    ("classify classifier --lines none.txt", "none.txt"),
    ("regress tokens a", "'classifier'"),
    ("tag qa a", "'tokens'"),
    ("answer tokens a b", "'qa'"),
    ("choose classifier a b c", "'choice'"),
    ("answer qa a b --stride 0", "--stride"),
    ("answer qa a b --no-answer-threshold much", "--no-answer-threshold"),
    ("embed encoder lines.txt -o v.txt", ".npy"),
    ("embed encoder lines.txt -o nowhere/v.npy", "no such folder"),
    ("embed encoder lines.txt -o locked/v.npy", "cannot write in this folder"),
    ("embed encoder none.txt -o v.npy", "none.txt"),
    ("embed nowhere lines.txt -o v.npy", "nowhere"),
    ("embed encoder lines.txt -o v.npy --max-length 0", "--max-length"),
    ("similarity nowhere a b", "nowhere"),
    ("similarity encoder a", "at least two"),
    ("search encoder cat --lines none.txt", "none.txt"),
    ("rank encoder cat --lines none.txt", "none.txt"),
    ("attribute classifier a -o why.gif", ".png"),
    ("attribute nowhere a -o why.png", "nowhere"),
    ("attention encoder a -o map.gif", ".png"),
    ("attention encoder a -o locked/map.html", "cannot write in this folder"),
    ("attention encoder a -o nowhere/map.html", "no such folder"),
    ("attention encoder a -o empty", ".html"),
    ("attention nowhere a -o map.png", "nowhere"),
    ("vocab lines.txt --size 9 -o=", "expected a path, got an empty one"),
    ("prepare lines.txt --vocab encoder -o=", "expected a path, got an empty one"),
    ("pretrain nowhere -o run --steps 3", "nowhere"),
    ("pretrain empty -o run --steps 3", "kbert prepare"),
    ("pretrain empty -o run --steps 0", "steps"),
    ("pretrain empty -o run", "--steps"),
    ("pretrain empty -o encoder --steps 3", "encoder"),
    ("pretrain empty -o locked/run --steps 3", "cannot write in this folder"),
    ("pretrain empty -o run --steps 3 --config basse", "basse"),
    ("pretrain empty -o run --steps 3 --init nowhere", "nowhere"),
    ("pretrain empty -o run --steps 3 --init encoder --config tiny", "--config"),
    ("pretrain --resume empty", "no run"),
    ("pretrain --resume tuning", "kbert finetune --resume"),
    ("finetune encoder --task classify --train none.tsv -o run", "none.tsv"),
    ("finetune encoder --task classify --train lines.txt --dev none.tsv -o run", "none.tsv"),
    ("finetune encoder --task sing --train lines.txt -o run", "sing"),
    ("finetune encoder --task classify --train good.tsv -o empty/../encoder", "encoder"),
    ("finetune encoder --task classify --train lines.txt -o run --epochs 0", "epochs"),
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
    ("finetune encoder --task multilabel --train good.tsv --dev other.tsv -o run", "got '2'"),
    ("finetune encoder --task tag --train good.tsv --dev other.tsv -o run", "line 2: label must"),
    ("finetune encoder --task qa --train good.tsv -o run", "got text that begins with 'a\\t0'"),
    ("finetune encoder --task choice --train good.tsv -o run", "expected the columns prompt"),
    ("finetune --resume empty", "no run"),
    ("finetune --resume tunin", "no such folder: did you mean tuning?"),
    ("finetune --resume=", "expected a path, got an empty one"),
    ("finetune encoder --task tag -o run --train=", "expected a path, got an empty one"),
    ("finetune encoder --task tag --train samples.TRAINN -o run", "you mean samples.TRAIN?"),
    ("finetune encoder --task tag --train TOKEN -o run", "Expected: Labelled training data:"),
    ("finetune encoder --task tag --train encoder -o run", "encoder (--train): Is a directory"),
    ("finetune encoder --task tag --train gone.tsv -o run", "directory: did you mean good.tsv?"),
    ("finetune nowhere --task tag --train good.tsv -o good.tsv", "good.tsv (--train and --output)"),
    ("inspect encodr", "did you mean encoder?"),
    ("inspect bert-base-uncasd", "did you mean bert-base-uncased?"),
    ("inspect distilbert", "did you mean distilbert-base-uncased?"),
    ("download encodr", "has an owner"),
    ("answer --model qa a b", 'distilbert-base-cased-distilled-squad "Who wrote it?" "Ada'),
    ("summary --config tiny", "give CONFIG without an option, as in kbert summary large"),
    ("summary none.json", "Example: kbert summary large --layers 1-2"),
    ("inspect lines.txt", "got another file\n"),
    ("glue encoder --data none -o run", "none"),
    ("glue encoder --data empty -o run", "expected a folder CoLA, got nothing"),
    ("glue encoder --data empty --tasks rte,sing -o run", "'sing'"),
    ("glue encoder --data empty --epochs 0 -o run", "epochs"),
    ("glue nowhere --data data --tasks rte -o run", "nowhere"),
    ("glue encoder --data data --tasks rte -o locked/run", "cannot write in this folder"),
    ("evaluate nowhere --task tag --data lines.txt", "nowhere"),
    ("evaluate tokens --task classify --data lines.txt", "'classifier'"),
    ("evaluate tokens --task tag --data none.conll", "none.conll"),
]


@pytest.fixture(scope="module")
def place(saved, tmp_path_factory):
    """A checkpoint for each head, a file, an empty folder, a locked one, a run that goes on."""
    place = tmp_path_factory.mktemp("mistakes") / "place"
    shutil.copytree(saved[0], place)
    kbert.save(saved[1]["encoder"], place / "encoder.keras")
    (place / "lines.txt").write_text(LINES)
    (place / "gone.tsv").symlink_to("missing")
    (place / "bert-base-uncasedd").mkdir()
    (place / "good.tsv").write_text("a\t0\nb\t1\n")
    (place / "other.tsv").write_text("a\t0\nb\t2\n")
    (place / "short.tsv").write_text("a\t0\nb\t1\nc\n")
    for name in ("empty", "locked", "tuning", "data/RTE"):
        (place / name).mkdir(parents=True)
    run = {"task": "finetune", "run": "1", "settings": {}, "fingerprint": {}}
    (place / "tuning" / "settings.json").write_text(json.dumps(run))
    return place


def said(run_python, place, lines, missing=()):
    """(status, stdout, stderr) of each line, where nothing heavy can be imported."""
    words = [[part for word in line.split(" ") for part in arguments(word)] for line in lines]
    code = f"import sys, os; sys.argv[1:] = {[json.dumps(words), json.dumps(missing)]!r}; "
    code += f"os.chdir({str(place)!r})\n" + RUN
    done = run_python(code, CUDA_VISIBLE_DEVICES="")
    return [json.loads(line) for line in done.stdout.splitlines()]


def arguments(word):
    """A trailing = stands for an empty argument that follows."""
    return [word[:-1], ""] if word.endswith("=") else [word]


def test_mistakes_are_refused_without_importing_keras(run_python, place):
    before = sorted(place.rglob("*"))
    found = said(run_python, place, [line for line, _ in BAD])
    assert len(found) == len(BAD)
    for (line, says), (status, out, err) in zip(BAD, found, strict=True):
        assert (status, out) == (2, ""), (line, status, out, err)
        assert err.startswith("kbert: ") and err.count("\n") == 1, (line, err)
        assert says in err, (line, err)
    assert sorted(place.rglob("*")) == before


def test_list_of_mistakes_has_every_command():
    from kbert.cli.main import cli

    assert {line.split(" ")[0] for line, _ in BAD} == set(cli.commands) - {"completion"}


def test_missing_package_is_named_before_keras_starts(run_python, place):
    ((status, _, err),) = said(run_python, place, ["convert encoder out.onnx"], ["tf2onnx"])
    assert status == 2 and "needs the package tf2onnx, which is not installed: pip" in err


def test_import_guard_catches_a_valid_command(run_python, place):
    found = said(run_python, place, ["similarity encoder a b", "convert encoder out.onnx"])
    assert [status for status, _, _ in found] == ["keras was imported"] * 2
