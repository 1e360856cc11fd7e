"""The explorer counts in JavaScript what `kbert.account` counts in Python, and refuses the same."""

import pytest
from helpers.errors import raises
from helpers.sizes import ODD

import kbert
from kbert.graph.accounting import DTYPES
from kbert.graph.closed_form import config_letters
from kbert.graph.formulas import compute
from kbert.heads import HEADS, HEADS_WITH_LABELS
from kbert.io import row_formats
from kbert.show.explorer import formula_code
from kbert.show.explorer.counting import ATTENTION_PARTS

pytest.importorskip("py_mini_racer", reason="pip install -e '.[test]': an engine of JavaScript")
hypothesis = pytest.importorskip("hypothesis", reason="pip install -e '.[test]'")
from helpers.explorer_pages import engine  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

SIZES = st.integers(1, 5000)


@st.composite
def configurations(draw):
    """(configuration, arguments of `account`) that make sense, of any size."""
    heads = draw(st.integers(1, 40))
    positions = draw(SIZES)
    seq_len = draw(st.integers(1, positions))
    config = kbert.BertConfig(
        vocab_size=draw(st.integers(1, 2**31 - 1)),
        hidden_size=heads * draw(st.integers(1, 200)),
        num_hidden_layers=draw(st.integers(1, 9)),
        num_attention_heads=heads,
        intermediate_size=draw(SIZES),
        max_position_embeddings=positions,
        type_vocab_size=draw(st.integers(1, 9)),
    )
    head = draw(st.sampled_from(list(HEADS)))
    options = {"head": head, "seq_len": seq_len, "batch_size": draw(SIZES)}
    options["dtype"] = draw(st.sampled_from(list(DTYPES)))
    if head == "pretraining":
        options["max_predictions"] = draw(st.one_of(st.none(), st.integers(1, seq_len)))
    if head in HEADS_WITH_LABELS:
        options["num_labels"] = draw(st.integers(1, 99))
    return config, options


def in_the_page(config, options) -> dict:
    return config_letters(config) | {
        "G": config.type_vocab_size,
        "S": options["seq_len"],
        "B": options["batch_size"],
        "M": options.get("max_predictions"),
        "K": options.get("num_labels"),
        "dtype": options["dtype"],
    }


def settings(max_examples: int):
    return hypothesis.settings(
        max_examples=max_examples, deadline=None, derandomize=True, database=None
    )


@settings(100)
@hypothesis.given(configurations())
def test_explorer_counts_equal_python(given):
    config, options = given
    account = kbert.account(config, **options)
    ask, values = engine(options["head"]), in_the_page(config, options)
    found = ask("count", values)
    totals = {"params": account.params, "flops": account.flops, "kept": account.activation_bytes}
    assert int(found["total"].pop("bytes")) == account.memory.weights
    assert {name: int(text) for name, text in found["total"].items()} == totals
    assert int(found["training"]) == account.training_flops_per_sequence
    memory = {name: int(text) for name, text in found["memory"].items()}
    assert memory == vars(account.memory) | {"total": account.memory.total}
    for group, part in account.groups.items():
        own = found["byGroup"][group]
        counts = (part.params, part.flops, part.activation_bytes)
        assert tuple(int(own[name]) for name in totals) == counts
    assert ask("csv", values) == row_formats.to_csv(account.rows)


LETTERS = ["L", "H", "A", "FFD", "T", "P", "S", "B", "M"]


@settings(50)
@hypothesis.given(
    st.dictionaries(st.sampled_from(LETTERS), st.sampled_from([0, -3, 1, 7, 12, 96, 513, 2**31]))
)
@hypothesis.example({"S": 512})  # the ends of what makes sense
@hypothesis.example({"M": 128})
@hypothesis.example({"H": 12, "T": 2**31 - 1})
def test_explorer_refuses_with_pythons_messages(changes):
    values = {"T": 30_000, "H": 96, "L": 2, "A": 12, "FFD": 31, "P": 512, "G": 2}
    values |= {"S": 128, "B": 1, "M": None, "K": None, "dtype": "float32"} | changes
    found = engine()("problems", values)
    assert next(iter(found.values()), None) == refused(values)


def refused(values) -> str | None:
    try:
        config = kbert.BertConfig(
            vocab_size=values["T"],
            hidden_size=values["H"],
            num_hidden_layers=values["L"],
            num_attention_heads=values["A"],
            intermediate_size=values["FFD"],
            max_position_embeddings=values["P"],
        )
        if values["L"] < 10_000:  # a list of rows
            kbert.account(
                config, values["S"], values["B"], max_predictions=values["M"], dtype="float32"
            )
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("head", HEADS)
def test_explorer_layers_equal_python(head):
    config = kbert.BertConfig(**ODD)
    labels = {"num_labels": 7} if head in HEADS_WITH_LABELS else {}
    account = kbert.account(config, 11, head=head, **labels)
    options = {"seq_len": 11, "batch_size": 1, "dtype": "float32", **labels}
    ask, values = engine(head), in_the_page(config, options)
    from kbert.checkpoints.weight_names import COLUMNS, entries_of
    from kbert.graph.closed_form import sources
    from kbert.graph.spec import GraphSpec

    spec = GraphSpec(config, head, **labels)
    expected = {
        (column, entry.layer, entry.name, str(entry.shape))
        for column in COLUMNS
        for entry in entries_of(spec, column)
    }
    found = set()
    for row in account.rows:
        layer = ask("layerOf", values, row.layer)
        near = ask("connections", values, layer)
        assert [(one["name"], one["tensor"]) for one in near["inputs"]] == sources(row)
        readers = [
            one.layer for one in account.rows for name, _ in sources(one) if name == row.layer
        ]
        assert sorted(one["name"] for one in near["outputs"]) == sorted(readers)
        for variable in ask("variablesOf", values, layer):
            for column, name in variable["names"].items():
                if name is not None:
                    shape = in_numbers(variable["shapes"][column], values)
                    found.add((column, row.layer, name, shape))
    assert found == expected


