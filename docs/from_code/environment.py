"""The environment variables that the code reads."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import kbert
from from_code.table import table

PACKAGE = Path(kbert.__file__).parent
_ASKING = (
    "os.environ.get",
    "os.environ.setdefault",
    "os.getenv",
    "number_in",
)

# What each is for; a test fails where the code reads one that does not stand here.
MEANINGS = {
    "KBERT_TRACEBACK": "If set, an error of a command shows Python's traceback.",
    "CUBLAS_WORKSPACE_CONFIG": "torch on a GPU: kbert sets it to make runs reproducible.",
    "KAGGLEHUB_CACHE": "kagglehub's cache. Default: ~/.cache/kagglehub.",
    "KERAS_BACKEND": "tensorflow, jax or torch. Read by Keras when it is imported.",
    "KERAS_DISTRIBUTION_JOB_ADDRESSES": "JAX on several hosts: host:port of the first, or of all.",
    "KERAS_DISTRIBUTION_NUM_PROCESSES": "JAX on several hosts: number of hosts.",
    "KERAS_DISTRIBUTION_PROCESS_ID": "JAX on several hosts: number of this host, from 0.",
    "KERAS_TORCH_DEVICE": "torch: cpu trains on the CPU even with a GPU. Read by Keras too.",
    "LOCAL_RANK": "torch on several devices: GPU of this process. torchrun sets it.",
    "MASTER_ADDR": "torch on several hosts: name of the first host. torchrun sets it.",
    "MASTER_PORT": "torch on several hosts: port of the first host. torchrun sets it.",
    "NO_COLOR": "If set, no colours on the terminal (no-color.org).",
    "RANK": "torch on several devices: number of this process. torchrun sets it.",
    "TF_CONFIG": "TensorFlow on several hosts: JSON with all workers and the index of this one.",
    "TF_CPP_MIN_LOG_LEVEL": "TensorFlow's lowest log level. Commands set 3 if it is not set.",
    "TORCHELASTIC_USE_AGENT_STORE": "Whether torchrun hosts the key-value store. torchrun sets it.",
    "TPU_NAME": "TensorFlow on a TPU: local, or the TPU's name or grpc:// address.",
    "WORLD_SIZE": "torch on several devices: number of processes. torchrun sets it.",
    "XLA_FLAGS": "Read by XLA. kbert adds the flag that makes runs on a GPU reproducible.",
    "_KBERT_COMPLETE": "Asks for completions. The shell's completion script sets it.",
}

# What huggingface_hub and kagglehub read, where a model is given by its name.
HUBS = {
    "HF_HOME": "Hugging Face's folder; the cache is hub in it. Default: ~/.cache/huggingface.",
    "HF_HUB_CACHE": "The cache itself. Default: hub in HF_HOME.",
    "HF_HUB_OFFLINE": "1: do not connect to Hugging Face; use only models in the cache.",
    "HF_ENDPOINT": "Address of a mirror. Default: https://huggingface.co.",
    "HF_TOKEN": "Token of your account, for private and gated models and for uploads.",
    "HF_HUB_DOWNLOAD_TIMEOUT": "Seconds to wait for data of a download. Default: 10.",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1: no progress bars for downloads and uploads.",
    "KAGGLE_API_TOKEN": "Token of your account, for Kaggle's gated models.",
}


def page() -> str:
    """Tables of the variables that kbert and the hubs' packages read, and what they are for."""
    hubs = table(("variable", "meaning"), [(f"`{name}`", HUBS[name]) for name in HUBS])
    return f"{_own()}\n## Read by huggingface_hub and kagglehub\n\n{hubs}"


def _own() -> str:
    lines = [
        (
            f"`{name}`",
            MEANINGS.get(name, ""),
            ", ".join(f"`{module}`" for module in sorted(modules)),
        )
        for name, modules in sorted(variables().items())
    ]
    return table(("variable", "meaning", "read in"), lines)


def variables() -> dict[str, set[str]]:
    """The names that `os.environ` is asked for, by the modules that ask."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = dict(_constants(tree))
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for node in ast.walk(tree):
            names = [name for name in _asked_for(node, constants) if re.fullmatch("[A-Z_]+", name)]
            for name in names:
                found.setdefault(name, set()).add(module)
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The module's names for texts: `A = "x"`, `A, B = "x", "y"`, and `A = ("x", "y")`."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) > 1:
            continue
        (target,), value = node.targets, node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, text in pairs:
            parts = text.elts if isinstance(text, ast.Tuple) else [text]
            if isinstance(name, ast.Name):
                yield name.id, [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def _asked_for(node: ast.AST, constants: dict[str, list[str]]) -> list[str]:
    """The variables of `os.environ[name]`, `os.environ.get(name)` and `.setdefault(name, …)`."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
        key = node.slice
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in _ASKING and node.args:
        key = node.args[0]
    else:
        return []
    if isinstance(key, ast.Constant):
        return [str(key.value)]
    return constants.get(key.id, []) if isinstance(key, ast.Name) else []
