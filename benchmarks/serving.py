"""A model as it is served: a SavedModel of texts, ONNX in float32 and int8, beside each other.

`served-vectors`: MiniLM's vectors of SST-2's test sentences, by `kbert.embed` and by the SavedModel
of texts, whose process knows TensorFlow and tensorflow-text alone, in batches of 32: as they come,
padded to the longest, or sorted by their characters (`kbert.embed` sorts by tokens).
`served-int8`: a classifier, MiniLM fine-tuned for two epochs on 2,000 sentences of SST-2, by ONNX
Runtime on the dev sentences, with its accuracy, and the least cosine of its encoder's vectors (the
mean over a text's tokens) to float32's. int8 has the first 100 training sentences to calibrate.
"""

from pathlib import Path

from benchmarks import finetuning, vectors
from benchmarks.claims import Claim
from benchmarks.contenders import TENSORFLOW, Contender
from benchmarks.work import Work

BATCH, COUNT, TRAINED, CALIBRATION = 32, 600, 2000, 100
WAYS = {"float32": None, "int8": "int8", "int8, each call's ranges": "int8_dynamic"}
TEXT = ("tensorflow_text", finetuning.PACKAGE)
ONNX = ("onnxruntime", "tf2onnx", finetuning.PACKAGE)


def works(data: Path = finetuning.DATA, **options) -> list[Work]:
    """Two; `options` may be `classifier`, a fine-tuned one's folder, and `checkpoint`, MiniLM's."""
    return [_vectors(data, **options), _int8(data, **options)]


def _vectors(data: Path, checkpoint: str | None = None, classifier: str | None = None) -> Work:
    make, given, file = "benchmarks.serving:", {"checkpoint": checkpoint}, str(data / "test.tsv")
    needs = (data, *TEXT)
    contenders = (
        Contender("SavedModel", f"{make}saved", {"file": file, "by_length": False}, needs),
        Contender(
            "SavedModel, by length", f"{make}saved", {"file": file, "by_length": True}, needs
        ),
        Contender("kbert", f"{make}kbert", {"file": file} | given, needs, TENSORFLOW),
    )
    return Work(
        "served-vectors",
        f"sentence vectors, MiniLM, {COUNT} of sst2, a SavedModel of texts",
        contenders,
        (
            Claim("22", "SavedModel", ("kbert",), 0.4, 0.6),
            Claim("22 by length", "SavedModel, by length", ("kbert",), 0.7, 1.0),
        ),
        count=1,
        memory=1500,
        amount=COUNT,
        unit="texts",
        files=Contender("files", f"{make}saved_files", given, TEXT, TENSORFLOW),
    )


def _int8(data: Path, checkpoint: str | None = None, classifier: str | None = None) -> Work:
    make, dev = "benchmarks.serving:onnx", str(data / "dev.tsv")
    contenders = tuple(
        Contender(name, make, {"dev": dev, "way": way or "float32"}, (data, *ONNX), {})
        for name, way in WAYS.items()
    )
    given = {"data": str(data), "classifier": classifier, "checkpoint": checkpoint}
    return Work(
        "served-int8",
        "classifying SST-2's dev sentences, MiniLM, ONNX Runtime",
        contenders,
        [Claim(f"23 {name}", name, ("float32",), 1.2, 2.0) for name, way in WAYS.items() if way],
        count=1,
        memory=700,
        amount=872,
        unit="texts",
        files=Contender("files", "benchmarks.serving:onnx_files", given, (data, *ONNX), TENSORFLOW),
    )


def saved_files(folder: str, checkpoint: str | None):
    import kbert as library

    bert = library.load(checkpoint or finetuning.packaged())
    return lambda count: library.save(bert, f"{folder}/saved", format="saved_model", text=True)


def kbert(folder: str, file: str, checkpoint: str | None):
    import kbert as library

    bert = library.load(checkpoint or finetuning.packaged())
    texts = vectors.texts_of(file, COUNT)

    def run(count):
        for _ in range(count):
            library.embed(bert, texts, batch_size=BATCH, progress=False)

    return run


def saved(folder: str, file: str, by_length: bool):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations)

    serve = tf.saved_model.load(f"{folder}/saved").signatures["serving_default"]
    texts = vectors.texts_of(file, COUNT)
    texts = sorted(texts, key=len) if by_length else texts

    def run(count):
        for _ in range(count):
            for at in range(0, len(texts), BATCH):
                serve(texts=tf.constant(texts[at : at + BATCH]))["sentence_embedding"].numpy()

    return run


def onnx_files(folder: str, data: str, classifier: str | None, checkpoint: str | None):
    """A folder of each way, of the classifier and of its encoder."""
    import kbert as library

    def run(count):
        place = classifier or fine_tuned(folder, data, checkpoint)
        for head in ("classifier", "encoder"):
            bert = library.load(place, head=head)
            for way in ("float32", "int8", "int8_dynamic"):
                options = {} if way == "float32" else {"quantize": way}
                if way == "int8":
                    options["calibration"] = vectors.texts_of(f"{data}/train.tsv", CALIBRATION)
                out = f"{folder}/{head}-{way}"
                library.save(bert, out, format="transformers_onnx", **options)

    return run


def fine_tuned(folder: str, data: str, checkpoint: str | None) -> str:
    import kbert as library

    finetuning.excerpt(f"{data}/train.tsv", folder, TRAINED)
    library.finetune(
        checkpoint or finetuning.packaged(),
        "classify",
        train=f"{folder}/train.tsv",
        output=f"{folder}/run",
        epochs=2,
        batch_size=BATCH,
        learning_rate=finetuning.RATE,
        progress=False,
    )
    return f"{folder}/run"


def onnx(folder: str, dev: str, way: str):
    import numpy as np

    texts, labels = finetuning.read(dev)
    classify, embed = (runner(f"{folder}/{head}-{way}") for head in ("classifier", "encoder"))
    plain = runner(f"{folder}/encoder-float32")
    some = texts[:100]
    cosines = [float((mean(embed, text) * mean(plain, text)).sum()) for text in some]

    def run(count):
        for _ in range(count):
            found = [classify(texts[at : at + BATCH])[0] for at in range(0, len(texts), BATCH)]
        right = np.concatenate(found).argmax(1) == np.array(labels)
        return {"accuracy": float(right.mean()), "least cosine": min(cosines)}

    return run


def mean(run, text: str):
    """A text's vector, of length 1."""
    import numpy as np

    vector = run([text])[0][0].mean(0)
    return vector / np.linalg.norm(vector)


def runner(folder: str):
    """Texts to the outputs of the ONNX file in a folder of transformers."""
    import numpy as np
    import onnxruntime
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_padding()
    tokenizer.enable_truncation(512)
    path = f"{folder}/onnx/model.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(texts):
        found = tokenizer.encode_batch(texts)
        arrays = {
            "input_ids": [one.ids for one in found],
            "attention_mask": [one.attention_mask for one in found],
            "token_type_ids": [one.type_ids for one in found],
        }
        return session.run(None, {name: np.array(rows, "int64") for name, rows in arrays.items()})

    return run
