"""Strict YAML for settings files: plain scalars mean what they look like.

YAML 1.1 reads `no` and `on` as booleans, `1e-5` as text, `1:30` as 90 and `2024-01-01` as a date.
Here only `true` and `false` are booleans, `1e-5` is a number, and the others are texts. Keys are
texts. What `dump` writes, `yaml.safe_load` reads too, to the same values.
"""

import json
import re
from typing import Any, ClassVar

import yaml

DEEPEST = 16  # levels; the configuration of a Keras optimizer with a schedule has five
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
)
_PLAIN = {  # what a scalar without quotes is, and its first characters
    "null": (re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"true|True|TRUE|false|False|FALSE"), list("tTfF")),
    "int": (re.compile(r"[-+]?(?:0|[1-9][0-9_]*)"), list("-+0123456789")),
    "float": (_FLOAT, list("-+.0123456789")),
}
_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """A loader without references, tags, dates and duplicate keys."""

    yaml_implicit_resolvers: ClassVar[dict] = {}
    _depth = 0

    def compose_node(self, parent, index):
        event = self.peek_event()
        self._depth += 1
        problem = ""
        if isinstance(event, yaml.AliasEvent) or event.tag is not None:
            problem = "references (*name) and tags (!name) are not read: leave them out"
        elif self._depth > DEEPEST:
            problem = f"expected at most {DEEPEST} levels, got more"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)

        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes a text if `_Loader` or `yaml.safe_load` would read something else."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    """Return a mapping with texts as keys; raise for a key that stands twice."""
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = key_node.value
        problem = ""
        if not isinstance(key_node, yaml.ScalarNode):
            problem = "a key must be a text"
        elif key in values:
            problem = f"the key {key!r:.60} stands twice"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
        values[key] = loader.construct_object(value_node, deep=True)
    return values


def _represent_list(dumper: _Dumper, values: list) -> yaml.SequenceNode:
    """Write a list on one line."""
    return dumper.represent_sequence(f"{_TAG}seq", values, flow_style=True)


for _name, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern.pattern})$"), _first)
_Dumper.add_implicit_resolver(
    f"{_TAG}float", re.compile(f"(?:{_FLOAT.pattern})$"), _PLAIN["float"][1]
)
_Loader.add_constructor(f"{_TAG}map", _construct_mapping)
_Dumper.add_representer(list, _represent_list)


def parse(text: str, source: str) -> Any:
    """Return the value of a document; a ValueError has the source and the line of a mistake."""
    try:
        return yaml.load(text, _Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context
        line = f", line {mark.line + 1}" if mark else ""
        raise ValueError(f"{source}{line}: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # of a character, of a long number
        raise ValueError(f"{source} must be YAML, got: {error}") from None


def dump(values: dict) -> str:
    """Return a mapping as YAML, one line per key where a line has room for the value."""
    # PyYAML writes this line end as it is, and reads another one
    has_line_end = "\x85" in json.dumps(values, ensure_ascii=False)
    options: dict = {"width": 1000, "sort_keys": False, "allow_unicode": not has_line_end}
    return yaml.dump(values, Dumper=_Dumper, **options)
