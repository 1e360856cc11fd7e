"""The tables of docs/how_to/get_a_model.md, made of models.tsv; they stand there for GitHub too.

`python -m from_code.models`, in docs, prints them. A test compares them with the page.
"""

from from_code.table import table
from kbert.hub.names import list_known_models

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
    rows = list(list_known_models().values())
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


if __name__ == "__main__":
    print(page(), end="")
