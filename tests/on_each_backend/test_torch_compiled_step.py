"""torch compiles kbert's whole training step without a graph break, on the operations of a GPU."""

import keras
import pytest
from helpers.engines import build_engine, small_config
from helpers.training_batches import PREDICTIONS, arrays, batch_of

if keras.backend.backend() != "torch":
    pytest.skip("of torch", allow_module_level=True)

import torch

from kbert.graph.spec import GraphSpec
from kbert.ops import torch as torch_ops
from kbert.training.losses.loss import compute_objective

SPEC = GraphSpec(small_config(2), seq_len=11, max_predictions=PREDICTIONS).for_training()


class Step:
    """The two parts of a step, as functions of tensors."""

    def __init__(self):
        self.engine = build_engine(SPEC)
        (shard,) = self.engine.split(batch_of(arrays("pretraining", 1, 13), 0))
        self.batch = keras.tree.map_structure(torch.as_tensor, shard)
        self.seeds = torch.as_tensor(self.engine.seeds(0)[0])
        values = self.engine.state.values()
        weights = [one.detach().clone().requires_grad_() for one in values.weights]
        self.values = values._replace(weights=weights)

    def loss(self, weights, batch, seeds):
        inputs, labels, label_weights, _ = (
            {name: array[0] for name, array in group.items()} for group in batch
        )
        outputs = self.engine.step.outputs(weights, [], inputs, seeds[0])
        return compute_objective(outputs, labels, label_weights, self.engine.step.losses)

    def gradients(self, loss):
        torch.manual_seed(3)  # of the dropout
        value, sums = loss(self.values.weights, self.batch, self.seeds)
        gradients = torch.autograd.grad(value, self.values.weights, materialize_grads=True)
        return list(gradients), sums.detach()

    def update(self, values, gradients, sums):
        step = self.engine.step
        norm = self.engine.backend.global_norm(gradients)
        stops = torch.cat([sums, torch.zeros(1, 3)])
        decision, counts, _ = step.decide(self.batch[1], values.counts, stops, norm)
        return self.engine.backend.apply(step, decision, values, gradients, counts).weights


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of itself
def test_step_compiles_without_a_graph_break(monkeypatch):
    """The gradients and the new weights are those of the step that is not compiled.

    Keras's `Layer.__call__` reads signatures, which torch's compiler does not follow: the graph is
    traced as it runs. A number that the host reads, or a size that depends on data, is an error.
    """
    step = Step()
    traced = torch._dynamo.nonstrict_trace(step.loss)
    options = {"backend": "aot_eager", "fullgraph": True}
    compiled = torch.compile(lambda *arguments: traced(*arguments), **options)
    gradients, sums = step.gradients(compiled)
    with monkeypatch.context() as patch:
        patch.setattr(torch_ops, "draws_by_seed", lambda x: False)  # as on a GPU
        expected, _ = step.gradients(step.loss)
    torch.testing.assert_close(gradients, expected, atol=1e-6, rtol=1e-5)
    assert sum(map(torch.count_nonzero, gradients)) > 0

    update = torch.compile(step.update, **options)
    with torch.no_grad():
        new = update(step.values, gradients, sums)
        wanted = step.update(step.values, gradients, sums)
    torch.testing.assert_close(new, wanted, atol=1e-6, rtol=1e-5)
