"""The documents of a corpus as lists of sentences, from the blocks that kbert reads."""

from collections.abc import Iterator

from kbert.data.corpus.sentences import parse_corpus


def read_documents(corpus, **options) -> Iterator[list[str]]:
    """The documents of a corpus, one by one, each as its sentences; arguments of `parse_corpus`.

    A document ends with its file at the latest.
    """
    document, last = [], None
    for path, parsed in parse_corpus(corpus, **options):
        begins = [0, *parsed.begins] if path != last else [*parsed.begins]
        last, start = path, 0
        for begin in [*begins, len(parsed.sentences)]:
            document += parsed.sentences[start:begin]
            start = begin
            if document and begin in begins:
                yield document
                document = []
        if parsed.broken and document:
            yield document
            document = []
    if document:
        yield document
