"""Plan the changes of saved queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from weft.api.portable.access import Step
from weft.api.portable.described import DescribedSaved, differences
from weft.api.saving import ordered_parameters, usual_owner
from weft.catalog.naming import folded, query_name
from weft.execution.home import OpenHome


class SavedPlan:
    """The saved queries of a folder, compared with those of a home.

    ``changing`` are those that are new or differ.  Compile their texts once the tables that they read are known.
    """

    def __init__(self, home: OpenHome, present: Iterable[DescribedSaved]) -> None:
        self._home = home
        self._present = {folded(each.name): each for each in present}
        self.changing: list[DescribedSaved] = []

    def changed(self, wanted: DescribedSaved) -> Iterator[Step]:
        """Yield the change of a saved query.  The home keeps the owner that the folder does not name.

        Raise Refused for an invalid name or description, or if the parameters are not those of the text.
        """
        old = self._present.get(folded(query_name(wanted.name)))
        parameters = ordered_parameters(wanted.sql, wanted.parameters, wanted.description)
        user = wanted.user or (usual_owner(self._home) if old is None else old.user)
        new = replace(wanted, name=wanted.name if old is None else old.name, parameters=parameters, user=user)
        if new == old:
            return
        self.changing.append(new)
        save = partial(self._save, new, replaces=old is not None)
        if old is None:
            yield "added", "", save
        else:
            action = "settings changed" if new.sql == old.sql else "text replaced"
            yield action, differences(new, old, ("parameters", "user", "description")), save

    def _save(self, new: DescribedSaved, *, replaces: bool) -> None:
        saved, at = self._home.catalog.saved, self._home.clock()
        saved.save(new.name, new.sql, new.parameters, new.user or "", new.description, at, replace=replaces)
