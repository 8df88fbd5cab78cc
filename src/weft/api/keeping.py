"""Maintain a home: its settings, the doctor's checks, compaction and cleaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.api.arguments import length
from weft.api.weft_methods import WeftMethods
from weft.configuration import Setting, settings_of

if TYPE_CHECKING:
    from weft.execution.maintenance import Step
    from weft.runtime.doctor import Check


class Maintaining(WeftMethods):
    """The methods of ``Weft`` that maintain the home."""

    def maintain(self, *, dry_run: bool = False, retain: str | int = "7d") -> Iterator[Step]:
        """Maintain arrangements and data files, and yield each step; files no longer needed are deleted after
        ``retain``.

        With ``dry_run`` the steps are only listed.  Starts no Spark.  Raises LeaseBusy, StorageError, and Refused if
        ``retain`` is more than a week.
        """
        from weft.execution.maintenance import maintain

        return maintain(self.opened, dry_run=dry_run, keep_us=length(retain))

    def settings(self) -> tuple[Setting, ...]:
        """Return every setting in effect for this home, with its source; raise Refused for an invalid one."""
        from weft.delivery.registry import default_channels

        default_channels(self.opened.folder)
        return settings_of(self.opened.folder)

    def doctor(self) -> Iterator[Check]:
        """Check the installation and this home, and yield the result of each check.  Starts no Spark."""
        from weft.delivery.registry import default_channels
        from weft.runtime.doctor import examine

        return examine(self.opened.folder, self.opened.clock(), default_channels)
