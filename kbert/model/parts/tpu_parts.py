"""The fused parts as XLA's compiler for TPU likes them: heads stay where the products leave them.

On a CPU the three projections are one product, whose result is moved apart; here that move is what
costs, a seventh of an update of base by the compiler's estimate. LayerNorm takes one pass for mean
and variance, which the compiler fuses to the product before it.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A.
"""

from collections.abc import Callable

import jax.numpy as jnp

from kbert.model.parts import elementwise, jax_kit, tpu_formulas
from kbert.model.parts.fused_parts import EncoderBlock, FusedParts, Kit, seed_of
from kbert.model.parts.tpu_attention import attended


class TpuParts(FusedParts):
    """`cut_model.Parts`, with a `TpuKit`."""

    def __init__(self, kit: "TpuKit"):
        super().__init__(kit)
        self._draws_once = kit.draws_once

    def block(self, model, number: int) -> Callable:
        """See `Parts`."""
        return _Block(model, number, self._kit, self._draws_once)


_OWN: dict[Callable, Callable] = {elementwise.measured: tpu_formulas.measured}


class TpuKit:
    """`fused_parts.Kit`.

    Args:
        draws_once: see `tpu_attention.attended`.
    """

    def __init__(self, draws_once: bool = True):
        self.draws_once = draws_once

    matmul = staticmethod(jax_kit.matmul)
    vectors = staticmethod(jax_kit.vectors)
    vectors_and_table = staticmethod(jax_kit.vectors_and_table)

    @staticmethod
    def part(formula: Callable, **settings) -> Callable:
        """A formula of `elementwise`, or its own; XLA fuses it."""
        formula = _OWN.get(formula, formula)
        if formula in (elementwise.normalized_sum, elementwise.normalized_embeddings):
            settings["norm"] = elementwise.normalized_in_one_pass
        return jax_kit.part(formula, **settings)


class _Block(EncoderBlock):
    def __init__(self, model, number: int, kit: Kit, draws_once: bool):
        super().__init__(model, number, kit)
        self._draws_once = draws_once

    def _attended(self, values: dict, x, mask):
        attention = self.attention

        def projected(dense, scale=1.0):
            kernel, bias = (values[id(one)] * scale for one in (dense.kernel, dense.bias))
            product = jnp.einsum("bsh,had->bsad", x, kernel.astype(x.dtype))
            return (product + bias).astype(x.dtype)  # (B, S, A, D)

        # The scale goes to the query, as in Keras: products without it may leave float16's range.
        query = projected(attention.query_dense, attention.key_dim**-0.5)
        keys, vectors = projected(attention.key_dense), projected(attention.value_dense)
        keep = jnp.expand_dims(mask, (1, 2) if mask.ndim == 2 else 1)
        seed, rate = seed_of(values, self._seeds), attention.dropout
        context = attended(query, keys, vectors, keep, seed, rate, self._draws_once)
        output = attention.output_dense
        kernel = (values[id(output.kernel)] / (1 - rate)).astype(x.dtype)
        y = jnp.einsum("bsad,adh->bsh", context, kernel)
        return self._ended(values, self._ends[0], y, output.bias, x)
