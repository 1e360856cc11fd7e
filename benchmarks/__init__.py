"""Measurements beside the peers: `python -m benchmarks` runs them, `--only` some of them.

`works.py` lists them, a file a theme has what each contender does; `claims.py` says what is held
against what, `records.jsonl` what came of it, `LOG.md` what was tried. What measures no speed, and
has numbers to show instead of a ratio, stands beside that as a script of its own:

- `parity.py`: the largest difference between kbert's outputs and transformers', on each backend.
- `gelu.py`: what KerasHub's tanh GELU costs a model that was trained with another
  (docs/concepts/gelu.md).
- `pretrain_wikitext2.py`: the losses of pretraining beside transformers', from the same weights.

`gpu.py`, with `gpu_works.py` and `gpu_table.py`, is the program for a GPU:
docs/contributing/accelerators.md.

What stands here may import kbert and any peer; nothing imports it but its own tests.
"""
