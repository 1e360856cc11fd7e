"""sentence-transformers' folders, with the vectors and scores that it gives."""

import tempfile
from pathlib import Path

import numpy as np

from helpers.peer_models import draw_weights, write_tokenizer

WORDS = "the cat sat on mat moon sun of it a dog dogs play ##ing tree he big red . ,"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]
TEXTS = [
    "the CAT sat on the mat.",
    "moon",
    "",
    "The sun of it [MASK] §",
    "playing dogs, a tree, he",
]
QUERY = "a cat"
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 19,
}
PROMPTS = {"query": "the cat ", "other": "Red "}
CASES = {  # pooling, dense layer, normalized, the longest text, more options
    "labse": (["cls"], True, True, None, {}),
    "several": (["cls", "mean"], False, True, 7, {"prompts": PROMPTS, "similarity_fn_name": "dot"}),
    "prompt": (["max"], False, False, None, {"prompts": PROMPTS, "default_prompt_name": "other"}),
    "every": (["weightedmean", "lasttoken", "mean_sqrt_len_tokens"], True, False, None, {}),
}


def write_folders(out: Path) -> None:
    """Write OUT/<case> and OUT/<case>.npy, the vectors of TEXTS.

    OUT/cross is a cross-encoder, OUT/cross.npy has the scores of QUERY and each of TEXTS.
    """
    import transformers
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    config = transformers.BertConfig(**SIZES, num_labels=1)
    plain = Path(tempfile.mkdtemp())
    tokenizer = write_tokenizer(plain, VOCABULARY, len(VOCABULARY))
    for name in ("BertModel", "BertForSequenceClassification"):
        model = getattr(transformers, name)(config)
        draw_weights(model, 5)
        model.save_pretrained(plain / name)
        tokenizer.save_pretrained(plain / name)
    for case, (pooling, dense, normalized, length, options) in CASES.items():
        encoder = Transformer(str(plain / "BertModel"), max_seq_length=length)
        modules = [encoder, Pooling(12, pooling if len(pooling) > 1 else pooling[0])]
        if dense:
            layer = Dense(12 * len(pooling), 7)
            draw_weights(layer, 5)
            modules.append(layer)
        modules += [Normalize()] if normalized else []
        model = SentenceTransformer(modules=modules, device="cpu", **options).eval()
        model.save(str(out / case), create_model_card=False)
        np.save(out / f"{case}.npy", model.encode(TEXTS))
    cross = CrossEncoder(str(plain / "BertForSequenceClassification"), device="cpu")
    cross.save(str(out / "cross"), create_model_card=False)
    np.save(out / "cross.npy", cross.predict([(QUERY, text) for text in TEXTS]))
