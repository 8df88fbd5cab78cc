"""Create the class-data archive. A JVM runs typical commands and writes its loaded classes to the archive.

Only one process at a time creates an archive. The process writes a draft file and renames it if Java ends without an
error. No process reads the draft of a killed process, and the next creation removes the draft.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from weft.configuration import configuration
from weft.errors import ExecutionError
from weft.runtime.class_archive import ClassArchive, class_archive, recording
from weft.runtime.java import Java, find_java
from weft.runtime.launch import class_path, jvm_options
from weft.runtime.session import stop_session
from weft.runtime.settings import in_one_process, local_master, settings

_PATIENCE_SECONDS: Final = 600.0
"""The maximum time for Java to write an archive. On a free core, Java needs 15 to 30 seconds."""
_UNUSED_SECONDS: Final = 30 * 86_400

Outcome: TypeAlias = Literal["made", "there", "elsewhere", "cluster"]
"""The result of ``make_archive``. ``made`` means that this call created the archive. ``there`` means that the archive
already exists. ``elsewhere`` means that another process is creating the archive. ``cluster`` means that Spark runs on a
cluster and needs no archive.
"""


def wanted_archive(home: Path | None = None) -> ClassArchive | None:
    """Return the archive for commands that start Spark with the settings of ``home``.

    The result is None on a cluster. Raise ExecutionError if no Java is found.
    """
    chosen = configuration(home)
    master = chosen.spark_master or local_master()
    if not in_one_process(master):
        return None
    return class_archive(find_java(), class_path(), jvm_options(settings(master, chosen)))


def make_archive(rehearse: Callable[[], None]) -> Outcome:
    """Create the archive. ``rehearse`` runs typical commands in one session, so that Java loads their classes.

    If the creation fails, write the reason to a file next to the archive and raise ExecutionError.
    """
    archive = wanted_archive()
    if archive is None:
        return "cluster"
    archive.file.parent.mkdir(parents=True, exist_ok=True)
    with _alone(archive.file.parent / "lock") as alone:
        if not alone:
            return "elsewhere"
        if archive.there():
            return "there"
        _clear(archive.file.parent)
        try:
            _make(find_java(), archive, rehearse)
        except (ExecutionError, OSError, subprocess.SubprocessError) as problem:
            archive.failure.write_text(f"{problem}\n")
            raise
        return "made"


def _make(java: Java, archive: ClassArchive, rehearse: Callable[[], None]) -> None:
    if archive.own_base is not None:
        _make_base(java, archive.own_base)
    stop_session()
    try:
        with recording():
            rehearse()
        code = stop_session(patience=_PATIENCE_SECONDS)
        if code != 0 or not archive.draft.exists():
            raise ExecutionError(
                f"Java {java.release} wrote no class-data archive (exit code {code})",
                where=str(archive.file.parent),
                hint="Check whether the disk is full. Weft works without the archive, but commands start more slowly.",
            )
        _put(archive.draft, archive.file)
        archive.draft.write_text(archive.sizes())
        _put(archive.draft, archive.manifest)
    finally:
        stop_session()
        archive.draft.unlink(missing_ok=True)


def _make_base(java: Java, base: Path) -> None:
    draft = base.with_suffix(f".{os.getpid()}.draft")
    try:
        subprocess.run(
            [str(java.executable), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"],
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        _put(draft, base)
    finally:
        draft.unlink(missing_ok=True)


def _put(draft: Path, place: Path) -> None:
    """Force a finished file to disk, and then give it its final name."""
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.replace(place)


@contextmanager
def _alone(place: Path) -> Iterator[bool]:
    """Yield whether this process could lock the file for the ``with`` block."""
    with place.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _clear(folder: Path) -> None:
    """Remove drafts of killed processes, old failure files, and archives without use for a month."""
    files = list(folder.iterdir())
    used = {file.name.split(".")[0]: file.stat().st_mtime for file in files if file.suffix == ".jsa"}
    newest = max(used.values(), default=0.0)
    unused = {name for name, at in used.items() if newest - at > _UNUSED_SECONDS}
    for file in files:
        if file.suffix in (".draft", ".failed") or file.name.split(".")[0] in unused:
            file.unlink(missing_ok=True)
