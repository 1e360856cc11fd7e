"""The commands that answer with a checkpoint's head, and those that look into an answer."""

import logging

import click

import kbert
from kbert.cli import options as shared
from kbert.cli.command import Choice, command
from kbert.cli.console import exit_if_nan, progress, say, say_json
from kbert.cli.inputs import open_checkpoint, read_pairs, read_texts
from kbert.cli.options import POSITIVE, Output, option, takes
from kbert.cli.view_pages import (
    is_page,
    join_pair,
    split_pair,
    write_attention,
    write_attribution,
)
from kbert.io import printable
from kbert.io.atomic_write import check_new_file
from kbert.tasks.attention import SPECIAL
from kbert.tasks.attribution import BASELINES, VALUES

TEXT = click.argument("text")
PAIR = click.argument("pair", required=False)
PAIRS = option("--pairs are_pairs", bool, "Read pairs: two TEXTs, or text, tab, text on a line.")


@command(
    "Predict the tokens for [MASK].",
    'kbert fill-mask bert-base-uncased "the capital of france is [MASK]"',
)
@takes(shared.SOURCE, TEXT)
@option("--top-k", POSITIVE, "Number of tokens per [MASK].", default=5)
@takes(shared.PRECISION, shared.JSON)
def fill_mask(source, text, **options):
    """Print the most likely tokens for every [MASK] of a text, with their probabilities."""
    with open_checkpoint(source, "fill-mask", "pretraining") as bert:
        masks = kbert.fill_mask(bert, text, **options)
    yield masks

    for number, candidates in enumerate(masks, 1):
        if len(masks) > 1:
            click.echo(f"[MASK] {number}")
        for candidate in candidates:
            say(f"{candidate.probability:.4f}  {candidate.token}")


@command(
    "Predict whether one text follows another.",
    'kbert next-sentence bert-base-uncased "It rained." "We stayed at home."',
)
@shared.SOURCE
@click.argument("a")
@click.argument("b")
@takes(shared.PRECISION, shared.JSON)
def next_sentence(source, a, b, precision):
    """Print the probability that the text B follows the text A."""
    with open_checkpoint(source, "next-sentence", "pretraining") as bert:
        probability = kbert.next_sentence(bert, a, b, precision=precision)
    yield {"is_next": probability}
    click.echo(f"{probability:.4f}  is next\n{1 - probability:.4f}  is not")


@command(
    "Classify texts or pairs of texts.",
    'kbert classify distilbert-base-uncased-finetuned-sst-2-english "A fine film."',
    "kbert classify run --lines reviews.txt --format json",
    'kbert classify run --pairs "A cat sat." "A cat was sitting."',
)
@takes(shared.SOURCE, shared.TEXTS, shared.LINES, PAIRS)
@takes(shared.BATCH, shared.PRECISION, shared.JSON)
def classify(source, **options):
    """Print every label of a text with its probability; of several texts, the most likely label.

    A regression predicts numbers: they are printed unchanged, as by `kbert regress`.
    """
    results = _run_classifier("classify", source, **options)
    yield [{**text, "labels": labels} for text, labels in results]

    if len(results) == 1:
        _, labels = results[0]
        for label in labels:
            say(_result_line(label))
        return
    for text, labels in results:
        are_numbers = hasattr(labels[0], "value")
        shown = labels if are_numbers else labels[:1]
        cells = [_result_line(label) for label in shown]
        cells += text.values()
        click.echo(printable.cut("  ".join(cells)))


def _result_line(label) -> str:
    """Return a `Label` or a `Value` as text: its number and its name."""
    number = label.value if hasattr(label, "value") else label.probability
    return f"{number:.4f}  {label.label}"


def _run_classifier(task: str, source, texts, lines, are_pairs, **options) -> list[tuple]:
    """Return (text or pair, a dict; its result) of each text of a command line or a file."""
    from kbert.tasks.finetuning import run_defaults

    columns = read_pairs(texts, lines) if are_pairs else (read_texts(texts, lines),)
    run = run_defaults.find_run(source)
    run_defaults.warn_of_pairs(run, are_pairs, "" if are_pairs else ": --pairs reads them")

    with open_checkpoint(source, task, "classifier") as bert:
        results = getattr(kbert, task)(bert, *columns, **options)

    names = ("text", "pair") if are_pairs else ("text",)
    inputs = []
    for values in zip(*columns, strict=True):
        inputs.append(dict(zip(names, values, strict=True)))
    return list(zip(inputs, results, strict=True))


