"""Files of a corpus in a bucket, as `universal_pathlib` has them: s3://, gs://.

fsspec reads them. Credentials, region and endpoint are those of its file systems: for S3 the
variables of AWS's own tools, such as AWS_PROFILE and AWS_ENDPOINT_URL.
"""

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator

from kbert.io import extras

_ADDRESS = re.compile(r"(s3|gs)://", re.ASCII)


def is_remote(entry: str | os.PathLike) -> bool:
    """Return whether a corpus names something in a bucket."""
    return _ADDRESS.match(str(entry)) is not None


def find_remote(address: str, choose_texts: Callable[[list], list]) -> list:
    """Return the paths of a file, of the texts of a folder, or of a glob, by name.

    `choose_texts` returns those of a folder's paths that are texts.

    Raises:
        FileNotFoundError: there is no such thing.
        ImportError: a package is not installed.
        OSError: the bucket does not answer, or not with a list.
    """
    scheme = address.partition("://")[0]
    extras.require(address, "corpora", "upath", "s3fs" if scheme == "s3" else "gcsfs")
    from upath import UPath

    path = UPath(address)
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
    except (FileNotFoundError, ImportError, ValueError):
        raise
    except Exception as error:  # each library has its own; some are no OSErrors
        texts = str(error).split()
        why = " ".join(texts) or type(error).__name__
        text = f"cannot be read: {why}: check the address, your credentials and the network"
        raise OSError(errno.EIO, text, str(path)) from None
