"""The benchmarks' own machinery: who takes turns, what is left out, when no ratio is claimed."""

import subprocess
import sys
from dataclasses import replace

import pytest
from helpers.sizes import TESTS

import kbert
from benchmarks import __main__ as program
from benchmarks import machine, report
from benchmarks.claims import Bound, Claim, Growth, Share
from benchmarks.contenders import Contender, Process
from benchmarks.work import Work
from benchmarks.works import works

pytestmark = pytest.mark.full
SLEEPS, HERE = "helpers.sleep_work:sleeper", {"PYTHONPATH": str(TESTS)}


def sleeper(name, seconds, **fields):
    return Contender(name, SLEEPS, {"seconds": seconds}, environment=HERE, **fields)


def turns_of(**seconds):
    return [
        {"contender": name, "heat": 1, "round": number, "seconds": value}
        for name, values in seconds.items()
        for number, value in enumerate(values, start=1)
    ]


@pytest.fixture
def work():
    contenders = (sleeper("ours", 0.01), sleeper("slow", 0.03), sleeper("peer", 0.02))
    claims = (Claim("1", "ours", ("slow", "peer"), 1.5, 1.9),)
    return Work("sleep", "sleeping", contenders, claims, count=2, memory=50)


def test_benchmark_ratio_is_against_the_fastest_peer(work, capsys):
    found = program.run(work, 4)
    (claim,) = found["claims"]
    assert claim["peer"] == "peer"
    assert claim["ratio"] == pytest.approx(2, rel=0.15)
    assert "beside peer, at least 1.5, aim 1.9" in capsys.readouterr().out
    # in turns: each round has everyone once
    names = [turn["contender"] for turn in found["turns"] if turn["round"]]
    assert names == ["ours", "slow", "peer"] * 4
    assert all(turn["memory"] > 5 for turn in found["turns"] if turn["round"])


def test_missing_or_failing_peer_is_reported_by_name(work, capsys):
    missing = sleeper("peer", 0.02, needs=("no_such_package",))
    broken = replace(work.contenders[1], options={"seconds": None})
    found = program.run(replace(work, contenders=(work.contenders[0], broken, missing)), 2)
    out = capsys.readouterr().out
    assert "peer: left out, not installed: no_such_package" in out
    assert "slow: left out: TypeError" in out
    assert found["claims"][0]["ratio"] is None and "not measured" in out


def test_noisy_measurement_gives_no_ratio(work, capsys):
    turns = turns_of(ours=[1.0, 1.5, 0.7, 1.1], peer=[2.0, 1.6, 2.4, 3.0])
    found = report.claimed(work.claims[0], turns, work)
    assert found["noisy"] and "verdict" not in found
    assert "too noisy" in capsys.readouterr().out


def test_benchmark_runs_only_what_fits_in_memory(work, monkeypatch):
    claims = (Claim("1", "ours", ("slow",), 1, 2), Claim("2", "ours", ("peer",), 1, 2))
    both = replace(work, claims=claims)
    everyone = {"ours", "slow", "peer"}
    monkeypatch.setattr(machine, "free_memory", lambda: 150)
    assert program.heats(both, everyone) == [["ours", "slow", "peer"]]
    monkeypatch.setattr(machine, "free_memory", lambda: 100)
    assert program.heats(both, everyone) == [["ours", "slow"], ["ours", "peer"]]
    assert program.too_large(both) == ""
    monkeypatch.setattr(machine, "free_memory", lambda: 99)
    assert "sleep needs about 100 MiB, the machine has 99 free" in program.too_large(both)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["--only", "sleeping"], "--only must be of update-float32, "),
        (["--rounds", "1"], "--rounds must be at least 2"),
    ],
)
def test_bad_input_is_one_line(line, says):
    command = [sys.executable, "-m", "benchmarks", *line]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]


def test_last_quiet_measurement_of_each_row_and_processor_is_kept(work, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "RECORDS", tmp_path / "records.jsonl")
    found = program.run(work, 2)
    (claim,) = found["claims"]
    about = machine.described()
    assert about["threads"] >= 1 and {"keras", "keras-nightly"} & set(about["versions"])
    for processor, noisy, ratio in (
        ("Xeon", True, 1.7),
        ("Xeon", False, 1.8),
        ("Zen", False, 1.9),
        ("Xeon", True, 2.0),
        ("Xeon", False, 2.1),
        ("Zen", True, 2.2),
    ):
        measured = found | {"claims": [claim | {"noisy": noisy, "ratio": ratio}]}
        report.keep(about | {"processor": processor}, [measured])
    kept = report.records()
    assert [(one["processor"], one["ratio"]) for one in kept] == [("Xeon", 2.1), ("Zen", 1.9)]
    assert {one["row"] for one in kept} == {"1"}
    assert kept[0]["about"]["versions"] == about["versions"]
    both = {name: found["contenders"][name]["seconds"] for name in ("peer", "ours")}
    assert {name: one["seconds"] for name, one in kept[0]["contenders"].items()} == both


