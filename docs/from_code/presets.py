"""Every preset with its totals, and every total that others publish beside kbert's."""

import re

from from_code.table import table
from kbert.graph.accounting import account
from kbert.graph.config import BertConfig
from kbert.graph.presets import PRESETS
from kbert.graph.published_totals import reconcile_totals
from kbert.graph.reference import TEXTS, PublishedTotal, document_004, published_totals

_SIZES = ("T", "L", "H", "A", "FFD", "P")


def page() -> str:
    """All presets: sizes, and parameters with both heads, and of encoder and pooler alone."""
    header = ("preset", *_SIZES, "both heads", "encoder and pooler")
    return table(header, (_line(name, config) for name, config in PRESETS.items()), right=8)


def published() -> str:
    """Published totals beside kbert's, and the steps from one to the next."""
    lines = [_published(total) for total in published_totals()]
    printed = sum(row.params for row in document_004())
    lines.insert(
        0,
        (
            "base, both heads",
            'the article "Understanding BERT architecture"',
            printed,
            account("base").params,
        ),
    )
    bridge = "".join(f"{step.sign + step.amount:>13}  {step.text}\n" for step in _bridge())
    header = ("model", "published by", "published", "kbert counts")
    return f"{table(header, lines, right=2)}\n```text\n{bridge}```\n"


def _bridge():
    return reconcile_totals(PRESETS["base"])


def _line(name: str, config: BertConfig) -> tuple:
    sizes = (
        config.vocab_size,
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        config.max_position_embeddings,
    )
    totals = (account(config, head=head).params for head in ("pretraining", "encoder"))
    return (f"`{name}`", *sizes, *totals)


def _in_a_list(title: str) -> str:
    return title[0].lower() + title[1:]


def _published(total: PublishedTotal) -> tuple:
    counted = account(total.config, head="encoder").params
    source = re.sub(r"document (\d+)", lambda match: _in_a_list(TEXTS[match[1]]), total.source)
    return (f"`{total.model}`", source, total.params_encoder_and_pooler, counted)
