"""Multiple choice: one number for each choice; an example's highest is its answer."""

from kbert.heads.classifier import HEAD as CLASSIFIER
from kbert.heads.head import Head, Use

HEAD = Head(
    name="choice",
    title="a number for each choice",
    aliases=("choose", "multiple-choice", "swag"),
    task="choice",
    variant=CLASSIFIER.variant,
    build_outputs=CLASSIFIER.build_outputs,
    model_name="bert_multiple_choice",
    layers=CLASSIFIER.layers,
    num_outputs=1,
    loss="cross_entropy",
    families=("bert", "distilbert"),  # others save another classifier, without a dense layer
    reads="first",
    classes={"ForMultipleChoice": None},
    hint="train this one with kbert finetune --task choice",
    use=Use(
        tag="multiple-choice",
        title="multiple choice",
        function="choose",
        auto_class="AutoModelForMultipleChoice",
        inputs='"She opens the door.", ["She walks in.", "It rains."]',
        peer='inputs = tokenizer(["She opens the door."] * 2, ["She walks in.", "It rains."], '
        'padding=True, return_tensors="pt")\n'
        "print(model(**{name: values[None] for name, values in inputs.items()}))",
    ),
)
