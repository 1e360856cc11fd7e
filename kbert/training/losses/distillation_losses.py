"""Losses of a student's outputs and hidden states, compared with a teacher's.

Dimensions at line end: B examples, C classes, S tokens, H hidden size.
"""

from keras import ops

from kbert.training.losses.loss import mask_logits, weighted_sums

_EPSILON = 1e-12  # of squared lengths, as in torch's cosine embedding loss


def sum_kl_divergence(logits, targets, weights, temperature: float = 1.0):
    """Compute the sums of KL(teacher ‖ student) at a temperature T, times T².

    `targets` are the teacher's logits (Hinton et al. 2015, section 2). The gradient shrinks as
    1/T²: times T² it is as large at any temperature.
    """
    logits = mask_logits(logits, weights)  # (B, C)
    targets = mask_logits(targets, weights)
    student = ops.log_softmax(logits / temperature, axis=-1)
    teacher = ops.log_softmax(targets / temperature, axis=-1)
    # the span head's padding: a probability of 0, whose logarithm is −∞ in bfloat16
    probs = ops.exp(teacher)
    differences = probs * (teacher - student)
    terms = ops.where(probs > 0, differences, 0.0)
    choice = ops.argmax(logits, axis=-1)
    teacher_choice = ops.argmax(targets, axis=-1)
    agrees = ops.equal(choice, teacher_choice)
    divergences = ops.sum(terms, -1)
    losses = temperature**2 * divergences
    return weighted_sums(weights, losses, agrees)


def sum_binary_kl_divergence(logits, targets, weights, temperature: float = 1.0):
    """Compute the same where each class holds or not: sigmoid; weights (B, C)."""
    logits = mask_logits(logits, weights)
    targets = mask_logits(targets, weights)
    student = logits / temperature
    teacher = targets / temperature
    holds = _compare_sigmoids(student, teacher)
    holds_not = _compare_sigmoids(-student, -teacher)
    agrees = ops.equal(logits > 0, targets > 0)
    return weighted_sums(weights, temperature**2 * (holds + holds_not), agrees)


def _compare_sigmoids(student, teacher):
    """Return the teacher's probability times the difference of the logarithms of both."""
    difference = ops.log_sigmoid(teacher) - ops.log_sigmoid(student)
    return ops.sigmoid(teacher) * difference


def sum_state_errors(states, targets, weights):
    """Compute the sums of the squared error of states (B, S, H) (TinyBERT, equation 8)."""
    states = mask_logits(states, weights)
    targets = mask_logits(targets, weights)
    squares = ops.square(states - targets)
    errors = ops.mean(squares, -1)  # (B, S)
    return weighted_sums(weights, errors, _cosines(states, targets))


def sum_state_cosines(states, targets, weights):
    """Compute the sums of 1 − cosine of hidden states (DistilBERT, Sanh et al. 2019, section 2)."""
    states = mask_logits(states, weights)
    targets = mask_logits(targets, weights)
    cosines = _cosines(states, targets)
    return weighted_sums(weights, 1 - cosines, cosines)


def _cosines(states, targets):
    squares = ops.square(states)
    target_squares = ops.square(targets)
    squared_length = ops.sum(squares, -1) + _EPSILON
    target_squared_length = ops.sum(target_squares, -1) + _EPSILON
    products = ops.sum(states * targets, -1)
    lengths = ops.sqrt(squared_length * target_squared_length)
    return products / lengths
