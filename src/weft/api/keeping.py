"""What keeps a home well: its settings, the doctor's checks, maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.api.arguments import length
from weft.api.weft_methods import WeftMethods
from weft.configuration import Setting, settings_of

if TYPE_CHECKING:
    from weft.execution.maintenance import Step
    from weft.runtime.doctor import Check


class Keeping(WeftMethods):
    """The methods of a home that keep it well; it has what is ``opened``."""

    def maintain(self, *, dry_run: bool = False, retain: str | int = "7d") -> Iterator[Step]:
        """Keeps arrangements and data files in order, step by step; what nobody needs any more is kept for ``retain``.

        Starts no Spark.  Raises LeaseBusy, StorageError, Refused for more than a week.
        """
        from weft.execution.maintenance import maintain

        return maintain(self.opened, dry_run=dry_run, keep_us=length(retain))

    def settings(self) -> tuple[Setting, ...]:
        """Every setting that holds for this home, with where it comes from; raises Refused for one that cannot be."""
        from weft.delivery.registry import default_channels

        default_channels(self.opened.folder)
        return settings_of(self.opened.folder)

    def doctor(self) -> Iterator[Check]:
        """Whether Weft and this home are well, check by check; starts no Spark."""
        from weft.delivery.registry import default_channels
        from weft.runtime.doctor import examine

        return examine(self.opened.folder, self.opened.clock(), default_channels)
