"""A head: everything that graph, builder, checkpoints and tasks must know of it."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """The parts of a head in the graph of one family of models.

    Attributes:
        graph: its name in the column `graphs` of `kbert/graph/layers.tsv`, its closed form.
        parts: parts of `kbert/checkpoints/names.tsv` with its weights, in every format.
        outputs: names of its output layers; (): the encoder's outputs.
    """

    graph: str
    parts: tuple[str, ...]
    outputs: tuple[str, ...] = ()


class Use(NamedTuple):
    """How to use a model, for its card.

    Attributes:
        tag: Hugging Face's name of the task.
        title: the same in words.
        function: kbert's function.
        auto_class: transformers' class.
        inputs: example arguments.
        peer: transformers' example; INPUTS stands for these.
    """

    tag: str
    title: str
    function: str
    auto_class: str
    inputs: str
    peer: str = 'print(model(**tokenizer(INPUTS, return_tensors="pt")))'


@dataclass(frozen=True, kw_only=True)
class Head:
    """A head of the graph.

    Attributes:
        name: its name in kbert.
        title: what it computes.
        aliases: further names that users may give it, in lower case with hyphens.
        task: the task of fine-tuning that has the same aliases; None: none, or several.
        variant: returns its `Variant` for a `kbert.graph.families.Family`.
        build_outputs: "module:function" that builds its outputs, imported when it is called.
        model_name: the name of the built Keras model, by which `find_head` knows heads with the
            same layers apart.
        public_builder: kbert's public function that builds a graph with it alone; None:
            `build_bert` does, given its name.
        layers: its layers, which have its weights; the one with an output per label is the last.
        has_labels: whether `num_labels` sets its number of outputs.
        num_outputs: width of the layer that computes its outputs, if it has no labels.
        families: the model types that have it; (): all.
        loss: the name of its outputs' loss in `kbert.training.losses.table`, unless a task has one.
        reads: the positions that it reads: "first", "predicted" (with the first) or "all".
        packs: whether a row of its graph can hold several texts.
        classes: endings of transformers' classes ("ForTokenClassification"), the default one
            first, and the parts of the variant that each has; None: all.
        peft: PEFT's name of the task; None: there is none.
        keras_hub: KerasHub's classes for it, the current one first.
        hint: what to do with a checkpoint without this head, for error messages.
        use: how to use a model with it.
        uses: the same for some problem types of transformers' config.json.
        text_answers: "module:function" of a model's answers to texts within a SavedModel, see
            `kbert.exports.text_answers`; None: it gives none there.
        predicts_tokens: whether it predicts the tokens at some positions.
        classifies_texts: whether it has labels, of a whole text or pair.
    """

    name: str
    title: str
    variant: Callable[[Any], Variant]
    build_outputs: str
    model_name: str
    use: Use
    hint: str
    classes: Mapping[str, tuple[str, ...] | None]
    aliases: tuple[str, ...] = ()
    task: str | None = None
    public_builder: str | None = None
    layers: tuple[str, ...] = ()
    has_labels: bool = False
    num_outputs: int = 2
    families: tuple[str, ...] = ()
    loss: str = "cross_entropy"
    reads: str = "all"
    packs: bool = False
    peft: str | None = None
    keras_hub: tuple[str, ...] = ()
    uses: Mapping[str, Use] = field(default_factory=dict)
    text_answers: str | None = None
    predicts_tokens: bool = field(init=False)
    classifies_texts: bool = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "variant", functools.cache(self.variant))
        object.__setattr__(self, "predicts_tokens", self.reads == "predicted")
        classifies_texts = self.has_labels and self.reads == "first"
        object.__setattr__(self, "classifies_texts", classifies_texts)
