"""From one published total to the next: the sums that reconcile 110M, 340M and the exact counts."""

from dataclasses import dataclass, replace

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
    """Return the published totals around base and large; for another configuration its heads."""
    base_uncased, large_uncased = get_config("base_uncased"), get_config("large_uncased")
    if config == large:
        return _add_tokens(large, large_uncased, "large", "large, T = 30,000, both heads")
    if config not in (base, base_uncased, large_uncased):
        if config.family.next_sentence:
            return _add_heads(config, "encoder and pooler", "both heads")
        return _add_heads(config, "encoder", "encoder and MLM head")
    article = 'base, T = 30,000, both heads: "Understanding BERT architecture"'
    return [
        *_add_tokens(base, base_uncased, "base", article),
        *_add_heads(
            large_uncased,
            "large_uncased, encoder and pooler: transformers' BertModel",
            "large_uncased, both heads",
        ),
        Step("", "340M", "the paper's large: either of the two above, rounded"),
    ]


def _add_tokens(paper: BertConfig, released: BertConfig, name: str, first: str) -> list[Step]:
    """Return the steps from the paper's vocabulary to a released model without the heads."""
    tokens = released.vocab_size - paper.vocab_size
    hidden = paper.hidden_size
    without, *heads, both = _add_heads(
        released,
        f"{name}_uncased, encoder and pooler: transformers' BertModel",
        f"{name}_uncased, both heads",
    )
    subtracted = [replace(step, sign="−") for step in heads]
    rounded = {"base": "110M", "large": "340M"}[name]
    return [
        Step("", f"{account(paper).params:,}", first),
        Step("+", f"{tokens * hidden:,}", f"embeddings of {tokens} more tokens: {tokens}·{hidden}"),
        Step("+", f"{tokens:,}", f"their biases in MLM-Sim: {tokens}"),
        both,
        *subtracted,
        without,
        Step("", rounded, f"the paper's {name}: any of the three above, rounded"),
    ]


def _add_heads(config: BertConfig, without: str, both: str) -> list[Step]:
    """Return the total without the pretraining heads, each head, and the total with them."""
    full = account(config)
    params_of_heads = 0
    added = []
    for group, totals in full.groups.items():
        if group in ("MLM", "NSP"):
            with_params = [row for row in full.rows if row.group == group and row.params]
            formulas = [row.formula for row in with_params]
            added.append(Step("+", f"{totals.params:,}", f"{group}: {' + '.join(formulas)}"))
            params_of_heads += totals.params

    first = Step("", f"{full.params - params_of_heads:,}", without)
    return [first, *added, Step("", f"{full.params:,}", both)]
