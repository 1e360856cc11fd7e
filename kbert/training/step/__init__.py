"""One update of the weights: the losses' gradients, and the state that they change."""
