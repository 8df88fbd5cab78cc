"""Decide which paths may be read: paths that a user names, and paths found in a folder.

A path that a user names may be a regular file, a folder, or a link to either. A path found in a folder or by a pattern
must be a regular file. Links in a folder are not followed, because they may lead out of the folder. Pipes, sockets and
devices are refused without blocking.

However, Weft may read a stream that this process has already opened. The user names an open stream by its file
descriptor, ``/dev/stdin`` or ``/dev/fd/N``. For ``<(command)``, a shell passes ``/dev/fd/N``.

All errors are OSErrors. The ``strerror`` of an error describes the problem with the path.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

Kind = Literal["file", "folder", "stream"]

SKIPPED: Final = "not a regular file: Weft does not follow links and devices"
"""The reason for skipping a path in a folder."""
_DESCRIPTOR: Final = re.compile(r"/dev/(?P<name>stdin)|(?:/dev/fd|/proc/self/fd)/(?P<number>\d+)")
_KINDS: Final = (
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISDIR, "it is a folder"),
)


def descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the file descriptor that a path such as ``/dev/fd/63`` names. Return None for any other path.

    >>> descriptor("/dev/stdin"), descriptor("/dev/fd/63"), descriptor("/dev/null")
    (0, 63, None)
    """
    match = _DESCRIPTOR.fullmatch(os.path.abspath(path))
    return None if match is None else 0 if match["name"] else int(match["number"])


def kind_of_path(path: Path) -> Kind:
    """Return the kind of a named path. Follow links. Raise OSError for a kind that Weft does not read."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if descriptor(path) is not None:
        return "stream"
    raise _other(path, mode)


def opened(path: Path, *, streams: bool = False) -> io.FileIO:
    """Open a regular file. If ``streams`` is True, also open a file descriptor of this process. Raises OSError.

    Opening a pipe does not block. The kind is checked after opening, because another process may replace the file.
    """
    number = descriptor(path)
    if streams and number is not None and kind_of_path(path) == "stream":
        return io.FileIO(str(path), opener=lambda *_: os.dup(number))
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise _other(path, mode)
    return io.FileIO(str(path), opener=lambda *_: file)


def _other(path: Path, mode: int) -> OSError:
    reason = next((words for test, words in _KINDS if test(mode)), "it is not a file")
    code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    return OSError(code, f"{reason}, not a regular file", str(path))


def walked(folder: Path, skipped: list[Path]) -> Iterator[Path]:
    """Yield the regular files of a folder tree, sorted by name. Skip hidden files.

    Append links and special files to ``skipped``. Raise OSError for a folder that cannot be listed.
    """
    for here, names, files in os.walk(folder, onerror=_raise):
        links = {name for name in names if os.path.islink(os.path.join(here, name))}
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in links)
        for name in sorted({*files, *links}):
            path = Path(here, name)
            if name.startswith("."):
                continue
            if stat.S_ISREG(path.lstat().st_mode):
                yield path
            else:
                skipped.append(path)


def _raise(error: OSError) -> None:
    raise error


def matching(pattern: str, skipped: list[Path]) -> Iterator[Path]:
    """Yield the regular files that match a pattern, sorted by name. Append other matches to ``skipped``.

    Links are followed only in the folders before the first wildcard.
    """
    parts = Path(os.path.abspath(pattern)).parts
    plain = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    begin = Path(*parts[:plain])
    real = os.path.realpath(begin)
    for name in sorted(glob.glob(os.path.abspath(pattern), recursive=True)):
        path = Path(name)
        if path.is_dir() and not path.is_symlink():
            continue
        is_inside = os.path.realpath(path) == os.path.join(real, os.path.relpath(path, begin))
        if is_inside and stat.S_ISREG(path.lstat().st_mode):
            yield path
        else:
            skipped.append(path)


@contextmanager
def copied(paths: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Copy each stream among the paths to a temporary file. Yield the copies.

    A stream can be read only once, but a load reads its files several times. Raises OSError.
    """
    with tempfile.TemporaryDirectory(prefix="weft-stream-") as folder:
        copies = {}
        for path in dict.fromkeys(paths):
            if descriptor(path) is not None and kind_of_path(path) == "stream":
                copies[path] = Path(folder, path.name)
                with opened(path, streams=True) as stream, copies[path].open("wb") as copy:
                    shutil.copyfileobj(stream, copy)
        yield copies
