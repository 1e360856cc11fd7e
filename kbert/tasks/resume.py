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
    from kbert.tasks.finetuning import finetune
    from kbert.tasks.pretraining import pretrain
    from kbert.training.run.run_folder import RunFolder

    kinds = {"pretrain": pretrain.resume, "finetune": finetune.resume}
    return kinds[RunFolder.open(folder).task](folder, **options)
