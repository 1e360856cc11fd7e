"""Losses and metrics of the user: Keras objects, which a run keeps, and functions, which it names.

A Keras object is kept as its serialized JSON. A function cannot be kept: the run records its name,
and a resumed run must be given the same function again.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FUNCTION = "function"  # the key of a function's name in settings.json
_LOGITS_WAY = "the model's outputs are logits, not probabilities"
_PLAIN = (bool, int, float, str, tuple, dict, type(None))


class RefusedError(ValueError):
    """A value that is refused for a reason that the rule's text does not say."""


@dataclass(frozen=True)
class UserFunction:
    """A function of the user.

    Attributes:
        function: its module and name, by which a resumed run knows it.
        call: the function; None after it was read from a run's settings.
    """

    function: str
    call: Callable | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The function's own name, which is its metric's too."""
        return self.function.rpartition(".")[2]

    @classmethod
    def from_callable(cls, function: Callable) -> "UserFunction":
        """Return a function with its name; refuse one without a name of its own."""
        name = getattr(function, "__qualname__", None)
        if not name or name.endswith("<lambda>"):
            raise RefusedError(
                f"a function must have a name, by which a resumed run knows it, got {function!r}: "
                "write it with def"
            )
        if _expects_probabilities(function):
            raise RefusedError(f"{name} has from_logits=False: {_LOGITS_WAY}")
        return cls(f"{_name_module(function)}.{name}", function)

    def as_json(self) -> dict[str, str]:
        """Return what settings.json has of it."""
        return {_FUNCTION: self.function}


def read_object(value, kind: type, module: str) -> UserFunction | dict:
    """Return a function with its name, or the JSON of a Keras object of a class.

    What settings.json has is read too. A value of another type raises a TypeError, and one that
    cannot be used a RefusedError.
    """
    if isinstance(value, UserFunction):
        return value
    if isinstance(value, Mapping) and set(value) == {_FUNCTION}:
        return UserFunction(str(value[_FUNCTION]))
    if inspect.isroutine(value):
        return UserFunction.from_callable(value)

    json = serialize(value, kind, module)
    if _has_probabilities(json):
        raise RefusedError(
            f"{json['class_name']} has from_logits=False: {_LOGITS_WAY}: give from_logits=True"
        )
    return json | {"config": _name_as_first(json)}


def _has_probabilities(json: Mapping[str, Any]) -> bool:
    """Return whether a Keras object, or the function that it wraps, expects probabilities."""
    config = json["config"]
    if config.get("from_logits") is not None:
        return config["from_logits"] is False
    if "fn" not in config:
        return False
    return _expects_probabilities(deserialize(config["fn"]))


def _name_as_first(json: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Keras object's configuration with the name of the first one of its class.

    Keras numbers objects without a name, "auc", "auc_1" and so on, over the whole process. A run
    that is resumed there would have another one.
    """
    config = dict(json["config"])
    class_name = json["class_name"]
    snake = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", class_name)
    snake = re.sub(r"([a-z])([A-Z])", r"\1_\2", snake).lower()
    name = str(config.get("name"))
    if re.fullmatch(rf"{re.escape(snake)}_\d+", name):
        config["name"] = snake
    return config


def require_object(value) -> None:
    """Raise a TypeError for what is no object, class, function or JSON of one, before Keras starts.

    Keras takes seconds to start, and a mistake on the command line is said at once.
    """
    if isinstance(value, Mapping) and ("class_name" in value or set(value) == {_FUNCTION}):
        return
    if hasattr(value, "get_config") or isinstance(value, (type, UserFunction)):
        return
    if not inspect.isroutine(value):
        raise TypeError


def serialize(value, kind: type, module: str, arguments: str = "") -> dict:
    """Return the JSON of a Keras object of a class, or such JSON; see `read_object`.

    JSON that somebody has written may lack "config", and "module", which is then `module`.
    `arguments` stand in the call that an error names.
    """
    import keras

    if isinstance(value, type) and issubclass(value, kind):
        raise RefusedError(f"{value.__name__} is a class: call it, {value.__name__}({arguments})")

    json = value
    if isinstance(value, kind):
        try:
            json = keras.saving.serialize_keras_object(value)
        except NotImplementedError:
            raise _make_refusal(type(value).__name__) from None
    if not isinstance(json, dict) or "class_name" not in json:
        raise TypeError
    json = {"module": module, "config": {}} | json
    if not isinstance(json["config"], dict):
        raise TypeError

    rebuilt = deserialize(json)
    if not isinstance(rebuilt, kind):
        raise TypeError
    if isinstance(value, kind) and not _has_equal_settings(value, rebuilt):
        raise RefusedError(
            f"{json['class_name']} does not keep all its arguments in its configuration: write a "
            "function, or a subclass with get_config"
        )
    return json


