"""Recipes of pretraining: files of settings for `kbert pretrain --settings`, by name."""

from importlib import resources
from typing import Any, NamedTuple

from kbert.io.wording import hint

# The recipes, and the size of the vocabulary that each was published with.
_VOCAB_SIZES = {"original": 30_522, "cramming": 32_768, "mosaic": 30_522}
# Parts of other recipes that belong to other graphs, by their names without hyphens.
_OTHER_GRAPHS = ("prenorm", "glu", "geglu", "alibi")


class Recipe(NamedTuple):
    """A recipe.

    Attributes:
        name: its name, "cramming".
        vocab_size: number of tokens of the vocabulary that it was published with.
        text: its file, YAML: comments with its sources, and settings of `pretrain`.
    """

    name: str
    vocab_size: int
    text: str

    @property
    def comments(self) -> list[str]:
        """What it is, and where its numbers are from: the lines at the file's beginning."""
        lines = self.text.splitlines()
        return [line.removeprefix("# ") for line in lines if line.startswith("#")]

    def read_settings(self) -> dict[str, Any]:
        """Return its settings of `kbert.pretrain`, by name."""
        import yaml

        return yaml.safe_load(self.text)


def list_recipes() -> list[Recipe]:
    """Return all recipes."""
    files = resources.files(__package__)
    recipes = []
    for name, size in _VOCAB_SIZES.items():
        text = files.joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        recipes.append(Recipe(name, size, text))
    return recipes


def find_recipe(name: str) -> Recipe:
    """Return a recipe by its name.

    Raise a ValueError for another name; it says so if that is a part of another graph than BERT's.
    """
    recipes = {recipe.name: recipe for recipe in list_recipes()}
    if name in recipes:
        return recipes[name]
    plain = name.lower().replace("-", "").replace("_", "")
    if plain in _OTHER_GRAPHS:
        raise ValueError(
            f"recipe must be of BERT's own graph, got {name}, which is of another one: the code of "
            "cramming and of MosaicBERT trains that. Their rules of training are the recipes "
            "cramming and mosaic"
        )
    way = hint(name, recipes, "there are")
    raise ValueError(f"recipe must be a recipe that there is, got {name!r}: {way}")
