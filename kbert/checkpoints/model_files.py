"""Names of the files that kbert puts beside a model's weights, whichever their format."""

README = "README.md"  # the model's card
SOURCE_FILE = "kbert_source.json"  # in a folder that `download` wrote: the address with the commit
