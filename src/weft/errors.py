"""Define the errors that Weft raises: one root class, one subclass per stage.

A message names the input, the place, the reason and the remedy.  ``exit_code`` is the exit code of the command line: 2
for a refusal (the request was wrong and nothing was done), 1 for a failure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class WeftError(Exception):
    """Root of every error that Weft raises on purpose.

    ``hint`` is the remedy.  ``where`` is the place (a file, a line and column, a query's name), and ``excerpt`` its
    text, on lines of its own.  ``reasons`` are the errors that this one combines, at least two; an error with one
    reason has none. ``consequence`` marks an error that follows from another one, so that it is not listed beside it.
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
    """The request itself cannot be served; nothing was changed."""

    exit_code = 2


class SqlError(Refused):
    """The text of a query is refused: it is not a query, it is outside the supported class, or it uses an unknown
    name.
    """


class SynopsisError(Refused):
    """A query has no synopsis, or no bounded one."""


class FormulaError(Refused):
    """The text of a formula, a signature or an event log is refused; ``where`` is the line and column."""


class DerivationError(WeftError):
    """The rules cannot handle a relation; a defect of Weft, since the SQL stage admits only relations that they can."""


class PlanMismatch(WeftError):
    """A stored plan cannot be read as the installed query, so it is never run."""


class CatalogError(WeftError):
    """The catalog cannot be read or changed (unknown home, lost lease, newer format)."""


class NotFound(Refused):
    """A table, query, subscription or file does not exist."""


class HomeClosed(Refused):
    """A home was used after it was closed."""


class Conflict(Refused):
    """A name is taken, or something else forbids a change."""


class LeaseLost(CatalogError):
    """Another writer took the home over from this one, which wrote nothing more."""


class LeaseBusy(CatalogError):
    """Another writer holds the home's lease."""


class ClockError(Refused):
    """The home's clock does not allow a tick or a row at this instant."""


class StorageError(WeftError):
    """Stored data is damaged or missing."""


class ExecutionError(WeftError):
    """Spark, Java or Delta failed."""


class LimitExceeded(ExecutionError):
    """A query exceeded its limit of time or rows and was stopped."""


class QueryFault(ExecutionError):
    """The computation of a query failed, without reaching a limit or ending the JVM; the cause is the original
    exception.

    ``defect``: Weft did not raise that exception on purpose.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, defect: bool = False
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.defect = defect


class JvmEnded(ExecutionError):
    """Spark's JVM ended during a computation; ``known`` if its log shows that the computation was the reason."""

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None, known: bool = False) -> None:
        super().__init__(message, hint=hint, where=where)
        self.known = known


class ExtractionError(WeftError):
    """A source cannot be read at all (single bad records are quarantined instead)."""


class DeliveryError(WeftError):
    """A channel is unknown, or a delivery failed."""


class TooLarge(SqlError):
    """A text exceeds a size limit; reading stops there, without looking for other reasons."""


class Reasons:
    """A collector of the refusals of independent parts of one text, which raises them as one error.

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
        """Collect a refusal raised within the block; TooLarge passes through."""
        try:
            yield
        except TooLarge:
            raise
        except Refused as error:
            self._found.append(error)

    def add(self, error: Refused) -> None:
        """Add a refusal."""
        self._found.append(error)

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self) -> None:
        """Raise the collected refusals, if any."""
        if self._found:
            raise combined(self._found)


def of_each(function: Callable[[Given], Made], parts: Iterable[Given]) -> list[Made]:
    """Return a function's results for all parts; raise the refusals of all parts as one error."""
    reasons, results = Reasons(), []
    for part in parts:
        with reasons.part():
            results.append(function(part))
    reasons.check()
    return results


def combined(errors: Sequence[Refused]) -> Refused:
    """Combine refusals into one error: each reason once, in the text's order, without consequences of others."""
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
    """Return the line and column of an error; an error without a place comes last."""
    place = re.fullmatch(r"line (\d+), column (\d+)", error.where or "")
    return (int(place[1]), int(place[2])) if place else (float("inf"), 0)
