"""transformers' BERT classes with random weights: what they compute, and their files."""

import json
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights, label_options, run_model

CASES = (  # settings that differ, each with an activation and an epsilon of its own
    {},
    {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "num_hidden_layers": 1},
    {"hidden_act": "relu", "layer_norm_eps": 1e-3, "num_hidden_layers": 1},
)
CLASSES = (
    "BertModel",
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)


def draw_ids(sizes: dict, seed: int, *lengths: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw token ids and segment ids of 13 rows; the lengths take turns, the longest first."""
    random = np.random.default_rng(seed)
    token_ids = random.integers(1, sizes["vocab_size"], (13, lengths[0]))
    for row in range(13):
        token_ids[row, lengths[row % len(lengths)] :] = 0
    return token_ids, random.integers(0, sizes["type_vocab_size"], token_ids.shape)


def write_outputs(out: Path, sizes: dict) -> None:
    """Write OUT/0.npz and so on, for each of `CASES`: parameters by name, ids and outputs.

    OUT/activations.npz has numbers, and the value of each activation under its name.
    """
    import torch
    from transformers import BertConfig, BertForPreTraining
    from transformers.activations import ACT2FN

    for place, case in enumerate(CASES):
        config = BertConfig(**sizes | case, attn_implementation="eager")
        model = BertForPreTraining(config).eval()
        draw_weights(model, 5)
        ids = draw_ids(sizes, 7, 11, 7, 3)
        outputs = run_model(model, *ids, output_hidden_states=True, output_attentions=True)
        pooled = model.bert.pooler(outputs.hidden_states[-1])
        arrays = {
            "mlm_logits": outputs.prediction_logits,
            "nsp_logits": outputs.seq_relationship_logits,
            "pooled_output": pooled,
            "hidden_states": torch.stack(outputs.hidden_states),
            "attentions": torch.stack(outputs.attentions),
        } | dict(model.named_parameters())
        arrays = {name: tensor.detach().numpy() for name, tensor in arrays.items()}
        np.savez(out / f"{place}.npz", token_ids=ids[0], segment_ids=ids[1], **arrays)
    numbers = np.array([*np.linspace(-12, 12, 241), 1e-3, -1e-3], "float32")
    plain = set(ACT2FN) - {"prelu", "xielu"}  # they have weights
    values = {name: ACT2FN[name](torch.from_numpy(numbers)).numpy() for name in sorted(plain)}
    np.savez(out / "activations.npz", numbers=numbers, **values)


def write_checkpoints(out: Path, sizes: dict) -> None:
    """Write OUT/<class> and OUT/<class>.npz, its outputs in their order; OUT/ids.npz: the inputs.

    Beside them the same BertForPreTraining in the forms that checkpoints come in.
    """
    import transformers

    token_ids, segment_ids = draw_ids(sizes, 3, 11, 7)
    np.savez(out / "ids.npz", token_ids=token_ids, segment_ids=segment_ids)
    for name in CLASSES:
        config = transformers.BertConfig(**sizes, **label_options(name))
        model = getattr(transformers, name)(config).eval()
        draw_weights(model, 3, fraction=4096)  # float16 rounds these
        outputs = run_model(model, token_ids, segment_ids)
        model.save_pretrained(out / name)
        np.savez(out / f"{name}.npz", *(value.numpy() for value in outputs.values()))
        if name == "BertForPreTraining":
            write_other_forms(model, out)


def write_other_forms(model, out: Path) -> None:
    """Write the weights of one model as sharded, halved, pickled and old files hold them."""
    import torch
    from safetensors.torch import save_file

    model.save_pretrained(out / "sharded", max_shard_size="20KB")
    assert len(list((out / "sharded").glob("*.safetensors"))) > 2
    state = {name: value.clone() for name, value in model.state_dict().items()}
    config = (out / "BertForPreTraining" / "config.json").read_bytes()
    for form in ("pickled", "old", "float16", "bfloat16"):
        (out / form).mkdir()
        (out / form / "config.json").write_bytes(config)
    torch.save(state, out / "pickled" / "pytorch_model.bin")
    for dtype in ("float16", "bfloat16"):
        halved = {name: value.to(getattr(torch, dtype)) for name, value in state.items()}
        del halved["cls.predictions.decoder.weight"], halved["cls.predictions.decoder.bias"]
        save_file(halved, out / dtype / "model.safetensors")
    gamma, beta = ("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")
    old = {name.replace(*gamma).replace(*beta): value for name, value in state.items()}
    old["bert.embeddings.position_ids"] = torch.arange(17)[None]
    save_file(old, out / "old" / "model.safetensors")


def read_folder(out: Path, folder: str) -> None:
    """Write what transformers and sentence-transformers compute of OUT/texts.json with a folder.

    OUT/outputs.npz: padded ids, last hidden state and pooled output. OUT/vectors.npy: the vectors,
    if sentence-transformers is installed.
    """
    from transformers import AutoModel, AutoTokenizer

    texts = json.loads((out / "texts.json").read_text(encoding="utf-8"))
    if find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        np.save(out / "vectors.npy", SentenceTransformer(folder, device="cpu").encode(texts))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="np")
    outputs = run_model(AutoModel.from_pretrained(folder).eval(), inputs["input_ids"])
    np.savez(
        out / "outputs.npz",
        token_ids=inputs["input_ids"],
        sequence_output=outputs.last_hidden_state.numpy(),
        pooled_output=outputs.pooler_output.numpy(),
    )


def encode(out: Path, cases: dict) -> None:
    """Write OUT/ids.json: by case, what a class of tokenizers returns for each of its calls.

    A case has the class, the files' texts by name, and calls: texts and options of each.
    """
    import transformers

    found = {}
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            for file, text in case["files"].items():
                (Path(folder) / file).write_text(text, encoding="utf-8")
            tokenizer = getattr(transformers, case["class"]).from_pretrained(folder)
            found[name] = [dict(tokenizer(*texts, **options)) for texts, options in case["calls"]]
    (out / "ids.json").write_text(json.dumps(found))
