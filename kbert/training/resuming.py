"""Going on with a run, whatever it trains."""

import os


def resume(folder: str | os.PathLike, **options):
    """Goes on with the run in a folder: see `pretraining.resume` and `finetuning.resume`.

    Returns:
        What `pretrain` or `finetune` gives.

    Raises:
        FileNotFoundError: no run there.
        and what those raise.
    """
    from kbert.training import finetuning, pretraining
    from kbert.training.run_folder import RunFolder

    kinds = {"pretrain": pretraining.resume, "finetune": finetuning.resume}
    return kinds[RunFolder.open(folder).task](folder, **options)
