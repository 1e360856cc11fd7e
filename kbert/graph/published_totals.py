"""From one published total to the next: the sums that reconcile 110M, 340M and the exact counts."""

from dataclasses import dataclass

from kbert.graph.accounting import account
from kbert.graph.config import BertConfig
from kbert.graph.presets import base, get_config, large


@dataclass(frozen=True)
class Step:
    """A total (sign ""), or a number added ("+") or subtracted ("−") to reach the next one."""

    sign: str
    amount: str
    text: str


def reconcile_totals(config: BertConfig) -> list[Step]:
    """Return the published totals around base and large.

    For another configuration its own heads.
    """
    uncased = (get_config("base_uncased"), get_config("large_uncased"))
    if config not in (base, large, *uncased):
        if not config.family.next_sentence:
            return _family_totals(config)
        return [*_to_heads(config, "encoder and pooler", "both heads")]
    return [
        *_vocabulary(
            base, uncased[0], 'base, T = 30,000, both heads: "Understanding BERT architecture"'
        ),
        *_from_heads(
            uncased[0],
            "base_uncased, both heads",
            "base_uncased, encoder and pooler: transformers' BertModel",
        ),
        Step("", "110M", "the paper's base: any of the three above, rounded"),
        *_to_heads(
            uncased[1],
            "large_uncased, encoder and pooler: transformers' BertModel",
            "large_uncased, both heads",
        ),
        Step("", "340M", "the paper's large: either of the two above, rounded"),
    ]


def _family_totals(config: BertConfig) -> list[Step]:
    """Return the steps of a model without NSP, whose MLM head does not use the pooler."""
    without = account(config, head="tokens", num_labels=1).groups
    encoder = sum(without[name].params for name in ("embeddings", "encoder"))
    return [
        Step("", f"{encoder:,}", "encoder"),
        *_heads(config, "+"),
        Step("", f"{account(config).params:,}", "encoder and MLM head"),
    ]


def _vocabulary(small: BertConfig, big: BertConfig, text: str) -> list[Step]:
    tokens, hidden = big.vocab_size - small.vocab_size, big.hidden_size
    return [
        Step("", f"{account(small).params:,}", text),
        Step("+", f"{tokens * hidden:,}", f"embeddings of {tokens} more tokens: {tokens}·{hidden}"),
        Step("+", f"{tokens:,}", f"their biases in MLM-Sim: {tokens}"),
    ]


def _to_heads(config: BertConfig, without: str, both: str) -> list[Step]:
    return [
        Step("", f"{account(config, head='encoder').params:,}", without),
        *_heads(config, "+"),
        Step("", f"{account(config).params:,}", both),
    ]


def _from_heads(config: BertConfig, both: str, without: str) -> list[Step]:
    first, *heads, last = _to_heads(config, without, both)
    return [last, *(Step("−", step.amount, step.text) for step in heads), first]


def _heads(config: BertConfig, sign: str) -> list[Step]:
    layers = [row for row in account(config).rows if row.params]
    steps = []
    for group in ("MLM", "NSP"):
        chosen = [row for row in layers if row.group == group]
        if not chosen:  # of the family, what has no next sentences
            continue
        total = sum(row.params for row in chosen)
        formula = " + ".join(row.formula for row in chosen)
        steps.append(Step(sign, f"{total:,}", f"{group}: {formula}"))
    return steps
