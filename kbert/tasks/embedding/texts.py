"""Prepare texts for the tokenizer: the prompt, and do_lower_case."""

from collections.abc import Sequence

from kbert.checkpoints.sentence_settings import SentenceSettings, lowercase_text
from kbert.data.tokenization.tokenizer import Tokenizer


def choose_prompt(settings: SentenceSettings, prompt_name: str | None, prompt: str | None) -> str:
    """Return the prompt itself, the one of a name, or the checkpoint's default; not both."""
    if prompt is not None and prompt_name is not None:
        raise ValueError("prompt must be left out where prompt_name is given, got both")
    if prompt is not None and not isinstance(prompt, str):
        raise ValueError(f"prompt must be a str, got {type(prompt).__name__}")

    if prompt is not None:
        return prompt
    if prompt_name is not None:
        return settings.prompt(prompt_name)
    return settings.default_prompt


def prepare_texts(
    tokenizer: Tokenizer, settings: SentenceSettings, texts: Sequence[str], prompt: str
) -> list[str]:
    """Return texts as the tokenizer gets them: behind the prompt, lowercased where that is set."""
    prepared = [prompt + text for text in texts]
    if settings.lowercase and not tokenizer.lowercase:
        special = tokenizer.vocabulary.special_tokens.values()
        return [lowercase_text(text, special) for text in prepared]
    return prepared


def count_prompt_tokens(tokenizer: Tokenizer, settings: SentenceSettings, prompt: str) -> int:
    """Return how many tokens at a text's beginning are not pooled, [CLS] among them."""
    if settings.include_prompt or not prompt:
        return 0
    (text,) = prepare_texts(tokenizer, settings, [""], prompt)
    return len(tokenizer.encode(text)) - 1
