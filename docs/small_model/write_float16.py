"""Write the small model as the repository has it: float16, without the parts that were not trained.

`python docs/small_model/write_float16.py MODEL FOLDER` reads the folder of a pretrained model. The
pooler and the head for the next sentence stay out: pretraining with --mlm-only does not train them.
"""

import json
import shutil
import sys
from pathlib import Path

from safetensors.numpy import load_file, save_file

NOT_TRAINED = ("bert.pooler", "cls.seq_relationship")


def write_model(model: Path, folder: Path) -> None:
    """Write weights, configuration and vocabulary into a folder."""
    tensors = {
        name: tensor.astype("float16")
        for name, tensor in load_file(model / "model.safetensors").items()
        if not name.startswith(NOT_TRAINED)
    }
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["architectures"] = ["BertForMaskedLM"]
    config["dtype"] = "float16"
    config.pop("kbert_newly_initialized", None)

    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(model / name, folder / name)


if __name__ == "__main__":
    write_model(Path(sys.argv[1]), Path(sys.argv[2]))
