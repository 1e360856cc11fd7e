"""Code that uses a run's model, for its page: in Python and on the command line."""

import ast
import json
import shlex
from html import escape

from kbert.checkpoints.bert import Bert
from kbert.hub.model_card import choose_use


def write_usage(bert: Bert, folder: str, pairs: bool) -> str:
    """Return the section: code to run in the folder that contains the run's `folder`."""
    use = choose_use(bert, pairs)
    inputs = use.inputs.format(mask=_name_mask(bert))
    python = (
        f"import kbert\n\nbert = kbert.load({json.dumps(folder, ensure_ascii=False)})\n"
        f"print(kbert.{use.function}(bert, {inputs}))"
    )
    path = f"./{folder}" if folder.startswith("-") else folder
    command = ["kbert", use.function.replace("_", "-"), path]
    if pairs:
        command.append("--pairs")
    command += _list_arguments(inputs)
    shell = shlex.join(command)
    return (
        "<h2>Use the model</h2><p class=small>Run this in the folder that contains "
        f"{escape(folder)}.</p><div class=codes>{_write_code('Python', python)}"
        f"{_write_code('Command line', shell)}</div>"
    )


def _name_mask(bert: Bert) -> str:
    return "<mask>" if bert.config.family.first_position is not None else "[MASK]"


def _list_arguments(inputs: str) -> list[str]:
    """Return arguments in Python as those of a command; a list is several."""
    arguments: list[str] = []
    for value in ast.literal_eval(f"({inputs},)"):
        arguments += value if isinstance(value, list) else [value]
    return arguments


def _write_code(title: str, code: str) -> str:
    return (
        f'<figure class="code"><figcaption>{title}<button type="button" hidden data-copy>Copy'
        f"</button></figcaption><pre><code>{escape(code)}</code></pre></figure>"
    )
