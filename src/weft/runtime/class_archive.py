"""The class-data archive: the classes that Spark needs, as Java has them in memory, in a file that is mapped at start.

Without it a JVM reads, checks and links some 18,000 classes from jars each time, which is a good part of the work of a
short command.  Java makes such a file itself, as a JVM ends (``-XX:ArchiveClassesAtExit``), of the classes that it has
loaded (``runtime/archiving.py``).

An archive is named by all that it depends on: Java, the jars, Java's options.  With another Java or another jar another
name is looked for, so a stale archive is never asked for; Java itself looks once more, at the jars' sizes and times
and at the archive's checksums, and goes on without one that does not fit (``-Xshare:auto``).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.configuration import configuration
from weft.runtime.java import Java, cache_folder

_FORMAT: Final = "1"
"""To be raised where commands come to need other classes, so that archives are made anew."""

_LOWEST_PRIORITY: Final = 19
_ROOM: Final = 1 << 30
"""Bytes: on a disk with less room nothing is made unasked; an archive takes some 170 MB."""


@dataclass(frozen=True)
class ClassArchive:
    """Where the archive for one Java, its jars and its options is, or will be.

    ``own_base`` is the archive of Java's own classes that goes under it; None where this Java comes with one.
    """

    file: Path
    own_base: Path | None

    @property
    def manifest(self) -> Path:
        """The file that says how long the others are, put there last: Java dies of an archive that is cut short."""
        return self.file.with_suffix(".manifest")

    @property
    def failure(self) -> Path:
        """The file that says why it could not be made."""
        return self.file.with_suffix(".failed")

    @property
    def draft(self) -> Path:
        """Where this process writes it."""
        return self.file.with_suffix(f".{os.getpid()}.draft")

    @property
    def layers(self) -> tuple[Path, ...]:
        """The files that Java maps, the undermost first."""
        return (self.file,) if self.own_base is None else (self.own_base, self.file)

    def sizes(self) -> str:
        """How long its files are, as the manifest has it; raises FileNotFoundError."""
        return "".join(f"{layer.stat().st_size} {layer.name}\n" for layer in self.layers)

    def there(self) -> bool:
        """Whether it is made and as long as it was then."""
        try:
            return self.manifest.read_text() == self.sizes()
        except OSError:
            return False


_recording = False
_missed: tuple[ClassArchive, str] | None = None
"""What the JVM of this process would have used."""


def class_archive(java: Java, class_path: Sequence[Path], options: Sequence[str]) -> ClassArchive:
    """The archive for a Java, the jars of its class path, and its options, the size of its memory left aside."""
    root = java.executable.resolve().parent.parent
    ours = [_FORMAT, *_java_marks(root)]
    jars = [f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar in class_path for stat in (jar.stat(),)]
    kept = [option for option in options if not option.startswith("-Xmx")]
    folder = cache_folder() / "classes"
    file = folder / f"spark-{_digest([*ours, *jars, *kept])}.jsa"
    return ClassArchive(file, None if any(root.glob("lib/*/classes.jsa")) else file.with_suffix(".java"))


def _java_marks(root: Path) -> list[str]:
    """What changes where Java does: its place, what it says of itself, and when it was put there."""
    release, modules = root / "release", root / "lib" / "modules"
    told = release.read_text(errors="replace") if release.exists() else ""
    return [str(root), told, str(modules.stat().st_mtime_ns) if modules.exists() else ""]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def archive_options(archive: ClassArchive, memory: str) -> tuple[str, ...]:
    """Java's options that make it use the archive, or record it; none where it is not there or not wanted.

    ``memory`` is what the JVM is given: an archive is for one with the same options.
    """
    global _missed
    if _recording:
        under = () if archive.own_base is None else (f"-XX:SharedArchiveFile={archive.own_base}",)
        return (*under, f"-XX:ArchiveClassesAtExit={archive.draft}")
    if configuration().class_archive == "off":
        return ()
    if not archive.there():
        _missed = archive, memory
        return ()
    with suppress(OSError):
        os.utime(archive.file)  # what nobody uses is removed one day
    layers = os.pathsep.join(map(str, archive.layers))
    return ("-Xshare:auto", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={layers}")


@contextmanager
def recording() -> Iterator[None]:
    """A JVM that is started within the block writes its archive's draft when it ends."""
    global _recording
    _recording = True
    try:
        yield
    finally:
        _recording = False


def make_in_background() -> bool:
    """Starts ``weft prepare`` in a process of its own, with the lowest priority, where this process's JVM missed an
    archive; whether it did.  Nothing waits for it, and where it failed once it is not tried again unasked."""
    if _missed is None:
        return False
    archive, memory = _missed
    if archive.there() or archive.failure.exists():
        return False
    try:
        archive.file.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(archive.file.parent, os.W_OK) or shutil.disk_usage(archive.file.parent).free < _ROOM:
            return False
        environ = {name: value for name, value in os.environ.items() if name != "WEFT_FAILPOINT"}
        environ["WEFT_SPARK_MEMORY"] = memory  # a home's file may have set it
        subprocess.Popen(
            [sys.executable, "-m", "weft", "prepare"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_give_way,
            env=environ,
        )
    except OSError:
        return False
    return True


def _give_way() -> None:
    os.nice(_LOWEST_PRIORITY)
