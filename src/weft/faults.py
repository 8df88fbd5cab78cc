"""Decide which errors belong to one query and which to the home.

An error belongs to the home if any other query would meet the same error. Examples are errors of the catalog, the
lease, the clock, damaged data, and the operating system (a full disk). An error of the home ends the current operation.
KeyboardInterrupt, SystemExit and ``interruption.Stopped`` also belong to no query.

Every other error belongs to the query whose computation raised it. ``execution.isolate`` finds the query that causes an
error, sets this query aside with the reason, and computes the other queries.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weft.access import make_file, make_folder
from weft.errors import (
    CatalogError,
    ClockError,
    DerivationError,
    ExecutionError,
    HomeClosed,
    JvmEnded,
    LimitExceeded,
    QueryFault,
    StorageError,
    WeftError,
)
from weft.instants import format_instant

_OF_THE_HOME: Final = (CatalogError, ClockError, HomeClosed, StorageError, OSError)
_LOG: Final = "weft.log"

FAULTS: Final = (QueryFault, LimitExceeded, JvmEnded)
"""Errors that belong to the query whose computation raised them."""


def is_of_the_home(error: BaseException) -> bool:
    """Return whether an error belongs to no query."""
    return not isinstance(error, Exception) or isinstance(error, _OF_THE_HOME)


def plain_error(error: Exception) -> WeftError:
    """Return a WeftError unchanged. Describe any other error in an ExecutionError.

    An exception that Weft did not raise on purpose is reported as a defect, except MemoryError.
    """
    if isinstance(error, WeftError):
        return error
    if isinstance(error, MemoryError):
        return ExecutionError(
            "the operation needs more memory than this process has", hint="Restrict the operation to fewer rows."
        )
    return ExecutionError(
        f"this is a defect in Weft: {error_summary(error)}",
        hint="Report the traceback, which is in the home's logs/weft.log.",
    )


def error_summary(error: BaseException) -> str:
    """Return the class name of an exception and the first line of its message, cut to 300 characters."""
    message = str(error).strip()
    return f"{type(error).__name__}: {message.splitlines()[0][:300]}" if message else type(error).__name__


@contextmanager
def query_faults() -> Iterator[None]:
    """Turn errors in the ``with`` block into QueryFault, except errors of the home and errors in ``FAULTS``."""
    try:
        yield
    except FAULTS:
        raise
    except Exception as error:
        if is_of_the_home(error):
            raise
        plain = plain_error(error)
        defect = isinstance(error, DerivationError) or not isinstance(error, WeftError | MemoryError)
        raise QueryFault(plain.message, hint=plain.hint, where=plain.where, defect=defect) from error


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn MemoryError in the ``with`` block into its ``plain_error``."""
    try:
        yield
    except MemoryError as error:
        raise plain_error(error) from error


def isolated_error(error: Exception, logs: Path, clock: Callable[[], int], doing: str) -> WeftError:
    """Return the ``plain_error`` for an error in one view or one channel. Write a defect to the log in ``logs``.

    Only a defect needs the time of ``clock`` (µs UTC). If the clock of the catalog fails, the log has no time.
    """
    plain = plain_error(error)
    if plain is not error:
        at: int | None = None
        with suppress(WeftError):
            at = clock()
        log_defect(logs, at, doing, error)
    return plain


def log_defect(folder: Path, at: int | None, doing: str, error: BaseException) -> Path | None:
    """Append a traceback to ``weft.log`` in ``folder``. Return the path of the log, or None if it cannot be written.

    ``at`` is the time of the wall clock, in microseconds UTC, if it is known. ``doing`` names the command or the
    operation.
    """
    log = folder / _LOG
    try:
        make_folder(folder)
        make_file(log)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"\n{'(no time)' if at is None else format_instant(at)} {doing[:2_000]}\n")
            file.writelines(traceback.format_exception(error))
    except OSError:
        return None
    return log
