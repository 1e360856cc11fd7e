"""The models that people use, by name: models.tsv, in a table for each kind."""

from from_code.table import table
from kbert.checkpoints.hub.names import known_models

_OWNERS = {  # of each table, in the page's order
    "BERT": ("google-bert",),
    "BERT's miniatures": ("google",),
    "Sentence embeddings, search and ranking": (
        *("sentence-transformers", "cross-encoder", "BAAI", "intfloat"),
    ),
    "Tasks and other families": ("distilbert", "FacebookAI", "almanach", "dslim"),
    "KerasHub's presets, on Kaggle": ("kaggle:",),
}


def page() -> str:
    """A table for each kind of model; a line for each model."""
    rows = list(known_models().values())
    parts = [
        f"### {title}\n\n"
        + table(
            ("model", "what it is for", "parameters", "download, MB"),
            [_line(row) for row in rows if row["address"].split("/")[0] in owners],
            right=2,
        )
        for title, owners in _OWNERS.items()
    ]
    return "\n".join(parts)


def _line(row: dict[str, str]) -> tuple:
    name = row["name"] if row["address"].startswith("kaggle:") else row["address"]
    return f"`{name}`", row["use"], int(row["parameters"]), int(row["megabytes"])
