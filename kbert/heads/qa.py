"""Question answering: start and end of a span of the context."""

from kbert.heads.head import Head, Use, Variant


def _variant(family) -> Variant:
    graph = "dropped-qa" if family.drops_answers else "qa"
    return Variant(graph, ("qa",), ("Span-Start", "Span-End"))


HEAD = Head(
    name="qa",
    title="start and end of an answer",
    aliases=("question-answering", "answer", "extractive-question-answering", "squad"),
    task="qa",
    variant=_variant,
    build_outputs="kbert.model.heads:apply_span",
    model_name="bert_question_answering",
    public_builder="build_question_answering",
    layers=("Span",),
    classes={"ForQuestionAnswering": None},
    peft="QUESTION_ANS",
    hint="train this one with kbert finetune --task qa",
    use=Use(
        tag="question-answering",
        title="question answering",
        function="answer",
        auto_class="AutoModelForQuestionAnswering",
        inputs='"Who wrote it?", "Ada wrote it in 1843."',
    ),
)
