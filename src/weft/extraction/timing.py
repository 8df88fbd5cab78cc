"""What ts the rows of a load get, as a person chooses it (design section 1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from weft.errors import Refused
from weft.instants import DAY_US, format_interval

TsOrder = Literal["own", "arrival"]
Late = Literal["stamp", "refuse", "quarantine"]


@dataclass(frozen=True)
class Timing:
    """How a load's rows get their ts.

    ``ts_from`` names the column that holds a row's own time; without it rows get the home's clock.  ``order`` is
    ``own``, ts being exactly that time, or ``arrival``, the running maximum of a source's own times in its order.
    ``late`` is what becomes of a row whose own time lies before F: it gets F (``stamp``), nothing of the load is stored
    (``refuse``), or the row is kept aside (``quarantine``).  ``future_us`` is how far ahead of the wall's clock a row
    may lie, in microseconds.  ``hold`` keeps F where it is until the load is done.  Raises Refused for other words.
    """

    ts_from: str | None = None
    order: TsOrder = "own"
    late: Late = "stamp"
    future_us: int = DAY_US
    hold: bool = False

    def __post_init__(self) -> None:
        for name, option, known in (("order", "--ts-order", get_args(TsOrder)), ("late", "--late", get_args(Late))):
            if getattr(self, name) not in known:
                raise Refused(
                    f"{getattr(self, name)!r} is nothing that {option} can be", hint=f"It is one of {', '.join(known)}."
                )
        if self.order == "arrival" and self.ts_from is None:
            raise Refused(
                "--ts-order arrival is about the rows' own times, and none were named", hint="Name them with --ts-from."
            )
        if self.future_us < 0:
            raise Refused(f"{self.future_us} is no length of time", hint="Write it like 1d.")

    @property
    def holds(self) -> bool:
        """Whether F stays until the load is done: it does, too, where late rows are refused, so that none becomes late
        while others are being stored."""
        return self.hold or self.late == "refuse"

    @property
    def too_far(self) -> str:
        """Why a row beyond ``future_us`` is not taken."""
        return f"more than {format_interval(self.future_us)} ahead of the clock"

    def options(self) -> dict[str, object]:
        """What a retry of a record needs to give its rows the ts that this load would have given (JSON-able)."""
        return {name: getattr(self, name) for name in _KEPT}

    @classmethod
    def of_options(cls, options: dict[str, object]) -> Timing:
        """The timing that ``options`` were made of; those of loads before there was a choice have ``ts_from`` only."""
        return cls(**{name: options[name] for name in _KEPT if name in options})  # type: ignore[arg-type]


_KEPT: Final = tuple(field.name for field in fields(Timing) if field.name != "hold")

DEFAULT_TIMING: Final = Timing()
"""No own times: rows get the home's clock."""
