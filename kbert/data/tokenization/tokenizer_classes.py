"""transformers' tokenizer classes, and which of a tokenizer's files counts for each.

A folder may have tokenizer.json and tokenizer_config.json, and they may differ. transformers 5
decides by the class: BertTokenizer takes only the tokens of tokenizer.json, and its rules from
tokenizer_config.json; PreTrainedTokenizerFast takes tokenizer.json as it is.
"""

from pathlib import Path

from kbert.io import json_schema as js
from kbert.io import printable

# Classes that are BertTokenizer. Of a tokenizer.json they take the tokens; they make the normalizer
# and the template themselves.
_BERTS = ("Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "LayoutLM", "Lxmert")
_BY_BERTS_RULES = (*_BERTS, "ConvBert")  # that read vocab.txt so; others (MeCab's) cut words first
# Classes of WordPiece with rules of their own. Every other class, PreTrainedTokenizerFast and names
# that transformers does not know among them, takes tokenizer.json as it is.
_OTHER_RULES = (
    "BertJapanese",
    "DPRReader",
    "Funnel",
    "Herbert",
    "LayoutLMv2",
    "MPNet",
    "ProphetNet",
    "Roberta",
    "RoCBert",
    "RoFormer",
    "Splinter",
    "Tapas",
    "XLMRoberta",
    "Camembert",
)
# transformers' class where no file names one (tokenization_auto.py, TOKENIZER_MAPPING_NAMES)
_CLASSES_OF_TYPES = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "data2vec-text": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "camembert": "CamembertTokenizer",
}
_CONFIG = js.fields(  # of config.json
    optional={"tokenizer_class": js.or_null(js.TEXT), "model_type": js.or_null(js.TEXT)}
)
SEGMENTS = "token_type_ids"  # transformers' name of the segments


def find_class(path: Path, config: dict) -> tuple[str | None, str | None]:
    """Return the class that the files name, and the one that transformers' AutoTokenizer takes.

    None: the files name none, and there is no config.json of a known model_type either.
    """
    file = path.with_name("config.json")
    values = js.read(file, _CONFIG) if file.is_file() else {}
    named = config.get("tokenizer_class") or values.get("tokenizer_class")
    model_type = values.get("model_type") or ""
    return named, named or _CLASSES_OF_TYPES.get(model_type)


def check_vocabulary_class(class_name: str | None, path: Path) -> None:
    """Raise a ValueError if a class does not read a vocab.txt by BERT's rules."""
    if class_name is not None and _kind_of(class_name) not in _BY_BERTS_RULES:
        raise ValueError(
            f"{path}: its tokenizer must be BertTokenizer, got {printable.line(class_name)}"
        )


def follow_class(
    class_name: str | None, arguments: dict, settings: dict, config: dict, path: Path
) -> None:
    """Remove what does not count: of `arguments`, a tokenizer.json's, or of `settings`.

    `settings` are those of `config`, the content of tokenizer_config.json.
    """
    kind = class_name and _kind_of(class_name)
    if kind in _OTHER_RULES:
        raise ValueError(
            f"{path}: its tokenizer must be BertTokenizer, or PreTrainedTokenizerFast, which "
            f"takes the file as it is, got {printable.line(class_name)}"
        )
    if kind in _BERTS:
        _make_anew(arguments, config)
    else:
        _take_as_it_is(arguments, settings)
    if class_name is None:
        return

    if kind not in _BERTS and arguments["frame"] is None:
        raise ValueError(
            f"{path} must have a post_processor that puts [CLS] and [SEP] around a text, got none, "
            f"and {class_name} adds none"
        )
    has_segments_by_default = kind in (*_BERTS, "ConvBert") and kind != "DistilBert"
    if not has_segments_by_default:
        settings["segments"] = SEGMENTS in (config.get("model_input_names") or ())


def _kind_of(class_name: str) -> str:
    """Return a class's name without its endings: "Bert" of "BertTokenizerFast"."""
    return class_name.removesuffix("Fast").removesuffix("Tokenizer")


def _make_anew(arguments: dict, config: dict) -> None:
    """Keep a tokenizer.json's tokens; the rules are tokenizer_config.json's or the defaults."""
    for rule in ("strip_accents", "tokenize_chinese_chars", "max_word_chars"):
        del arguments[rule]
    # Where tokenizer_config.json says nothing, the class lowercases, even what the file says is
    # cased: then the caller must choose.
    arguments["lowercase"] = arguments["lowercase"] or None
    arguments["special_tokens"] = {}
    arguments["frame"] = None
    if config.get("added_tokens_decoder") is not None:
        arguments["added"] = ()


def _take_as_it_is(arguments: dict, settings: dict) -> None:
    """Keep a tokenizer.json's rules, and the name of its unknown token."""
    for rule in ("lowercase", "strip_accents", "tokenize_chinese_chars"):
        settings.pop(rule, None)
    if "unk" in arguments["special_tokens"]:
        settings["special_tokens"].pop("unk", None)
