"""Operations of `kbert.ops.reference` for JAX on GPUs: attention and LayerNorm compiled by Triton.

All other products are of two matrices, so that XLA transposes nothing and adds biases in cuBLAS.
"""

from kbert.ops.jax_gpu.flash_attention import SIZES as SIZES
from kbert.ops.jax_gpu.flash_attention import attention as attention
from kbert.ops.jax_gpu.flash_attention import self_attention as self_attention
from kbert.ops.jax_gpu.normalization import layer_norm as layer_norm
from kbert.ops.jax_gpu.products import dropout as dropout
from kbert.ops.jax_gpu.products import embedding_lookup as embedding_lookup
from kbert.ops.jax_gpu.products import embedding_lookup_and_table as embedding_lookup_and_table
from kbert.ops.jax_gpu.products import gather_positions as gather_positions
from kbert.ops.jax_gpu.products import linear as linear
from kbert.ops.jax_gpu.products import project_heads as project_heads
