"""Small random models of transformers with a vocabulary, and what each makes of texts."""

import json
from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights, write_tokenizer

WORDS = (
    "the of is in cat dog sun moon red big runs sees and on black white tree he she it was to for "
    "with as at by . , ? ! - ' sat mat what who where play ##ing ##ed"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *WORDS.split(),
]
MASKED = ["the cat [MASK].", "[MASK] sees the [MASK] moon, and it was big", "Is it [MASK]?"]
TEXTS = [
    "the cat sat on the mat.",
    "",
    "Xyz!",
    "playing dogs, a tree",
    "moon",
    "he runs to the sun",
]
PAIRS = ["the dog sees it", "what?", "a", "red and big", "he plays", "she sees the moon"]
QUESTIONS = ["who sat?", "what is big", "where?"]
CONTEXTS = [
    "the cat sat on it",
    "The MOON is big, the tree was white and the dog sees the black cat on the mat; he runs.",
    "at sun " * 9,
]


def answer_texts(out: Path, sizes: dict) -> None:
    """Write OUT/<class>, a checkpoint with a vocabulary, OUT/expected.json and OUT/vectors.npz.

    Masks, texts' labels and words' labels are transformers' pipelines'; sentence vectors, spans and
    the next sentence are computed here from the models' hidden states and logits.
    """
    import torch
    import transformers

    from helpers.peer_bert import CLASSES

    tokenizer = write_tokenizer(out, VOCABULARY, sizes["vocab_size"])
    labels = dict(enumerate(["red", "white", "black", "O", "sun"]))
    models = {}
    for name in CLASSES:
        named = {"id2label": labels} if "SequenceC" in name or "TokenC" in name else {}
        config = transformers.BertConfig(**sizes, **named, attn_implementation="eager")
        models[name] = getattr(transformers, name)(config).eval()
        draw_weights(models[name], 11)
        models[name].save_pretrained(out / name)
        tokenizer.save_pretrained(out / name)
    with torch.no_grad():
        expected = {
            "masks": masks(models["BertForMaskedLM"], tokenizer),
            "next": following(models["BertForNextSentencePrediction"], tokenizer),
            "labels": text_labels(models["BertForSequenceClassification"], tokenizer),
            "words": word_labels(models["BertForTokenClassification"], tokenizer),
            "answers": answers(models["BertForQuestionAnswering"], tokenizer),
        }
        np.savez(out / "vectors.npz", **vectors(models["BertModel"], tokenizer))
    (out / "expected.json").write_text(json.dumps(expected), encoding="utf-8")


def masks(model, tokenizer) -> list:
    """For each text, for each [MASK], [token, probability] of the best five."""
    import transformers

    pipeline = transformers.pipeline("fill-mask", model, tokenizer=tokenizer, top_k=5)
    found = []
    for text in MASKED:
        result = pipeline(text)
        best = [result] if isinstance(result[0], dict) else result
        token_of = tokenizer.convert_ids_to_tokens
        found.append([[[token_of(one["token"]), one["score"]] for one in row] for row in best])
    return found


def following(model, tokenizer) -> list:
    """P(is next) of each pair: label 0."""
    logits = [
        model(**tokenizer(a, b, return_tensors="pt")).logits
        for a, b in zip(TEXTS, PAIRS, strict=True)
    ]
    return [float(one.softmax(-1)[0, 0]) for one in logits]


def text_labels(model, tokenizer) -> dict:
    import transformers

    pipeline = transformers.pipeline("text-classification", model, tokenizer=tokenizer, top_k=None)
    single = [pipeline([text])[0] for text in TEXTS]
    pairs = [pipeline([{"text": a, "text_pair": b}])[0] for a, b in zip(TEXTS, PAIRS, strict=True)]
    return {
        name: [[[entry["label"], entry["score"]] for entry in entries] for entries in found]
        for name, found in (("single", single), ("pairs", pairs))
    }


def word_labels(model, tokenizer) -> list:
    """[word, label, probability, start, end] of each word: its first piece's label."""
    found = []
    for text in TEXTS:
        inputs = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        scores = model(**inputs).logits[0].softmax(-1)
        words, last = [], None
        for place, word in enumerate(inputs.word_ids(0)):
            if word is None:
                continue
            if word != last:
                score, label = scores[place].max(-1)
                name = model.config.id2label[int(label)]
                words.append([None, name, float(score), *offsets[place]])
            words[-1][4] = offsets[place][1]
            words[-1][0] = text[words[-1][3] : words[-1][4]]
            last = word
        found.append(words)
    return found


