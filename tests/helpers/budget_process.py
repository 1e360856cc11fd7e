"""A pretraining with a time budget, or the resuming of one; each process writes what it ends with.

Hosts come from the environment, as everywhere.
"""

import json
from pathlib import Path

HOURS = 0.001  # 3.6 s
SETTINGS = {
    "seq_len": 17,
    "learning_rate": 3e-3,
    "mlm_only": True,
    "separate_documents": True,
    "dev_ratio": 0.2,
    "batch_size": 12,
    "accumulation_steps": 3,
    "ramp_from": 4,
    "progress": False,
    "peak_flops": 1e9,
}


def main(out: str, shards: str, run: str, is_new: bool) -> None:
    import numpy as np

    import kbert
    from helpers.run_shards import CONFIG

    if is_new:
        config = kbert.BertConfig(**CONFIG)
        trained = kbert.pretrain(shards, config, output=run, hours=HOURS, **SETTINGS)
    else:
        trained = kbert.resume(run, progress=False, peak_flops=1e9)
    lines = trained.history.updates
    weights = {f"weight {n}": array for n, array in enumerate(trained.bert.model.get_weights())}
    np.savez(
        out,
        steps=[line["step"] for line in lines],
        losses=[line["loss"] for line in lines],
        shares=[line["budget_share"] for line in lines],
        planned=json.loads(Path(run, "settings.json").read_text())["settings"]["steps"],
        **weights,
    )
