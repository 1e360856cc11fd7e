"""The matrix products of base's encoder blocks and nothing else: what the machine can do at most.

The products of an update with their two gradients, (B·S, H)(H, H) four times a block, to F and
back. Attention's own products and the MLM head's are left out: the rate is what is asked for.
"""

WIDTH, FEED_FORWARD = 768, 3072
SHAPES = [(WIDTH, WIDTH)] * 4 + [(WIDTH, FEED_FORWARD), (FEED_FORWARD, WIDTH)]


def flops(rows: int) -> int:
    """Of one unit of work: each product forward and both its gradients."""
    return 3 * sum(2 * rows * inner * outer for inner, outer in SHAPES)


def tensorflow(rows: int, precision: str):
    import tensorflow as tf

    dtype = tf.bfloat16 if "bfloat16" in precision else tf.float32
    given = [[tf.cast(tf.random.normal(shape), dtype) for shape in three] for three in _of(rows)]

    @tf.function(autograph=False)
    def products():
        total = 0.0
        for x, w, g in given:
            y = tf.matmul(x, w)
            dx, dw = tf.matmul(g, w, transpose_b=True), tf.matmul(x, g, transpose_a=True)
            total += sum(tf.cast(one[0, 0], tf.float32) for one in (y, dx, dw))
        return total

    def run(count):
        for _ in range(count):
            products().numpy()

    return run


def torch(rows: int, precision: str):
    import torch as peer

    dtype = peer.bfloat16 if "bfloat16" in precision else peer.float32
    given = [[peer.randn(shape).to(dtype) for shape in three] for three in _of(rows)]

    def run(count):
        for _ in range(count):
            for x, w, g in given:
                x @ w, g @ w.T, x.T @ g

    return run


def _of(rows: int) -> list[tuple]:
    """Shapes of input, kernel and the output's gradient."""
    return [((rows, inner), (inner, outer), (rows, outer)) for inner, outer in SHAPES]
