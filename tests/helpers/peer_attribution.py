"""captum's integrated gradients on small models of transformers."""

from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights, write_tokenizer
from helpers.peer_tasks import VOCABULARY

TEXT, PAIR = "the red cat sat on the mat", "it sees dogs!"
MASKED = "the [MASK] cat sees the [MASK]"
OTHER = "a big moon"
STEPS = 50
CASES = ("label", "label-logit-mask", "token-logit", "cosine")


def attribute(out: Path, sizes: dict) -> None:
    """Write OUT/<class>, a checkpoint with a vocabulary, and OUT/captum.npz.

    That has the attributions of each case, (1, S, H), and what they must sum to.
    """
    import transformers

    tokenizer = write_tokenizer(out, VOCABULARY, sizes["vocab_size"])
    config = transformers.BertConfig(**sizes, num_labels=3, attn_implementation="eager")
    config.id2label = {0: "red", 1: "white", 2: "black"}
    models = {}
    for name in ("BertForSequenceClassification", "BertForMaskedLM", "BertModel"):
        models[name] = getattr(transformers, name)(config).eval()
        draw_weights(models[name], 7)
        models[name].save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)
    np.savez(out / "captum.npz", **attribute_cases(models, tokenizer))


def attribute_cases(models: dict, tokenizer) -> dict:
    """Each case by name, and under `NAME-ends` the function of the text and of the baseline."""
    labels, masked, encoder = models.values()
    alone, text = (tokenizer(*one, return_tensors="pt") for one in ([TEXT], [TEXT, PAIR]))
    with_masks = tokenizer(MASKED, return_tensors="pt")
    place = (with_masks["input_ids"][0] == tokenizer.mask_token_id).nonzero()[1, 0]  # the second
    cat = tokenizer.convert_tokens_to_ids("cat")
    other = vector(encoder, **tokenizer(OTHER, return_tensors="pt"))

    def cosine(ids, segments):
        found = vector(encoder, input_ids=ids, token_type_ids=segments)
        return (found * other).sum(-1) / (found.norm(dim=-1) * other.norm())

    def of_token(ids, segments):
        return masked(input_ids=ids, token_type_ids=segments).logits[:, place, cat]

    def of_label(ids, segments):
        return labels(input_ids=ids, token_type_ids=segments).logits

    found: dict = {}
    cases = {
        "label": (lambda *a: of_label(*a).softmax(-1)[:, 1], labels.bert, text, "[PAD]", None),
        "label-logit-mask": (lambda *a: of_label(*a)[:, 2], labels.bert, text, "[MASK]", None),
        "token-logit": (of_token, masked.bert, with_masks, "[PAD]", place),
        "cosine": (cosine, encoder, alone, "[PAD]", None),
    }
    for name, (function, bert, inputs, filler, kept) in cases.items():
        ids, segments = inputs["input_ids"], inputs["token_type_ids"]
        baseline = ids.clone()
        for at, number in enumerate(ids[0].tolist()):
            if number not in (tokenizer.cls_token_id, tokenizer.sep_token_id) and at != kept:
                baseline[0, at] = tokenizer.convert_tokens_to_ids(filler)
        found[name] = integrate(function, bert, ids, baseline, segments)
        ends = [float(function(one, segments).detach()[0]) for one in (ids, baseline)]
        found[f"{name}-ends"] = np.array(ends)
    return found


def vector(encoder, **inputs):
    """Return the mean over all tokens: there is no padding here."""
    return encoder(**inputs).last_hidden_state.mean(1)


def integrate(function, bert, ids, baseline, *more) -> np.ndarray:
    from captum.attr import LayerIntegratedGradients

    method = LayerIntegratedGradients(function, bert.embeddings)
    found = method.attribute(ids, baseline, additional_forward_args=more, n_steps=STEPS)
    return found.detach().numpy()


def attribute_family(out: Path, folder: str, cases: dict) -> None:
    """Write OUT/captum.npz: the attributions of classes of BERT's family, (1, S, H).

    A case is called as its class, whose checkpoint is FOLDER/<class>; it has "ids" of a text,
    "baseline" ids, and the "label" that is attributed.
    """
    import torch
    import transformers

    found = {}
    for name, case in cases.items():
        model = getattr(transformers, name).from_pretrained(Path(folder) / name).eval()
        options = {}
        if model.config.model_type == "roberta":  # else a padding token of the baseline has row 1
            options["position_ids"] = torch.arange(2, 2 + len(case["ids"]))[None]

        def function(tokens, model=model, options=options, label=case["label"]):
            positions = {name: one.expand(len(tokens), -1) for name, one in options.items()}
            outputs = model(tokens, attention_mask=torch.ones_like(tokens), **positions)
            return outputs.logits.softmax(-1)[:, label]

        ids, baseline = (torch.tensor([case[key]]) for key in ("ids", "baseline"))
        found[name] = integrate(function, model.base_model, ids, baseline)
    np.savez(out / "captum.npz", **found)
