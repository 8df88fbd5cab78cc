"""Cut lists into pages.  A page ends with the address of the next one, which names the last item that was shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from weft.web.visits import Visit

T = TypeVar("T")


class Named(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """The name."""


Item = TypeVar("Item", bound=Named)


def after_name(items: Iterable[Item], after: str | None, limit: int) -> list[Item]:
    """Return at most ``limit`` items whose names come after ``after``, in the order of their names."""
    ordered = sorted(items, key=lambda each: each.name.casefold())
    return [each for each in ordered if after is None or each.name.casefold() > after.casefold()][:limit]


def by_name(
    visit: Visit, items: Iterable[Item], limit: int, parameter: str = "after"
) -> tuple[Sequence[Item], str | None]:
    """Return a page of ``items`` in the order of their names, and the address of the next one: see ``page_of``."""
    found = after_name(items, visit.asked(parameter) or None, limit + 1)
    return page_of(visit, found, limit, lambda last: last.name, parameter)


def page_of(
    visit: Visit, found: Sequence[T], limit: int, key: Callable[[T], object], parameter: str = "after"
) -> tuple[Sequence[T], str | None]:
    """Return the first ``limit`` items of ``found``, and the address of the next page, or None at the end.

    ``found`` has more than ``limit`` items if another page follows.  The next page gets the key of the last item as
    ``parameter``.
    """
    if len(found) <= limit:
        return found, None
    return found[:limit], visit.here(**{parameter: key(found[limit - 1])})
