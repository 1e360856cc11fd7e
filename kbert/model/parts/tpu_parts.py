"""Fused operations for TPU: heads stay in the layout of the products.

On a CPU the three projections are one product, whose result is moved apart; here that move is what
costs, a seventh of a step of base by the compiler's estimate. LayerNorm takes one pass for mean
and variance, which the compiler fuses to the product before it.

Dimensions at line end: B batch, S sequence, H hidden size, A heads, D = H/A.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp

from kbert.model.parts import elementwise, jax_kit, plain_kit, tpu_formulas
from kbert.model.parts.fused_parts import EncoderBlock, FusedParts, Kit, Similarity, seed_of
from kbert.model.parts.tpu_attention import attended, portions
from kbert.model.parts.tpu_formulas import biased, projected


class TpuParts(FusedParts):
    """`cut_model.Parts`, with a `TpuKit`."""

    def __init__(self, kit: "TpuKit"):
        super().__init__(kit)
        self._draws_once = kit.draws_once

    def block(self, model, number: int) -> Callable:
        """See `Parts`."""
        return _Block(model, number, self._kit, self._draws_once)

    def similarity(self, model) -> Callable:
        """See `Parts`."""
        return _Similarity(model, self._kit)

    @property
    def rows_at(self) -> Callable | None:
        """See `Parts`; what leaving rows out gains here is not measured."""
        return None


_OWN: dict[Callable, Callable] = {elementwise.measured: tpu_formulas.measured}


class TpuKit:
    """`fused_parts.Kit`.

    Args:
        draws_once: see `tpu_attention.attended`.
    """

    def __init__(self, draws_once: bool = True):
        self.draws_once = draws_once

    ops = jax_kit.ops
    attended = staticmethod(jax_kit.attended)
    recomputed = staticmethod(plain_kit.recomputed)
    matmul = staticmethod(jax_kit.matmul)
    vectors = staticmethod(jax_kit.vectors)
    rows_at = staticmethod(jax_kit.rows_at)
    vectors_and_table = staticmethod(jax_kit.vectors_and_table)

    @staticmethod
    def part(formula: Callable, **settings) -> Callable:
        """Return a formula of `elementwise`, or its own, with autodiff's gradient; XLA fuses it."""
        formula = _OWN.get(formula, formula)
        if formula in (elementwise.normalized_sum, elementwise.normalized_embeddings):
            settings["norm"] = elementwise.normalized_in_one_pass
        return functools.partial(formula, **settings)


class _Block(EncoderBlock):
    def __init__(self, model, number: int, kit: Kit, draws_once: bool):
        super().__init__(model, number, kit)
        self._draws_once = draws_once

    def _attended(self, values: dict, x, mask, read):
        attention = self.attention

        batch, length, _ = x.shape
        # portions stand one after the other by barriers, which a program may have to do without
        several = portions(batch, length, attention.num_heads, x.dtype.itemsize)
        count = several if self._draws_once else 1

        def of(dense, scale=1.0):
            kernel, bias = (values[id(one)] * scale for one in (dense.kernel, dense.bias))
            return projected(x, kernel.astype(x.dtype), bias, count)  # (B/count, S, A, D) each

        # The scale goes to the query, as in Keras: products without it may leave float16's range.
        query = of(attention.query_dense, attention.key_dim**-0.5)
        keys, vectors = of(attention.key_dense), of(attention.value_dense)
        keep = jnp.expand_dims(mask, (1, 2) if mask.ndim == 2 else 1)
        seed, rate = seed_of(values, self._seeds), attention.dropout
        context = attended(query, keys, vectors, keep, seed, rate, self._draws_once)
        output = attention.output_dense
        kernel = (values[id(output.kernel)] / (1 - rate)).astype(x.dtype)
        y = jnp.einsum("bsad,adh->bsh", context, kernel)
        return self._ended(values, self._ends[0], y, output.bias, x)


class _Similarity(Similarity):
    def _with_bias(self, product, bias):
        return biased(product, bias).astype(product.dtype)
