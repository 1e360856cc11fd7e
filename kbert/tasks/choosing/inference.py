"""Multiple choice: the probability of each choice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbert.checkpoints.bert import Bert
from kbert.graph import names
from kbert.io import printable
from kbert.tasks.choosing import join_start
from kbert.tasks.common.checks import check_text, listed, require_tokenizer, require_two_segments
from kbert.tasks.common.running import BATCH_SIZE, InferenceOptions, compute_logits, softmax


@dataclass(frozen=True)
class Choice:
    """A choice with its probability.

    Attributes:
        index: its index among the choices, from 0.
        text: the choice.
        probability: the model's probability, a softmax over the choices.
    """

    index: int
    text: str
    probability: float


@printable.escape_errors()
def choose(
    bert: Bert,
    prompt: str,
    choices: Sequence[str],
    *,
    start: str = "",
    batch_size: int = BATCH_SIZE,
    precision: str | None = None,
) -> list[Choice]:
    """Predict which of several choices, such as endings, fits a prompt.

    Args:
        bert: from `kbert.load`, with the head "choice".
        prompt: the first text.
        choices: the second texts, a list of two or more.
        start: how each second text begins, before the choice, as SWAG's sent2.
        batch_size, precision: as for `kbert.embed`.

    Returns:
        Each `Choice`, the most likely first.

    Raises:
        ValueError: fewer than two choices; a model with another head or a newly initialized one;
            something that is not text.
    """
    require_tokenizer(bert, "choose")
    texts, is_single = listed(choices, "choices")
    if is_single or len(texts) < 2:
        raise ValueError(f"choices must be a list of two texts or more, got {choices!r:.60}")
    check_text(prompt, "prompt")
    blank = [f"choices[{n}]" for n, text in enumerate(texts) if not text.strip()]
    if not prompt.strip():
        blank.append("prompt")
    if blank:
        raise ValueError(f"{blank[0]} must be a text, got only spaces or nothing")
    check_text(start, "start")
    require_two_segments(bert, "choose")

    prompts = [prompt] * len(texts)
    second_texts = join_start(start, texts)
    options = InferenceOptions(batch_size=batch_size, precision=precision, progress=False)
    logits = compute_logits(
        bert, "choose", "choice", names.CLASSIFIER, prompts, second_texts, options
    )
    probabilities = softmax(logits[:, 0])
    order = np.argsort(-probabilities, kind="stable")
    ranked = []
    for number in order:
        probability = float(probabilities[number])
        ranked.append(Choice(int(number), texts[number], probability))
    return ranked
