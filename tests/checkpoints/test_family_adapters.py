"""LoRA adapters of RoBERTa and DistilBERT have PEFT's outputs, names and counts."""

import dataclasses
import json

import numpy as np
import pytest
from helpers.peer_outputs import run_peer
from helpers.small_berts import small_bert

import kbert

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # warnings of the peer's

HEADS = ("Model", "ForSequenceClassification", "ForTokenClassification")
CLASSES = [f"{family}{head}" for family in ("Roberta", "DistilBert") for head in HEADS]
TASKS = {"Model": "FEATURE_EXTRACTION", "ForSequenceClassification": "SEQ_CLS"}
TASKS |= {"ForTokenClassification": "TOKEN_CLS"}
ROWS = [("the dog barks", "good"), ("dogs bark", "bad"), ("a cat", "good"), ("a dog", "bad")] * 4
TEXTS = ["the dog barks", "a cat", "two  blanks", "dogs bark a lot", "so does the cat"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    # here, since every worker that only collects the tests would import PEFT for seconds
    pytest.importorskip("peft", reason="the peer: pip install --no-deps peft accelerate")
    out = tmp_path_factory.mktemp("family")
    run_peer("peer_family.py", out, json.dumps(TEXTS), out, *CLASSES)
    return out


def theirs(folder, name, **options):
    import transformers

    return getattr(transformers, name).from_pretrained(folder, **options).eval()


def outputs_of(model, ids, pad) -> np.ndarray:
    import torch

    tokens = torch.tensor(ids, dtype=torch.long)
    with torch.no_grad():
        return model(input_ids=tokens, attention_mask=(tokens != pad).long())[0].numpy()


def head_of(name: str) -> str:
    return next(head for head in HEADS if name.endswith(head))


CASES = {
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


@pytest.mark.parametrize("name", CASES)
def test_an_adapter_of_pefts_gives_pefts_numbers(folders, tmp_path, name):
    import peft
    import torch

    ids = np.load(folders / f"{name}.npz")["ids"]
    config = peft.LoraConfig(task_type=TASKS[head_of(name)], **CASES[name])
    model = peft.get_peft_model(theirs(folders / name, name), config).eval()
    torch.manual_seed(7)
    for key, parameter in model.named_parameters():
        if "lora_" in key or "modules_to_save" in key:
            torch.nn.init.normal_(parameter, 0, 0.2)
    model.save_pretrained(tmp_path / "adapter")
    bert = kbert.load(folders / name, adapter=tmp_path / "adapter")
    pad = bert.config.pad_token_id
    expected, plain = (outputs_of(one, ids, pad) for one in (model, theirs(folders / name, name)))
    assert np.abs(expected - plain).max() > 0.05
    found = next(iter(kbert.predict(bert.model, ids).values()))
    real = ids != pad if found.ndim == 3 else slice(None)
    np.testing.assert_allclose(found[real], expected[real], atol=2e-5, rtol=1e-5)
    kbert.save(bert, tmp_path / "again", format="peft")
    again = peft.PeftModel.from_pretrained(theirs(folders / name, name), tmp_path / "again").eval()
    np.testing.assert_allclose(outputs_of(again, ids, pad), expected, atol=1e-6)


MODULES = {"Roberta": ["classifier"], "DistilBert": ["classifier", "pre_classifier"]}
TARGETS = {"Roberta": ["query", "value"], "DistilBert": ["q_lin", "v_lin"]}


@pytest.mark.parametrize(
    "family", [pytest.param("Roberta", marks=pytest.mark.nightly), "DistilBert"]
)
def test_finetuned_adapter_gives_the_same_in_peft(folders, tmp_path, family):
    import peft

    bert = kbert.load(folders / f"{family}Model")
    bert = dataclasses.replace(bert, tokenizer=words(bert, folders))
    kbert.save(bert, tmp_path / "base")
    options = {"lora_rank": 3, "epochs": 2, "batch_size": 8, "learning_rate": 3e-2, "max_length": 9}
    quiet = {"peak_flops": 1e9, "progress": False}
    tuned = kbert.finetune(
        tmp_path / "base", "classify", train=ROWS, output=tmp_path / "run", **options, **quiet
    )
    config = json.loads((tmp_path / "run/adapter/adapter_config.json").read_text())
    assert sorted(config["modules_to_save"]) == MODULES[family]
    assert config["target_modules"] == TARGETS[family]
    base = theirs(tmp_path / "base", f"{family}ForSequenceClassification", num_labels=2)
    model = peft.PeftModel.from_pretrained(base, tmp_path / "run/adapter").eval()
    ids = np.load(folders / f"{family}Model.npz")["ids"] % bert.config.vocab_size
    (expected,) = kbert.predict(tuned.bert.model, ids).values()
    found = outputs_of(model, ids, bert.config.pad_token_id)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    mine = kbert.load(tmp_path / "base", adapter=tmp_path / "run/adapter")
    (again,) = kbert.predict(mine.model, ids).values()
    np.testing.assert_array_equal(again, expected)
    assert mine.labels == ("bad", "good")


def words(bert, folders):
    if bert.config.model_type == "roberta":
        return kbert.Tokenizer.load(folders / "bpe")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "cat", "a", "##s"]
    tokens += ["bark", "dogs"] + [f"[unused{n}]" for n in range(bert.config.vocab_size - 12)]
    return kbert.Tokenizer.from_vocab(tokens, lowercase=True)


@pytest.mark.parametrize("family", MODULES)
def test_trainable_params_of_base_are_pefts(family):
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
    with pytest.raises(ValueError, match="freeze must name parts that the graph has, got 'pooler'"):
        kbert.account(ours, head="classifier", freeze="pooler")


def test_adapter_of_another_family_is_refused(folders, tmp_path, small):
    import peft

    name = "DistilBertModel"
    config = peft.LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["q_lin"])
    model = peft.get_peft_model(theirs(folders / name, name), config)
    model.save_pretrained(tmp_path / "adapter")
    kbert.save(small_bert(small, "encoder"), tmp_path / "bert")
    with pytest.raises(ValueError, match="got another's: names of a DistilBERT for a BERT"):
        kbert.load(tmp_path / "bert", adapter=tmp_path / "adapter")
