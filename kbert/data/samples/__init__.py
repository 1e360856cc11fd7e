"""A small labelled sample to try fine-tuning with: 64 short reviews, positive or negative.

`TRAIN` has 48 of them and `DEV` 16, one per line: the text, a tab, the label. The sentences were
written for kbert. They are enough to see a run from end to end, and too few to judge a model.
"""

from pathlib import Path

TRAIN = Path(__file__).parent / "train.tsv"
DEV = Path(__file__).parent / "dev.tsv"
