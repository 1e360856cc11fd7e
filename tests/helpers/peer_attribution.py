"""captum's integrated gradients on small models of transformers, in a process of its own.

    python -m helpers.peer_attribution SIZES_AS_JSON FOLDER

writes a folder a model, with random weights and a vocabulary, and captum.npz: each case's
attributions, (1, S, H), and what they must sum to.
"""

import json
import sys
from pathlib import Path

import numpy as np

from helpers.peer_tasks import VOCABULARY
from helpers.peer_weights import draw_weights

TEXT, PAIR = "the red cat sat on the mat", "it sees dogs!"
MASKED = "the [MASK] cat sees the [MASK]"
OTHER = "a big moon"
STEPS = 50
CASES = ("label", "label-logit-mask", "token-logit", "cosine")


def main(sizes: dict, out: Path) -> None:
    import transformers

    words = [*VOCABULARY, *(f"[unused{n}]" for n in range(sizes["vocab_size"]))]
    (out / "vocab.txt").write_text("\n".join(words[: sizes["vocab_size"]]), encoding="utf-8")
    tokenizer = transformers.BertTokenizer(str(out / "vocab.txt"), do_lower_case=True)
    config = transformers.BertConfig(**sizes, num_labels=3, attn_implementation="eager")
    config.id2label = {0: "red", 1: "white", 2: "black"}
    models = {}
    for name in ("BertForSequenceClassification", "BertForMaskedLM", "BertModel"):
        models[name] = getattr(transformers, name)(config).eval()
        draw_weights(models[name], 7)
        models[name].save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)
    np.savez(out / "captum.npz", **attributions(models, tokenizer))


def attributions(models: dict, tokenizer) -> dict:
    """Each case by name, and under `NAME-ends` the function of the text and of the baseline."""
    labels, masked, encoder = models.values()
    text = tokenizer(TEXT, PAIR, return_tensors="pt")
    with_masks = tokenizer(MASKED, return_tensors="pt")
    place = (with_masks["input_ids"][0] == tokenizer.mask_token_id).nonzero()[1, 0]  # the second
    cat = tokenizer.convert_tokens_to_ids("cat")
    other = vector(encoder, tokenizer(OTHER, return_tensors="pt"))

    def cosine(ids, segments):
        found = vector(encoder, {"input_ids": ids, "token_type_ids": segments})
        return (found * other).sum(-1) / (found.norm(dim=-1) * other.norm())

    def of_token(ids, segments):
        logits = masked(input_ids=ids, token_type_ids=segments).logits
        return logits[:, place, cat]

    def of_label(ids, segments):
        return labels(input_ids=ids, token_type_ids=segments).logits

    found: dict = {}
    cases = {
        "label": (lambda *a: of_label(*a).softmax(-1)[:, 1], labels.bert, text, "[PAD]", None),
        "label-logit-mask": (lambda *a: of_label(*a)[:, 2], labels.bert, text, "[MASK]", None),
        "token-logit": (of_token, masked.bert, with_masks, "[PAD]", place),
        "cosine": (
            cosine,
            encoder,
            tokenizer(TEXT, return_tensors="pt"),
            "[PAD]",
            None,
        ),
    }
    for name, (function, bert, inputs, filler, kept) in cases.items():
        found[name], found[f"{name}-ends"] = integrated(
            function, bert, inputs, tokenizer, filler, kept
        )
    return found


def vector(encoder, inputs):
    """The mean over all tokens: there is no padding here."""
    return encoder(**inputs).last_hidden_state.mean(1)


def integrated(function, bert, inputs, tokenizer, filler: str, kept) -> tuple:
    from captum.attr import LayerIntegratedGradients

    ids, segments = inputs["input_ids"], inputs["token_type_ids"]
    baseline = ids.clone()
    for at, number in enumerate(ids[0].tolist()):
        if number not in (tokenizer.cls_token_id, tokenizer.sep_token_id) and at != kept:
            baseline[0, at] = tokenizer.convert_tokens_to_ids(filler)
    method = LayerIntegratedGradients(function, bert.embeddings)
    found = method.attribute(ids, baseline, additional_forward_args=(segments,), n_steps=STEPS)
    ends = [float(function(one, segments).detach()[0]) for one in (ids, baseline)]
    return found.detach().numpy(), np.array(ends)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
