"""Losses of sentence vectors and their gradients, by sentence-transformers' own classes."""

from pathlib import Path

import numpy as np

BATCH, WIDTH = 13, 7
SCALE, MARGIN = 17.0, 0.7
CASES = {  # loss, texts of a record, lengths of cut vectors
    "infonce_of_pairs": ("infonce", 2, None),
    "infonce_with_negatives": ("infonce", 4, None),
    "infonce_cut": ("infonce", 3, (7, 5, 2)),
    "triplet": ("triplet", 3, None),
    "triplet_cut": ("triplet", 3, (6, 4)),
    "cosine": ("cosine", 2, None),
    "cosent": ("cosent", 2, None),
    "cosent_cut": ("cosent", 2, (5, 3)),
}


def vectors_of(columns: int) -> np.ndarray:
    """float32 (13, columns, 7)."""
    random = np.random.default_rng(columns)
    return random.standard_normal((BATCH, columns, WIDTH)).astype("float32")


def scores() -> np.ndarray:
    """float32 (13,), some of them equal."""
    return np.random.default_rng(1).integers(0, 6, BATCH).astype("float32") / 5


def classes(model, loss: str, dimensions=None, **options):
    """sentence-transformers' loss."""
    from sentence_transformers.sentence_transformer import losses

    kinds = {
        "infonce": lambda: losses.MultipleNegativesRankingLoss(model, scale=SCALE),
        "cached": lambda: losses.CachedMultipleNegativesRankingLoss(model, scale=SCALE, **options),
        "triplet": lambda: losses.TripletLoss(model, triplet_margin=MARGIN),
        "cosine": lambda: losses.CosineSimilarityLoss(model),
        "cosent": lambda: losses.CoSENTLoss(model, scale=SCALE),
    }
    found = kinds[loss]()
    return losses.MatryoshkaLoss(model, found, list(dimensions)) if dimensions else found


def of_vectors() -> dict:
    import torch

    class Given(torch.nn.Module):
        """A model whose vectors are what it is given."""

        def forward(self, features):
            return {"sentence_embedding": features["given"]}

        def get_embedding_dimension(self):
            return WIDTH

    found = {}
    for name, (loss, columns, dimensions) in CASES.items():
        x = torch.tensor(vectors_of(columns), requires_grad=True)
        features = [{"given": x[:, column]} for column in range(columns)]
        value = classes(Given(), loss, dimensions)(features, torch.tensor(scores()))
        value.backward()
        found |= {f"{name}.loss": value.detach().numpy(), f"{name}.gradient": x.grad.numpy()}
    return found


def columns_of_retrieval() -> np.ndarray:
    """int (23, 2): places of 17 queries and of what is right for each, two texts for some."""
    random = np.random.default_rng(9)
    return np.stack([np.arange(23) % 17, 17 + random.permutation(23)], 1)


def vectors_for_retrieval() -> np.ndarray:
    """float32 (40, 7), of length 1."""
    found = np.random.default_rng(8).standard_normal((40, WIDTH))
    for query, text in columns_of_retrieval():
        found[text] += 0.9 * found[query]
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype("float32")


def of_retrieval() -> dict:
    """Its evaluator's figures, and its search's texts."""
    from sentence_transformers.sentence_transformer import evaluation
    from sentence_transformers.util import semantic_search

    vectors, right = vectors_for_retrieval(), {}
    for query, text in columns_of_retrieval():
        right.setdefault(str(query), set()).add(int(text))
    hits = semantic_search(vectors[:17], vectors[17:], top_k=10)
    ranked = [[{**hit, "corpus_id": hit["corpus_id"] + 17} for hit in row] for row in hits]
    queries, corpus = {str(n): "" for n in range(17)}, {n: "" for n in range(17, 40)}
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, corpus, right, precision_recall_at_k=[1, 5, 10]
    )
    figures = evaluator.compute_metrics(ranked)
    found = {f"recall@{k}": figures["recall@k"][k] for k in (1, 5, 10)}
    found |= {"mrr@10": figures["mrr@k"][10]}
    found |= {"places": [[hit["corpus_id"] for hit in row] for row in hits]}
    found |= {"scores": [[hit["score"] for hit in row] for row in hits]}
    return {f"retrieval.{name}": np.array(value) for name, value in found.items()}


def of_a_model(folder: str, rows: list) -> dict:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu").eval()  # no dropout
    texts = [text for row in rows for text in row]
    found = {"vectors": model.encode(texts)}
    for loss, options in (("infonce", {}), ("cached", {"mini_batch_size": 3})):
        model.zero_grad()
        features = [model.tokenize(list(column)) for column in zip(*rows, strict=True)]
        value = classes(model, loss, **options)(features, None)
        value.backward()
        found[f"{loss}.loss"] = value.detach().numpy()
        for name, weight in model[0].auto_model.named_parameters():
            if weight.grad is not None:
                found[f"{loss}.{name}"] = weight.grad.numpy().copy()
    return found


def compute_losses(out: Path, folder: str | None = None, rows: list | None = None) -> None:
    """Write OUT/vector_losses.npz: losses of the vectors above, and of a model in a folder.

    Of that: the gradients of its weights by transformers' names, and vectors of the rows' texts.
    """
    of_folder = of_a_model(folder, rows) if folder else {}
    np.savez(out / "vector_losses.npz", **of_vectors(), **of_retrieval(), **of_folder)
