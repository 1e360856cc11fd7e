"""A caller's mistake raises an error that says what was wrong, expected and received."""

import math

import keras
import numpy as np
import pytest
from helpers.errors import raises
from helpers.sizes import SIZES

import kbert
from kbert import BertConfig, account, base, build_bert, get_config, predict
from kbert.model.predict import check_ids

RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")
NO_SIZE = [0, -1, True, 2.0, "2", None, math.nan, math.inf]


@pytest.fixture(scope="module")
def model(small):
    return build_bert(small)


@pytest.fixture(scope="module")
def gathered(small):
    return build_bert(small, max_predictions=2)


SCALES = [0, -1e-12, math.nan, math.inf, True, "1e-12", None]
# field: values that it cannot have, and what it must be
FIELDS = {
    **dict.fromkeys(SIZES, (NO_SIZE, "at least 1")),
    **dict.fromkeys(RATES, ([-0.1, 1, 1.5, math.nan, True, "0.1", None], "[0, 1)")),
    **dict.fromkeys(["initializer_range", "layer_norm_eps"], (SCALES, "positive")),
    "pad_token_id": ([-1, 99, 1.0, True, None, "0"], "0 … 98"),
    "hidden_act": (["prelu", "GELU", "", None, ["gelu"]], "gelu, gelu_new, "),
}


@pytest.mark.parametrize("name", FIELDS)
def test_bad_values_of_a_configuration_are_refused(name):
    values, expected = FIELDS[name]
    for value in values:
        with raises(ValueError, name, expected, value):
            BertConfig(**{"vocab_size": 99, name: value})


@pytest.mark.parametrize(
    ("hidden", "heads", "fit"), [(768, 7, [4, 6, 8]), (24, 5, [4, 6]), (7, 2, [1, 7])]
)
def test_head_count_must_divide_the_hidden_size(hidden, heads, fit):
    with raises(ValueError, hidden, heads) as error:
        BertConfig(hidden_size=hidden, num_attention_heads=heads)
    offered = [int(number) for number in str(error.value).split("divide it: ")[1].split(", ")]
    assert set(fit) <= set(offered)
    assert all(hidden % number == 0 for number in offered)


@pytest.mark.parametrize("value", [None, 3, 1.5, b"base", ["base"], {}])
def test_values_that_are_no_configuration_raise_type_error(value):
    for call in (get_config, account, build_bert):
        with raises(TypeError, "preset", type(value).__name__):
            call(value)


def test_unknown_preset_error_names_the_nearest():
    for call in (get_config, account, build_bert, kbert.verify, kbert.compare_heads):
        with raises(ValueError, "'basse'", "base?"):
            call("basse")


@pytest.mark.parametrize("content", [b"{", b"", b"[1]", b"\xff\xfe{", b"[" * 100_000])
def test_invalid_config_file_raises_value_error_with_its_name(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with raises(ValueError, "mine.json"):
        BertConfig.from_json(path)


def test_missing_config_file_raises_file_not_found(tmp_path):
    with raises(FileNotFoundError, "nosuch.json"):
        get_config(tmp_path / "nosuch.json")
    with pytest.raises(IsADirectoryError):
        BertConfig.from_json(tmp_path)


def test_failed_write_error_names_what_is_missing_or_in_the_way(tmp_path):
    (tmp_path / "folder.json").mkdir()
    missing = tmp_path / "nosuch"
    for path, named in {missing / "config.json": missing, tmp_path / "folder.json": None}.items():
        with pytest.raises(OSError) as error:
            base.to_json(path)
        assert str(named or path) in str(error.value)
        assert ".part" not in str(error.value)


@pytest.mark.parametrize("value", [*NO_SIZE[:3], 2.0, "any", math.nan])
def test_a_length_is_a_positive_whole_number(small, value):
    for call in (account, build_bert):
        with raises(ValueError, "seq_len", "at least 1", value):
            call(small, seq_len=value)


def test_seq_len_beyond_the_position_table_is_refused(small):
    for build in (
        account,
        build_bert,
        kbert.build_encoder,
        kbert.build_classifier,
        kbert.build_token_classifier,
        kbert.build_question_answering,
    ):
        with raises(ValueError, "seq_len", "max_position_embeddings", 17, 18):
            build(small, seq_len=18)


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "2"])
def test_counts_must_be_positive_whole_numbers(small, value):
    for name, call in (
        ("max_predictions", build_bert),
        ("max_predictions", account),
        ("num_labels", kbert.build_classifier),
        ("num_labels", kbert.build_token_classifier),
        ("num_labels", account),
        ("batch_size", account),
    ):
        with raises(ValueError, name, "at least 1", value):
            call(small, **{name: value})


def test_more_predictions_than_tokens_are_refused(small):
    for call in (account, build_bert):
        with raises(ValueError, "max_predictions", "seq_len", 7, 8):
            call(small, seq_len=7, max_predictions=8)


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [("head", "decoder", "pretraining"), ("dtype", "int8", "mixed_bfloat16")],
)
def test_unknown_head_or_dtype_error_lists_the_known_ones(small, name, value, known):
    with raises(ValueError, name, f"'{value}'", known):
        account(small, **{name: value})


@pytest.mark.parametrize("width", [0, -5, True, 79.5, "80"])
def test_a_line_length_is_a_positive_whole_number(model, width):
    with raises(ValueError, "line_length", width):
        model.summary(line_length=width, print_fn=lambda line: None)


