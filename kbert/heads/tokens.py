"""A classifier of tokens."""

from kbert.heads.head import Head, Use, Variant

HEAD = Head(
    name="tokens",
    title="labels for each token",
    aliases=(
        "token",
        "tag",
        "tags",
        "ner",
        "pos",
        "pos-tagging",
        "token-classification",
        "token-classifier",
    ),
    task="tag",
    variant=lambda family: Variant("tokens", ("tokens",), ("TokenClassifier",)),
    build_outputs="kbert.model.heads:apply_token_classifier",
    model_name="bert_token_classifier",
    public_builder="build_token_classifier",
    layers=("TokenClassifier",),
    has_labels=True,
    packs=True,
    classes={"ForTokenClassification": None},
    peft="TOKEN_CLS",
    hint="train this one with kbert finetune --task tag",
    use=Use(
        tag="token-classification",
        title="token classification",
        function="tag",
        auto_class="AutoModelForTokenClassification",
        inputs='"Ada lives in London"',
    ),
)
