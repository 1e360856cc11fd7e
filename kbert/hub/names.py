"""Names of models on Hugging Face and Kaggle, and the table of those that people use (models.tsv).

bert-base-uncased                                a name of the table
google-bert/bert-base-uncased                    Hugging Face, owner/name
google-bert/bert-base-uncased@REVISION           a branch, a tag or a commit of it
hf://google-bert/bert-base-uncased@REVISION      the same as an address
kaggle://keras/bert/keras/bert_base_en/3         Kaggle, the version may be left out
"""

import csv
import functools
import os
import re
from dataclasses import dataclass
from importlib import resources

from kbert.graph.presets import PRESETS
from kbert.io.wording import hint, hint_of_path

_PART = r"\w(?:[\w.-]*\w)?"
_REVISION = r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*"  # refs/pr/1, v1.0, a commit; no path upwards
_PAGE = re.compile(
    r"https?://huggingface\.co/([^/?#]+/[^/?#]+)(?:/(?:tree|commit)/([^?#]+))?[/?#]?.*"
)
_DATA_SET = re.compile(r"(?:https?://huggingface\.co/|hf:/+)datasets/([^/?#]+/[^/?#@]+).*")
_CACHE_FOLDER = re.compile(r"models--([^/]+)--([^/]+)")
# A Path makes one slash of the two of hf://.
_HUGGING_FACE = re.compile(rf"(?:hf:/+)?(?P<repo>{_PART}/{_PART})(?:@(?P<revision>{_REVISION}))?")
_KAGGLE = re.compile(rf"kaggle:/+(?P<repo>(?:{_PART}/){{3}}{_PART})(?:/(?P<revision>\d+))?")
_ADDRESSES = (  # hub, pattern, an example
    ("hf", _HUGGING_FACE, "hf://owner/name"),
    ("kaggle", _KAGGLE, "kaggle://keras/bert/keras/bert_base_en"),
)
# Endings of files that kbert opens: `run/model.keras` is no owner and name.
_WEIGHTS = (".zip", ".keras", ".h5", ".index", ".safetensors", ".bin", ".pt", ".pth", ".ckpt")
_FILES = (*_WEIGHTS, ".json", ".onnx", ".tflite", ".txt", ".tsv")


@dataclass(frozen=True)
class ModelName:
    """A model on a hub: "hf" for Hugging Face, "kaggle" for Kaggle.

    `repo` is owner/name, on Kaggle owner/model/framework/variation. `revision` is a branch, a tag
    or a commit, on Kaggle the version's number; None: the newest.
    """

    hub: str
    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        address = f"{self.hub}://{self.repo}"
        if not self.revision:
            return address
        before = {"hf": "@", "kaggle": "/"}[self.hub]
        return f"{address}{before}{self.revision}"

    @classmethod
    def parse(cls, text: str) -> "ModelName | None":
        """Read a name; return None for a path, and raise a ValueError for a malformed address."""
        data_set = _DATA_SET.fullmatch(text)
        if data_set:
            raise ValueError(f"{text} is a data set, not a model: {way_to_data(data_set[1])}")

        page = _PAGE.fullmatch(text)
        if page:
            text = f"hf://{page[1]}"
            if page[2]:
                text += f"@{page[2].rstrip('/')}"
        if _CACHE_FOLDER.fullmatch(text):
            text = _CACHE_FOLDER.sub(r"\1/\2", text)

        text_without_scheme = re.sub("^hf:/+", "", text)
        bare, _, revision = text_without_scheme.partition("@")
        if bare in list_known_models():
            name = cls.parse(list_known_models()[bare]["address"])
            if revision and not re.fullmatch(_REVISION, revision):
                raise ValueError(f"a branch, a tag or a commit must follow @, got {text!r}")
            return cls(name.hub, name.repo, revision or name.revision) if name else None
        return cls._parse_address(text)

    @classmethod
    def _parse_address(cls, text: str) -> "ModelName | None":
        """Read an address, or owner/name; return None for a path."""
        for hub, pattern, form in _ADDRESSES:
            match = pattern.fullmatch(text)
            is_address = text.startswith(f"{hub}:")
            if match and (is_address or not text.endswith(_FILES)):
                return cls(hub, match["repo"], match["revision"])
            if is_address:
                raise ValueError(f"an address of a model must be like {form}, got {text!r}")
        return None


@functools.cache
def list_known_models() -> dict[str, dict[str, str]]:
    """Return the rows of models.tsv by name."""
    file = resources.files("kbert.hub") / "models.tsv"
    lines = file.read_text(encoding="utf-8").splitlines()
    models = {row["name"]: row for row in csv.DictReader(lines, delimiter="\t")}
    return models


def other_repos(repo: str) -> list[str]:
    """Return the names under which a cache may hold a model: the oldest ones had no owner."""
    bare = repo.partition("/")[2]
    known = list_known_models().get(bare, {})
    is_known = known.get("address") == repo
    return [repo, bare] if is_known else [repo]


def suggest(repo: str, cutoff: float = 0.6) -> str:
    """Return a sentence with the known model that a wrong name was meant to be; "" without one."""
    addresses = [row["address"] for row in list_known_models().values()]
    repos = [address for address in addresses if "://" not in address]
    return hint(repo, repos, "", cutoff=cutoff)


def way_to_data(repo: str) -> str:
    """Say how to download a data set of Hugging Face."""
    command = f"hf download {repo} --repo-type dataset --local-dir FOLDER"
    return f"download it with {command}, and give its files as data"


def explain_missing(text: str, *, local: bool = True) -> str:
    """Say what is wrong with a text that is neither a path nor a model's name, and what to do."""
    if text in PRESETS:
        return (
            f"{text!r} is a configuration without weights: build_bert({text!r}) builds it with "
            f"random ones, load({find_release(text)!r}) loads Google's"
        )

    near = hint_of_path(text, _may_be_checkpoint, list_known_models()) if local else ""
    is_path = text.endswith(_FILES) or "/" in text or os.sep in text
    if is_path:
        message = f"{text}: there is no such file or folder"
        return f"{message}: {near}" if near else message

    way = "a model of Hugging Face has an owner, such as google-bert/bert-base-uncased"
    similar = near or hint(text, list_known_models(), "", beginnings=True)
    advice = similar or way
    return f"{text!r} is not a local path, and kbert knows no model of this name: {advice}"


def _may_be_checkpoint(path: str) -> bool:
    """Return whether a path has the files of a model or of a run, or is such a file."""
    if not os.path.isdir(path):
        return os.path.isfile(path) and path.endswith(_WEIGHTS)
    try:
        names = os.listdir(path)
        return any(name.endswith((*_WEIGHTS, ".json")) for name in names)
    except OSError:
        return False


def find_release(preset: str) -> str:
    """Return the name of Google's weights of a preset's sizes, but for the vocabulary's."""
    released = {"base": "base_uncased", "large": "large_uncased"}.get(preset, preset)
    models = list_known_models().values()
    wanted = PRESETS[released]
    names = [row["name"] for row in models if PRESETS.get(row["preset"]) == wanted]
    return names[0]
