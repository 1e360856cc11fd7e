"""From one published total to the next: the sums that reconcile 110M, 340M and the exact counts."""

from dataclasses import dataclass, replace

from kbert.graph.accounting import LayerAccount, account
from kbert.graph.config import BertConfig
from kbert.graph.presets import base, get_config, large


@dataclass(frozen=True)
class Step:
    """A total (sign ""), or a number added ("+") or subtracted ("−") to reach the next one."""

    sign: str
    amount: str
    text: str


def reconcile_totals(config: BertConfig) -> list[Step]:
    """Return the published totals around base and large; for another configuration its heads."""
    base_uncased, large_uncased = get_config("base_uncased"), get_config("large_uncased")
    if config not in (base, large, base_uncased, large_uncased):
        if config.family.next_sentence:
            return _add_heads(config, "encoder and pooler", "both heads")
        return _add_heads(config, "encoder", "encoder and MLM head")
    tokens, hidden = base_uncased.vocab_size - base.vocab_size, base.hidden_size
    both, *heads, without = reversed(
        _add_heads(
            base_uncased,
            "base_uncased, encoder and pooler: transformers' BertModel",
            "base_uncased, both heads",
        )
    )
    return [
        _total(base, 'base, T = 30,000, both heads: "Understanding BERT architecture"'),
        Step("+", f"{tokens * hidden:,}", f"embeddings of {tokens} more tokens: {tokens}·{hidden}"),
        Step("+", f"{tokens:,}", f"their biases in MLM-Sim: {tokens}"),
        both,
        *(replace(step, sign="−") for step in reversed(heads)),
        without,
        Step("", "110M", "the paper's base: any of the three above, rounded"),
        *_add_heads(
            large_uncased,
            "large_uncased, encoder and pooler: transformers' BertModel",
            "large_uncased, both heads",
        ),
        Step("", "340M", "the paper's large: either of the two above, rounded"),
    ]


def _total(config: BertConfig, text: str) -> Step:
    return Step("", f"{account(config).params:,}", text)


def _add_heads(config: BertConfig, without: str, both: str) -> list[Step]:
    """Return the total without the pretraining heads, each head, and the total with them."""
    heads: dict[str, list[LayerAccount]] = {}
    for row in account(config).rows:
        if row.params and row.group in ("MLM", "NSP"):
            heads.setdefault(row.group, []).append(row)
    own = sum(row.params for layers in heads.values() for row in layers)
    steps = [
        Step(
            "+",
            f"{sum(row.params for row in layers):,}",
            f"{group}: {' + '.join(row.formula for row in layers)}",
        )
        for group, layers in heads.items()
    ]
    first = Step("", f"{account(config).params - own:,}", without)
    return [first, *steps, _total(config, both)]
