"""Use a class-data archive: a file with Spark's classes that a starting JVM maps into memory.

Without an archive, each JVM loads some 18,000 classes from jars, which takes a large part of a short command's time.
Java writes an archive of its loaded classes when a JVM ends (``-XX:ArchiveClassesAtExit``, see
``runtime/archiving.py``).

The name of an archive depends on everything that affects its contents: Java, the jars, and Java's options. Weft
therefore never uses a stale archive. Java also checks the sizes and times of the jars and the checksums of the archive.
If a check fails, Java starts without the archive (``-Xshare:auto``).
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
"""The version of the archive's contents. Increase the version if commands need other classes."""

_OPTION_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""The variables from which Java reads further options. With other options, Java may refuse an archive."""
_LOWEST_PRIORITY: Final = 19
_ROOM: Final = 1 << 30
"""The free disk space in bytes that a background creation requires. An archive takes some 170 MB."""


@dataclass(frozen=True)
class ClassArchive:
    """The paths of the archive for one Java, its jars and its options. The files may not exist yet.

    ``own_base`` is the base archive of Java's own classes, or None if the Java installation includes one.
    """

    file: Path
    own_base: Path | None

    @property
    def manifest(self) -> Path:
        """The file with the sizes of the other files, written last because Java crashes on a truncated archive."""
        return self.file.with_suffix(".manifest")

    @property
    def failure(self) -> Path:
        """The file with the reason for a failed creation of the archive."""
        return self.file.with_suffix(".failed")

    @property
    def draft(self) -> Path:
        """The file to which this process writes the archive."""
        return self.file.with_suffix(f".{os.getpid()}.draft")

    @property
    def layers(self) -> tuple[Path, ...]:
        """The archive files that Java maps into memory, with the base archive first."""
        return (self.file,) if self.own_base is None else (self.own_base, self.file)

    def sizes(self) -> str:
        """Return the file sizes in the format of the manifest. Raise FileNotFoundError if a file is missing."""
        return "".join(f"{layer.stat().st_size} {layer.name}\n" for layer in self.layers)

    def there(self) -> bool:
        """Return whether the archive exists and all file sizes match the manifest."""
        try:
            return self.manifest.read_text() == self.sizes()
        except OSError:
            return False


_recording = False
_missed: tuple[ClassArchive, str] | None = None
"""The archive that this process did not find, and the memory of its JVM."""


def class_archive(java: Java, class_path: Sequence[Path], options: Sequence[str]) -> ClassArchive:
    """Return the archive for this Java, these jars and these Java options, regardless of the memory size."""
    root = java.executable.resolve().parent.parent
    ours = [_FORMAT, *_java_marks(root), *(os.environ.get(name, "") for name in _OPTION_VARIABLES)]
    jars = [f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar in class_path for stat in (jar.stat(),)]
    relevant = [option for option in options if not option.startswith("-Xmx")]
    folder = cache_folder() / "classes"
    file = folder / f"spark-{_digest([*ours, *jars, *relevant])}.jsa"
    return ClassArchive(file, None if any(root.glob("lib/*/classes.jsa")) else file.with_suffix(".java"))


def _java_marks(root: Path) -> list[str]:
    release, modules = root / "release", root / "lib" / "modules"
    description = release.read_text(errors="replace") if release.exists() else ""
    return [str(root), description, str(modules.stat().st_mtime_ns) if modules.exists() else ""]


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def archive_options(archive: ClassArchive, memory: str) -> tuple[str, ...]:
    """Return the Java options for using the archive. Within ``recording``, return the options for writing the archive.

    The result is empty if the archive does not exist or is turned off. ``memory`` is the memory of the JVM. A
    background creation, which only the setting ``auto`` permits, uses the same amount of memory.
    """
    global _missed
    if _recording:
        under = () if archive.own_base is None else (f"-XX:SharedArchiveFile={archive.own_base}",)
        return (*under, f"-XX:ArchiveClassesAtExit={archive.draft}")
    wanted = configuration().class_archive
    if wanted == "off":
        return ()
    if not archive.there():
        _missed = (archive, memory) if wanted == "auto" else None
        return ()
    with suppress(OSError):
        os.utime(archive.file)  # archives without recent use are removed
    layers = os.pathsep.join(map(str, archive.layers))
    return ("-Xshare:auto", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={layers}")


@contextmanager
def recording() -> Iterator[None]:
    """A JVM that starts during the ``with`` block writes the draft of its archive when the JVM ends."""
    global _recording
    _recording = True
    try:
        yield
    finally:
        _recording = False


def make_in_background() -> bool:
    """Start ``weft prepare`` in the background if the JVM of this process found no archive. Return whether the process
    was started.

    ``weft prepare`` runs at the lowest priority. After a failure, Weft does not start ``weft prepare`` again
    automatically.
    """
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
            preexec_fn=_lower_priority,
            env=environ,
        )
    except OSError:
        return False
    return True


def _lower_priority() -> None:
    os.nice(_LOWEST_PRIORITY)
