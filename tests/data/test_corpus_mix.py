"""Corpora of several sources: their shares of the tokens, in whole documents, in their order."""

import json
import random

import pytest
from helpers.corpora import SMALL_BLOCK, content, small_blocks
from helpers.errors import raises

import kbert
from kbert.data.corpus.sources import find_sources

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

WORDS = {"wiki": ["alpha", "beta", "gamma", "delta"], "books": ["one", "two", "three"]}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two sources, of 500 and 300 documents; the words say of which one a token is."""
    folder = tmp_path_factory.mktemp("sources")
    rng = random.Random(7)
    for name, count in (("wiki", 500), ("books", 300)):
        documents = []
        for number in range(count):
            words = rng.choices(WORDS[name], k=rng.randint(3, 90))
            documents.append({"text": " ".join([*words, str(number % 7), "."])})
        lines = [json.dumps(document) + "\n" for document in documents]
        (folder / f"{name}-1.jsonl").write_text("".join(lines[: count // 3]))
        (folder / f"{name}-2.jsonl").write_text("".join(lines[count // 3 :]))
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *map(str, range(7))]
    vocabulary += [word for words in WORDS.values() for word in words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    return folder


def named(folder) -> dict:
    return {
        name: [folder / f"{name}-1.jsonl", folder / f"{name}-2.jsonl"] for name in ("wiki", "books")
    }


def prepare_mix(corpus, output, sources=None, **options):
    with small_blocks():
        return kbert.prepare(
            sources or named(corpus), corpus / "vocab.txt", output, lowercase=True, **options
        )


def texts_of(shards) -> dict[str, list[str]]:
    """Return the documents of each source, told apart by their words."""
    found = {"wiki": [], "books": []}
    words = shards.tokenizer.tokens
    for first, last in zip(shards.starts, shards.ends, strict=True):
        ids = [int(token) for number in range(first, last) for token in shards.sentence(number)]
        text = " ".join(words[token] for token in ids)
        kinds = [name for name in found if set(text.split()) & set(WORDS[name])]
        assert len(kinds) == 1
        found[kinds[0]].append(text)
    return found


@pytest.mark.parametrize("share", [0.5, 0.7, 0.93])
@pytest.mark.parametrize("shard_tokens", [997, 1 << 24])
def test_sources_have_their_shares_in_whole_documents(corpus, tmp_path, share, shard_tokens):
    assert (corpus / "wiki-1.jsonl").stat().st_size > SMALL_BLOCK
    mix = {"wiki": share, "books": 1 - share}
    shards = prepare_mix(corpus, tmp_path / "shards", mix=mix, shard_tokens=shard_tokens)
    tokens = shards.index["sources"]
    assert sum(tokens.values()) == shards.index["tokens"]
    # a document has 92 tokens at most; a shard's end takes what was read, two blocks at most
    slack = 92 if shard_tokens > 997 else SMALL_BLOCK
    assert abs(tokens["wiki"] - share * shards.index["tokens"]) < slack

    found = texts_of(shards)
    for name, texts in found.items():
        lines = "".join(path.read_text() for path in named(corpus)[name]).splitlines()
        expected = [json.loads(line)["text"] for line in lines]
        assert texts == expected[: len(texts)]
        assert sum(len(text.split()) for text in texts) == tokens[name]
    assert len(found["wiki"]) == 500 or len(found["books"]) == 300


def test_sources_without_a_mix_are_all_of_their_text(corpus, tmp_path):
    shards = prepare_mix(corpus, tmp_path / "named")
    found = texts_of(shards)
    assert {name: len(texts) for name, texts in found.items()} == {"wiki": 500, "books": 300}
    files = [path for paths in named(corpus).values() for path in paths]
    plain = prepare_mix(corpus, tmp_path / "plain", files)
    assert "sources" not in plain.index
    one, other = content(tmp_path / "named"), content(tmp_path / "plain")
    assert one.pop("index.json") != other.pop("index.json")
    assert one == other


def test_names_of_the_command_line_are_those_of_a_dict(corpus, tmp_path):
    entries = [f"{name}={path}" for name, paths in named(corpus).items() for path in paths]
    prepare_mix(corpus, tmp_path / "one", mix={"wiki": 0.7, "books": 0.3})
    prepare_mix(corpus, tmp_path / "two", entries, mix="wiki=7, books=3")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    with raises(ValueError, "one", "mix"):
        prepare_mix(corpus, tmp_path / "one", entries, mix="wiki=6,books=4")


def test_each_source_may_have_its_own_column(corpus, tmp_path):
    renamed = tmp_path / "books.jsonl"
    lines = "".join(path.read_text() for path in named(corpus)["books"])
    renamed.write_text(lines.replace('"text"', '"body"'))
    table = pyarrow.table(
        {"body": ["not this"] * 2, "content": ["one two .", "three ."]},
    )
    pyarrow.parquet.write_table(table, tmp_path / "more.parquet")
    sources = {
        "wiki": named(corpus)["wiki"],
        "books": renamed,
        "more": tmp_path / "more.parquet",
    }
    columns = {"wiki": "text", "books": "body", "more": "content"}
    shards = prepare_mix(corpus, tmp_path / "own", sources, text_column=columns)
    found = texts_of(shards)
    assert len(found["wiki"]) == 500
    assert found["books"][:300] == texts_of(prepare_mix(corpus, tmp_path / "plain"))["books"]
    assert found["books"][300:] == ["one two .", "three ."]

    written = "wiki=text, books=body,more=content"
    prepare_mix(corpus, tmp_path / "written", sources, text_column=written)
    assert content(tmp_path / "written") == content(tmp_path / "own")
    with raises(ValueError, "own", "text"):
        prepare_mix(corpus, tmp_path / "own", sources)
    one = kbert.train_vocab(sources, 99, tmp_path / "v1", text_column=columns, min_frequency=1)
    assert {"three", "alpha"} <= set(one.tokens) and "not" not in one.tokens


def test_other_columns_are_refused(corpus, tmp_path):
    paths = named(corpus)
    refused = [
        (paths, {"wiki": "text"}, "books"),
        (paths, "wiki=text,book=text", "book"),
        (paths["wiki"], {"wiki": "text"}, "NAME=PATH"),
        (paths, "wiki=text,books=body", "'body'"),
        (paths, "wiki=text,body", "'wiki=text,body'"),
    ]
    for sources, columns, named_thing in refused:
        with raises(ValueError, named_thing):
            prepare_mix(corpus, tmp_path / "shards", sources, text_column=columns)
        assert not (tmp_path / "shards").exists()


def test_other_mixes_are_refused(corpus, tmp_path):
    paths = named(corpus)
    refused = [
        (paths, {"wiki": 1.0}, "books"),
        (paths, {"wiki": 1.0, "books": 0.0}, "books=0.0"),
        (paths, "wiki=1,books=nan", "books=nan"),
        (paths, "wiki=1,books=2,wiki=3", "wiki twice"),
        (paths, "wiki", "'wiki'"),
        (paths, {}, "got none"),
        (paths["wiki"], "wiki=1", "NAME=PATH"),
        (["wiki=" + str(paths["wiki"][0]), str(paths["books"][0])], None, "books-1.jsonl"),
        ({"a b": paths["wiki"]}, None, "'a b'"),
        ({"one": paths["wiki"], "two": paths["wiki"][1:]}, None, "wiki-2.jsonl"),
    ]
    for sources, mix, named_thing in refused:
        with raises(ValueError, named_thing):
            kbert.prepare(sources, corpus / "vocab.txt", tmp_path / "shards", mix=mix)
    assert not (tmp_path / "shards").exists()


def test_a_path_with_an_equals_sign_is_a_path(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    (folder / "a.txt").write_text("A text.\n")
    (source,) = find_sources([str(folder)])
    assert source.name is None and source.files == [folder / "a.txt"]
