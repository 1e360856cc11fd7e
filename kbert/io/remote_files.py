"""Files in a bucket, as `universal_pathlib` has them: s3://, gs://.

fsspec reads them. Credentials, region and endpoint are those of its file systems: for S3 the
variables of AWS's own tools, such as AWS_PROFILE and AWS_ENDPOINT_URL.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator

from kbert.io import extras

_ADDRESS = re.compile(r"(s3|gs):/+", re.ASCII)  # a Path makes one slash of two


def is_remote(entry: str | os.PathLike) -> bool:
    """Return whether a path names something in a bucket."""
    return _ADDRESS.match(str(entry)) is not None


def open_address(address: str | os.PathLike):
    """Return the `UPath` of an address; raise an ImportError if a package is not installed."""
    text = _ADDRESS.sub(r"\1://", str(address), count=1)
    extras.require(text, "corpora", "upath", "s3fs" if text.startswith("s3") else "gcsfs")
    from upath import UPath

    return UPath(text)


def locate(path: str | os.PathLike | None) -> str | None:
    """Return the absolute path of a file or folder, or its address in a bucket; None for None."""
    if path is None:
        return None
    if is_remote(path):
        return str(open_address(path))
    return os.path.abspath(path)


def find_remote(address: str, choose_texts: Callable[[list], list]) -> list:
    """Return the paths of a file, of the texts of a folder, or of a glob, by name.

    `choose_texts` returns those of a folder's paths that are texts.

    Raises:
        FileNotFoundError: there is no such thing.
        ImportError: a package is not installed.
        OSError: the bucket does not answer, or not with a list.
    """
    path = open_address(address)
    from upath import UPath

    scheme = address.partition("://")[0]
    with failures_in_one_line(address):
        if any(letter in path.path for letter in "*?["):
            listed = path.fs.glob(path.path)
            files = [UPath(f"{scheme}://{name}") for name in listed if path.fs.isfile(name)]
        elif path.fs.isfile(path.path):
            return [path]
        else:
            listed = path.fs.find(path.path)
            files = choose_texts([UPath(f"{scheme}://{name}") for name in listed])
    if not files:
        what = f"no text file among {len(listed)} files" if listed else "no such file or folder"
        raise FileNotFoundError(f"{address}: {what}")
    return sorted(files, key=str)


def describe_remote(path) -> dict:
    """Return a file's identity: its name, size in bytes and what fsspec takes as its version.

    The version is the ETag where there is one: a SHA-256 would read the whole file once more.
    """
    with failures_in_one_line(path):
        return {
            "name": path.name,
            "bytes": path.stat().st_size,
            "version": str(path.fs.checksum(path.path)),
        }


@contextlib.contextmanager
def failures_in_one_line(path) -> Iterator[None]:
    """Turn whatever a bucket's library raises into an OSError of one line; no error of others."""
    if not is_remote(path):
        yield
        return
    try:
        yield
    except (ImportError, ValueError):
        raise
    except Exception as error:  # each library has its own; some are no OSErrors
        if getattr(error, "filename", None) == str(path):
            raise
        texts = str(error).split()
        why = " ".join(texts) or type(error).__name__
        text = f"no access: {why}: check the address, your credentials and the network"
        number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EIO
        raise OSError(number, text, str(path)) from None
