"""The benchmarks' own machinery: who takes turns, what is left out, when no ratio is claimed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import machine, report
from benchmarks.claims import Claim
from benchmarks.contenders import Contender, Failed, Process
from benchmarks.work import Work
from benchmarks.works import works

SLEEPS, HERE = "sleeping:sleeper", {"PYTHONPATH": str(Path(__file__).parent)}


def sleeper(name, seconds, **fields):
    return Contender(name, SLEEPS, {"seconds": seconds}, environment=HERE, **fields)


@pytest.fixture
def work():
    contenders = (sleeper("ours", 0.01), sleeper("slow", 0.03), sleeper("peer", 0.02))
    claims = (Claim("1", "ours", ("slow", "peer"), 1.5, 1.9),)
    return Work("sleep", "sleeping", contenders, claims, count=2, memory=50)


def test_the_ratio_is_that_of_the_best_peer(work, capsys):
    found = program.run(work, 4)
    (claim,) = found["claims"]
    assert claim["peer"] == "peer"
    assert claim["ratio"] == pytest.approx(2, rel=0.15)
    assert "beside peer, at least 1.5, aim 1.9" in capsys.readouterr().out
    # in turns: each round has everyone once
    names = [turn["contender"] for turn in found["turns"] if turn["round"]]
    assert names == ["ours", "slow", "peer"] * 4
    assert all(turn["memory"] > 5 for turn in found["turns"] if turn["round"])


def test_a_peer_that_is_not_there_or_fails_is_left_out_by_name(work, capsys):
    missing = sleeper("peer", 0.02, needs=("no_such_package",))
    broken = replace(work.contenders[1], options={"seconds": None})
    found = program.run(replace(work, contenders=(work.contenders[0], broken, missing)), 2)
    out = capsys.readouterr().out
    assert "peer: left out, not installed: no_such_package" in out
    assert "slow: left out: TypeError" in out
    assert found["claims"][0]["ratio"] is None and "not measured" in out


def test_a_noisy_machine_gets_no_ratio(work, capsys):
    seconds = {"ours": [1.0, 1.5, 0.7, 1.1], "peer": [2.0, 1.6, 2.4, 3.0]}
    turns = [
        {"contender": name, "heat": 1, "round": number, "seconds": value}
        for name, values in seconds.items()
        for number, value in enumerate(values)
    ]
    found = report.claimed(work.claims[0], turns, work)
    assert found["noisy"] and "verdict" not in found
    assert "too noisy" in capsys.readouterr().out


def test_memory_decides_who_is_there_at_once_or_ends_it(work, monkeypatch):
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


def test_a_process_that_ends_says_why():
    with Process(sleeper("broken", "long")) as process, pytest.raises(Failed, match="TypeError"):
        process.ask(options={"seconds": "long"})


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


def test_a_record_is_json_and_a_row_a_claim(work, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "HERE", tmp_path)
    found = program.run(work, 2)
    about = machine.described()
    assert about["threads"] >= 1 and {"keras", "keras-nightly"} & set(about["versions"])
    for number in (1, 2):
        report.keep(about, [found])
        rows = (tmp_path / "RESULTS.md").read_text().splitlines()
        assert len(rows) == number and rows[-1].count("|") == 11
    records = sorted((tmp_path / "records").iterdir())
    assert len(records) == 2
    assert json.loads(records[0].read_text())["works"][0]["turns"] == found["turns"]


def test_every_claim_is_of_contenders_that_are_there():
    for work in works():
        names = {contender.name for contender in work.contenders}
        for claim in work.claims:
            assert {claim.ours, *claim.peers} <= names
            assert claim.at_least <= claim.aim
        assert set(work.peaks) <= names


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


def test_who_has_no_claim_takes_turns_with_ours(work):
    other = replace(work, contenders=(*work.contenders, sleeper("other", 0.01)))
    assert program.smallest_heats(other) == [["ours", "slow", "peer"], ["ours", "other"]]
    assert program.smallest_heats(replace(other, claims=())) == [
        ["ours"],
        ["slow"],
        ["peer"],
        ["other"],
    ]
