"""transformers writes classes of BERT's family into folders, with what each computes."""

import json
from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights, label_options, run_model

HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")
HEADS += ("ForQuestionAnswering",)
CLASSES = tuple(f"{name}{head}" for name in ("Roberta", "DistilBert") for head in HEADS)
CLASSES += ("XLMRobertaModel", "CamembertForMaskedLM", "Data2VecTextForSequenceClassification")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def configuration(name: str, vocab_size: int):
    import transformers

    labels = label_options(name)
    if name.startswith("DistilBert"):
        sizes = {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}
        return transformers.DistilBertConfig(
            vocab_size=99, max_position_embeddings=23, **sizes, **labels
        )
    kind = getattr(transformers, name.split("For")[0].removesuffix("Model") + "Config")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    return kind(
        vocab_size=vocab_size,
        intermediate_size=37,
        max_position_embeddings=25,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=1,
        hidden_act="gelu",
        **sizes,
        **labels,
    )


def write_classes(out: Path, texts: list[str], classes: list[str] = CLASSES) -> None:
    """Write OUT/<class>, a checkpoint, and OUT/<class>.npz.

    That has its outputs in their order, ids, number of parameters, labels, the loss of these
    without dropout, and its gradient by each parameter. OUT/bpe is a byte-level BPE as
    tokenizer.json, OUT/bpe_files the same as vocab.json and merges.txt, OUT/unigram a Unigram;
    OUT/tokens.json has transformers' ids of the texts.
    """
    import torch
    import transformers

    tokens = {"bpe": bpe(texts, out), "unigram": unigram(texts, out)}
    (out / "tokens.json").write_text(json.dumps({name: tokens[name][1] for name in tokens}))
    random = np.random.default_rng(3)
    for name in classes:
        config = configuration(name, tokens["bpe"][0])
        pad = config.pad_token_id
        ids = random.integers(2, config.vocab_size, (13, 11))
        ids[1::2, 7:] = pad
        model = getattr(transformers, name)(config).eval()
        draw_weights(model, 3)
        arrays = [value.numpy() for value in run_model(model, ids, pad=pad).values()]
        model.save_pretrained(out / name)
        mask = torch.tensor((ids != pad).astype("int64"))
        learned = learning(model, torch.tensor(ids), mask, random)
        np.savez(out / f"{name}.npz", *arrays, ids=ids, params=model.num_parameters(), **learned)


def learning(model, ids, mask, random) -> dict:
    """Labels by what transformers calls them, the loss, and gradients as `gradient/NAME`."""
    import torch

    name = type(model).__name__
    if "QuestionA" in name:  # over all places, padding too, which transformers numbers otherwise
        ids, mask = ids[::2], mask[::2]
    rows, length = ids.shape
    if name.endswith("Model"):
        loss, labels = infonce(model, ids, mask), {}
    elif "QuestionA" in name:
        labels = {f"{end}_positions": random.integers(0, 7, rows) for end in ("start", "end")}
    elif "SequenceC" in name:
        labels = {"labels": random.integers(0, 5, rows)}
    else:
        classes = 5 if "TokenC" in name else model.config.vocab_size
        labels = {"labels": random.integers(0, classes, (rows, length))}
        labels["labels"][(mask.numpy() == 0) | (random.random((rows, length)) < 0.3)] = -100
    if labels:
        given = {key: torch.tensor(value) for key, value in labels.items()}
        loss = model(ids, attention_mask=mask, **given).loss
    loss.backward()
    gradients = {
        f"gradient/{key}": parameter.grad.numpy()
        for key, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return labels | gradients | {"loss": loss.detach().numpy()}


def infonce(model, ids, mask):
    """In-batch negatives of six pairs, rows 2n and 2n + 1: mean vectors, cosines times 20."""
    import torch

    states = model(ids, attention_mask=mask).last_hidden_state[:12]
    real = mask[:12, :, None]
    vectors = (states * real).sum(1) / real.sum(1)
    cosines = torch.cosine_similarity(vectors[0::2, None], vectors[None, 1::2], dim=-1)
    return torch.nn.functional.cross_entropy(20 * cosines, torch.arange(6))


def bpe(texts: list[str], out: Path):
    """A byte-level BPE by the tokenizers library, in both forms; transformers' ids of the texts."""
    import tokenizers
    import transformers

    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(texts, vocab_size=500, min_frequency=2, special_tokens=SPECIAL)
    (out / "bpe_files").mkdir()
    made.save_model(str(out / "bpe_files"))
    peer = transformers.RobertaTokenizer.from_pretrained(out / "bpe_files")
    peer.save_pretrained(out / "bpe")
    return len(peer), encoded(peer, texts)


def unigram(texts: list[str], out: Path):
    import tokenizers
    import transformers

    made = tokenizers.Tokenizer(tokenizers.models.Unigram())
    made.normalizer = tokenizers.normalizers.NFKC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=1500, special_tokens=SPECIAL, unk_token="<unk>"
    )
    made.train_from_iterator(texts, trainer)
    model = json.loads(made.to_str())["model"]
    specials, others = (list(map(tuple, part)) for part in (model["vocab"][:5], model["vocab"][5:]))
    others.sort(key=lambda entry: (-round(entry[1], 6), entry[0]))  # pieces of equal scores vary
    made.model = tokenizers.models.Unigram(specials + others, unk_id=model["unk_id"])
    ends = [(token, made.token_to_id(token)) for token in ("<s>", "</s>")]
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    names = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "pad": "<pad>"}
    peer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        **{f"{role}_token": token for role, token in names.items()},
        unk_token="<unk>",
        mask_token="<mask>",
    )
    peer.save_pretrained(out / "unigram")
    return len(peer), encoded(peer, texts)


def encoded(peer, texts: list[str]) -> dict:
    pairs = [*texts[1:], texts[3]]  # transformers takes "" for no second text
    options = {"truncation": True, "max_length": 19}
    return {
        "single": [peer(text)["input_ids"] for text in texts],
        "pair": [peer(*both)["input_ids"] for both in zip(texts, pairs, strict=True)],
        "cut": [peer(*both, **options)["input_ids"] for both in zip(texts, pairs, strict=True)],
        "decoded": [peer.decode(peer(text)["input_ids"]) for text in texts],
    }
