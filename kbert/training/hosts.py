"""Where several processes train one model: that none goes on before all are there."""


def wait_for_all(engine) -> None:
    """Returns once every process of the engine has called it."""
    if engine.processes > 1:
        engine.barrier()
