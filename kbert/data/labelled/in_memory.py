"""Labelled data in memory: lists, DataFrames, `datasets.Dataset` and others.

No library is imported for it: their objects are recognized by their methods.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

Rows = Iterable | Sized  # a pyarrow table is no Iterable

_LISTING = ("numpy", "to_list", "tolist")  # TensorFlow's and torch's; ragged ones; NumPy's
_EXPECTED = (
    "must be a file or rows: a list of tuples or dicts, a DataFrame, a datasets.Dataset or a "
    "tf.data data set"
)


class LabelledRecords(list):
    """A task's records.

    Attributes:
        labels: the names of all labels, in order; None if the data do not say.
        columns: the names of the columns that are read, by what they hold; None if there are none.
        has_header: whether they are of a file with a header; None: its rows name their columns.
        multi_hot: whether the label cells are rows of 0 and 1; None: unknown, or not yet.
    """

    labels: tuple[str, ...] | None = None
    columns: dict[str, Any] | None = None
    has_header: bool | None = None
    multi_hot: bool | None = None


def iterate_records(data, name: str) -> Iterator[tuple[str, object]]:
    """Yield (location, record) of data that hold records: dicts by column, or tuples.

    `data` are records; a dict of columns; a DataFrame; a `datasets.Dataset`; a tf.data data set,
    unbatched. Texts may be bytes of UTF-8, numbers NumPy's or tensors. `name` is the argument's:
    the third record's location is name[2]. Raise a ValueError for data without records or an end.
    """
    for number, record in enumerate(_open(data, name)):
        location = f"{name}[{number}]"
        if type(record).__module__.startswith("kbert."):  # a task's record already
            yield location, record
            continue

        if hasattr(record, "_asdict"):
            record = record._asdict()
        yield location, plain(record, location)


def join_columns(data, name: str, is_row: Callable[[list], bool], most_cells: int):
    """Return the rows of a tuple of columns, such as (texts, labels); other data unchanged.

    Two or three lists, arrays or pandas Series in a tuple are columns, unless the task can read
    each of them as a row, which `is_row` says. Lists of more than `most_cells` cells are columns
    even then. Pairs in the first column come apart if the task reads them so, as in
    ([(text, text), …], scores).

    Raises:
        ValueError: columns of different lengths, or in a tuple of their own; a tuple that may hold
            rows or columns.
    """
    if type(data) is not tuple:
        return data
    if len(data) not in (2, 3):
        return data
    if not all(_is_column(column) for column in data):
        return data
    _refuse_inner_columns(data, name, is_row)
    columns = [plain(list(column), name) for column in data]
    lengths = [len(column) for column in columns]
    are_rows = all(is_row(column) for column in columns)
    has_tuples = any(isinstance(column, tuple) for column in data)
    may_be_rows = max(lengths) <= most_cells or has_tuples

    if len(set(lengths)) > 1:
        if are_rows or has_tuples:
            return data
        got = " and ".join(str(length) for length in lengths)
        raise ValueError(
            f"{name} must have columns of one length where it is a tuple such as (texts, labels), "
            f"got {got}"
        )

    joined = []
    for cells in zip(*columns, strict=True):
        joined.append(list(cells))
    rows = _split_pairs(joined, is_row)
    if not may_be_rows:
        return rows
    are_columns = all(is_row(row) for row in rows)
    if are_rows and are_columns:
        raise ValueError(
            f"{name} may be {len(data)} rows or {len(data)} columns where it is a tuple: give a "
            "list of the rows, or a dict of the columns such as {'text': […], 'label': […]}"
        )
    return rows if are_columns else data


def _refuse_inner_columns(data: tuple, name: str, is_row: Callable[[list], bool]) -> None:
    """Raise a ValueError for ((texts, second texts), labels), which may also be two pairs."""
    if len(data) != 2:
        return
    texts, labels = data
    if not _is_tuple_of_lists(texts) or _is_tuple_of_lists(labels):
        return

    columns = []
    for column in (*texts, labels):
        columns.append(plain(list(column), name))
    rows = [list(row) for row in zip(*columns, strict=False)]
    if len(texts) == 2 and rows and is_row(rows[0]):
        raise ValueError(
            f"{name} must have each column by itself where it is a tuple of columns, got a tuple "
            "of two lists as its first column: give (texts, second_texts, labels)"
        )


def _is_tuple_of_lists(values) -> bool:
    """Return whether values are a tuple of lists, arrays or Series."""
    if type(values) is not tuple:
        return False
    return all(_is_column(column) and not isinstance(column, tuple) for column in values)


def _is_column(values) -> bool:
    """Return whether a member of a tuple may be a column: a list, a tuple, an array, a Series."""
    is_text = isinstance(values, (str, bytes))
    if is_text or not hasattr(values, "__len__"):
        return False
    if isinstance(values, Sequence):
        return not hasattr(values, "_asdict")  # as a record has
    return any(hasattr(values, method) for method in _LISTING)


def _split_pairs(rows: list[list], is_row: Callable[[list], bool]) -> list[list]:
    """Return rows whose first cell is a pair with its texts apart, if the task reads only these."""
    if not rows or is_row(rows[0]):
        return rows
    if not all(isinstance(row[0], list) for row in rows):
        return rows

    apart = [[*pair, *cells] for pair, *cells in rows]
    return apart if is_row(apart[0]) else rows


def _open(data, name: str) -> Iterable:
    if isinstance(data, Mapping):  # {"text": […], "label": […]}
        return _transpose_columns(data, name)
    if hasattr(data, "as_numpy_iterator"):  # tf.data
        if int(data.cardinality()) == -1:
            raise ValueError(
                f"{name} must have an end, got a data set that repeats for ever: "
                "leave .repeat() out"
            )
        return data.as_numpy_iterator()

    if hasattr(data, "collect") and hasattr(data, "collect_schema"):  # polars' LazyFrame
        data = data.collect()
    if hasattr(data, "to_dicts"):  # polars
        return data.to_dicts()
    if hasattr(data, "to_pylist"):  # pyarrow
        check_unique(getattr(data, "column_names", ()), name)
        return data.to_pylist()
    if hasattr(data, "columns") and hasattr(data, "to_dict"):  # pandas
        check_unique([str(column) for column in data.columns], name)
        cells = data.astype(object)
        cells = cells.where(data.notna(), None)  # NaN: no value
        return cells.to_dict("records")

    is_sequence = isinstance(data, Iterable) or hasattr(data, "__getitem__")
    if isinstance(data, (str, bytes)) or not is_sequence:
        raise ValueError(f"{name} {_EXPECTED}, got {type(data).__name__}")
    if isinstance(data, Iterable):
        return data
    if not hasattr(data, "__len__"):
        raise ValueError(
            f"{name} must say how many rows it has, got {type(data).__name__} without __len__: "
            "add it, or give a list of its rows"
        )
    return (data[number] for number in range(len(data)))  # torch's Dataset has no end of its own


def _transpose_columns(data: Mapping, name: str) -> Iterable[dict]:
    """Return the rows of a dict of columns, each a dict."""
    listed = ", ".join(str(key) for key in data)[:60]
    if any(hasattr(column, "features") for column in data.values()):
        raise ValueError(f"{name} must be one data set, got several by name: choose from {listed}")

    columns = {}
    for key, column in data.items():
        columns[key] = plain(column, name)
    lengths = {}
    for key, column in columns.items():
        if isinstance(column, list):
            lengths[key] = len(column)
    are_lists = len(lengths) == len(columns)
    if not are_lists or len(set(lengths.values())) != 1:
        counts = [f"{length} {key}" for key, length in lengths.items()]
        raise ValueError(
            f"{name} must have columns that are lists of one length where it is a dict, got "
            + ", ".join([listed, *counts])
        )
    cells = zip(*columns.values(), strict=True)
    return (dict(zip(columns, row, strict=True)) for row in cells)


def check_unique(names: Sequence[str], location: str) -> None:
    """Raise a ValueError for two columns of one name; several may have none."""
    counts = Counter(name.strip().lower() for name in names)
    for name, count in counts.items():
        if name and count > 1:
            raise ValueError(
                f"{location}: each column must have a name of its own, got {count} columns "
                f"{name!r}: rename or remove the others"
            )


def plain(value, location: str):
    """Return a value in Python's own types: texts, lists, numbers."""
    for method in _LISTING:
        if hasattr(value, method) and not isinstance(value, type):
            value = getattr(value, method)()

    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            byte = f"0x{value[error.start]:02x}"
            raise ValueError(f"{location}: expected UTF-8 text, got byte {byte}") from None
    if isinstance(value, Mapping):
        values = {}
        for key, inner in value.items():
            values[plain(key, location)] = plain(inner, location)
        return values
    if isinstance(value, (list, tuple)):
        return [plain(inner, location) for inner in value]
    return value


