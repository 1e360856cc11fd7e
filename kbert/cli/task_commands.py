"""The commands that use a checkpoint: parse, call, print; imports wait for the command."""

import click

from kbert.cli.command import command
from kbert.cli.console import say, say_json
from kbert.cli.inputs import loaded, texts_of
from kbert.cli.options import BATCH, LINES, POSITIVE, PRECISION, SOURCE, output_format
from kbert.io import printable

FORM = output_format("json")


@command(
    "fill-mask",
    short_help="Predict the tokens for [MASK].",
    examples=('kbert fill-mask bert-base-uncased "the capital of france is [MASK]"',),
)
@SOURCE
@click.argument("text")
@click.option("--top-k", type=POSITIVE, default=5, help="Number of tokens per [MASK]. Default: 5.")
@PRECISION
@FORM
def fill_mask(source, text, top_k, precision, form):
    """Print the most likely tokens for every [MASK] of a text, with their probabilities."""
    with loaded(source, "fill-mask", "pretraining") as bert:
        from kbert.tasks.fill_mask.inference import fill_mask

        filled = fill_mask(bert, text, top_k=top_k, precision=precision)
    if form == "json":
        say_json(filled)
        return
    for number, candidates in enumerate(filled, 1):
        if len(filled) > 1:
            click.echo(f"[MASK] {number}")
        for candidate in candidates:
            say(f"{candidate.probability:.4f}  {candidate.token}")


@command(
    "next-sentence",
    short_help="Predict whether one text follows another.",
    examples=('kbert next-sentence bert-base-uncased "It rained." "We stayed at home."',),
)
@SOURCE
@click.argument("a")
@click.argument("b")
@PRECISION
@FORM
def next_sentence(source, a, b, precision, form):
    """Print the probability that the text B follows the text A."""
    with loaded(source, "next-sentence", "pretraining") as bert:
        from kbert.tasks.classification.inference import next_sentence

        probability = next_sentence(bert, a, b, precision=precision)
    if form == "json":
        say_json({"is_next": probability})
    else:
        click.echo(f"{probability:.4f}  is next\n{1 - probability:.4f}  is not")


@command(
    short_help="Classify texts.",
    examples=(
        'kbert classify distilbert-base-uncased-finetuned-sst-2-english "A fine film."',
        "kbert classify run --lines reviews.txt --format json",
    ),
)
@SOURCE
@click.argument("texts", nargs=-1, metavar="[TEXT …]")
@LINES
@BATCH
@PRECISION
@FORM
def classify(source, texts, lines, batch_size, precision, form):
    """Print every label of a text with its probability; of several texts, the most likely label."""
    texts = texts_of(texts, lines)
    with loaded(source, "classify", "classifier") as bert:
        from kbert.tasks.classification.inference import classify

        found = classify(bert, texts, batch_size=batch_size, precision=precision)
    if form == "json":
        say_json(_records(texts, "labels", found))
    elif len(texts) == 1:
        for label in found[0]:
            say(f"{label.probability:.4f}  {label.label}")
    else:
        for text, (best, *_) in zip(texts, found, strict=True):
            click.echo(printable.cut(f"{best.probability:.4f}  {best.label}  {text}"))


@command(
    short_help="Predict a number for a text or a pair of texts.",
    examples=('kbert regress run "A cat sat." "A cat was sitting."',),
)
@SOURCE
@click.argument("text")
@click.argument("pair", required=False)
@PRECISION
@FORM
def regress(source, text, pair, precision, form):
    """Print the number that a regression model predicts, such as the similarity of two texts."""
    with loaded(source, "regress", "classifier") as bert:
        from kbert.tasks.classification.inference import regress

        number = regress(bert, text, pair, precision=precision)
    if form == "json":
        say_json({"text": text, "pair": pair, "number": number})
    else:
        click.echo(f"{number:.4f}")


@command(
    short_help="Label every word of texts, as in NER.",
    examples=('kbert tag bert-base-NER "Ada Lovelace lived in London."',),
)
@SOURCE
@click.argument("texts", nargs=-1, metavar="[TEXT …]")
@LINES
@click.option("--words", is_flag=True, help="Split a text into words at spaces.")
@BATCH
@PRECISION
@FORM
def tag(source, texts, lines, words, batch_size, precision, form):
    """Print the label of every word of a text, with its probability and position.

    A text is split into words as in the training data, or as the tokenizer splits it. --words
    splits it at spaces.
    """
    texts = texts_of(texts, lines)
    given = [text.split() for text in texts] if words else texts
    with loaded(source, "tag", "tokens") as bert:
        from kbert.tasks.tagging.inference import tag

        found = tag(bert, given, batch_size=batch_size, precision=precision)
    if form == "json":
        say_json(_records(texts, "words", found))
        return
    for number, words in enumerate(found):
        if number:
            click.echo()
        for word in words:
            place = f"{word.start}:{word.end}"
            label = printable.line(word.label)
            say(f"{word.probability:.4f}  {label:<12}  {place:<9}  {word.word}")


@command(
    short_help="Answer a question from a context.",
    examples=(
        "kbert answer distilbert-base-cased-distilled-squad \\",
        '    "Who wrote it?" "Ada Lovelace wrote the notes."',
    ),
)
@SOURCE
@click.argument("question")
@click.argument("context")
@click.option(
    "--stride",
    type=POSITIVE,
    default=128,
    help="Number of tokens that two windows share. Default: 128.",
)
@click.option(
    "--no-answer-threshold",
    type=float,
    metavar="X",
    help="Print no answer if its odds are above X, as in SQuAD 2.0. Default: always answer.",
)
@PRECISION
@FORM
def answer(source, question, context, stride, no_answer_threshold, precision, form):
    """Print the span of a context that answers a question, with its score and position."""
    with loaded(source, "answer", "qa") as bert:
        from kbert.tasks.answering.inference import answer

        found = answer(
            bert,
            question,
            context,
            stride=stride,
            no_answer_threshold=no_answer_threshold,
            precision=precision,
        )
    if form == "json":
        say_json(found)
    else:
        place = f"characters {found.start}:{found.end}" if found.text else f"odds {found.odds:.4f}"
        say(found.text or "no answer")
        click.echo(f"{found.score:.4f}  {place}")


COMMANDS = [fill_mask, next_sentence, classify, regress, tag, answer]


def _records(texts: list[str], name: str, found: list) -> list[dict]:
    return [{"text": text, name: result} for text, result in zip(texts, found, strict=True)]