def test_every_claim_names_existing_contenders():
    for work in works():
        names = {contender.name for contender in work.contenders}
        for claim in work.claims:
            assert set(claim.names) <= names
            assert claim.at_least <= claim.aim
        assert set(work.peaks) <= names


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["kbert", "KerasHub", "transformers", "keras_bert"])
def test_an_update_runs(name):
    """At toy size; what a peer has not installed is skipped."""
    from benchmarks.works import updates

    work = updates("toy", "pretraining", "tiny", 3, 32, "float32")
    (contender,) = (one for one in work.contenders if one.name == name)
    if missing := contender.missing():
        pytest.skip(f"pip install {' '.join(missing)}")
    with Process(contender) as process:
        assert process.ask(options=contender.options)["first"] > 0
        assert process.ask(count=1)["seconds"] > 0


@pytest.mark.parametrize(("most", "verdict"), [(0.5, "aim"), (0.3, "NOT reached")])
def test_claim_with_a_time_bound_needs_no_peer(work, most, verdict):
    claim = Bound("17", "ours", most)
    found = report.claimed(claim, turns_of(ours=[0.39, 0.41, 0.4]), work)
    assert found["ratio"] == pytest.approx(most / 0.4) and found["verdict"] == verdict
    assert claim.names == ("ours",) and found["peer"] == f"{most} s"


@pytest.mark.parametrize(("least", "verdict"), [(0.6, "reached"), (0.75, "NOT reached")])
def test_claim_as_fraction_of_the_matmul_rate(work, least, verdict):
    """700 FLOPs in 2 seconds, beside 100 in 0.2 and in 0.25."""
    limited = replace(work, flops=700, peaks={"fast": 100, "slow": 100})
    claim = Share("9", "ours", ("slow", "fast"), least, 0.9)
    turns = turns_of(ours=[2, 2, 2.02], slow=[0.25] * 3, fast=[0.2] * 3)
    found = report.claimed(claim, turns, limited)
    assert found["peer"] == "fast" and found["verdict"] == verdict
    assert found["ratio"] == pytest.approx(350 / 500)


@pytest.mark.parametrize(("power", "verdict"), [(1.0, "aim"), (1.6, "NOT reached")])
def test_claim_as_exponent_of_growth(work, power, verdict):
    """Seconds of 0.5 + size^power / 100, counted size^1.2."""
    sizes = {"three": 3, "seven": 7, "eleven": 11}
    counted = {name: 5 * size**1.2 for name, size in sizes.items()}
    seconds = {name: [0.5 + size**power / 100] * 2 for name, size in sizes.items()}
    claim = Growth("growth", "size", sizes, counted, "floor")
    found = report.claimed(claim, turns_of(floor=[0.5, 0.5], **seconds), work)
    assert found["ratio"] == pytest.approx(1.2 / power) and found["verdict"] == verdict
    assert "1.20 counted" in found["peer"]
    assert claim.measured(turns_of(floor=[0.5], three=[1], seven=[2]), work) == ("", [])


def small_works(folder):
    """Every theme at next to no size: (the work, the contenders to run, the needs of a peer)."""
    from benchmarks import (
        commands,
        corpora,
        finetuning,
        growth,
        inputs,
        limits,
        loading,
        starting,
        tokenizing,
    )

    rows = "".join(
        f"a {word} film\t{n % 2}\n" for n, word in enumerate(["good", "bad", "dull", "fine"])
    )
    for part in ("train", "dev"):
        (folder / f"{part}.tsv").write_text(rows * 5)
    (folder / "text.txt").write_text("A good film .\n = Another = \n" * 3)
    start, built = starting.works("tiny", 3, 32)
    commanded = {"params": (["params", "tiny"], 9.0)}
    base = growth.BASE | {"batch": 2, "length": 24, "layers": 1, "width": 64}
    growing = growth.works({"layers": (1, 4)}, base)
    return {
        "starting": [replace(start, contenders=start.contenders[:2]), built],
        "limits": limits.works("tiny", 3, 32)[1:2],
        "growth": growing,
        "loading": loading.works("load", "tiny"),
        "commands": commands.works("commands", commanded),
        "corpora": corpora.works("prepare", 0.05),
        "inputs": inputs.works(0.3),
        "tokenizing": tokenizing.works(folder),
        "finetuning": finetuning.works(folder, checkpoint=str(folder / "checkpoint")),
    }


@pytest.mark.nightly
@pytest.mark.parametrize(
    "theme",
    [
        *("starting", "limits", "growth", "loading", "commands"),
        *("corpora", "finetuning", "tokenizing", "inputs"),
    ],
)
def test_every_benchmark_runs_at_tiny_size(theme, tmp_path):
    """Once, with every peer that is installed."""
    if theme == "finetuning":
        checkpoint_with_words(tmp_path / "checkpoint")
    for work in small_works(tmp_path)[theme]:
        found = program.run(replace(work, count=1, warm=False), 1)
        there = [one.name for one in work.contenders if not one.missing()]
        assert list(found["contenders"]) == there
        for claim in found["claims"]:
            assert claim["ratio"] is not None or theme == "growth"  # so small, noise alone


def checkpoint_with_words(folder):

    from kbert.data.tokenization.vocabulary import SPECIAL_TOKENS

    words = [*SPECIAL_TOKENS.values(), "a", "good", "bad", "dull", "fine", "film"]
    tokenizer = kbert.Tokenizer.from_vocab(dict.fromkeys(words), lowercase=True)
    config = kbert.get_config("tiny").replace(vocab_size=len(words))
    kbert.save(kbert.Bert(config, "encoder", kbert.build_encoder(config), tokenizer), folder)