def class_names(feature) -> tuple[str, ...] | None:
    """Return the names of the classes of a `datasets.ClassLabel`, or of lists of it."""
    names = getattr(getattr(feature, "feature", feature), "names", None)
    return None if names is None else tuple(names)


def text_of(value, what: str, location: str, kind: str = "a text") -> str:
    """Return a cell that must be a text; raise a ValueError if it is not."""
    if isinstance(value, str) and value.strip():
        return value.strip()

    hint = ""
    if value is None or value == "":
        hint = ": fill it in, or leave the row out"
    if isinstance(value, list):
        hint = ": give rows one by one, unbatched"
    raise ValueError(f'{location}: "{what}" must be {kind}, got {value!r:.60}{hint}')


def label_of(value, what: str, location: str, names: Sequence[str] | None = None) -> str:
    """Return a label's name; raise a ValueError if it is neither a text nor a whole number."""
    if isinstance(value, float) and value.is_integer():  # a column with holes in it is of floats
        value = int(value)
    if isinstance(value, int):
        if names is None or isinstance(value, bool):
            return str(value)
        if 0 <= value < len(names):
            return names[value]
        known = ", ".join(itertools.islice(names, 12))
        hint = ": leave out rows without a label" if value < 0 else ""
        raise ValueError(f'{location}: "{what}" must number one of {known}, got {value}{hint}')
    return text_of(value, what, location, "a text or a whole number")
