"""A classifier of sequences, or one number or several labels for each."""

from kbert.heads.head import Head, Use, Variant


def _variant(family) -> Variant:
    if family.next_sentence:
        return Variant("classifier", ("pooler", "classifier"), ("Classifier",))

    graph = "dropped-classifier" if family.drops_first_token else "dense-classifier"
    return Variant(graph, ("first_token", "classifier"), ("Classifier",))


def _use(title: str, function: str = "classify") -> Use:
    return Use(
        tag="text-classification",
        title=title,
        function=function,
        auto_class="AutoModelForSequenceClassification",
        inputs='"a fine film"',
    )


HEAD = Head(
    name="classifier",
    title="labels for a sequence",
    aliases=(
        "classify",
        "classification",
        "sequence-classification",
        "sequence-classifier",
        "text-classification",
        "text-classifier",
        "sentiment-analysis",
        "regression",
        "regress",
        "regressor",
        "multilabel",
        "multi-label",
        "multi-label-classification",
        "sts",
        "sts-b",
        "natural-language-inference",
        "nli",
    ),
    variant=_variant,
    build_outputs="kbert.model.heads:apply_classifier",
    model_name="bert_classifier",
    public_builder="build_classifier",
    layers=("Classifier",),
    has_labels=True,
    reads="first",
    packs=True,
    classes={"ForSequenceClassification": None},
    peft="SEQ_CLS",
    keras_hub=("BertTextClassifier", "BertClassifier"),  # the second: as it was called
    hint="train this one with kbert finetune --task classify, or regress for numbers",
    text_answers="kbert.exports.text_answers:answer_labels",
    use=_use("text classification"),
    uses={
        "regression": _use("regression", "regress"),
        "multi_label_classification": _use("multi-label classification"),
    },
)
