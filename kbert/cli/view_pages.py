"""Pages of `kbert explore` that open at what a task found: attention, or an attribution."""

from pathlib import Path

import click

from kbert.cli.console import progress


def split_pair(sentence: str) -> str | tuple[str, str]:
    """Return a sentence; two texts where a tab is between them, as in kbert's files of pairs."""
    texts = sentence.split("\t")
    if len(texts) > 2:
        raise click.UsageError(f"--sentence takes two texts with a tab between, got {len(texts)}")
    return sentence if len(texts) == 1 else (texts[0], texts[1])


def join_pair(text: str, pair: str | None) -> str | tuple[str, str]:
    """Return a sentence of a page: a text, or a text and its pair."""
    return text if pair is None else (text, pair)


def is_page(path: Path | None) -> bool:
    """Return whether a file to write is a page."""
    return path is not None and path.suffix.lower() == ".html"


def write_attention(bert, source: str, sentences: list, path: Path, start: str) -> None:
    """Write the page of sentences that opens at a head of attention."""
    from kbert.show.explorer.explore import explore_recorded

    title = Path(source).name
    with progress("writing"):
        explore_recorded(bert, sentences, path, title=title, start=start)


def write_attribution(bert, source: str, attribution, path: Path) -> None:
    """Write the page of a text in the colours of its attribution."""
    from kbert.show.explorer.explore import explore_recorded
    from kbert.show.explorer.live.attention_weights import clean_text

    texts = [clean_text(text) for text in attribution.texts]
    text = texts[0]
    pair = texts[1] if len(texts) > 1 else None
    view = {
        "title": attribution.title(),
        "notes": attribution.notes(),
        "scores": [round(float(score), 6) for score in attribution.scores],
        "text": text,
        "pair": pair,
    }
    sentences = [join_pair(text, pair)]
    title = Path(source).name
    with progress("writing"):
        explore_recorded(bert, sentences, path, title=title, start="-", attribution=view)