def deserialize(json: Mapping[str, Any]) -> Any:
    """Return the Keras object of its JSON."""
    import keras

    try:
        return keras.saving.deserialize_keras_object(dict(json))
    except (AttributeError, TypeError):
        raise _make_refusal(json["class_name"]) from None


def _make_refusal(class_name: str) -> RefusedError:
    return RefusedError(
        f"{class_name} must be registered by keras.saving.register_keras_serializable, and take "
        "its configuration"
    )


def name_object(value) -> str:
    """Return the short name of a kept function or Keras object, or of a loss by name."""
    if isinstance(value, UserFunction):
        return value.name
    if isinstance(value, Mapping):
        name = value.get("config", {}).get("name")
        return str(name or value["class_name"])
    return str(value)


def name_missing_functions(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of `kbert.resume` for functions in settings, as they are written.

    `settings` are as in settings.json, or read from there. Functions that are given are left out.
    """
    arguments = {}
    for name, setting in settings.items():
        is_list = isinstance(setting, (list, tuple))
        values = list(setting) if is_list else [setting]
        if not any(_is_missing(value) for value in values):
            continue
        written = ", ".join(_write_object(value) for value in values)
        arguments[name] = f"[{written}]" if is_list else written
    return arguments


def write_resume_call(
    folder, settings: Mapping[str, Any], in_memory: Sequence[str] = ()
) -> str | None:
    """Return the call in Python that resumes a run with functions, or with data in memory.

    `in_memory` are the arguments of data and models that were no files. None: there is neither.
    """
    arguments = dict.fromkeys(in_memory, "…") | name_missing_functions(settings)
    if not arguments:
        return None
    listed = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"kbert.resume({str(folder)!r}, {listed})"


def refuse_missing_functions(
    folder, settings: Mapping[str, Any], in_memory: Sequence[str] = ()
) -> None:
    """Raise a ValueError if a resumed run was not given a function that it began with.

    `in_memory` are as in `write_resume_call`.
    """
    if name_missing_functions(settings):
        call = write_resume_call(folder, settings, in_memory)
        raise ValueError(
            f"{folder} was started with functions of yours, which must be given again, in Python: "
            f"{call}"
        )


def _is_missing(value) -> bool:
    if isinstance(value, UserFunction):
        return value.call is None
    return isinstance(value, Mapping) and set(value) == {_FUNCTION}


def _write_object(value) -> str:
    """Return a function's or an object's name in a call."""
    if isinstance(value, Mapping) and _FUNCTION in value:
        value = UserFunction(value[_FUNCTION])
    if isinstance(value, UserFunction):
        return value.name
    module, name = value.get("module"), value["class_name"]
    if not module:  # a class of the user
        return f"{name}(…)"
    return f"{module}.{name}(…)"


def _name_module(function: Callable) -> str:
    """Return a function's module: that of a script is named as `import` would name it."""
    module = str(function.__module__)
    if module != "__main__":
        return module
    main: Any = sys.modules[module]
    spec = getattr(main, "__spec__", None)
    if spec:
        return spec.name
    file = Path(getattr(main, "__file__", None) or "")
    return file.stem if file.suffix == ".py" else module


def _expects_probabilities(function: Callable) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in
        return False
    return "from_logits" in parameters and parameters["from_logits"].default is False


def _has_equal_settings(value, rebuilt) -> bool:
    """Return whether an object made from a configuration has the same plain attributes."""
    rebuilt_settings = vars(rebuilt)
    for name, setting in vars(value).items():
        if isinstance(setting, _PLAIN) and repr(rebuilt_settings.get(name)) != repr(setting):
            return False
    return True


def describe_error(error: Exception) -> str:
    """Return an error of a function of the user in one line."""
    kind = type(error).__name__
    lines = str(error).strip().splitlines()
    return f"{kind}: {lines[0][:200]}" if lines else kind
