"""transformers writes its BERT classes into folders, with what each computes.

    python -m helpers.peer_checkpoints SIZES_AS_JSON OUT

makes OUT/<class>/ (a checkpoint) and OUT/<class>.npz (its outputs in order); OUT/ids.npz holds the
inputs. Beside them the same BertForPreTraining in the forms that checkpoints come in.
"""

import json
import sys
from pathlib import Path

import numpy as np

from helpers.peer_weights import draw_weights

CLASSES = (
    "BertModel",
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)


def main(sizes: dict, out: Path) -> None:
    import torch
    import transformers

    random = np.random.default_rng(3)
    token_ids = random.integers(1, sizes["vocab_size"], (13, 11))
    token_ids[1::2, 7:] = 0
    segment_ids = random.integers(0, sizes["type_vocab_size"], token_ids.shape)
    np.savez(out / "ids.npz", token_ids=token_ids, segment_ids=segment_ids)
    for name in CLASSES:
        labels = {"num_labels": 5} if "SequenceC" in name or "TokenC" in name else {}
        config = transformers.BertConfig(**sizes, **labels)
        model = getattr(transformers, name)(config).eval()
        draw_weights(model, 3, fraction=4096)  # float16 rounds these
        with torch.no_grad():
            outputs = model(
                torch.tensor(token_ids),
                attention_mask=torch.tensor((token_ids != 0).astype("int64")),
                token_type_ids=torch.tensor(segment_ids),
            )
        model.save_pretrained(out / name)
        np.savez(out / f"{name}.npz", *(value.numpy() for value in outputs.values()))
        if name == "BertForPreTraining":
            other_forms(model, out)


def other_forms(model, out: Path) -> None:
    """The weights of one model as sharded, halved, pickled and old files hold them."""
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
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in state.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(17)[None]
    save_file(old, out / "old" / "model.safetensors")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
