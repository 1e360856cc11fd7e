"""The variables of the matrices that adapters go on."""

from kbert.graph.trained_parts import AdaptedMatrix


def kernel_of(model, matrix: AdaptedMatrix):
    """Return the variable of a matrix: (inputs, outputs), or with an axis for the heads."""
    (kernel,) = (
        weight
        for weight in model.get_layer(matrix.layer).weights
        if weight.path.endswith(f"/{matrix.variable}")
    )
    return kernel
