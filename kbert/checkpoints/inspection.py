"""Inspect a checkpoint without reading its weights: format, configuration, tensors, totals."""

import math
import os
import re
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kbert.checkpoints import fitting, formats, weight_names
from kbert.checkpoints.checkpoint import Checkpoint
from kbert.checkpoints.sentence_settings import SentenceSettings
from kbert.graph.aliases import answer_old_names
from kbert.graph.config import BertConfig
from kbert.io import printable, setting_keys
from kbert.io.interrupted_saves import open_whole
from kbert.io.wording import first_few

# safetensors' names of dtypes
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
BESIDE = "beside BERT"  # the part of tensors that the table of names does not have


@dataclass(frozen=True)
class InspectedTensor:
    """A tensor of a checkpoint.

    Attributes:
        name: its name in the format's table.
        shape: its shape in the file.
        dtype: its dtype in the file.
        part: the part of the model that it belongs to.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    part: str


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect`.

    Attributes:
        source: the path or the model's name.
        format: "transformers", "google", "keras_bert", "keras" or "keras_hub".
        architecture: the transformers class, if the checkpoint names one.
        head: the head of the graph that `load` builds.
        config: the `BertConfig`.
        tensors: the weights, in the order of the table of names.
        left_out: names of tensors that are not weights: optimizer states, buffers, copies.
        vocab_size: number of tokens in the vocabulary; None without a vocabulary.
        lowercase: whether texts are lowercased; None without a vocabulary, or if no file says.
        sentence: the settings for sentence embeddings, if the checkpoint has them.
        problems: mismatches with the configuration, one line each.
        ignored: keys in the checkpoint's JSON files that kbert ignores, one line per file.
        notes: remarks on how the file was read, if there is something to remark.
        sentence_problem: why kbert cannot compute the checkpoint's sentence embeddings; None if it
            can.
        files: names of the files with the weights.
        other_files: names of other files of weights in the same folder, which `load` does not read.
    """

    source: str
    format: str
    architecture: str | None
    head: str
    config: BertConfig
    tensors: tuple[InspectedTensor, ...]
    left_out: tuple[str, ...]
    vocab_size: int | None
    lowercase: bool | None
    sentence: SentenceSettings | None
    problems: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sentence_problem: str | None = None
    files: tuple[str, ...] = ()
    other_files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        fits = f"{len(self.problems)} problems" if self.problems else "fits"
        vocabulary = "no vocabulary" if self.vocab_size is None else f"{self.vocab_size:,} tokens"
        return (
            f"Inspection({os.path.basename(self.source)[-80:]!r}: {self.format}, {self.head}, "
            f"{len(self.tensors)} tensors, {self.params:,} parameters, {self.bytes:,} bytes, "
            f"{vocabulary}, {fits})"
        )

    @property
    def params(self) -> int:
        """Total number of parameters."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def bytes(self) -> int:
        """Size of the stored weights, in bytes."""
        total = 0
        for tensor in self.tensors:
            total += math.prod(tensor.shape) * _bytes_of(tensor.dtype)
        return total


@printable.escape_errors()
@answer_old_names
def inspect(
    source: str | os.PathLike,
    *,
    config: BertConfig | None = None,
    format: str | None = None,
    ignore: Collection[str] = (),
) -> Inspection:
    """Inspect a checkpoint of any format that `kbert.load` reads, without reading its weights.

    Args:
        source: the name of a model, a folder or a file.
        config: the configuration, for files that have none.
        format: the format to read if a folder holds several: "transformers", "google",
            "keras_bert", "keras" or "keras_hub".
        ignore: names or patterns of tensors that are no problem, as for `kbert.load`.

    Returns:
        An `Inspection`.

    Raises:
        FileNotFoundError, ValueError: as for `kbert.load`. Weights that do not fit the
            configuration are no error here: they are in the result's `problems`.
    """
    if config is not None and not isinstance(config, BertConfig):
        raise ValueError(f"config must be a BertConfig, got {config!r}: see kbert.get_config")
    with formats.open_checkpoint(source, config, format) as checkpoint:
        checkpoint, vocab_size, lowercase = _read_vocabulary(checkpoint)
        spec = checkpoint.spec
        ignored: tuple[str, ...] = ()
        if checkpoint.format in ("transformers", "google"):
            with open_whole(checkpoint.vocabulary or formats.locate(source)) as whole:
                ignored = setting_keys.list_ignored_keys(whole)
        fit = fitting.fit(checkpoint, spec, ignore=ignore, tokens=vocab_size)

        return Inspection(
            source=checkpoint.source,
            format=checkpoint.format,
            architecture=checkpoint.architecture,
            head=spec.head,
            config=spec.config,
            tensors=_list_tensors(checkpoint),
            left_out=checkpoint.left_out,
            vocab_size=vocab_size,
            lowercase=lowercase,
            sentence=checkpoint.sentence,
            problems=tuple(fit.problems),
            ignored=ignored,
            notes=checkpoint.notes,
            sentence_problem=checkpoint.sentence_problem,
            files=checkpoint.files,
            other_files=checkpoint.other_files,
        )


def inspection_text(inspection: Inspection, every_tensor: bool = False) -> str:
    """Format an inspection as text, 80 columns wide except for long names."""
    lines = [inspection.source, *_facts(inspection), ""]
    lines += _summarize_tensors(inspection)
    for note in inspection.notes:
        lines += textwrap.wrap(f"  note: {note}", 80, subsequent_indent=" " * 8)
    for keys in inspection.ignored:
        lines += textwrap.wrap(f"  ignored: {keys}", 80, subsequent_indent=" " * 11)

    if every_tensor:
        lines.append("")
        lines += _describe_tensors(inspection.tensors)

    lines.append("")
    if inspection.problems:
        count = len(inspection.problems)
        lines.append(f"  {count} problem{'s' if count > 1 else ''}:")
        lines += [f"    {problem}" for problem in inspection.problems]
    else:
        lines.append("  Every tensor is there, in the shape that the configuration says.")
    return "".join([f"{printable.line(line)}\n" for line in lines])


def _summarize_tensors(inspection: Inspection) -> list[str]:
    """Return a table with a row per part, and a line on the tensors that are no weights."""
    lines = [f"  {'part':<12}{'tensors':>9}{'parameters':>15}  dtype"]
    for part in dict.fromkeys(tensor.part for tensor in inspection.tensors):
        tensors = [tensor for tensor in inspection.tensors if tensor.part == part]
        lines.append(_row(part, tensors))
    lines.append(_row("total", inspection.tensors) + f", {inspection.bytes:,} bytes")

    if inspection.left_out:
        endings = [re.split(r"[/.]", name)[-1] for name in inspection.left_out]
        kinds = set(endings)
        count = len(inspection.left_out)
        are = "tensor is no weight" if count == 1 else "tensors are no weights"
        lines.append(f"  {count} {are} of BERT: {', '.join(sorted(kinds))}")
    return lines


def _describe_tensors(tensors: Sequence[InspectedTensor]) -> list[str]:
    """Return a line per tensor: name, shape and dtype."""
    names = [printable.line(tensor.name) for tensor in tensors]
    lengths = [len(name) for name in names]
    width = max(lengths, default=0)
    lines = []
    for name, tensor in zip(names, tensors, strict=True):
        sizes = [str(size) for size in tensor.shape]
        shape = " × ".join(sizes)
        lines.append(f"  {name:<{width}}  {shape}  {tensor.dtype}")
    return lines


def _facts(inspection: Inspection) -> list[str]:
    config = inspection.config
    architecture = f", {inspection.architecture}" if inspection.architecture else ""
    facts = {
        "format": inspection.format + architecture,
        "weights": first_few(inspection.files, 3),
    }
    if inspection.other_files:
        facts["not read"] = first_few(inspection.other_files, 3)
    facts |= {
        "head": inspection.head,
        "sizes": f"{config.num_hidden_layers} blocks of width {config.hidden_size:,}, "
        f"{config.num_attention_heads} heads, feed-forward {config.intermediate_size:,}",
        "": f"{config.vocab_size:,} tokens, {config.max_position_embeddings:,} positions, "
        f"{config.type_vocab_size} segments",
        "activation": f"{config.hidden_act}, epsilon {config.layer_norm_eps:g}",
        "vocabulary": _vocabulary_text(inspection),
    }
    if inspection.sentence:
        facts["sentence"] = _sentence_text(inspection.sentence)
    elif inspection.sentence_problem:
        facts["sentence"] = f"not computed: {inspection.sentence_problem}"
    return [f"  {name:<12}{value}" for name, value in facts.items()]


def _vocabulary_text(inspection: Inspection) -> str:
    if inspection.vocab_size is None:
        return "none"
    casing = "uncased" if inspection.lowercase else "cased"
    if inspection.lowercase is None:
        casing = "casing unknown (say --uncased or --cased)"
    text = f"{inspection.vocab_size:,} tokens, {casing}"
    left = inspection.config.vocab_size - inspection.vocab_size
    return f"{text}; {left:,} rows of the embedding have no token" if left > 0 else text


def _sentence_text(sentence: SentenceSettings) -> str:
    facts = [" and ".join(sentence.poolings)]
    for layer in sentence.dense:
        inputs, outputs = layer.shape
        facts.append(f"dense {inputs} to {outputs} {layer.activation}")

    names = [name for name, prompt in sentence.prompts.items() if prompt]
    optional = {
        "normalized": sentence.normalize,
        "lowercased": sentence.lowercase,
        f"{sentence.dimensions} dimensions": sentence.dimensions,
        f"cut to {sentence.max_length} tokens": sentence.max_length,
        f"compared by {sentence.similarity}": sentence.similarity != "cosine",
        f"prompts {', '.join(names)}": names,
        f"by default {sentence.default_prompt_name}": sentence.default_prompt,
    }
    facts += [fact for fact, is_there in optional.items() if is_there]
    return ", ".join(facts)


def _row(part: str, tensors: Sequence[InspectedTensor]) -> str:
    params = sum(math.prod(tensor.shape) for tensor in tensors)
    dtypes = dict.fromkeys(tensor.dtype for tensor in tensors)
    listed = ", ".join(dtypes)
    return f"  {part:<12}{len(tensors):>9,}{params:>15,}  {listed}"


def _list_tensors(checkpoint: Checkpoint) -> tuple[InspectedTensor, ...]:
    """Return the tensors with their parts, of the head's where two have one name."""
    spec = checkpoint.spec
    head_groups = weight_names.parts_of(spec.head, spec.config)
    parts: dict[str, str] = {}
    for row in weight_names.templates_of(weight_names.PARTS, spec.config):
        name = row.names.get(checkpoint.column, "")
        if name not in checkpoint.tensors:
            continue
        if name not in parts or row.part in head_groups:
            parts[name] = row.part
    for name in checkpoint.tensors:
        parts.setdefault(name, BESIDE)

    tensors = []
    for name, part in parts.items():
        tensor = checkpoint.tensors[name]
        shape = tuple(tensor.shape)
        dtype = str(tensor.dtype)
        dtype = _DTYPES.get(dtype, dtype)
        tensors.append(InspectedTensor(name, shape, dtype, part))
    return tuple(tensors)


def _read_vocabulary(checkpoint: Checkpoint) -> tuple[Checkpoint, int | None, bool | None]:
    """Return the checkpoint with its vocabulary's padding id, the vocabulary's size and casing."""
    if checkpoint.vocabulary is None:
        return checkpoint, None, None
    from kbert.data.tokenization.tokenizer_files import UnknownCasing, read_vocabulary

    rules = dict(checkpoint.rules)
    is_known = True
    try:
        vocabulary = read_vocabulary(checkpoint.vocabulary, **rules)
    except UnknownCasing:
        is_known = False
        rules["lowercase"] = True
        vocabulary = read_vocabulary(checkpoint.vocabulary, **rules)
    tokens = vocabulary.all_tokens
    padded = checkpoint.replace_pad_id(tokens.index(vocabulary.special_tokens["pad"]))
    return padded, len(tokens), vocabulary.lowercase if is_known else None


def _bytes_of(dtype: str) -> int:
    bits = re.search(r"\d+$", dtype)
    return int(bits[0]) // 8 if bits else 1
