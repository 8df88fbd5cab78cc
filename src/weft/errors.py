"""Everything that Weft refuses or fails at: one root, one subclass a stage.

A message names what was given, where, why it is refused and what to do instead.  ``exit_code`` is what the
command line answers with: 2 for a refusal (the request was wrong and nothing was done), 1 for a failure.
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

    ``hint`` says what to do instead; ``where`` is the place (a file, a line and column, a query's name), ``excerpt``
    what stands there, in lines of its own.  ``reasons`` are the errors that this one combines, at least two; an error
    with one reason has none.  ``consequence`` marks an error that follows from another one: it is not listed beside it.
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
    """A query's text that Weft does not take: not a query, outside the class, or a name that is not known."""


class SynopsisError(Refused):
    """A query of which no synopsis can be kept, or none that is bounded."""


class FormulaError(Refused):
    """A formula's text, a signature or a log of events that Weft does not take; ``where`` is the line and column."""


class DerivationError(WeftError):
    """A relation that the rules cannot take; a defect of Weft, since the SQL stage admits only what they can."""


class PlanMismatch(WeftError):
    """A stored plan that this Weft does not read as the query that was installed; it is never run."""


class CatalogError(WeftError):
    """The catalog cannot be read or changed (unknown home, lease lost, a newer format)."""


class NotFound(Refused):
    """A table, query, subscription or file that is not there."""


class HomeClosed(Refused):
    """Something is asked of a home that was closed."""


class Conflict(Refused):
    """A name that is taken, or a change that something else forbids."""


class LeaseLost(CatalogError):
    """Another writer took the home over while this one was working: nothing more was written."""


class LeaseBusy(CatalogError):
    """Another writer holds the home's lease."""


class ClockError(Refused):
    """A tick or a row at an instant that the home's clock does not allow."""


class StorageError(WeftError):
    """What is stored is damaged or missing."""


class ExecutionError(WeftError):
    """Spark, Java or Delta could not do what was asked."""


class LimitExceeded(ExecutionError):
    """A query took more time or gave more rows than a query may; it was stopped."""


class QueryFault(ExecutionError):
    """What the computation of queries raised, neither a limit nor the end of the JVM; its cause is what was raised.

    ``defect``: Weft did not raise it on purpose.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, where: str | None = None, defect: bool = False
    ) -> None:
        super().__init__(message, hint=hint, where=where)
        self.defect = defect


class JvmEnded(ExecutionError):
    """Spark's JVM ended in the middle of something; ``known`` where its log says that what it ran was the reason."""

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None, known: bool = False) -> None:
        super().__init__(message, hint=hint, where=where)
        self.known = known


class ExtractionError(WeftError):
    """A source that cannot be read at all (single bad records are quarantined instead)."""


class DeliveryError(WeftError):
    """A channel that is not known, or did not take what was sent."""


class TooLarge(SqlError):
    """A text beyond a limit of size: reading it ends there, and no other reason is looked for."""


class Reasons:
    """Collects the refusals of the independent parts of one text, to be raised as one error.

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
        """Adds a refusal that is raised within; raises TooLarge at once."""
        try:
            yield
        except TooLarge:
            raise
        except Refused as error:
            self._found.append(error)

    def add(self, error: Refused) -> None:
        """Adds a refusal."""
        self._found.append(error)

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self) -> None:
        """Raises the refusals, where there are any."""
        if self._found:
            raise combined(self._found)


def of_each(function: Callable[[Given], Made], parts: Iterable[Given]) -> list[Made]:
    """What a function gives for each part; raises the refusals of all parts as one error."""
    reasons, made = Reasons(), []
    for part in parts:
        with reasons.part():
            made.append(function(part))
    reasons.check()
    return made


def combined(errors: Sequence[Refused]) -> Refused:
    """One error for several refusals: each reason once, without those that follow from others, in the text's order."""
    each = [reason for error in errors for reason in (error.reasons or (error,))]
    distinct = {(reason.message, reason.where): reason for reason in reversed(each)}
    causes = [reason for reason in distinct.values() if not reason.consequence] or each[:1]
    if len(causes) == 1:
        (cause,) = causes
        assert isinstance(cause, Refused)
        return cause
    causes.sort(key=_position)
    found = type(errors[0])("; ".join(reason.message for reason in causes))
    found.reasons = tuple(causes)
    return found


def _position(error: WeftError) -> tuple[float, float]:
    """Line and column; an error without a place comes last."""
    place = re.fullmatch(r"line (\d+), column (\d+)", error.where or "")
    return (int(place[1]), int(place[2])) if place else (float("inf"), 0)
