"""Prepare texts for the tokenizer: the prompt, and do_lower_case."""

from collections.abc import Sequence

from kbert.checkpoints.sentence_settings import SentenceSettings, lowercase_text
from kbert.data.tokenization.tokenizer import Tokenizer


def choose_prompt(settings: SentenceSettings, prompt_name: str | None, prompt: str | None) -> str:
    """Return the prompt itself, the one of a name, or the checkpoint's default; not both."""
    if prompt is not None and prompt_name is not None:
        raise ValueError("prompt must be left out where prompt_name is given, got both")
    if prompt is not None:
        if not isinstance(prompt, str):
            raise ValueError(f"prompt must be a str, got {type(prompt).__name__}")
        return prompt
    return settings.default_prompt if prompt_name is None else settings.prompt(prompt_name)


def prepare_texts(
    tokenizer: Tokenizer, settings: SentenceSettings, texts: Sequence[str], prompt: str
) -> list[str]:
    """Return texts as the tokenizer gets them: behind the prompt, lowercased where that is set."""
    if settings.lowercase and not tokenizer.lowercase:
        special = tokenizer.vocabulary.special_tokens.values()
        return [lowercase_text(prompt + text, special) for text in texts]
    return [prompt + text for text in texts] if prompt else list(texts)


def count_prompt_tokens(tokenizer: Tokenizer, settings: SentenceSettings, prompt: str) -> int:
    """Return how many tokens at a text's beginning are not pooled, [CLS] among them."""
    if settings.include_prompt or not prompt:
        return 0
    return len(tokenizer.encode(*prepare_texts(tokenizer, settings, [""], prompt))) - 1
