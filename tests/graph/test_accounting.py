"""The accounting equals published numbers, the papers' equations and another program's count."""

import re
from fractions import Fraction

import pytest
from helpers.sizes import ODD

from kbert import PRESETS, BertConfig, account
from kbert.graph import reference
from kbert.graph.accounting import DTYPES, default_predictions
from kbert.graph.published_totals import reconcile_totals
from kbert.heads import HEADS

LABELS = 5


@pytest.fixture(scope="module")
def odd():
    return BertConfig(**ODD)


def test_base_equals_document_004_row_by_row(shared):
    full = account("base")
    table = (shared / "reference" / "keras_bert_base.tsv").read_text(encoding="utf-8")
    columns, *lines = [line.split("\t") for line in table.splitlines()]
    assert len(lines) == 112
    for row, line in zip(full.rows, lines, strict=True):
        assert [str(getattr(row, column)) for column in columns] == line
    document = next((shared / "seeds").glob("004*.txt")).read_text(encoding="utf-8")
    total = re.search(r"^Total params: ([\d,]+)$", document, re.MULTILINE)[1]
    assert f"{full.params:,}" == total


@pytest.mark.parametrize(
    ("preset", "head", "params"),
    [
        ("base", "pretraining", 109_705_010),
        ("base_uncased", "encoder", 109_482_240),
        ("base_uncased", "pretraining", 110_106_428),
        ("base_uncased", "classifier", 109_483_778),
        ("large_uncased", "encoder", 335_141_888),
        ("large_uncased", "pretraining", 336_226_108),
    ],
)
def test_total_parameters_equal_published_totals(preset, head, params):
    assert account(preset, head=head).params == params


@pytest.mark.parametrize("published", reference.published_totals(), ids=lambda entry: entry.model)
def test_total_parameters_equal_kerashubs_published_totals(published):
    assert account(published.config, head="encoder").params == published.params_encoder_and_pooler


def test_miniatures_have_the_parameters_of_their_paper():
    """Turc et al. 2019, arXiv 1908.08962: 4.4, 11.3, 29.1 and 41.7 million."""
    millions = [
        round(account(name).params / 1e6, 1) for name in ("tiny", "mini", "small", "medium")
    ]
    assert millions == [4.4, 11.3, 29.1, 41.7]


def test_training_flops_with_76_predictions():
    """With T = 30,522: 3.009e11 a sequence for base, 1.0198e12 for large."""
    base = account("base_uncased", 512, max_predictions=76).training_flops_per_sequence
    large = account("large_uncased", 512, max_predictions=76).training_flops_per_sequence
    assert (f"{base:.3e}", f"{large:.4e}") == ("3.009e+11", "1.0198e+12")


@pytest.mark.parametrize("name", ["base", "large", "L6_H256", "odd"])
@pytest.mark.parametrize("length", [5, 19])
def test_encoder_flops_equal_palms_formula(odd, name, length):
    """arXiv 2204.02311, appendix B: 6·N + 12·L·H·Q·T a token; N without embeddings and biases."""
    config = PRESETS.get(name, odd)
    hidden, layers = config.hidden_size, config.num_hidden_layers
    kernels = layers * (4 * hidden**2 + 2 * hidden * config.intermediate_size)
    heads, size = config.num_attention_heads, hidden // config.num_attention_heads
    a_token = 6 * kernels + 12 * layers * heads * size * length
    found = account(config, length).groups["encoder"].flops
    assert 3 * found == a_token * length


@pytest.mark.parametrize("preset", ["base_uncased", "large_uncased"])
def test_encoder_flops_are_two_per_weight_and_token(preset):
    """Summed over transformers' own list of matrices; twice 2·S·S·H for the attention itself."""
    length, config = 128, PRESETS[preset]
    flops = 0
    for entry in reference.named_parameters(preset):
        if len(entry.shape) == 2 and not entry.parameter.startswith("embeddings"):
            flops += 2 * entry.numel * (1 if entry.parameter.startswith("pooler") else length)
    flops += config.num_hidden_layers * 2 * (2 * length * length * config.hidden_size)
    assert account(config, length, head="encoder").flops == flops


@pytest.mark.parametrize("name", ["base", "large", "tiny", "L10_H512"])
@pytest.mark.parametrize(("length", "batch"), [(512, 1), (7, 13)])
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "bfloat16", "float16"])
def test_encoder_activation_bytes_equal_korthikanti_et_al(name, length, batch, dtype):
    """arXiv 2205.05198, equation 1: s·b·h·(34 + 5·a·s/h) bytes a layer in 16 bits."""
    config = PRESETS[name]
    heads, hidden = config.num_attention_heads, config.hidden_size
    a_layer = length * batch * hidden * (34 + Fraction(5 * heads * length, hidden))
    found = account(config, length, batch, dtype=dtype).groups["encoder"].activation_bytes
    assert found == config.num_hidden_layers * a_layer


def test_activation_bytes_with_any_feed_forward_width(odd):
    """Section 4.1 again, with FFD left as it is: 15 + 4·FFD/h + (…) for 34 where FFD = 4·h."""
    s, b, h, f, a = 7, 13, odd.hidden_size, odd.intermediate_size, odd.num_attention_heads
    attention = 11 * s * b * h + 5 * a * s * s * b
    feed_forward = 2 * s * b * h + 2 * (2 * s * b * f) + s * b * h
    norms = 2 * (2 * s * b * h)
    found = account(odd, s, b, dtype="bfloat16").groups["encoder"].activation_bytes
    assert found == odd.num_hidden_layers * (attention + feed_forward + norms)


