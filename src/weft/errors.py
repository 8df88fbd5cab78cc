"""Define the errors that Weft raises: one root class, and one subclass per stage.

A message names the input, the place, the reason and the remedy. ``exit_code`` is the exit code of the command line. The
exit code is 2 for a refusal and 1 for a failure. A refusal means that the request was wrong and nothing changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class WeftError(Exception):
    """The base class of all errors that Weft raises on purpose.

    - ``hint`` is the remedy.
    - ``where`` is the place: a file, a line and column, or a query's name.
    - ``excerpt`` is the text at that place, on separate lines.
    - ``reasons`` are two or more errors that this error combines. For all other errors, ``reasons`` is empty.
    - ``consequence`` marks an error that follows from another error and is not listed together with its cause.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, excerpt: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.excerpt = excerpt
        self.reasons: tuple[WeftError, ...] = ()
        self.consequence = False

    def __str__(self) -> str:
        if self.reasons:
            listed = "\n".join(f"{number}. {reason}" for number, reason in enumerate(self.reasons, 1))
            return f"{len(self.reasons)} reasons{f' ({self.where})' if self.where else ''}:\n{listed}"
        place = f" ({self.where})" if self.where else ""
        advice = f"\n  {self.hint}" if self.hint else ""
        shown = f"\n{self.excerpt}" if self.excerpt else ""
        return f"{self.message}{place}{shown}{advice}"


class Refused(WeftError):
    """A request that Weft refuses without any change."""

    exit_code = 2


class NotAllowed(Refused):
    """A right is missing. An object that the caller may not see is refused as ``NotFound``, as if it did not exist."""


class FolderElsewhere(Refused):
    """A channel's folder is on other machines of the home, so another machine delivers to it."""


class SqlError(Refused):
    """Weft refuses a text that is not a query, is outside the supported class, or uses an unknown name."""


class SynopsisError(Refused):
    """A query has no synopsis, or no synopsis of bounded size."""


class FormulaError(Refused):
    """The text of a formula, a signature or an event log is refused. ``where`` is the line and column."""


class DerivationError(WeftError):
    """The derivation rules do not support a relation.

    This error is a defect of Weft, because the SQL stage admits only supported relations.
    """


class PlanMismatch(WeftError):
    """A stored plan cannot be read as the plan of the installed query. Weft never runs an unreadable plan."""


class CatalogError(WeftError):
    """The catalog cannot be read or changed: the home is unknown, the lease is lost, or the format is newer."""


class CatalogUnreachable(CatalogError):
    """The database server of the catalog cannot be reached, or the connection to it broke.

    If the connection broke during a change, the catalog may or may not have recorded the change.
    """


class NotFound(Refused):
    """A table, query, subscription or file does not exist."""


class HomeClosed(Refused):
    """A home was used after it had been closed."""


class Conflict(Refused):
    """A name is taken, or another object prevents a change."""


class LeaseLost(CatalogError):
    """Another writer has taken the write lease of the home. This writer stopped writing."""


class LeaseBusy(CatalogError):
    """Another writer holds the home's lease."""


class ClockError(Refused):
    """The home's clock does not allow a tick or a row at this time."""


class StorageError(WeftError):
    """Stored data is damaged or missing."""


class StoreUnreachable(StorageError):
    """An object store does not answer, or answers with an error of its own. Nothing is damaged: run again."""


class FilesRemoved(StorageError):
    """A file was removed from its table and deleted while it was being read. Nothing is damaged: read again."""


class ExecutionError(WeftError):
    """Spark, Java or Delta failed."""


class AttachedFileGone(ExecutionError):
    """Another program deleted a file of its table, which a home reads in place. Queries without this file still run."""


class LimitExceeded(ExecutionError):
    """A query exceeded its limit of time or rows, and Weft stopped the query."""


class QueryFault(ExecutionError):
    """The computation of a query failed without reaching a limit or ending the JVM.

    The cause of this error is the original exception. ``defect`` is True if the original exception is a defect of Weft.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, defect: bool = False
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.defect = defect


class JvmEnded(ExecutionError):
    """Spark's JVM, or executors with rows, ended during a computation.

    ``known`` is True if the log shows that the computation was the cause.
    """

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None, known: bool = False) -> None:
        super().__init__(message, hint=hint, where=where)
        self.known = known


class ExtractionError(WeftError):
    """A source cannot be read at all. A single unreadable record goes to the quarantine instead."""


class DeliveryError(WeftError):
    """A channel is unknown, or a delivery failed."""


class TooLarge(SqlError):
    """A text exceeds a size limit. Weft stops reading the text and reports no further errors."""


class Reasons:
    """A collector of refusals from independent parts of one text. ``check`` raises all refusals as one error.

    reasons = Reasons()
    with reasons.part():
        read_one_part()
    with reasons.part():
        read_another_part()
    reasons.check()
    """

    def __init__(self) -> None:
        self._found: list[Refused] = []

    @contextmanager
    def part(self) -> Iterator[None]:
        """Collect a refusal that the ``with`` block raises. TooLarge is not collected."""
        try:
            yield
        except TooLarge:
            raise
        except Refused as error:
            self._found.append(error)

    def add(self, error: Refused) -> None:
        """Collect a refusal."""
        self._found.append(error)

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self) -> None:
        """If any refusals were collected, raise them as one error."""
        if self._found:
            raise combined(self._found)


def of_each(function: Callable[[Given], Made], parts: Iterable[Given]) -> list[Made]:
    """Return the results of ``function`` for all parts. All refusals are raised as one error."""
    reasons, results = Reasons(), []
    for part in parts:
        with reasons.part():
            results.append(function(part))
    reasons.check()
    return results


def combined(errors: Sequence[Refused]) -> Refused:
    """Combine refusals into one error that lists each reason once, in the order of the text.

    A refusal that only follows from another error (``consequence``) is omitted.
    """
    each = [reason for error in errors for reason in (error.reasons or (error,))]
    distinct = {(reason.message, reason.where): reason for reason in reversed(each)}
    causes = [reason for reason in distinct.values() if not reason.consequence] or each[:1]
    if len(causes) == 1:
        (cause,) = causes
        assert isinstance(cause, Refused)
        return cause
    causes.sort(key=_position)
    combination = type(errors[0])("; ".join(reason.message for reason in causes))
    combination.reasons = tuple(causes)
    return combination


def _position(error: WeftError) -> tuple[float, float]:
    place = re.fullmatch(r"line (\d+), column (\d+)", error.where or "")
    return (int(place[1]), int(place[2])) if place else (float("inf"), 0)