@command(
    "Predict a number for texts or pairs of texts.",
    'kbert regress run "A fine film."',
    "kbert regress run --lines reviews.txt --format json",
    'kbert regress run --pairs "A cat sat." "A cat was sitting."',
)
@takes(shared.SOURCE, shared.TEXTS, shared.LINES, PAIRS)
@takes(shared.BATCH, shared.PRECISION, shared.JSON)
def regress(source, **options):
    """Print the number that a regression model predicts, such as the similarity of two texts.

    A model with several outputs predicts as many numbers, in their order.
    """
    if len(options["texts"]) == 2 and not options["are_pairs"]:
        logging.getLogger("kbert").warning("each text gets a number of its own: --pairs reads two")
    texts, values = [], []
    for text, result in _run_classifier("regress", source, **options):
        texts.append(text)
        values.append(result.tolist())  # a number, or one per output
    has_several = isinstance(values[0], list)
    name = "numbers" if has_several else "number"
    pairs = zip(texts, values, strict=True)
    yield [{**text, name: value} for text, value in pairs]

    for text, value in zip(texts, values, strict=True):
        numbers = value if has_several else [value]
        cells = [f"{number:.4f}" for number in numbers]
        if len(texts) > 1:
            cells += text.values()
        click.echo(printable.cut("  ".join(cells)))


@command(
    "Label every word of texts, as in NER.",
    'kbert tag bert-base-NER "Ada Lovelace lived in London."',
)
@takes(shared.SOURCE, shared.TEXTS, shared.LINES)
@option("--words split_at_spaces", bool, "Split a text into words at spaces.")
@takes(shared.BATCH, shared.PRECISION, shared.JSON)
def tag(source, texts, lines, split_at_spaces, **options):
    """Print the label of every word of a text, with its probability and position.

    A text is split into words as in the training data, or as the tokenizer splits it. --words
    splits it at spaces.
    """
    texts = read_texts(texts, lines)
    sentences = [text.split() for text in texts] if split_at_spaces else texts
    with open_checkpoint(source, "tag", "tokens") as bert:
        results = kbert.tag(bert, sentences, **options)
    pairs = zip(texts, results, strict=True)
    yield [{"text": text, "words": tags} for text, tags in pairs]

    for number, tags in enumerate(results):
        if number:
            click.echo()
        for word in tags:
            label = printable.line(word.label)
            span = f"{word.start}:{word.end}"
            say(f"{word.probability:.4f}  {label:<12}  {span:<9}  {word.word}")


@command(
    "Answer a question from a context.",
    "kbert answer distilbert-base-cased-distilled-squad \\",
    '    "Who wrote it?" "Ada Lovelace wrote the notes."',
)
@shared.SOURCE
@click.argument("question")
@click.argument("context")
@option("--stride", POSITIVE, "Number of tokens that two windows share.", default=128)
@option(
    "--no-answer-threshold X",
    float,
    "Print no answer if its odds are above X, as in SQuAD 2.0. Default: always answer.",
)
@takes(shared.PRECISION, shared.JSON)
def answer(source, question, context, **options):
    """Print the span of a context that answers a question, with its score and position."""
    with open_checkpoint(source, "answer", "qa") as bert:
        span = kbert.answer(bert, question, context, **options)
    yield span

    say(span.text or "no answer")
    where = f"characters {span.start}:{span.end}" if span.text else f"odds {span.odds:.4f}"
    click.echo(f"{span.score:.4f}  {where}")


@command(
    "Choose the right one of several endings.",
    'kbert choose run "She opens the door." "She walks in." "She is a piano."',
    'kbert choose run "She opens the door." --start "Then she" "walks in." "sings."',
)
@shared.SOURCE
@click.argument("text", metavar="PROMPT")
@click.argument("texts", nargs=-1, required=True, metavar="CHOICE CHOICE …")
@option("--start TEXT", str, "Text that begins every choice, as SWAG's sent2. Default: none.")
@takes(shared.PRECISION, shared.JSON)
def choose(source, text, texts, start, **options):
    """Print the choices for a prompt with their probabilities, the most likely first."""
    if len(texts) < 2:
        raise click.UsageError("choose needs two CHOICEs or more, got one")
    with open_checkpoint(source, "choose", "choice") as bert:
        choices = kbert.choose(bert, text, texts, start=start or "", **options)
    yield choices

    for choice in choices:
        say(f"{choice.probability:.4f}  {choice.text}")


