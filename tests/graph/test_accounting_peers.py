"""The account against programs that are not ours: transformers, torch's FLOP counter, Keras."""

import math

import pytest
from helpers.sizes import ODD

from kbert import BertConfig, account
from kbert.graph.accounting import DTYPES

ONE_BLOCK = ODD | {"num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2}
LABELS, BATCH, LENGTH, PREDICTIONS = 5, 13, 7, 3
PEERS = {
    "pretraining": ("BertForPreTraining", {}),
    "encoder": ("BertModel", {}),
    "classifier": ("BertForSequenceClassification", {"num_labels": LABELS}),
    "tokens": ("BertForTokenClassification", {"num_labels": LABELS}),
    "qa": ("BertForQuestionAnswering", {"num_labels": 2}),
}


@pytest.fixture(scope="module", params=[ODD, ONE_BLOCK], ids=["odd", "one block"])
def sizes(request):
    return request.param


def peer(head: str, sizes: dict):
    """transformers' model on torch's `meta` device: every shape, no numbers."""
    transformers = pytest.importorskip("transformers", reason="pip install -e '.[test]'")
    torch = pytest.importorskip("torch", reason="pip install -e '.[test]'")
    name, labels = PEERS[head]
    config = transformers.BertConfig(**sizes, **labels, attn_implementation="eager")
    with torch.device("meta"):
        return getattr(transformers, name)(config)


def ids():
    import torch

    return torch.ones(BATCH, LENGTH, dtype=torch.long, device="meta")


def counted(run, model) -> dict[str, int]:
    """FLOPs of the products that torch runs, by module of the model."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run(model)
    name = type(model).__name__
    counts = counter.get_flop_counts().items()
    return {module.removeprefix(f"{name}."): sum(flops.values()) for module, flops in counts}


@pytest.mark.full
@pytest.mark.parametrize("head", PEERS)
def test_total_parameters_equal_transformers(head, sizes):
    found = account(BertConfig(**sizes), head=head, num_labels=LABELS).params
    assert found == sum(parameter.numel() for parameter in peer(head, sizes).parameters())


@pytest.mark.parametrize("head", PEERS)
def test_forward_flops_equal_torchs_count(head, sizes):
    found = account(BertConfig(**sizes), LENGTH, BATCH, head=head, num_labels=LABELS).flops
    assert found == counted(lambda model: model(ids()), peer(head, sizes))["Global"]


def test_flops_of_each_group_equal_torchs_count(sizes):
    theirs = counted(lambda model: model(ids()), peer("pretraining", sizes))
    groups = account(BertConfig(**sizes), LENGTH, BATCH).groups
    assert {name: group.flops for name, group in groups.items()} == {
        "embeddings": theirs.get("bert.embeddings", 0),
        "encoder": theirs["bert.encoder"],
        "pooler": theirs["bert.pooler"],
        "MLM": theirs["cls.predictions"],
        "NSP": theirs["cls.seq_relationship"],
    }


def test_training_flops_equal_torchs_count(sizes):
    def step(model):
        outputs = model(ids())
        (outputs.prediction_logits.sum() + outputs.seq_relationship_logits.sum()).backward()

    found = account(BertConfig(**sizes), LENGTH, BATCH).training_flops_per_sequence
    assert found * BATCH == counted(step, peer("pretraining", sizes))["Global"]


def test_flops_of_a_gathered_head_equal_torchs_count(sizes):
    def forward(model):
        outputs = model.bert(ids())
        model.cls(outputs.last_hidden_state[:, :PREDICTIONS], outputs.pooler_output)

    full = account(BertConfig(**sizes), LENGTH, BATCH, max_predictions=PREDICTIONS)
    assert full.flops == counted(forward, peer("pretraining", sizes))["Global"]
    assert full.params == account(BertConfig(**sizes)).params


@pytest.fixture
def dtype_policy(request):
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)


@pytest.mark.full
@pytest.mark.parametrize("dtype_policy", DTYPES, indirect=True)
def test_memory_equals_keras_variables_in_bytes(dtype_policy):
    """A built model's weights and Adam's moments, in bytes, under each of Keras's policies."""
    import keras

    from kbert import build_bert

    def size(variables) -> int:
        bits = {"float32": 32, "bfloat16": 16, "float16": 16}
        return sum(math.prod(v.shape) * bits[v.dtype] // 8 for v in variables)

    model = build_bert(BertConfig(**ODD))
    adam = keras.optimizers.Adam()
    adam.build(model.trainable_variables)
    moments = [v for v in adam.variables if v.path.endswith(("momentum", "velocity"))]
    memory = account(BertConfig(**ODD), dtype=dtype_policy).memory
    assert len(moments) == 2 * len(model.trainable_variables)
    assert memory.weights == memory.gradients == size(model.trainable_variables)
    assert memory.adam == size(moments)
    compute = model.get_layer("Encoder-1-FeedForward").compute_dtype
    assert DTYPES[dtype_policy][3] == {"float32": 4, "bfloat16": 2, "float16": 2}[compute]


@pytest.mark.parametrize("head", PEERS)
def test_rows_equal_those_of_the_built_model(head):
    from kbert import model_rows
    from kbert.model import builder

    build, options = {
        "pretraining": (builder.build_bert, {}),
        "encoder": (builder.build_encoder, {}),
        "classifier": (builder.build_classifier, {"num_labels": LABELS}),
        "tokens": (builder.build_token_classifier, {"num_labels": LABELS}),
        "qa": (builder.build_question_answering, {}),
    }[head]
    config = BertConfig(**ODD)
    model = build(config, seq_len=LENGTH, **options)
    found = account(config, LENGTH, head=head, num_labels=LABELS).rows
    columns = ("layer", "type", "output_shape", "params", "connected_to")
    assert [[getattr(row, column) for column in columns] for row in found] == [
        [getattr(row, column) for column in columns] for row in model_rows(model)
    ]
    assert sum(row.params for row in found) == model.count_params()
