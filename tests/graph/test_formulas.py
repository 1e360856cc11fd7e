"""Formulas give the counted numbers, by Python's arithmetic and by document 004."""

import random
import re
from collections import Counter

import pytest
from helpers.sizes import ODD

from kbert import BertConfig, account
from kbert.graph.accounting import DTYPES
from kbert.graph.formulas import compute, put_in_numbers
from kbert.heads import HEADS

LETTERS = {"T": 31, "H": 30, "A": 6, "L": 5, "P": 19, "FFD": 44, "S": 7, "B": 13, "M": 3, "w": 2}


def by_python(formula: str, letters: dict) -> int:
    """The value of a formula as Python reads it."""
    source = formula.replace("·", "*").replace("/", "//").replace("×", "*")
    return eval(source or "0", {"__builtins__": {}}, letters)


def terms(arithmetic: str) -> Counter:
    """A sum of products without regard to order: the factors of each term."""
    plain = re.sub(r"[() ]", "", arithmetic).replace("·", "*")
    return Counter(tuple(sorted(map(int, term.split("*")))) for term in plain.split("+"))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_formula_gives_the_number_of_its_row(head, dtype):
    config = BertConfig(**ODD)
    for predictions in (None, 3) if head == "pretraining" else (None,):
        full = account(
            config, 7, 13, head=head, num_labels=5, max_predictions=predictions, dtype=dtype
        )
        letters = LETTERS | {"w": 4 if dtype == "float32" else 2}
        for row in full.rows:
            assert by_python(row.formula, letters) == row.params, row.layer
            assert by_python(row.arithmetic, {}) == row.params, row.layer
            assert by_python(row.flops_formula, letters) == row.flops, row.layer
            assert by_python(row.activation_formula, letters) == row.activation_bytes, row.layer


def test_formula_has_the_value_that_python_computes():
    random.seed(11)

    def formula(depth: int) -> str:
        if depth == 0:
            return random.choice([*LETTERS, "(H/A)", str(random.randrange(100))])
        parts = [formula(depth - 1) for _ in range(random.randint(1, 3))]
        text = random.choice(["·", " + ", "+"]).join(parts)
        return f"({text})" if random.random() < 0.5 else text

    for _ in range(500):
        text = formula(random.randrange(5))
        assert compute(text, LETTERS) == by_python(text, LETTERS), text
        assert by_python(put_in_numbers(text, LETTERS), {}) == by_python(text, LETTERS), text


@pytest.mark.parametrize(
    "formula",
    ["H - H", "H^2", "H·H)", "H/A", "H·", "H + ", "(H·H", "·H", "2H", "H*H", "2(3)", "+H", "()"],
)
def test_invalid_formula_is_refused(formula):
    with pytest.raises(ValueError):
        compute(formula, LETTERS)


@pytest.mark.parametrize(
    ("layer", "written"),
    [  # how document 004 writes it, up to the "=" before the result
        (
            "Encoder-1-MultiHeadSelfAttention",
            "12 * 768 * 64 * 3 + 768 * 3 + 768*768 + 768 = 2362368",
        ),
        ("Encoder-1-FeedForward", "(768 * 3072 + 3072) + (3072 * 768 + 768) = 4722432"),
        ("MLM-Dense", "768*768 + 768 = 590592"),
    ],
)
def test_arithmetic_equals_document_004s(shared, layer, written):
    document = next((shared / "seeds").glob("004*.txt")).read_text(encoding="utf-8")
    assert written in document
    arithmetic, result = written.split("=")
    row = next(row for row in account("base").rows if row.layer == layer)
    assert row.params == int(result) == by_python(arithmetic, {})
    assert terms(row.arithmetic) == terms(arithmetic)


@pytest.mark.parametrize(
    ("layer", "sentence", "formula", "params"),
    [  # how document 004 says it; its D is its own H
        ("Embedding-Token", "parameters= 23040000 (H * T)", "H * T", 23_040_000),
        ("Embedding-Segment", "Embeddings parameters = 1536 (2*H)", "2*H", 1536),
        ("Embedding-Position", "Parameters = 393216 (H*P)", "H*P", 393_216),
        ("Embedding-Norm", "Normalization parameters = 1536 (2*H)", "2*H", 1536),
        ("MLM-Dense", "parameters (with bias) = H * H + H =", "H * H + H", 590_592),
        ("MLM-Sim", "that’s T (=30k) parameters", "T", 30_000),
        ("NSP-Dense", "Parameters = D *D + D = 590592", "D *D + D", 590_592),
        ("NSP", "parameters = 2*D + 2= 1538", "2*D + 2", 1538),
    ],
)
def test_formulas_equal_document_004s(shared, layer, sentence, formula, params):
    document = next((shared / "seeds").glob("004*.txt")).read_text(encoding="utf-8")
    assert sentence in document and formula in sentence
    row = next(row for row in account("base").rows if row.layer == layer)
    assert row.params == params
    same = formula.replace(" ", "").replace("D", "H").replace("*", "·")
    assert row.formula.replace(" ", "") == same


def test_attention_formula_equals_document_004s(shared):
    """A * D * (D/A) * 3+ D * 3 + D * D + D: the document's D is its own H."""
    document = next((shared / "seeds").glob("004*.txt")).read_text(encoding="utf-8")
    written = "A * D * (D/A) * 3+ D * 3 + D * D + D"
    assert written in document
    row = account("base").rows[8]
    assert row.layer == "Encoder-1-MultiHeadSelfAttention"
    letters = {"A": 6, "D": 30, "H": 30}
    assert by_python(row.formula, letters) == by_python(written, letters) != 0
    assert "(H/A)" in row.formula
