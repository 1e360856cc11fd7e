"""Planning a run: the memory and time of a step, by formula or from a chip's compiled program.

`plan` computes both from the sizes alone. `compiler` has the step compiled for a TPU or GPU that
need not be there, in a process of `program`; `hlo_text` and `gpu_text` read what it compiled.
"""
