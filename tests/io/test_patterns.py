"""Patterns from files match as `re` and PEFT match, and none takes long."""

import re
import time
import warnings

import pytest
from helpers.errors import raises
from helpers.marks import full

from kbert.io.patterns import find_keys

hypothesis = pytest.importorskip("hypothesis", reason="pip install -e '.[test]'")
st = hypothesis.strategies

MODULES = ("attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense")
NAMES = [f"bert.encoder.layer.{n}.{name}" for n in range(12) for name in MODULES]
KEYS = [
    "query",
    "encoder.layer.3.attention.self.query",
    r"layer\.3.attention\.self.query",
    "layer.1..output.dense|layer.1.output.dense",
    "layer.1.output.dense".replace("output", "......"),
    "attention.output.dense",
    "output.dense",
    r".*\.layer\.[0-5]\..*(query|key)",
    r"layer\.(1|11)\.output\.dense",
    r"(?!.*intermediate).*dense",
    r"bert\..+\d{2}\.\w+\.dense",
    "a)|(bert",
    "^bert.*query$",
]
EVIL = [
    "(([a-z._0-9])*)*!",
    "((((((a*)*)*)*)*)*)*b",
    ".*" * 12 + "!",
    "(((.{1,60}){1,60}){1,60})*!",
]
BAD = [
    "(",
    "[",
    "a{99999999999}",
    "*",
    "(?P<x",
    "a**",
    r"\1",
    "(?<=a)b",
    "(?i:a)",
    "a*+",
    "(" * 500,
]

ATOMS = st.sampled_from(["a", "b", ".", r"\.", "[ab]", "[^a]", r"\d", "^", "$", r"\b", "[]a]", "{"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "{0}"])


def make_longer(patterns):
    return st.one_of(
        st.tuples(patterns, REPEATS).map(lambda parts: f"(?:{parts[0]})" + parts[1]),
        st.tuples(patterns, patterns).map("".join),
        st.tuples(patterns, patterns).map("|".join),
        st.tuples(st.sampled_from(["(", "(?=", "(?!"]), patterns).map(lambda p: f"{p[0]}{p[1]})"),
        st.tuples(ATOMS, REPEATS).map("".join),
    )


@pytest.mark.parametrize("count", [300, full(5000)])
@pytest.mark.full
def test_patterns_match_as_re_does(count):
    @hypothesis.settings(max_examples=count, deadline=None, database=None, derandomize=True)
    @hypothesis.given(st.recursive(ATOMS, make_longer, max_leaves=6), st.text("ab.0{", max_size=6))
    def compare(pattern, text):
        with warnings.catch_warnings(action="ignore"):
            try:
                expected = re.match(pattern, text) is not None
            except re.error:
                with pytest.raises(ValueError):
                    find_keys({"key": pattern}, [])
                return
        assert (find_keys({"key": pattern}, [text]) == ["key"]) == expected

    compare()


@pytest.mark.parametrize("key", EVIL)
def test_evil_patterns_take_little_time(key):
    start = time.process_time()
    patterns = {key: rf"(.*\.)?({key})$"}
    assert find_keys(patterns, NAMES) == [None] * len(NAMES)
    assert time.process_time() - start < 5


def test_endless_comparing_is_refused():
    patterns = {"key": "(" * 40 + ".*" + ")*" * 40 + "!"}
    start = time.process_time()
    with raises(ValueError, "too long"):
        find_keys(patterns, ["x" * 150] * 10_000)
    assert time.process_time() - start < 60


@pytest.mark.full
@pytest.mark.parametrize("key", ["(?:" * 4 + "|" * 20_000, full("(?:" * 4 + "a{0}" * 20_000)])
def test_parts_that_match_nothing_are_counted(key):
    start = time.process_time()
    with pytest.raises(ValueError):
        find_keys({"key": key + "){99}){99}){99}){99}z"}, ["query"])
    assert time.process_time() - start < 15


@pytest.mark.parametrize("ending", ["", ".x"])
def test_a_key_for_each_matrix_of_a_large_model_takes_little_time(ending):
    matrices = (*MODULES, "attention.self.key", "attention.self.value")
    keys = [f"encoder.layer.{n}.{matrix}" for n in range(36) for matrix in matrices]
    start = time.process_time()
    patterns = {key: rf"(.*\.)?({key})$" for key in keys}
    found = find_keys(patterns, [f"base_model.model.bert.{key}{ending}" for key in keys])
    assert time.process_time() - start < 3
    assert found == (keys if not ending else [None] * len(keys))


@pytest.mark.parametrize("key", BAD)
def test_bad_patterns_are_one_line(key):
    with pytest.raises(ValueError) as raised:
        find_keys({key: rf"(.*\.)?({key})$"}, [])
    assert repr(key)[:20] in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.full
@pytest.mark.parametrize("key", KEYS)
def test_keys_find_what_pefts_function_finds(key):
    utils = pytest.importorskip("peft.utils.other", reason="pip install --no-deps peft accelerate")
    found = find_keys({key: rf"(.*\.)?({key})$", "dense": r"(.*\.)?(dense)$"}, NAMES)
    assert [key or name for key, name in zip(found, NAMES, strict=True)] == [
        utils.get_pattern_key([key, "dense"], name) for name in NAMES
    ]
    assert key in found
