"""Adapters have PEFT's outputs, gradients and counts, in both directions."""

import json

import numpy as np
import pytest
from helpers.labelled_texts import write_texts
from helpers.peer_outputs import run_peer
from helpers.small_berts import small_berts
from helpers.training_batches import arrays, batch_of
from safetensors.numpy import load_file

import kbert
from kbert.graph import names

pytestmark = pytest.mark.filterwarnings("ignore")  # of the peer's

BATCH = 13
CLASSES = {
    "classifier": ("BertForSequenceClassification", "SEQ_CLS"),
    "tokens": ("BertForTokenClassification", "TOKEN_CLS"),
    "qa": ("BertForQuestionAnswering", "QUESTION_ANS"),
    "encoder": ("BertModel", "FEATURE_EXTRACTION"),
}


@pytest.fixture(scope="module")
def bases(small, tmp_path_factory):
    """A folder a head, without dropout, for PEFT in this process."""
    pytest.importorskip("peft", reason="the peer: pip install --no-deps peft accelerate")
    folder = tmp_path_factory.mktemp("bases")
    config = small.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    for head, bert in small_berts(config).items():
        kbert.save(bert, folder / head)
    return folder


@pytest.fixture(scope="module")
def ids():
    batch = batch_of(arrays("classifier", 1, BATCH), 0)
    return [batch.inputs[name] for name in (names.TOKEN_IDS, names.SEGMENT_IDS)]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Adapters that PEFT wrote, their bases, and what they compute."""
    out = tmp_path_factory.mktemp("written")
    run_peer("peer_peft_folder.py", out, out)
    return out


@pytest.mark.parametrize("case", ["classifier", "blocks"])
def test_written_adapters_give_pefts_numbers_and_tensors(written, tmp_path, case):
    base, numbers = written / f"{case}_base", np.load(written / f"{case}.npz")
    inputs = [numbers["ids"], numbers["segments"]]
    real = inputs[0] != 0 if case == "blocks" else slice(None)
    bert = kbert.load(base, adapter=written / case)
    for one, name in ((bert, "adapted"), (kbert.load(base), "plain")):
        np.testing.assert_allclose(ours(one, inputs)[0][real], numbers[name][real], atol=1e-5)
    assert np.abs(numbers["adapted"] - numbers["plain"])[real].max() > 0.05
    kbert.save(bert, tmp_path / "again", format="peft")
    theirs, again = (
        load_file(folder / "adapter_model.safetensors")
        for folder in (written / case, tmp_path / "again")
    )
    assert set(theirs) == set(again)
    for name, array in theirs.items():
        np.testing.assert_array_equal(again[name], array, strict=True)


def theirs(folder, head, num_labels=5):
    import transformers

    cls = getattr(transformers, CLASSES[head][0])
    options = {} if head in ("encoder", "qa") else {"num_labels": num_labels}
    return cls.from_pretrained(folder, **options, ignore_mismatched_sizes=True).eval()


def outputs_of(model, ids) -> list[np.ndarray]:
    import torch

    tokens, segments = (torch.tensor(array, dtype=torch.long) for array in ids)
    if hasattr(model, "get_base_model"):  # PEFT 0.21's own model for spans drops the segments
        model = model.get_base_model()
    with torch.no_grad():
        found = model(
            input_ids=tokens, token_type_ids=segments, attention_mask=(tokens != 0).long()
        )
    values = (found[0], found[1]) if len(found) > 1 else (found[0],)
    return [value.numpy() for value in values]


def ours(bert, ids) -> list[np.ndarray]:
    return list(map(np.asarray, kbert.predict(bert.model, *ids).values()))


def adapted_by_peft(base, head, **options):
    """PEFT's model with an adapter whose numbers are none of the first ones."""
    import peft
    import torch

    config = peft.LoraConfig(task_type=CLASSES[head][1], **options)
    model = peft.get_peft_model(theirs(base, head), config)
    torch.manual_seed(7)
    for name, parameter in model.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            torch.nn.init.normal_(parameter, 0, 0.2)
    return model.eval()