def answers(model, tokenizer) -> list:
    """[text, score, start, end]: every window, every span of at most 5 tokens, one by one."""
    import torch

    found = []
    limit = model.config.max_position_embeddings
    for question, context in zip(QUESTIONS, CONTEXTS, strict=True):
        asked = tokenizer(question, add_special_tokens=False)["input_ids"]
        read = tokenizer(context, add_special_tokens=False, return_offsets_mapping=True)
        ids, offsets = read["input_ids"], read["offset_mapping"]
        width = limit - len(asked) - 3
        step = width - 3  # windows share three tokens
        starts = [0]
        while starts[-1] + width < len(ids):
            starts.append(min(starts[-1] + step, len(ids) - width))
        best = None
        for at in starts:
            part = ids[at : at + width]
            end_of_text = tokenizer.sep_token_id
            tokens = [tokenizer.cls_token_id, *asked, end_of_text, *part, end_of_text]
            segments = [0] * (len(asked) + 2) + [1] * (len(part) + 1)
            outputs = model(torch.tensor([tokens]), token_type_ids=torch.tensor([segments]))
            first = len(asked) + 2
            start = outputs.start_logits[0, first : first + len(part)]
            end = outputs.end_logits[0, first : first + len(part)]
            for i in range(len(part)):
                for j in range(i, min(i + 5, len(part))):
                    total = float(start[i] + end[j])
                    if best is None or total > best[0]:
                        score = float(start.softmax(-1)[i] * end.softmax(-1)[j])
                        best = total, score, offsets[at + i][0], offsets[at + j][1]
        _, score, start, end = best
        found.append([context[start:end], score, start, end])
    return found


def vectors(model, tokenizer) -> dict:
    """Vectors of TEXTS by pooling, text by text with no padding; attention maps of the pairs."""
    names = ("weightedmean", "lasttoken", "mean_sqrt_len_tokens")
    found: dict = {name: [] for name in ("mean", "cls", "max", *names, "pooler", "last")}
    maps = {}
    for place, (text, pair) in enumerate(zip(TEXTS, PAIRS, strict=True)):
        outputs = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        states = [state[0].numpy() for state in outputs.hidden_states]
        found["mean"].append(states[-1].mean(0))
        found["cls"].append(states[-1][0])
        found["max"].append(states[-1].max(0))
        weights = np.arange(1, len(states[-1]) + 1)
        found["weightedmean"].append(np.average(states[-1], 0, weights))
        found["lasttoken"].append(states[-1][-1])
        found["mean_sqrt_len_tokens"].append(states[-1].sum(0) / np.sqrt(len(states[-1])))
        found["pooler"].append(outputs.pooler_output[0].numpy())
        found["last"].append(np.concatenate([states[-2].mean(0), states[-1].mean(0)]))
        both = model(**tokenizer(text, pair, return_tensors="pt"), output_attentions=True)
        maps[f"map{place}"] = np.stack([weights[0].numpy() for weights in both.attentions])
        maps[f"figures{place}"] = figures(both.attentions)
    stacked = {name: np.stack(rows) for name, rows in found.items()}
    return stacked | maps | projected(model, tokenizer)


def figures(attentions) -> np.ndarray:
    """(layers · heads, 2): entropy in bits, distance in tokens; torch's entropy, in nats."""
    import torch

    found = []
    for weights in attentions:  # (1, A, S, S)
        entropy = torch.distributions.Categorical(probs=weights[0].double()).entropy()
        places = torch.arange(weights.shape[-1], dtype=torch.float64)
        away = torch.einsum("aij,ij->ai", weights[0].double(), torch.cdist(*[places[:, None]] * 2))
        found.append(torch.stack([entropy.mean(-1) / np.log(2), away.mean(-1)], -1))
    return torch.cat(found).numpy()


def projected(model, tokenizer) -> dict:
    """What the first pair's query and key layers give, (layers, A, S, D)."""
    found: dict = {"query": [], "key": []}
    for layer in model.encoder.layer:
        for name, outputs in found.items():
            projection = getattr(layer.attention.self, name)
            projection.register_forward_hook(lambda *args, to=outputs: to.append(args[-1][0]))
    model(**tokenizer(TEXTS[0], PAIRS[0], return_tensors="pt"))
    heads = model.config.num_attention_heads
    return {
        name: np.stack([one.reshape(len(one), heads, -1).transpose(0, 1).numpy() for one in every])
        for name, every in found.items()
    }
