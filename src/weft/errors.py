"""Everything that Weft refuses or fails at: one root, one subclass a stage.

A message names what was given, where, why it is refused and what to do instead.  ``exit_code`` is what the
command line answers with: 2 for a refusal (the request was wrong and nothing was done), 1 for a failure.
"""

from __future__ import annotations


class WeftError(Exception):
    """Root of every error that Weft raises on purpose.

    ``hint`` says what to do instead; ``where`` is the place (a file, a line and column, a query's name), ``excerpt``
    what stands there, in lines of its own.
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

    def __str__(self) -> str:
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
