"""No head: the encoder's sequence output and, if the family has a pooler, the pooled output."""

from kbert.heads.head import Head, Use, Variant


def _variant(family) -> Variant:
    if family.pooler:
        return Variant("encoder", ("pooler",))
    return Variant("bare", ())


HEAD = Head(
    name="encoder",
    title="sequence output and pooled output",
    aliases=(
        "model",
        "base-model",
        "backbone",
        "feature-extraction",
        "sentence-similarity",
        "embed",
        "embedding",
        "embeddings",
        "sentence-transformer",
    ),
    variant=_variant,
    build_outputs="kbert.model.heads:apply_encoder",
    model_name="bert_encoder",
    public_builder="build_encoder",
    classes={"Model": None},
    peft="FEATURE_EXTRACTION",
    keras_hub=("BertBackbone", "BertTextEmbedder"),
    hint="choose another pooling",
    text_answers="kbert.exports.text_answers:answer_embedding",
    use=Use(
        tag="feature-extraction",
        title="text embeddings",
        function="embed",
        auto_class="AutoModel",
        inputs='"a fine film"',
    ),
)
