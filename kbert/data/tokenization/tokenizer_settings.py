"""transformers' settings of a tokenizer: tokenizer_config.json and similar files."""

from pathlib import Path

from kbert.data.tokenization.vocabulary import (
    FLAGS,
    SPECIAL_TOKENS,
    TRUNCATION_SIDES,
    special_token,
)
from kbert.io import json_schema as js
from kbert.io import setting_keys

_NAME = js.or_null(js.either(js.TEXT, js.fields({"content": js.TEXT}, FLAGS)))
_EXTRA = ("additional_special_tokens", "extra_special_tokens")
_CLEANING = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
_SEGMENTS = "token_type_ids"  # transformers' name of the segments
_NO_LIMIT = 1e9  # tokens; transformers writes 1e30 where a tokenizer has no limit
_LENGTH = js.or_null(js.either(js.whole(1), js.number(_NO_LIMIT, 1e31)))
# of special_tokens_map.json and tokenizer_config.json
_SETTINGS = js.fields(
    optional={f"{role}_token": _NAME for role in SPECIAL_TOKENS}
    | dict.fromkeys(_EXTRA, js.or_null(js.either(js.list_of(_NAME), js.mapping_of(_NAME))))
    | dict.fromkeys(_CLEANING, js.or_null(js.FLAG))
    | {
        "tokenizer_class": js.or_null(js.TEXT),
        "add_prefix_space": js.or_null(js.FLAG),
        "trim_offsets": js.or_null(js.FLAG),
        "model_max_length": _LENGTH,
        "max_len": _LENGTH,
        "truncation_side": js.or_null(js.one_of(*TRUNCATION_SIDES)),
        "model_input_names": js.or_null(js.list_of(js.TEXT)),
        "added_tokens_decoder": js.or_null(
            js.mapping_of(js.fields({"content": js.TEXT}, FLAGS), "tokens by id", keys="[0-9]{1,9}")
        ),
    }
)
_ADDED = js.mapping_of(js.whole(), "ids by token")  # of added_tokens.json
_CONFIG = js.fields(optional={"tokenizer_class": js.or_null(js.TEXT)})  # of config.json


def settings_next_to(path: Path, values: dict) -> tuple[dict, dict]:
    """Read transformers' files beside a vocabulary; `values` are those of a tokenizer.json.

    Return them under `Vocabulary`'s names, and the content of tokenizer_config.json. As in
    transformers, special_tokens_map.json and added_tokens.json count only where
    tokenizer_config.json has no added_tokens_decoder; the names of special_tokens_map.json then go
    before those of tokenizer_config.json.
    """
    config = _read_beside(path, "tokenizer_config.json", _SETTINGS)
    source = str(path.with_name("tokenizer_config.json"))
    setting_keys.check_settings("tokenizer_config.json", config, source)
    by_id = config.get("added_tokens_decoder")
    older = _read_beside(path, "special_tokens_map.json", _SETTINGS) if by_id is None else {}
    names, extra = _special_tokens(config, older)
    if by_id is None:
        ids = _read_beside(path, "added_tokens.json", _ADDED)
        added = [  # without flags; these are transformers'
            special_token(token)
            | {"id": token_id, "special": token in extra, "normalized": token not in extra}
            for token, token_id in ids.items()
        ]
    else:
        added = [entry | {"id": int(token_id)} for token_id, entry in by_id.items()]
    direction = (values.get("truncation") or {}).get("direction") or "Right"
    length = config.get("model_max_length") or config.get("max_len") or _NO_LIMIT
    class_name = config.get("tokenizer_class")
    inputs = config.get("model_input_names") or [_SEGMENTS]
    settings = {
        "special_tokens": names,
        "added": (
            *added,
            *(entry for token, entry in extra.items() if token not in names.values()),
        ),
        "max_length": length if length < _NO_LIMIT else None,
        "truncation_side": config.get("truncation_side") or direction.lower(),
        "segments": _SEGMENTS in inputs,
        "tokenizer_class": class_name
        or _read_beside(path, "config.json", _CONFIG).get("tokenizer_class"),
    }
    for key in _CLEANING:
        if config.get(key) is not None or (key == "strip_accents" and key in config):
            settings["lowercase" if key == "do_lower_case" else key] = config[key]
    return settings, config


def _special_tokens(config: dict, older: dict) -> tuple[dict[str, str], dict[str, dict]]:
    """Return the special tokens' names by role, and the entries of all by their text.

    `older` is the content of special_tokens_map.json, whose names go before those of `config`.
    """
    candidates = [(key, v) for key, v in (config | older).items() if key.endswith("_token")]
    for values in (config, older):
        more = values.get("extra_special_tokens") or values.get("additional_special_tokens") or ()
        candidates += more.items() if isinstance(more, dict) else [("", token) for token in more]
    names: dict[str, str] = {}
    extra: dict[str, dict] = {}
    for key, value in candidates:
        entry = value if isinstance(value, dict) else {"content": value}
        token, role = entry.get("content"), key.removesuffix("_token")
        if isinstance(token, str):
            flags = {flag: entry[flag] for flag in FLAGS if flag in entry}
            extra[token] = special_token(token) | flags | {"special": True}
            names |= {role: token} if role in SPECIAL_TOKENS else {}
    return names, extra


def _read_beside(path: Path, name: str, kind: js.Kind) -> dict:
    file = path.with_name(name)
    return js.read(file, kind) if file.is_file() else {}