def test_activation_bytes_of_the_mlm_head(odd):
    """Section 4.3: 4·s·b·h·(1 + v/h) for norm, product and logits; and BERT's dense before it."""
    s, b, h, v = 7, 13, odd.hidden_size, odd.vocab_size
    found = account(odd, s, b, dtype="bfloat16").groups["MLM"].activation_bytes
    assert found == 4 * s * b * h * (1 + Fraction(v, h)) + 4 * s * b * h


@pytest.mark.parametrize(("dtype", "w"), [("float32", 4), ("bfloat16", 2)])
def test_activation_bytes_of_embeddings_pooler_and_heads(odd, dtype, w):
    """By the same rules: inputs of products and norms; masks 1 byte, ids and logits 4."""
    s, b, h = 7, 13, odd.hidden_size
    a_number, a_mask = b * s * h * w, b * s * h
    pooler = b * h * w + b * h * w  # the first token's vector; what tanh gives
    parts = {
        "embeddings": 2 * (4 * b * s) + a_mask + a_number,
        "pooler": pooler,
        "NSP": 4 * b * 2,
        "classifier": b * h + b * h * w,
        "tokens": a_mask + a_number + 4 * b * s * LABELS,
        "qa": a_number + 4 * b * s * 2,
    }
    for head in HEADS:
        groups = account(odd, s, b, head=head, num_labels=LABELS, dtype=dtype).groups
        outputs = LABELS if HEADS[head].has_labels else HEADS[head].num_outputs
        logits = {"classifier": 4 * b * outputs}
        for name in set(groups) - {"encoder", "MLM"}:
            expected = parts[name] + logits.get(name, 0)
            assert groups[name].activation_bytes == expected, (head, name)


def test_activation_bytes_of_a_gathered_mlm_head(odd):
    """Section 4.3 with M positions for s, and their ids."""
    m, b, h, v = 3, 13, odd.hidden_size, odd.vocab_size
    full = account(odd, 7, b, max_predictions=m, dtype="bfloat16")
    found = full.groups["MLM"].activation_bytes
    assert found == 4 * m * b * h * (1 + Fraction(v, h)) + 4 * m * b * h + 4 * b * m


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_integers_and_groups_sum_to_totals(odd, head, dtype):
    full = account(odd, 7, 13, head=head, num_labels=LABELS, dtype=dtype)
    for row in full.rows:
        for number in (row.params, row.flops, row.activation_bytes):
            assert type(number) is int and number >= 0
    memory = full.memory
    parts = (memory.weights, memory.gradients, memory.adam, memory.activations)
    assert memory.total == sum(parts)
    for total in (*parts, full.params, full.flops, full.training_flops_per_sequence):
        assert type(total) is int and total > 0
    for what, share in (
        ("params", "params_share"),
        ("flops", "flops_share"),
        ("activation_bytes", "activation_share"),
    ):
        groups = full.groups.values()
        assert sum(getattr(group, what) for group in groups) == getattr(full, what)
        shares = [getattr(group, share) for group in groups]
        assert sum(shares) == 1 and all(type(part) is Fraction for part in shares)


def test_groups_of_an_account(odd):
    assert list(account(odd).groups) == ["embeddings", "encoder", "pooler", "MLM", "NSP"]
    assert list(account(odd, head="encoder").groups) == ["embeddings", "encoder", "pooler"]
    base = account("base_uncased", head="encoder").groups
    said = (23_837_184, 85_054_464, 590_592)  # document 001, and the pooler it missed
    assert tuple(group.params for group in base.values()) == said


def test_default_predictions_are_15_percent():
    """The paper, section 3.1, rounded down; never none."""
    assert [default_predictions(length) for length in (512, 128, 20, 7, 1)] == [76, 19, 3, 1, 1]


def number(amount: str) -> int:
    return int(amount.replace(",", ""))


@pytest.mark.parametrize("name", ["base", "large", "base_uncased", "tiny", "odd"])
def test_reconciliation_of_published_totals_adds_up(odd, name):
    """From each total over what is added and taken away to the next."""
    total, carried, checked = None, None, 0
    for step in reconcile_totals(PRESETS.get(name, odd)):
        if step.sign:
            carried += number(step.amount) * (1 if step.sign == "+" else -1)
        elif step.amount.endswith("M"):
            assert f"{total:.1e}" == f"{number(step.amount[:-1]) * 10**6:.1e}"
            carried = None
        else:
            total = number(step.amount)
            assert carried in (None, total), step
            checked += carried is not None
            carried = total
    assert checked >= 1


def test_reconciliation_has_every_published_total(shared):
    """The totals that errata.md reconciles, each of them and in one chain."""
    errata = (shared / "reference" / "errata.md").read_text(encoding="utf-8")
    totals = [step.amount for step in reconcile_totals(PRESETS["base"]) if not step.sign]
    base, large = "109,705,010 110,106,428 109,482,240 110M", "335,141,888 336,226,108 340M"
    assert totals == [*base.split(), *large.split()]
    assert all(total in errata for total in totals)
