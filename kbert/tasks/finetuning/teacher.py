"""The teacher of a fine-tuning run, whose outputs must be the student's."""

from kbert.checkpoints.bert import Bert
from kbert.heads import HEADS
from kbert.io.wording import first_few
from kbert.tasks.common.checks import require_head, require_tokenizer
from kbert.tasks.distillation.distillation import open_teacher
from kbert.tasks.finetuning.evaluate import known_labels, require_kind
from kbert.tasks.finetuning.task import Task


def open_teacher_of_labels(
    source,
    student: Bert,
    task: Task,
    labels: tuple[str, ...] | None,
    *,
    tokens: int,
    pairs: bool,
    needs_head: bool,
) -> Bert:
    """Return the teacher; raise a ValueError where its outputs are not the student's.

    Args:
        tokens: maximum number of tokens of an example.
        pairs: whether examples are pairs of texts.
        needs_head: whether the teacher's logits are learned, and not its hidden states alone.
    """
    tokenizer = require_tokenizer(student, "finetune")
    teacher = open_teacher(source, tokenizer, tokens, pairs)
    if not needs_head:
        return teacher

    purpose = "a teacher (but with alpha 0)"
    require_head(teacher, purpose, task.head, HEADS[task.head].layers)
    require_kind(teacher, purpose, task)
    known = known_labels(teacher)
    is_number = task.problem_type == "regression" and teacher.spec.num_labels == 1
    if set(known or ()) != set(labels or ()) and not is_number:
        raise ValueError(
            f"teacher must have the labels of the data, {first_few(labels or (), 6)}, got "
            f"{first_few(known or (), 6)}: "
            "fine-tune it on the same labels, or take alpha 0 and hidden_loss"
        )
    return teacher
