"""Notes on the layers: their purpose, the article on BERT's architecture, errors in texts."""

from dataclasses import asdict
from importlib.resources import files

from kbert.graph.reference import document_004
from kbert.graph.reference.errata import errata

_COLUMNS = ("does", "document")


def notes_data() -> dict:
    """By layer, a block's as those of block {n}: notes (notes.tsv), the document's row, errata."""
    text = files(__package__).joinpath("notes.tsv").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines()[1:]]
    return {
        "notes": {layer: dict(zip(_COLUMNS, cells, strict=True)) for layer, *cells in lines},
        "document": {
            row.layer.replace("Encoder-1-", "Encoder-{n}-"): [row.output_shape, row.params]
            for row in document_004()
            if not row.layer.startswith("Encoder-") or row.layer.startswith("Encoder-1-")
        },
        "errata": [{**asdict(one), "source_says": one.source_says} for one in errata()],
    }
