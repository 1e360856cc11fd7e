"""The metrics of taggers whose labels are entities in any scheme, and of others, beside seqeval."""

import numpy as np
import pytest

from kbert.data.labelled.length_buckets import Examples
from kbert.graph.names import TOKEN_CLASSIFIER
from kbert.tasks.finetuning.task import task_of
from kbert.tasks.tagging.reading import Sentence
from kbert.tasks.tagging.windows import Window

# Made-up sentences, predictions, and the precision, recall and F1 of seqeval 1.2.2: in strict mode
# with its scheme BILOU, with suffix=True for PER-B and PER_B, in its default mode for the others.
CASES = {
    "BILOU": (
        "O O O O O O B-PER I-PER L-PER / O B-PER I-PER L-PER U-PER U-LOC U-PER / U-PER O O U-LOC "
        "U-PER U-LOC B-LOC L-LOC U-LOC B-PER L-PER / O B-PER L-PER O B-PER L-PER",
        "O O O O O O B-LOC I-LOC L-LOC / O B-PER L-PER O U-PER U-PER U-PER / U-LOC O O O U-PER "
        "U-LOC B-LOC L-LOC O B-PER L-PER / O B-LOC L-LOC O B-PER L-PER",
        (0.5833333333333334, 0.5, 0.5384615384615384),
    ),
    "BMES": (
        "S-LOC S-PER S-LOC B-LOC E-LOC O B-LOC E-LOC S-PER / B-LOC E-LOC S-PER O B-PER M-PER "
        "E-PER / O B-LOC E-LOC O S-PER O S-PER O O B-PER E-PER / S-LOC O O B-LOC E-LOC O",
        "S-LOC S-LOC O B-LOC E-LOC O O O S-LOC / S-LOC O S-PER O B-LOC M-LOC E-LOC / O B-LOC "
        "E-LOC O S-PER O S-PER O O B-PER E-PER / O O O B-LOC E-LOC O",
        (0.6666666666666666, 0.5333333333333333, 0.5925925925925926),
    ),
    "B_PER": (
        "O O B_LOC I_LOC I_LOC B_LOC I_LOC I_LOC O / B_PER I_PER O B_LOC I_LOC B_LOC I_LOC / O "
        "B_LOC I_LOC B_LOC I_LOC B_LOC I_LOC B_LOC O O O / O O O O B_LOC I_LOC",
        "O O B_PER I_PER I_PER B_PER I_PER I_PER O / B_LOC I_LOC O B_PER I_PER B_LOC I_LOC / O "
        "B_PER I_PER B_LOC I_LOC O O O O O O / O O O O B_PER I_PER",
        (0.25, 0.2, 0.22222222222222224),
    ),
    "PER-B": (
        "O O O LOC-B O PER-B O O PER-B / LOC-B LOC-I LOC-I PER-B PER-B PER-I LOC-B / O LOC-B "
        "LOC-I O PER-B PER-I LOC-B LOC-I LOC-B LOC-I LOC-I / O LOC-B O O LOC-B LOC-I",
        "O O O LOC-B O PER-B O O PER-B / O O O O LOC-B LOC-I O / O O O O O O PER-B PER-I LOC-B "
        "LOC-I LOC-I / O LOC-B O O LOC-B LOC-I",
        (0.75, 0.46153846153846156, 0.5714285714285714),
    ),
    "PER_B": (
        "LOC_B LOC_I LOC_E O O O LOC_B LOC_E LOC_S / PER_S O O PER_S O PER_B PER_E / LOC_S PER_B "
        "PER_I PER_E LOC_S LOC_B LOC_E O LOC_B LOC_E O / PER_S LOC_B LOC_I LOC_E O O",
        "O O O O O O LOC_B LOC_E O / O O O O O PER_B PER_E / O PER_B PER_I PER_E LOC_S PER_B "
        "PER_E O LOC_S O O / PER_S LOC_B LOC_E O O O",
        (0.625, 0.38461538461538464, 0.4761904761904762),
    ),
    "IO": (
        "O O O O I-LOC O O O I-LOC / O O I-PER O I-PER O I-PER / O I-PER O O I-PER I-PER O I-LOC "
        "O I-LOC O / O I-PER O I-PER I-PER I-LOC",
        "O O O O O O O O O / O O O O O O I-PER / O I-PER O O I-PER I-PER O I-PER O I-LOC O / O O "
        "O I-PER I-PER O",
        (0.8333333333333334, 0.4166666666666667, 0.5555555555555556),
    ),
    "without types": (
        "O O O B O B O O O / O B B O B O O / B B I B I O B I O O O / B I I B I I",
        "O O O B O B O O O / O O B O B O O / B B I B I O B I O O O / O O O B I I",
        (1.0, 0.8181818181818182, 0.9),
    ),
}
SCORES = ["accuracy", "precision", "recall", "f1"]


