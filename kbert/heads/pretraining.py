"""The two pretraining heads: masked language model and next sentence."""

from kbert.heads.head import Head, Use, Variant


def _variant(family) -> Variant:
    if family.next_sentence:
        return Variant("pretraining", ("pooler", "mlm", "nsp"), ("MLM", "NSP"))
    return Variant("mlm", ("mlm",), ("MLM",))


HEAD = Head(
    name="pretraining",
    title="masked language model and next sentence",
    aliases=(
        "pre-training",
        "mlm",
        "masked-lm",
        "lm-head",
        "fill-mask",
        "nsp",
        "next-sentence-prediction",
    ),
    variant=_variant,
    build_outputs="kbert.model.heads:apply_pretraining",
    model_name="bert",
    public_builder="build_bert",
    layers=("NSP", "MLM"),
    reads="predicted",
    packs=True,
    classes={
        "ForPreTraining": ("pooler", "mlm", "nsp"),
        "ForMaskedLM": ("mlm",),
        "ForNextSentencePrediction": ("pooler", "nsp"),
    },
    keras_hub=("BertMaskedLM",),
    hint="train this one with kbert pretrain --init (in Python init=)",
    text_answers="kbert.exports.text_answers:answer_tokens",
    use=Use(
        tag="fill-mask",
        title="masked language modelling",
        function="fill_mask",
        auto_class="AutoModelForMaskedLM",
        inputs='"a fine {mask}"',
    ),
)