@command(
    "Show the attention weights of a text.",
    'kbert attention bert-base-uncased "A cat sat." "It purred." -o attention.html',
    'kbert attention bert-base-uncased "A cat sat." -o map.png --layer 1 --head 2',
)
@takes(shared.SOURCE, TEXT, PAIR)
@option("-o --output", Output(), "File to write: .html .npz .png .svg .pdf.", required=True)
@option(
    "--layer", POSITIVE, "Number of one encoder block, from 1. Default: all blocks, or their mean."
)
@option(
    "--head", POSITIVE, "Number of one attention head, from 1. Default: all heads, or their mean."
)
@option(
    "--special",
    Choice(SPECIAL),
    "How [CLS] and [SEP] are shown. In a picture: grey if above the scale of the other tokens "
    "(clipped, the default), not at all (hidden), or on one scale for all tokens (whole). On a "
    "page: not at first (hidden, the default), or with the others (clipped, whole).",
)
@option(
    "--sentence sentences",
    str,
    "Further text for the page, or two with a tab between them. Repeat it for more.",
    multiple=True,
)
@shared.PRECISION
def attention(source, text, pair, output, layer, head, special, sentences, precision):
    """Write how much each token attends to each other token.

    \b
    .html            the page of kbert explore, at a head: every head, lines
                     between the tokens, a heat map, queries and keys, and the
                     other tensors of the text; one file, no network
    .png .svg .pdf   a heat map
    .npz             the numbers

    The page is computed in float32.
    """
    from kbert.tasks.attention.attention_map import ENDINGS
    from kbert.tasks.common.pictures import PICTURES

    is_picture = check_new_file(output, ENDINGS).suffix.lower() in PICTURES
    if sentences and not is_page(output):
        raise click.UsageError(f"--sentence goes with a page, .html, got {output}")

    options = {"layer": layer, "head": head}
    with open_checkpoint(source) as bert:
        maps = kbert.attention(
            bert, text, pair, **options, vectors=not is_picture, precision=precision
        )

    if special is not None:
        options["special"] = special
    if is_page(output):
        pairs = [join_pair(text, pair)]
        for sentence in sentences:
            pairs.append(split_pair(sentence))
        write_attention(bert, source, pairs, output, maps.address(**options))
    elif is_picture:
        with progress("drawing"):
            maps.plot(output, **options)
    else:
        with progress("writing"):
            maps.save(output, **options)
    say(f"wrote {output} ({output.stat().st_size:,} bytes)")


@command(
    "Show which words cause an answer.",
    'kbert attribute run "A fine film." -o why.html',
    'kbert attribute run "A fine film." --target negative --value logit',
    'kbert attribute bert-base-uncased "the [MASK] is deep" --target sea',
    'kbert attribute all-MiniLM-L6-v2 "A cat." --similar-to "A dog." -o why.png',
)
@takes(shared.SOURCE, TEXT, PAIR)
@option(
    "-o --output",
    Output(),
    "File for the text in colours: .png .svg .pdf, or .html for the page of kbert explore.",
)
@option("--target NAME", str, "Label or token to explain. Default: the most likely one.")
@option("--similar-to TEXT", str, "Explain the cosine similarity to this text; any model can.")
@option("--mask", POSITIVE, "Number of the [MASK] to explain.", default=1)
@option("--value", Choice(VALUES), "Value of the target to explain.", default="probability")
@option(
    "--baseline",
    Choice(BASELINES),
    "Token that replaces the words in the baseline text.",
    default="pad",
)
@option("--steps", POSITIVE, "Number of points of the integral. Default: 50 and more.")
@shared.output_format("json")
def attribute(source, text, pair, output, form, **options):
    """Show how much each word of a text contributes to the model's answer.

    The method is integrated gradients (Sundararajan et al. 2017) from a text of [PAD] only. The
    scores of all words add up to the difference between the two answers. A classifier's answer is
    a label, and a masked language model's is a token for [MASK]. With --similar-to, it is the
    cosine similarity of two texts, for any model.
    """
    if output is not None:
        from kbert.tasks.attribution.attribution import ENDINGS

        check_new_file(output, ENDINGS)
    with open_checkpoint(source) as bert, progress("integrating"):
        attribution = kbert.attribute(bert, text, pair, **options)

    if is_page(output):
        write_attribution(bert, source, attribution, output)
    elif output is not None:
        with progress("drawing"):
            attribution.save(output)

    if form == "json":
        say_json(attribution.to_dict())
        return
    for word in attribution.words():
        click.echo(printable.cut(f"{word.score:+.4f}  {word.word}"))
    say(attribution.summary())
    if output is not None:
        say(f"wrote {output} ({output.stat().st_size:,} bytes)")
    exit_if_nan(attribution.to_dict())
