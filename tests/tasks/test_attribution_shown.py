"""An attribution as one sees it: words, a coloured text, the command; and what is refused."""

import json

import pytest
from helpers.command_line import kbert as run
from helpers.errors import raises

import kbert

TEXT = "the red cat $ees <dogs>"


@pytest.mark.full
def test_attribute_command_writes_a_page_and_a_picture(capsys, berts, tmp_path):
    kbert.save(berts["classifier"], tmp_path / "classifier")
    found = kbert.attribute(berts["classifier"], TEXT, steps=5)
    assert (found.baseline, found.similar_to) == ("[PAD]", None)
    words = found.words()
    assert "".join(word.word for word in words) == TEXT.replace(" ", "")
    assert sum(word.score for word in words) == pytest.approx(float(found.scores.sum()), abs=1e-5)
    assert "&lt;" in found._repr_html_() and "<dogs" not in found._repr_html_()
    page, picture = tmp_path / "why.html", tmp_path / "why.png"
    found.save(page)
    assert page.read_bytes().startswith(b"<!DO")
    command = ("attribute", tmp_path / "classifier", TEXT, "--steps", 5)
    done = run(capsys, *command, "-o", picture)
    assert done.status == 0 and f"wrote {picture}" in done.out, done.err
    assert picture.read_bytes().startswith(b"\x89PNG")
    done = run(capsys, *command, "--format", "json")
    assert json.loads(done.out)["target"] == found.target


@pytest.mark.full
@pytest.mark.parametrize(
    ("head", "text", "options", "said"),
    [
        ("tokens", "cat", {}, ("pretraining", "classifier")),
        (
            "classifier",
            "cat",
            {"target": "nope"},
            ("target", "'nope'"),
        ),
        ("pretraining", "cat", {}, ("text", "[MASK]")),
        ("pretraining", "[MASK]", {"mask": 2}, ("mask", "[MASK]", "1 … 1")),
        ("pretraining", "[MASK]", {"target": "東"}, ("target", "vocabulary")),
        ("encoder", "cat", {"similar_to": "dog", "target": "x"}, ("target", "similar_to")),
        ("classifier", "cat", {"baseline": "zero"}, ("baseline", "pad, mask")),
        ("classifier", "cat", {"value": "x"}, ("value", "probability, logit")),
        ("classifier", ["cat"], {}, ("text", "list")),
    ],
)
def test_bad_attribution_options_are_one_line(berts, head, text, options, said):
    with raises(ValueError, *said) as raised:
        kbert.attribute(berts[head], text, **options)
    assert "\n" not in str(raised.value)
