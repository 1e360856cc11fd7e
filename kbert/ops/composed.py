"""Operations that are made of others, each of them the selected backend's.

A backend without a version of the whole has these: they call its versions of the parts, where
`kbert.ops.reference` would call its own.
"""

from collections.abc import Sequence

from kbert import ops as kops


def project_inputs(x, kernels: Sequence, biases: Sequence, queries=None) -> list:
    """Project x by `project_heads`; queries (B, R, H), if there are some, by the first kernel."""
    if queries is None:
        return kops.project_heads(x, kernels, biases)

    query = kops.project_heads(queries, kernels[:1], biases[:1])
    key_and_value = kops.project_heads(x, kernels[1:], biases[1:])
    return query + key_and_value


def self_attention(
    x, kernels: Sequence, biases: Sequence, mask=None, rate: float = 0.0, seed=None, queries=None
):
    """See `reference.self_attention`."""
    query, key, value = project_inputs(x, kernels, biases, queries)
    return kops.attention(query, key, value, mask, rate, seed)