def compute_metrics(gold: str, predicted: str, more_labels=()) -> dict[str, float]:
    """Return the metrics of the task tag for sentences of labels, as `kbert.evaluate` has them."""
    gold_labels, answers = ([s.split() for s in text.split(" / ")] for text in (gold, predicted))
    labels = sorted({*gold.split(), *predicted.split(), *more_labels} - {"/"})
    records, notes, outputs = [], [], []
    for number, (expected, answer) in enumerate(zip(gold_labels, answers, strict=True)):
        words = tuple("w" for _ in expected)
        records.append(Sentence(words, tuple(expected), words))
        indices = range(len(words))
        notes.append(Window([1] * len(words), indices, indices)._replace(record=number))
        outputs.append(np.eye(len(labels))[[labels.index(label) for label in answer]])
    ids = [note.ids for note in notes]
    examples = Examples(ids, ids, {TOKEN_CLASSIFIER: ids}, notes)
    return task_of("tag").scores(records, examples, {TOKEN_CLASSIFIER: outputs}, labels).metrics()


@pytest.mark.parametrize("scheme", CASES)
def test_entities_of_each_scheme_are_scored_as_by_seqeval(scheme):
    gold, predicted, expected = CASES[scheme]
    found = compute_metrics(gold, predicted)
    assert list(found) == SCORES
    assert [found[name] for name in SCORES[1:]] == pytest.approx(expected, abs=1e-12)
    assert task_of("tag").choose_score(sorted({*gold.split(), *predicted.split()} - {"/"})) == "f1"


@pytest.mark.parametrize("odd", ["X", "PAD", "o", "[CLS]", "B-"])
def test_one_odd_label_is_outside_of_entities(odd):
    """As seqeval has it where the odd label is written O."""
    gold, predicted, expected = CASES["BILOU"]
    gold, predicted = (text.replace("O O", f"{odd} O") for text in (gold, predicted))
    found = compute_metrics(gold, predicted)
    assert [found[name] for name in SCORES[1:]] == pytest.approx(expected, abs=1e-12)


def test_label_that_only_looks_like_a_tag_is_outside_of_entities():
    """E-MAIL ends no entity MAIL, as no B-MAIL begins one: 1 of 1 entities, of 2 as E of MAIL."""
    found = compute_metrics("B-PER I-PER O E-MAIL", "B-PER I-PER O O")
    assert [found[name] for name in SCORES[1:]] == [1.0, 1.0, 1.0]


def test_entities_of_one_word_are_e_in_ioe2():
    """I-PER E-PER and E-LOC are two entities (Tjong Kim Sang & Veenstra 1999), one is right."""
    found = compute_metrics("I-PER E-PER O E-LOC", "I-PER E-PER O O")
    assert [found[name] for name in SCORES[1:]] == pytest.approx([1.0, 1 / 2, 2 / 3])


def test_fillers_beside_few_tags_are_outside_of_entities():
    found = compute_metrics("B-PER I-PER O O", "B-PER I-PER O O", ["X", "[CLS]", "<PAD>", "[SEP]"])
    assert [found[name] for name in SCORES[1:]] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "labels",
    [
        *("NOUN VERB X", "N O V ^ S B", "B-PER NOUN VERB", "vitamin-B vitamin-E", "O", "S P N"),
        *("O PER", "O E-MAIL PHONE", "O E-MAIL", "O M-ALE", "U-COMMA L-O U-O", "O S-MALL BIG"),
        *("O VITAMIN_B HEPATITIS_B VITAMIN_E", "O PLAN-B PER", "O B-PER I-PER PHONE MAIL"),
    ],
)
def test_labels_that_are_no_entities_have_a_metric_of_another_name(labels):
    """Parts of speech (Gimpel's have O and single letters) and others: scikit-learn's macro F1."""
    found = compute_metrics(labels, labels)
    assert found == {"accuracy": 1.0, "macro_f1": 1.0}
    assert task_of("tag").choose_score(labels.split()) == "macro_f1"
