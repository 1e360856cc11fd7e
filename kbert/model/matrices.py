"""The variables of the matrices that adapters go on."""

from kbert.graph.trained_parts import AdaptedMatrix


def kernel_of(model, matrix: AdaptedMatrix):
    """A model's variable of a matrix: (inputs, outputs), or with the heads of attention apart."""
    (kernel,) = (
        weight
        for weight in model.get_layer(matrix.layer).weights
        if weight.path.endswith(f"/{matrix.variable}")
    )
    return kernel