@pytest.mark.parametrize("positions", [[0.1], [0.5, 0.4, 0.8, 1.0], [1, 2, 3, 4], [0.1] * 9])
def test_invalid_summary_column_positions_are_refused(model, positions):
    with raises(ValueError, "positions", 4):
        model.summary(line_length=120, positions=positions, print_fn=lambda line: None)


@pytest.fixture
def nothing_computed(monkeypatch):
    """Fails a test in which a model computes something."""

    def computed(*args, **kwargs):
        raise AssertionError("computed before it was checked")

    monkeypatch.setattr(keras.Model, "predict", computed)
    monkeypatch.setattr(keras.Model, "__call__", computed)


def ids(rows: int = 3, length: int = 17) -> np.ndarray:
    return np.ones((rows, length), "int64")


def with_id(value: int, *places: tuple[int, int]) -> np.ndarray:
    array = ids()
    for place in places:
        array[place] = value
    return array


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *(
            (
                [with_id(value, (1, 4))],
                ("token_ids[1, 4]", "vocabulary", "0 … 98", value),
            )
            for value in (99, 100, -1, 2**31, 2**40, -(2**31) + 1)
        ),
        *(
            ([ids(), with_id(value, (2, 5))], ("segment_ids[2, 5]", "0 … 2", value))
            for value in (3, -1, 300)
        ),
        ([with_id(99, (0, 16), (2, 0), (2, 1))], ("token_ids[0, 16]", 99, "2 more")),
    ],
)
def test_id_out_of_range_is_named_with_its_position(model, nothing_computed, arguments, said):
    with raises(ValueError, *said):
        predict(model, *arguments)


@pytest.mark.parametrize("value", [17, -1])
def test_mask_position_out_of_range_is_named_with_its_index(gathered, nothing_computed, value):
    marks = [[1, 2], [3, value], [0, 0]]
    with raises(ValueError, "mask_positions[1, 1]", "0 … 16", value):
        predict(gathered, ids(), mask_positions=marks)


def test_smallest_and_largest_ids_are_accepted(model, small):
    check_ids(np.array([[0, 98]]), 99, "token_ids", "the vocabulary")
    done = predict(model, with_id(98, (0, 0)), with_id(2, (1, 1)))
    assert done["MLM"].shape == (3, 17, 99)
    assert all(np.isfinite(array).all() for array in done.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([ids() * 1.0], ("token_ids", "whole numbers", "float64")),
        ([ids(), ids() * 0.0], ("segment_ids", "whole numbers", "float64")),
        ([ids() > 0], ("token_ids", "whole numbers", "bool")),
        (["a sentence"], ("token_ids", "whole numbers")),
        ([None], ("token_ids", "whole numbers")),
        ([[[1, 2], [3]]], ("token_ids", "equal length")),
        ([[]], ("token_ids", "sequences")),
        ([np.ones((2, 3, 17), int)], ("token_ids", "(2, 3, 17)")),
        ([ids(length=5)], ("token_ids", 17, 5)),
        ([ids(), ids(2)], ("segment_ids", "(3, 17)", "(2, 17)")),
        ([ids(), None, ids(2)], ("Input-Masked", "(3, 17)", "(2, 17)")),
    ],
)
def test_input_errors_name_the_wrong_shape_or_dtype(model, nothing_computed, arguments, said):
    with raises(ValueError, *said):
        predict(model, *arguments)


def test_sequence_longer_than_the_position_table_is_refused(small):
    model = build_bert(small, seq_len=None)
    with raises(ValueError, 17, 18):
        predict(model, ids(length=18))


def test_models_that_are_not_bert_are_refused():
    plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with raises(ValueError, "Embedding-Token"):
        kbert.verify(plain)
    with raises(ValueError, "functional"):
        kbert.model_rows(keras.Sequential([keras.layers.Dense(3)]))
    for wrong in (3, 2.5, object()):
        with raises((TypeError, ValueError), type(wrong).__name__):
            kbert.verify(wrong)


@pytest.mark.parametrize("blocks", [[4], [-5], [0, 1, 99]])
def test_missing_encoder_block_is_named(model, blocks):
    with raises(ValueError, "layers", "0 … 3", blocks[-1]):
        kbert.build_hidden_states(model, layers=blocks)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda c: account(c, head=["encoder"]), ("head", "encoder")),
        (lambda c: account(c, dtype=["float32"]), ("dtype", "float32")),
        (lambda c: kbert.compare_heads(c, seq_len=0), ("seq_len", "whole number", "got 0")),
        (lambda c: predict("base", [[1]]), ("model", "str")),
        (lambda c: predict(kbert.build_encoder(c), [[1]], batch_size=0), ("batch_size", "got 0")),
        (lambda c: kbert.build_hidden_states(kbert.build_encoder(c), layers=3), ("layers", "3")),
        (lambda c: kbert.build_hidden_states(kbert.build_encoder(c), layers=[]), ("layers",)),
        (
            lambda c: kbert.build_attention_maps(kbert.build_encoder(c), layers=[0]),
            ("layers", "1 … 3", "got 0"),
        ),
        (
            lambda c: kbert.build_encoder(c).summary(layer_range=["(", "MLM"]),
            ("layer_range", "'('"),
        ),
    ],
)
def test_invalid_argument_is_named(small, call, said):
    with raises(ValueError, *said):
        call(small)
