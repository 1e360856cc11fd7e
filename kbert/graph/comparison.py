"""Models beside each other: sizes, parameters, FLOPs and bytes of several accounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from kbert.graph.accounting import Account
from kbert.io.latex import to_latex
from kbert.io.row_formats import to_html

_SIZES = {
    "encoder blocks": "num_hidden_layers",
    "hidden size": "hidden_size",
    "attention heads": "num_attention_heads",
    "feed-forward size": "intermediate_size",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
}
_COUNTS = {
    "parameters": attrgetter("params"),
    "forward FLOPs": attrgetter("flops"),
    "training FLOPs per sequence": attrgetter("training_flops_per_sequence"),
    "activation bytes": attrgetter("activation_bytes"),
    "training memory, bytes": attrgetter("memory.total"),
}


@dataclass(frozen=True)
class AccountComparison:
    """Models beside each other, the result of `compare_accounts`.

    Attributes:
        names: the models' names.
        accounts: their accounts.
    """

    names: tuple[str, ...]
    accounts: tuple[Account, ...]

    def __repr__(self) -> str:
        pairs = zip(self.names, self.accounts, strict=True)
        models = ", ".join(f"{name}: {account.params:,} parameters" for name, account in pairs)
        return f"AccountComparison({models})"

    def _repr_html_(self) -> str:
        return to_html(self.header, self.lines, repr(self))

    @property
    def header(self) -> tuple[str, ...]:
        """Names of the columns: with two models, the last is their ratio."""
        ratio = (f"{self.names[1]} ÷ {self.names[0]}",) if len(self.names) == 2 else ()
        return ("", *self.names, *ratio)

    @property
    def lines(self) -> list[tuple]:
        """Lines of the table: what is compared, and its value for each model, then the ratio."""
        lines: list[tuple] = []
        for name, field in _SIZES.items():
            sizes = [getattr(account.config, field) for account in self.accounts]
            lines.append(self._line(name, sizes))
        for name, count in _COUNTS.items():
            counts = [count(account) for account in self.accounts]
            lines.append(self._line(name, counts))
        return lines

    def _line(self, name: str, values: list[int]) -> tuple:
        ratio = (f"{values[1] / values[0]:.2f}",) if len(values) == 2 else ()
        return (name, *values, *ratio)

    def to_latex(self) -> str:
        """Return the table for LaTeX, with booktabs' rules."""
        return to_latex(self.header, self.lines, rules_before=[len(_SIZES)])


def compare_accounts(accounts: Mapping[str, Account]) -> AccountComparison:
    """Compare models: their sizes, parameters, FLOPs and bytes side by side.

    Args:
        accounts: accounts by the models' names, such as `{"base": kbert.account("base"), …}`.

    Returns:
        An `AccountComparison`, which a notebook shows as a table.

    Raises:
        ValueError: there are fewer than two.
    """
    if len(accounts) < 2:
        raise ValueError(f"accounts must be two or more, got {len(accounts)}")
    return AccountComparison(tuple(accounts), tuple(accounts.values()))