def in_numbers(shape: str, values: dict) -> str:
    size = values["H"] // values["A"]
    for letter, number in {"(H/A)": size, **values}.items():
        shape = shape.replace(letter, str(number))
    return shape


def test_copied_config_is_the_chosen_one(tmp_path):
    values = in_the_page(
        kbert.BertConfig(**ODD), {"seq_len": 7, "batch_size": 1, "dtype": "float32"}
    )
    path = tmp_path / "bert_config.json"
    path.write_text(engine()("configJson", values), encoding="utf-8")
    assert kbert.BertConfig.from_json(path) == kbert.BertConfig(**ODD)


@pytest.mark.full
@pytest.mark.parametrize("family", ["roberta", "distilbert"])
@pytest.mark.parametrize("head", [head for head in HEADS if head != "choice"])
def test_explorer_counts_other_families(family, head, tmp_path):
    odd = ODD | {"pad_token_id": 3} | ({"type_vocab_size": 1} if family == "distilbert" else {})
    config = kbert.BertConfig(**odd, model_type=family)
    labels = {"num_labels": 7} if head in HEADS_WITH_LABELS else {}
    account = kbert.account(config, 5, head=head, **labels)
    ask = engine(head, family)
    values = in_the_page(config, {"seq_len": 5, "batch_size": 1, "dtype": "float32", **labels})
    assert ask("csv", values) == row_formats.to_csv(account.rows)
    from kbert.checkpoints.weight_names import column_of, entries_of
    from kbert.graph.spec import GraphSpec

    entries = entries_of(GraphSpec(config, head, **labels), column_of(config))
    named = {(entry.layer, entry.name, str(entry.shape)) for entry in entries}
    found = set()
    for row in account.rows:
        for variable in ask("variablesOf", values, ask("layerOf", values, row.layer)):
            shape = in_numbers(variable["shapes"]["transformers"], values)
            found.add((row.layer, variable["names"]["transformers"], shape))
            assert variable["names"]["google"] is None
    assert found == named

    (tmp_path / "config.json").write_text(ask("configJson", values), encoding="utf-8")
    copied = kbert.BertConfig.from_json(tmp_path / "config.json")
    assert copied.model_type == family and copied.hidden_size == config.hidden_size


def test_explorer_leaves_robertas_first_positions_out():
    ask = engine("encoder", "roberta")
    values = in_the_page(
        kbert.BertConfig(**ODD, model_type="roberta"),
        {"seq_len": 18, "batch_size": 1, "dtype": "float32"},
    )
    wrong = ask("problems", values | {"P": 19, "S": 18})
    with raises(ValueError, "seq_len") as refused:
        kbert.account(
            kbert.BertConfig(model_type="roberta", max_position_embeddings=19, pad_token_id=1), 18
        )
    assert wrong == {"S": str(refused.value)}


@settings(50)
@hypothesis.given(configurations())
def test_the_parts_of_attention_add_up_to_it(given):
    config, options = given
    account = kbert.account(config, **options)
    row = next(row for row in account.rows if row.type == "MultiHeadAttention")
    letters = config_letters(config) | {
        "S": options["seq_len"],
        "B": options["batch_size"],
        "w": DTYPES[options["dtype"]][3],
    }
    for own, of in (("params", "params"), ("flops", "flops"), ("activation_bytes", "kept")):
        parts = [compute(getattr(part, of), letters) for part in ATTENTION_PARTS]
        assert sum(parts) == getattr(row, own)


@pytest.mark.parametrize(
    ("formula", "javascript"),
    [
        ("", "() => 0n"),
        ("A·H·(H/A)·3 + H", "({A, H}) => (A * H * (H / A) * 3n + H)"),
        ("A·(w + 1 + w)", "({A, w}) => A * ((w + 1n) + w)"),
    ],
)
def test_a_formula_as_javascript(formula, javascript):
    assert formula_code.javascript(formula) == javascript


def test_a_formula_as_mathml_keeps_its_brackets():
    """In the ask function, the configuration comes after the formula."""
    ask = engine("tokens")
    values = in_the_page(
        kbert.BertConfig(**ODD),
        {"seq_len": 7, "batch_size": 1, "dtype": "float32", "num_labels": 7},
    )
    inner = "<mi>H</mi><mo>·</mo><mi>FFD</mi><mo>+</mo><mi>FFD</mi>"
    assert ask("mathml", values, "(H·FFD + FFD)·2 + (H/A)") == (
        f"<math><mrow><mo>(</mo>{inner}<mo>)</mo></mrow><mo>·</mo><mn>2</mn><mo>+</mo>"
        "<mfrac><mi>H</mi><mi>A</mi></mfrac></math>"
    )
    assert ask("mathml", values, "H·K") == "<math><mi>H</mi><mo>·</mo><mn>7</mn></math>"


@pytest.mark.parametrize("formula", ["H**2", "H - 1", "f(H)", "H·", "H/2", "'H'"])
def test_bad_formula_is_refused(formula):
    with raises(ValueError, "formula"):
        formula_code.javascript(formula)
