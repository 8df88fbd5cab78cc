"""Measure computations on the clock and in processor seconds, and write the figures.

On a machine with other load, only the processor seconds are comparable.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from weft.errors import ExecutionError
from weft.runtime.session import running_jvm, session_started, stop_session

T = TypeVar("T")


def processor_seconds() -> float:
    """Return the processor seconds of this process and of Spark's JVM."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    used = own.ru_utime + own.ru_stime
    if session_started():
        fields = Path(f"/proc/{running_jvm().process.pid}/stat").read_text().rpartition(")")[2].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


@dataclass(kw_only=True)
class Times:
    """The seconds on the clock and the processor seconds of computations. Each list has one entry per computation."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the processor seconds."""
        return statistics.median(self.processor)

    def measure(self, work: Callable[[], T], processor: Callable[[], float] = processor_seconds) -> T:
        """Call ``work``, add its times, and return its result."""
        before, used = time.perf_counter(), processor()
        result = work()
        self.seconds.append(time.perf_counter() - before)
        self.processor.append(processor() - used)
        return result


@contextmanager
def folder_for_tables(parent: Path | None) -> Iterator[Path]:
    """Create a folder in ``parent`` (default: the system's folder for temporary files), and remove it at the end.

    After an interruption or an error, Spark ends first, because its jobs would create files in the folder again.
    """
    with TemporaryDirectory(prefix="weft-bench-", dir=parent) as text:
        try:
            yield Path(text)
        except BaseException:
            stop_session()
            raise


def write_figures(out: Path | None, figures: str, progress: Callable[[str], None]) -> None:
    """Write the figures to ``out`` if it is given. Print them if ``out`` is standard output. Raise ExecutionError if
    that fails.

    If the file exists and its folder is writable, an interruption leaves the earlier figures or the new ones.
    """
    if out is None:
        return
    try:
        if out.exists() and os.path.samestat(out.stat(), os.fstat(1)):  # do not overwrite the printed lines
            progress(figures)
            return
        place = out.resolve()  # the target of a link
        if place.is_file() and os.access(place.parent, os.W_OK):
            draft = place.with_name(f".{place.name}.draft")
            try:
                draft.write_text(figures, encoding="utf-8")
                draft.chmod(place.stat().st_mode)
                draft.replace(place)
            finally:
                draft.unlink(missing_ok=True)
        else:  # a new file, a device, or a file in a folder of somebody else
            out.write_text(figures, encoding="utf-8")
    except OSError as error:
        raise ExecutionError(
            f"the figures could not be written to {out}: {error.strerror}",
            hint="The lines above have the measurements. Free some space, or use another file with --out.",
        ) from error
    progress(f"written to {out}")
