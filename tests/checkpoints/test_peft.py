"""Adapters of BERT and its family have PEFT's outputs, updates and counts, in both directions."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.errors import raises
from helpers.labelled_texts import read_texts, write_texts
from helpers.marks import nightly
from helpers.peer_outputs import run_peer
from helpers.small_berts import small_bert, small_berts
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import load_file

import kbert

pytestmark = pytest.mark.filterwarnings("ignore")  # of the peer's

TASKS = {
    "Model": "FEATURE_EXTRACTION",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForQuestionAnswering": "QUESTION_ANS",
}
CLASSES = [f"{family}{head}" for family in ("Roberta", "DistilBert") for head in [*TASKS][:3]]
OF_BERT = {
    "encoder": "BertModel",
    "classifier": "BertForSequenceClassification",
    "tokens": "BertForTokenClassification",
    "qa": "BertForQuestionAnswering",
}
TEXTS = ["the dog barks", "a cat", "two  blanks", "dogs bark a lot", "so does the cat"]
ADAPTER = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    """Checkpoints by their class, for PEFT in this process: BERT's without dropout."""
    # here, since every worker that only collects the tests would import PEFT for seconds
    pytest.importorskip("peft", reason="the peer: pip install --no-deps peft accelerate")
    out = tmp_path_factory.mktemp("family")
    run_peer("peer_family:write_classes", out, TEXTS, CLASSES)
    config = small.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    berts = small_berts(config)
    for head, name in OF_BERT.items():
        kbert.save(berts[head], out / name)
    return out


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Adapters that PEFT wrote, their bases, and what they compute."""
    out = tmp_path_factory.mktemp("written")
    run_peer("peer_peft_folder:write_adapters", out)
    return out


@pytest.mark.parametrize("case", ["classifier", "blocks"])
def test_written_adapters_give_pefts_numbers_and_tensors(written, tmp_path, case):
    base, numbers = written / f"{case}_base", np.load(written / f"{case}.npz")
    inputs = [numbers["ids"], numbers["segments"]]
    real = inputs[0] != 0 if case == "blocks" else slice(None)
    bert = kbert.load(base, adapter=written / case)
    for one, name in ((bert, "adapted"), (kbert.load(base), "plain")):
        assert_allclose(outputs_of(one, *inputs)[0][real], numbers[name][real], atol=1e-5)
    assert np.abs(numbers["adapted"] - numbers["plain"])[real].max() > 0.05
    kbert.save(bert, tmp_path / "again", format="peft")
    theirs, again = (load_file(path / ADAPTER) for path in (written / case, tmp_path / "again"))
    assert set(theirs) == set(again)
    for name, array in theirs.items():
        assert_array_equal(again[name], array, strict=True)


def outputs_of(bert, *inputs) -> list[np.ndarray]:
    return list(map(np.asarray, kbert.predict(bert.model, *inputs).values()))


def theirs(folder, name: str, **options):
    import transformers

    cls = getattr(transformers, name)
    return cls.from_pretrained(folder, **options, ignore_mismatched_sizes=True).eval()


def outputs_of_theirs(model, ids, pad: int) -> list[np.ndarray]:
    import torch

    if hasattr(model, "get_base_model"):
        model = model.get_base_model()
    tokens = torch.tensor(ids, dtype=torch.long)
    with torch.no_grad():
        found = model(input_ids=tokens, attention_mask=(tokens != pad).long())
    return [value.numpy() for value in found.to_tuple()]


def opened_by_peft(base, name: str, adapter, **options):
    import peft

    return peft.PeftModel.from_pretrained(theirs(base, name, **options), adapter).eval()


def ids_of(bert) -> np.ndarray:
    ids = np.random.default_rng(3).integers(5, bert.config.vocab_size, (13, 11))
    ids[1::2, 7:] = bert.config.pad_token_id
    return ids


CASES = {
    "BertForTokenClassification": {
        "r": 3,
        "target_modules": r".*\.layer\..*(query|key|value|dense)",
        "use_rslora": True,
    },
    "BertForQuestionAnswering": {"r": 2, "target_modules": r".*\.layer\.\d\.output\.dense"},
    "RobertaForSequenceClassification": {"r": 7, "target_modules": ["query", "value"]},
    "DistilBertForSequenceClassification": {"r": 5, "target_modules": ["q_lin", "v_lin"]},
    "RobertaModel": {
        "r": 3,
        "lora_alpha": 5,
        "target_modules": r".*layer\.\d\.(attention\.output|intermediate|output)\.dense",
        "alpha_pattern": {"intermediate.dense": 9},
    },
    "DistilBertForTokenClassification": {
        "r": 2,
        "target_modules": ["k_lin", "out_lin", "lin1", "lin2"],
        "rank_pattern": {"lin1": 4},
    },
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_an_adapter_of_pefts_gives_pefts_numbers(folders, tmp_path, name):
    """The adapter has numbers that are none of the first ones."""
    import peft
    import torch

    task = next(task for head, task in TASKS.items() if name.endswith(head))
    config = peft.LoraConfig(task_type=task, **CASES[name])
    model = peft.get_peft_model(theirs(folders / name, name), config).eval()
    torch.manual_seed(7)
    for key, parameter in model.named_parameters():
        if "lora_" in key or "modules_to_save" in key:
            torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(tmp_path / "adapter")
    bert = kbert.load(folders / name, adapter=tmp_path / "adapter")
    ids, pad = ids_of(bert), bert.config.pad_token_id
    expected, plain = (
        outputs_of_theirs(one, ids, pad) for one in (model, theirs(folders / name, name))
    )
    kbert.save(bert, tmp_path / "again", format="peft")
    again = opened_by_peft(folders / name, name, tmp_path / "again")
    found = outputs_of(bert, ids), outputs_of_theirs(again, ids, pad)
    for wanted, without, ours, reopened in zip(expected, plain, *found, strict=True):
        assert np.abs(wanted - without).max() > 0.05
        real = ids != pad if wanted.shape[:2] == ids.shape else slice(None)
        assert_allclose(ours[real], wanted[real], atol=2e-5, rtol=1e-5)
        assert_allclose(reopened, wanted, atol=1e-6)


MODULES = {"Bert": ["classifier"], "Roberta": ["classifier"]}
MODULES["DistilBert"] = ["classifier", "pre_classifier"]
TARGETS = {"Roberta": ["query", "value"], "DistilBert": ["q_lin", "v_lin"]}
TUNED = [
    ("Bert", {}),
    ("Bert", {"lora_targets": "output,key", "lora_alpha": 5.0, "freeze": "2"}),  # some blocks
    nightly("Bert", {"lora_targets": "output,value"}),
    nightly("Roberta", {}),
    ("DistilBert", {}),
]


@pytest.mark.full
@pytest.mark.parametrize(("family", "options"), TUNED)
def test_finetuned_adapter_gives_the_same_in_peft(folders, tmp_path, family, options):
    source = kbert.load(folders / f"{family}Model")
    source = dataclasses.replace(source, tokenizer=source.tokenizer or words(source, folders))
    base, run = tmp_path / "base", tmp_path / "run"
    kbert.save(source, base)
    write_texts(tmp_path / "train.tsv", 26, 1)
    options = {"lora_rank": 3, "epochs": 2, "batch_size": 13, "learning_rate": 3e-2} | options
    options |= {"train": tmp_path / "train.tsv", "peak_flops": 1e9, "progress": False}
    tuned = kbert.finetune(base, "classify", output=run, **options)
    ids, pad, name = (
        ids_of(source),
        source.config.pad_token_id,
        f"{family}ForSequenceClassification",
    )
    (expected,) = outputs_of(tuned.bert, ids)
    merged = theirs(run / "model", name, num_labels=2)
    for model in (opened_by_peft(base, name, run / "adapter", num_labels=2), merged):
        assert_allclose(outputs_of_theirs(model, ids, pad)[0], expected, atol=1e-5)
    mine = kbert.load(base, adapter=run / "adapter")
    assert_array_equal(outputs_of(mine, ids)[0], expected)
    assert mine.labels == tuned.bert.labels == ("bad", "good")
    config = json.loads((run / "adapter/adapter_config.json").read_text())
    assert (config["task_type"], config["r"]) == ("SEQ_CLS", 3)
    assert sorted(config["modules_to_save"]) == MODULES[family]
    assert config["base_model_name_or_path"] == str(base)
    assert family == "Bert" or config["target_modules"] == TARGETS[family]


def words(bert, folders):
    if bert.config.model_type == "roberta":
        return kbert.Tokenizer.load(folders / "bpe")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "sun", "dog", "cat", "red", "big"]
    tokens += [f"[unused{n}]" for n in range(bert.config.vocab_size - 10)]
    return kbert.Tokenizer.from_vocab(tokens, lowercase=True)


def test_trainable_params_of_base_are_pefts():
    """bert-base-uncased with two labels, rank 8 on query and value, by PEFT 0.21."""
    found = kbert.account("base_uncased", head="classifier", lora_rank=8)
    assert found.trainable_params == 296_450


@pytest.mark.full
@pytest.mark.parametrize("family", TARGETS)
def test_trainable_params_of_a_family_are_pefts(family):
    """The head is all that transformers has in no pretrained checkpoint, the first dense too."""
    peft = pytest.importorskip("peft", reason="the peer: pip install --no-deps peft accelerate")
    import torch
    import transformers

    config = getattr(transformers, f"{family}Config")()
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForSequenceClassification")(config)
    options = {"target_modules": TARGETS[family], "modules_to_save": MODULES[family]}
    lora = peft.LoraConfig(task_type="SEQ_CLS", r=8, **options)
    count, _ = peft.get_peft_model(model, lora).get_nb_trainable_parameters()
    sizes = {"vocab_size": config.vocab_size, "num_hidden_layers": config.num_hidden_layers}
    sizes |= {"type_vocab_size": 2 if family == "Roberta" else 1, "pad_token_id": 1}
    ours = kbert.BertConfig(**sizes, model_type=family.lower())
    found = kbert.account(ours, head="classifier", lora_rank=8)
    assert found.trainable_params == count
    with raises(ValueError, "freeze", "'pooler'"):
        kbert.account(ours, head="classifier", freeze="pooler")


@pytest.mark.full
def test_adapter_of_another_family_is_refused(folders, tmp_path, small):
    import peft

    name = "DistilBertModel"
    config = peft.LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["q_lin"])
    model = peft.get_peft_model(theirs(folders / name, name), config)
    model.save_pretrained(tmp_path / "adapter")
    kbert.save(small_bert(small, "encoder"), tmp_path / "bert")
    with raises(ValueError, "DistilBERT", "BERT"):
        kbert.load(tmp_path / "bert", adapter=tmp_path / "adapter")


def step_of_pefts(base, adapter, tokenizer, texts, labels, rate):
    """One update of AdamW on a loaded adapter, `is_trainable=True`; what is then trained."""
    import peft
    import torch

    model = theirs(base, "BertForSequenceClassification", num_labels=2)
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
@pytest.mark.parametrize("place", ["run", nightly("run/adapter")])
def test_a_second_run_goes_on_with_the_adapter_as_peft_does(folders, tmp_path, place):
    """One update from A, B and head of the first run: those of PEFT, and of the first base."""
    write_texts(tmp_path / "train.tsv", 26, 1)
    base, rate = folders / "BertModel", 1e-2
    settings = {"train": tmp_path / "train.tsv", "lora_rank": 3, "lora_alpha": 7.0, "epochs": 1}
    settings |= {"batch_size": 26, "learning_rate": rate, "schedule": "constant"}
    settings |= {"weight_decay": 0.0, "warmup_ratio": 0.0, "clip_norm": 1e9, "seed": 3}
    settings |= {"peak_flops": 1e9, "progress": False}
    kbert.finetune(base, "classify", output=tmp_path / "run", **settings)
    tuned = kbert.finetune(tmp_path / place, "classify", output=tmp_path / "second", **settings)
    texts, labels = read_texts(tmp_path / "train.tsv")
    numbers = [("bad", "good").index(label) for label in labels]
    wanted = step_of_pefts(
        base, tmp_path / "run/adapter", tuned.bert.tokenizer, texts, numbers, rate
    )
    first, second = (load_file(tmp_path / one / "adapter" / ADAPTER) for one in ("run", "second"))
    short = {name.replace(".modules_to_save", ""): array for name, array in wanted.items()}
    assert set(short) == set(second)
    for name, array in second.items():  # Adam's first update divides by |gradient|: noise at zero
        assert np.mean(np.abs(array - short[name]) < 1e-5) > 0.98, name
        assert np.abs(array - first[name]).max() > rate / 2
    config = json.loads((tmp_path / "second/adapter/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(base)
    mine, ids = kbert.load(base, adapter=tmp_path / "second/adapter"), ids_of(tuned.bert)
    assert_array_equal(outputs_of(mine, ids)[0], outputs_of(tuned.bert, ids)[0])