CASES = {
    "every matrix": (
        "tokens",
        {"r": 3, "target_modules": ["query", "key", "value", "dense"], "use_rslora": True},
    ),
    "the head's spans": ("qa", {"r": 2, "target_modules": r".*\.layer\.\d\.output\.dense"}),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_an_adapter_of_pefts_gives_pefts_numbers(bases, ids, tmp_path, case):
    head, options = CASES[case]
    if "dense" in options["target_modules"] and head == "tokens":
        options = options | {"target_modules": r".*\.layer\..*(query|key|value|dense)"}
    model = adapted_by_peft(bases / head, head, **options)
    model.save_pretrained(tmp_path / "adapter")
    expected = outputs_of(model, ids)
    plain = outputs_of(theirs(bases / head, head), ids)
    bert = kbert.load(bases / head, adapter=tmp_path / "adapter")
    assert bert.head == head
    for found, one, without in zip(ours(bert, ids), expected, plain, strict=True):
        assert np.abs(one - without).max() > 0.05
        np.testing.assert_allclose(found[tuple(map(slice, one.shape))], one, atol=2e-5, rtol=1e-5)
    kbert.save(bert, tmp_path / "again", format="peft")
    again = opened_by_peft(bases / head, head, tmp_path / "again")
    for one, other in zip(outputs_of(again, ids), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def opened_by_peft(base, head, adapter, **options):
    import peft

    return peft.PeftModel.from_pretrained(theirs(base, head, **options), adapter).eval()


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="defaults"),
        pytest.param(
            {"lora_targets": "output,key", "lora_alpha": 5.0, "freeze": "2"},
            id="a pattern of blocks",
        ),
        pytest.param({"lora_targets": "output,value"}, id="a pattern", marks=pytest.mark.nightly),
    ],
)
def test_finetuned_adapter_gives_the_same_in_peft(bases, ids, tmp_path, options):
    write_texts(tmp_path / "train.tsv", 26, 1)
    tuned = kbert.finetune(
        bases / "encoder",
        "classify",
        train=tmp_path / "train.tsv",
        output=tmp_path / "run",
        **({"lora_rank": 3, "epochs": 2, "batch_size": 13, "learning_rate": 3e-2} | options),
        peak_flops=1e9,
        progress=False,
    )
    (expected,) = ours(tuned.bert, ids)
    model = opened_by_peft(bases / "encoder", "classifier", tmp_path / "run/adapter", num_labels=2)
    np.testing.assert_allclose(outputs_of(model, ids)[0], expected, atol=1e-5)
    merged = theirs(tmp_path / "run/model", "classifier", num_labels=2)
    np.testing.assert_allclose(outputs_of(merged, ids)[0], expected, atol=1e-5)
    mine = kbert.load(bases / "encoder", adapter=tmp_path / "run/adapter")
    np.testing.assert_array_equal(ours(mine, ids)[0], expected)
    assert mine.labels == tuned.bert.labels == ("bad", "good")
    config = json.loads((tmp_path / "run/adapter/adapter_config.json").read_text())
    assert (config["task_type"], config["r"]) == ("SEQ_CLS", 3)
    assert config["modules_to_save"] == ["classifier"]
    assert config["base_model_name_or_path"] == str(bases / "encoder")


def test_trainable_params_of_base_are_pefts():
    """bert-base-uncased with two labels, rank 8 on query and value, by PEFT 0.21."""
    found = kbert.account("base_uncased", head="classifier", lora_rank=8)
    assert found.trainable_params == 296_450


def step_of_pefts(base, adapter, tokenizer, texts, labels, rate):
    """One update of AdamW on a loaded adapter, `is_trainable=True`; what is then trained."""
    import peft
    import torch

    model = theirs(base, "classifier", num_labels=2)
    model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).eval()
    trained = {name: one for name, one in model.named_parameters() if one.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), rate, eps=1e-6, weight_decay=0.0)
    batch = tokenizer.encode_batch(texts)
    tokens, segments = (
        torch.tensor(ids, dtype=torch.long) for ids in (batch.token_ids, batch.segment_ids)
    )
    inputs = {"input_ids": tokens, "token_type_ids": segments, "labels": torch.tensor(labels)}
    model(**inputs, attention_mask=(tokens != 0).long()).loss.backward()
    optimizer.step()
    return {name.replace(".default", ""): one.detach().numpy() for name, one in trained.items()}


@pytest.mark.full
@pytest.mark.parametrize("place", ["run", pytest.param("run/adapter", marks=pytest.mark.nightly)])
def test_a_second_run_goes_on_with_the_adapter_as_peft_does(bases, ids, tmp_path, place):
    """One update from A, B and head of the first run: those of PEFT, and of the first base."""
    write_texts(tmp_path / "train.tsv", 26, 1)
    rate = 1e-2
    settings = {"train": tmp_path / "train.tsv", "lora_rank": 3, "lora_alpha": 7.0, "epochs": 1}
    settings |= {"batch_size": 26, "learning_rate": rate, "schedule": "constant"}
    settings |= {"weight_decay": 0.0, "warmup_ratio": 0.0, "clip_norm": 1e9, "seed": 3}
    settings |= {"peak_flops": 1e9, "progress": False}
    kbert.finetune(bases / "encoder", "classify", output=tmp_path / "run", **settings)
    tuned = kbert.finetune(tmp_path / place, "classify", output=tmp_path / "second", **settings)
    lines = [line.split("\t") for line in (tmp_path / "train.tsv").read_text().splitlines()]
    texts, labels = zip(*lines, strict=True)
    numbers = [("bad", "good").index(label) for label in labels]
    wanted = step_of_pefts(
        bases / "encoder", tmp_path / "run/adapter", tuned.bert.tokenizer, texts, numbers, rate
    )
    first, second = (
        load_file(tmp_path / one / "adapter/adapter_model.safetensors") for one in ("run", "second")
    )
    short = {name.replace(".modules_to_save", ""): array for name, array in wanted.items()}
    assert set(short) == set(second)
    for name, array in second.items():  # Adam's first update divides by |gradient|: noise at zero
        assert np.mean(np.abs(array - short[name]) < 1e-5) > 0.98, name
        assert np.abs(array - first[name]).max() > rate / 2
    base, config = bases / "encoder", tmp_path / "second/adapter/adapter_config.json"
    assert json.loads(config.read_text())["base_model_name_or_path"] == str(base)
    mine = kbert.load(base, adapter=tmp_path / "second/adapter")
    np.testing.assert_array_equal(ours(mine, ids)[0], ours(tuned.bert, ids)[0])
