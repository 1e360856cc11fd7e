"""A step compiled for a slice of TPUs that is not there: by Google's compiler, on any machine.

`compiler` starts it in a process of its own, `program` is that process, `hlo_text` reads what the
compiler wrote.
"""
