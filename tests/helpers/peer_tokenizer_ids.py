"""Encode texts by transformers' tokenizers, opened from the files of each case.

    python -m helpers.peer_tokenizer_ids CASES_AS_JSON OUT

A case has the class, the files' texts by name, and calls: the arguments of each. OUT/ids.json has
what the calls return, by case.
"""

import json
import sys
import tempfile
from pathlib import Path


def main(cases: dict, out: Path) -> None:
    import transformers

    found = {}
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            for file, text in case["files"].items():
                (Path(folder) / file).write_text(text, encoding="utf-8")
            tokenizer = getattr(transformers, case["class"]).from_pretrained(folder)
            found[name] = [dict(tokenizer(*texts, **options)) for texts, options in case["calls"]]
    (out / "ids.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
