"""Google's create_instances_from_document, written anew from its description, on lengths alone.

google-research/bert, create_pretraining_data.py. Two places differ, as
`kbert.data.pretraining.pairs` says: the target length is drawn for each example, and the
other document is always another one.
"""

import random


def examples(documents: list[list[int]], seq_len: int, short_seq_probability: float, seed: int):
    """(tokens of A, tokens of B, whether B is random, target) for one pass over the documents.

    Of a document the lengths of its sentences are given, in tokens.
    """
    rng = random.Random(seed)
    most = seq_len - 3
    for number, document in enumerate(documents):
        chunk, place = [], 0
        target = most if rng.random() >= short_seq_probability else rng.randint(2, most)
        while place < len(document):
            chunk.append(document[place])
            if place == len(document) - 1 or sum(chunk) >= target:
                a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
                a = sum(chunk[:a_end])
                is_random = len(chunk) == 1 or rng.random() < 0.5
                if is_random:
                    other = number
                    while other == number:
                        other = rng.randrange(len(documents))
                    start, b = rng.randrange(len(documents[other])), 0
                    for length in documents[other][start:]:
                        b += length
                        if b >= target - a:
                            break
                    place -= len(chunk) - a_end
                else:
                    b = sum(chunk[a_end:])
                yield *cut(a, b, most), is_random, target
                chunk = []
                target = most if rng.random() >= short_seq_probability else rng.randint(2, most)
            place += 1


def cut(a: int, b: int, most: int) -> tuple[int, int]:
    """truncate_seq_pair, a token at a time."""
    while a + b > most:
        if a > b:
            a -= 1
        else:
            b -= 1
    return a, b


def words_chosen(words: list[list[int]], count: int, rng: random.Random) -> set[int]:
    """create_masked_lm_predictions with do_whole_word_mask: the places that are predicted."""
    rng.shuffle(words)
    chosen = set()
    for word in words:
        if len(chosen) >= count:
            break
        if len(chosen) + len(word) <= count:
            chosen.update(word)
    return chosen
