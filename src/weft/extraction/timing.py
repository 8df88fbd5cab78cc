"""The user's choice of the ts that the rows of a load get (design section 1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from weft.errors import Refused
from weft.instants import DAY_US, format_interval

TsOrder = Literal["own", "arrival"]
Late = Literal["stamp", "refuse", "quarantine"]


@dataclass(frozen=True)
class Timing:
    """How the rows of a load get their ts.

    ``ts_from`` names the column with a row's own time; without it rows get the home's clock. ``order`` is ``own``,
    which takes ts from that column as it is, or ``arrival``, which takes the running maximum of the source. ``late``
    decides about a row whose own time lies before the watermark: ``stamp`` gives it the watermark, ``refuse`` stores
    nothing of the load, ``quarantine`` quarantines the row. ``future_us`` is how far a row may lie ahead of the wall
    clock, in microseconds. ``hold`` stops the watermark until the load is done. Raises Refused for an invalid option.
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
                    f"{getattr(self, name)!r} is not a valid value of {option}", hint=f"Use one of {', '.join(known)}."
                )
        if self.order == "arrival" and self.ts_from is None:
            raise Refused(
                "--ts-order arrival requires --ts-from", hint="Name the column of the rows' own times: --ts-from COL."
            )
        if self.future_us < 0:
            raise Refused(f"{self.future_us} is not a valid interval", hint="Write it like 1d.")

    @property
    def holds(self) -> bool:
        """Whether the watermark stops until the load is done. Refusing late rows implies it, so that no row becomes
        late meanwhile.
        """
        return self.hold or self.late == "refuse"

    @property
    def too_far(self) -> str:
        """The reason for rejecting a row beyond ``future_us``."""
        return f"more than {format_interval(self.future_us)} ahead of the clock"

    def options(self) -> dict[str, object]:
        """Return the options that let a retry give rows the ts that this load would have given (JSON-able)."""
        return {name: getattr(self, name) for name in _KEPT}

    @classmethod
    def of_options(cls, options: dict[str, object]) -> Timing:
        """Return the timing that ``options`` stores; old loads stored ``ts_from`` only."""
        return cls(**{name: options[name] for name in _KEPT if name in options})  # type: ignore[arg-type]


_KEPT: Final = tuple(field.name for field in fields(Timing) if field.name != "hold")

DEFAULT_TIMING: Final = Timing()
"""No own times: rows get the home's clock."""
