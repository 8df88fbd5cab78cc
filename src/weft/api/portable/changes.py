"""Plan the changes that turn the definitions of a home into those of a folder.

The plan checks everything before it changes anything: all texts are compiled over the tables that the home will have,
and the locations of new sources are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from weft.algebra.schema import DataType
from weft.api.portable.access import AccessPlan, Step
from weft.api.portable.channels import ChannelPlan, installable, new_query
from weft.api.portable.described import (
    Definitions,
    Described,
    DescribedQuery,
    DescribedSaved,
    DescribedSource,
    DescribedView,
    described,
    differences,
)
from weft.api.portable.folder import file_of, read_folder, text_file
from weft.api.portable.saved import SavedPlan
from weft.api.portable.trial import Trial, in_order
from weft.api.replace_query import replace as replace_text
from weft.api.replace_query import require_replaceable
from weft.api.saving import require_compiles
from weft.api.standing import NewQuery, accepted, defined, pause, remove, resume
from weft.catalog.naming import folded
from weft.catalog.queries import OF_ONE_QUERY
from weft.catalog.records import RESULTS, SAVED, QueryRecord
from weft.errors import Conflict, Refused
from weft.execution.home import OpenHome
from weft.printable import Brief

if TYPE_CHECKING:
    from weft.extraction.sources.adding import NewSource

D = TypeVar("D", DescribedQuery, DescribedView, DescribedSource, DescribedSaved)


@dataclass(frozen=True, repr=False)
class Change(Brief):
    """One change of a query, view, source, saved query, user or group, such as ``added`` or ``channel ended``.

    ``carry_out`` performs the change.
    """

    kind: Literal["query", "view", "source", "saved query", "user", "group"]
    name: str
    action: str
    detail: str = ""
    carry_out: Callable[[], object] = field(default=lambda: None, compare=False)

    def _brief(self) -> str:
        return f"{self.kind} {self.name}: {self.action}" + (f", {self.detail}" if self.detail else "")


def planned_changes(home: OpenHome, folder: Path, secrets: Mapping[str, str], *, prune: bool) -> tuple[Change, ...]:
    """Return the changes for the files of a folder in the order in which they are carried out.

    Raise Refused with the errors of all files.
    """
    errors: list[Refused] = []
    planning = _Planning(home, folder, read_folder(folder, errors), secrets, errors, prune=prune)
    changes = planning.changes()
    if planning.errors:
        raise _together(planning.errors)
    return changes


def _together(errors: Sequence[Refused]) -> Refused:
    """Combine the refusals in the order of the files."""
    each = [reason for error in errors for reason in (error.reasons or (error,))]
    reasons = tuple({(reason.message, reason.where): reason for reason in each}.values())
    if len(reasons) == 1 and isinstance(reasons[0], Refused):
        return reasons[0]
    combination = Refused("; ".join(reason.message for reason in reasons))
    combination.reasons = reasons
    return combination


def _named(each: Iterable[D]) -> dict[str, D]:
    return {folded(one.name): one for one in each}


def _without(present: Iterable[D], wanted: Iterable[D]) -> tuple[D, ...]:
    names = _named(wanted)
    return tuple(each for each in present if folded(each.name) not in names)


def _things(definitions: Definitions) -> list[str]:
    """Return the names with which rights name views, queries and saved queries.  The table of a source stays."""
    queries = [f"{RESULTS}.{each.name}" for each in definitions.queries]
    return [
        *(each.name for each in definitions.views),
        *queries,
        *(f"{SAVED}.{each.name}" for each in definitions.saved),
    ]


class _Planning:
    def __init__(
        self,
        home: OpenHome,
        folder: Path,
        wanted: Definitions,
        secrets: Mapping[str, str],
        errors: list[Refused],
        *,
        prune: bool,
    ) -> None:
        self._home, self._folder, self._wanted = home, folder, wanted
        self._present = described(self._home)
        self._records = {folded(each.name): each for each in home.catalog.queries.all()}
        others = Definitions(
            _without(self._present.queries, wanted.queries),
            _without(self._present.views, wanted.views),
            _without(self._present.sources, wanted.sources),
            _without(self._present.saved, wanted.saved),
        )
        self._removed = others if prune else Definitions()
        self._access = AccessPlan(home, wanted.access, prune=prune)
        self._trial = Trial(self._home, self._removed, checks_rights=not self._access.changes_rights)
        self._users = {folded(each.name) for each in (*wanted.access.users, *self._present.access.users)}
        self._channels = ChannelPlan(home, secrets)
        self._saved = SavedPlan(home, self._present.saved)
        self.errors = errors

    @contextmanager
    def _part(self, each: Described) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            self._note(each, error)

    def _note(self, each: Described, error: Refused) -> None:
        file = file_of(self._folder, each)
        for reason in error.reasons or (error,):
            if reason.where is None or reason.where.startswith("line "):
                text = reason.where is not None and not isinstance(each, DescribedSource)
                name = text_file(file, getattr(each, "language", "sql")) if text else file
                reason.where = f"{name}, {reason.where}" if text else str(name)
        self.errors.append(error)

    def changes(self) -> tuple[Change, ...]:
        first, last = self._removals()
        accounts = [*self._of_access(self._access.accounts), *self._saved_queries(), *self._granted()]
        middle = [*self._sources(), *self._views(), *self._granted(), *self._queries()]
        ended = [change for each in self._wanted.queries for change in self._ended(each)]
        self._check_files()
        self._compile_saved()
        defined = [*_things(self._wanted), *(each.name for each in self._wanted.sources)]
        for each, refused in self._access.baseless(_things(self._removed), defined):
            self._note(each, refused)
        return (*accounts, *first, *ended, *middle, *last, *self._of_access(self._access.removed))

    @contextmanager
    def _collected(self) -> Iterator[None]:
        try:
            yield
        except Refused as error:
            self.errors.append(error)

    def _of_access(self, steps: Callable[[], Iterator[tuple[str, Step]]]) -> Iterator[Change]:
        with self._collected():
            for name, (action, detail, carry_out) in steps():
                yield Change("user" if folded(name) in self._users else "group", name, action, detail, carry_out)

    def _granted(self) -> Iterator[Change]:
        """Return the rights over what exists by now, apart from the results of new queries."""
        names = self._trial.names()
        return self._of_access(lambda: self._access.granted(names))

    def _saved_queries(self) -> Iterator[Change]:
        for each in self._wanted.saved:
            self._trial.add_saved(each.name)
            with self._part(each):
                for action, detail, carry_out in self._saved.changed(each):
                    yield Change("saved query", each.name, action, detail, carry_out)

    def _compile_saved(self) -> None:
        """Compile the changed saved queries over all that the home will have."""
        for each in self._saved.changing:
            with self._part(each):
                require_compiles(each.sql, each.parameters, self._trial.for_query)

    def _removals(self) -> tuple[list[Change], list[Change]]:
        """Return the removals before and after the other changes.  A query that no query reads frees its files
        first.
        """
        from weft.execution.temporal.adding import remove_view
        from weft.extraction.sources.adding import remove_source

        records = [self._records[folded(each.name)] for each in self._removed.queries]
        gone: set[int] = set()
        first, last = [], []
        for record in sorted(records, key=lambda each: -each.stratum):
            readers = self._home.catalog.queries.readers(record.query_id)
            change = Change(
                "query", record.name, "removed", "", partial(remove, self._home, record.name, purge=False, now=False)
            )
            if all(each.query_id in gone for each in readers):
                gone.add(record.query_id)
                first.append(change)
            else:
                last.append(change)
        views = {folded(each.name) for each in self._removed.views}
        for view in reversed(self._home.catalog.views.known()):
            if folded(view.name) in views:
                last.append(Change("view", view.name, "removed", "", partial(remove_view, self._home, view.name)))
        for each in self._removed.sources:
            drop = partial(remove_source, self._home, each.name)
            last.append(Change("source", each.name, "removed", "the table and its periods stay", drop))
        for saved in self._removed.saved:
            forget = partial(self._home.catalog.saved.remove, saved.name)
            last.append(Change("saved query", saved.name, "removed", "", forget))
        return first, last

    def _sources(self) -> Iterator[Change]:
        present = _named(self._present.sources)
        for each in self._wanted.sources:
            with self._part(each):
                yield from self._source(each, present.get(folded(each.name)))

    def _source(self, wanted: DescribedSource, present: DescribedSource | None) -> Iterator[Change]:
        from weft.extraction.sources.adding import add_source, check_source
        from weft.extraction.sources.mail import MAIL_KINDS

        if present is not None:
            wanted = _alike(wanted, present)
            if wanted == present:
                return
            if {"changes", *MAIL_KINDS} & {wanted.kind, present.kind}:
                raise Conflict(
                    f"{present.name} is a feed, whose position a change would lose: {differences(wanted, present)}",
                    hint=f"Remove the source (weft source remove {present.name}), and apply again.",
                )
        source = _new_source(wanted)
        found = check_source(self._home, source, replaces=present is not None)
        if present is None:
            if found.left is None:
                self._trial.add_source(wanted.name, found.columns, wanted.key, tracked=wanted.kind not in MAIL_KINDS)
            yield Change(
                "source",
                wanted.name,
                "added",
                f"{wanted.kind} at {found.place}",
                partial(add_source, self._home, source),
            )
        elif (differing := differences(replace(wanted, at=found.place), present)) != "":
            yield Change("source", present.name, "changed", differing, partial(self._replace_source, source))

    def _replace_source(self, source: NewSource) -> None:
        """The table and its periods stay.  The next poll compares the source with the open periods."""
        from weft.extraction.sources.adding import add_source, remove_source

        remove_source(self._home, source.name)
        add_source(self._home, source)

    def _views(self) -> Iterator[Change]:
        from weft.execution.temporal.adding import add_view

        present = _named(self._present.views)
        new = [each for each in self._wanted.views if folded(each.name) not in present]
        for each in self._wanted.views:
            with self._part(each):
                if (old := present.get(folded(each.name))) is not None and (old.sql, old.mode) != (each.sql, each.mode):
                    raise Conflict(
                        f"the view {old.name} has another {'text' if old.sql != each.sql else 'mode'} in the home",
                        hint=f"Remove the view (weft view remove {old.name}), and apply again. "
                        "Weft then recomputes its periods.",
                    )
        done, refused = in_order(new, lambda each: self._trial.add_view(each.name, each.sql))
        for each, error in refused:
            self._note(each, error)
        for each in done:
            add = partial(add_view, self._home, each.name, each.sql, each.mode)
            yield Change("view", each.name, "added", "batched" if each.mode == "batched" else "", add)

    def _queries(self) -> Iterator[Change]:
        present = _named(self._present.queries)
        wanted = [_kept(each, present.get(folded(each.name))) for each in self._wanted.queries]
        done, refused = in_order(wanted, lambda each: self._compile(each, present.get(folded(each.name))))
        for each, error in refused:
            self._note(each, error)
        if not refused:
            try:
                self._trial.require_no_circle()
            except Conflict as error:
                self.errors.append(error)
        for each in done:
            with self._part(each):
                record = self._records.get(folded(each.name))
                if record is None:
                    yield from self._new(each)
                    results = [f"results.{each.name}"]
                    yield from self._of_access(partial(self._access.granted, results))
                else:
                    yield from self._changed(each, present[folded(each.name)], record)

    def _compile(self, wanted: DescribedQuery, present: DescribedQuery | None) -> None:
        schemas = self._trial.for_query(wanted.sql)
        saved_id = self._trial.saved_id(_with_new_origin(wanted, present).saved)
        if present is None:
            channels = tuple(each.to for each in self._channels.of_new(wanted).channels)
            new = replace(new_query(wanted, saved_id), to=channels)
            self._trial.add_query(accepted(self._home, new, schemas))
            return
        if _text(wanted) != _text(present):
            record = self._records[folded(wanted.name)]
            _refuse_synopsis(wanted, present)
            query = _replacing(new_query(wanted, saved_id), wanted, present)
            self._trial.replace_query(record.query_id, require_replaceable(self._home, query, record, schemas))
        elif self._removed != Definitions():
            defined(self._home, new_query(replace(wanted, start="start")), schemas)

    def _new(self, wanted: DescribedQuery) -> Iterator[Change]:
        channels = self._channels.of_new(wanted)
        detail = f"to {', '.join(each.to for each in wanted.channels)}" if wanted.channels else ""
        yield Change("query", wanted.name, "added", detail, channels.install)
        if wanted.paused:
            yield Change("query", wanted.name, "paused", "", partial(pause, self._home, wanted.name))

    def _changed(self, wanted: DescribedQuery, present: DescribedQuery, record: QueryRecord) -> Iterator[Change]:
        if _text(wanted) != _text(present):
            action = "text replaced" if wanted.sql != present.sql else "settings changed"
            differing = differences(wanted, present, ("user", "every_us", "start", "saved"))
            yield Change("query", record.name, action, differing, partial(self._replace, wanted, present))
        for action, detail, carry_out in self._channels.changed(wanted, record):
            yield Change("query", record.name, action, detail, carry_out)
        if wanted.paused and record.state == "active":
            yield Change("query", record.name, "paused", "", partial(pause, self._home, record.name))
        if not wanted.paused and record.state == "paused":
            yield Change("query", record.name, "resumed", "", partial(resume, self._home, record.name, skip=False))

    def _replace(self, wanted: DescribedQuery, present: DescribedQuery) -> None:
        query = installable(self._home, _with_new_origin(wanted, present))
        replace_text(self._home, _replacing(query, wanted, present))

    def _ended(self, wanted: DescribedQuery) -> Iterator[Change]:
        record = self._records.get(folded(wanted.name))
        if record is not None:
            with self._part(wanted):
                for channel, carry_out in self._channels.ended(wanted, record):
                    yield Change("query", record.name, "channel ended", channel, carry_out)

    def _check_files(self) -> None:
        """Only one query may write to a file."""
        removed, owners = _named(self._removed.queries), dict[str, str]()
        wanted = _named(self._wanted.queries)
        stay = [each for key, each in _named(self._present.queries).items() if key not in removed and key not in wanted]
        for each in (*stay, *self._wanted.queries):
            for channel in each.channels:
                owner = owners.setdefault(channel.to, each.name)
                if owner != each.name and channel.to.startswith(OF_ONE_QUERY):
                    message = f"{owner} and {each.name} write to {channel.to}"
                    self._note(each, Conflict(message, hint="Give each query its own file."))


def _text(query: DescribedQuery) -> tuple[object, ...]:
    """Return the fields that ``install --replace`` can change, and those that make a synopsis."""
    how = (query.language, query.keep, query.discard_history, query.duplicates)
    return (query.sql, query.user, query.every_us, query.start, query.saved, how)


def _refuse_synopsis(wanted: DescribedQuery, present: DescribedQuery) -> None:
    if _text(wanted)[-1] != _text(present)[-1] or present.keep == "synopsis" or present.language != "sql":
        raise Conflict(
            f"{present.name} differs from the home, and only an SQL query that is answered from the history can change",
            hint=f"Remove the query (weft remove {present.name}), and apply again.",
        )


def _kept(wanted: DescribedQuery, present: DescribedQuery | None) -> DescribedQuery:
    """Complete a query with the values of the home that the folder does not give.  Another text has another origin."""
    if present is None:
        return wanted
    if wanted.saved is None or folded(wanted.saved) == folded(present.saved or ""):
        wanted = replace(wanted, saved=present.saved if wanted.saved or wanted.sql == present.sql else None)
    return replace(wanted, user=wanted.user or present.user)


def _with_new_origin(wanted: DescribedQuery, present: DescribedQuery | None) -> DescribedQuery:
    """Leave out an origin that the home has already.  Its saved query may have been removed."""
    known = present is not None and (wanted.sql, wanted.saved) == (present.sql, present.saved)
    return replace(wanted, saved=None) if known else wanted


def _replacing(query: NewQuery, wanted: DescribedQuery, present: DescribedQuery) -> NewQuery:
    return replace(query, to=(), start=None if wanted.start == present.start else wanted.start)


def _alike(wanted: DescribedSource, present: DescribedSource) -> DescribedSource:
    """Write the names and types of ``wanted`` as ``present`` does where they mean the same."""
    same_key = [*map(folded, wanted.key)] == [*map(folded, present.key)]
    return replace(
        wanted,
        name=present.name,
        key=present.key if same_key else wanted.key,
        ts=wanted.ts or present.ts,
        columns=None
        if wanted.columns is None
        else tuple((name, None if type_ is None else _declared(type_)) for name, type_ in wanted.columns),
    )


def _declared(text: str) -> str:
    try:
        return DataType.of_column(text).declared
    except ValueError as error:
        raise Refused(f"the type of a column is unknown: {error}", hint="Write, for example, BIGINT.") from None


def _new_source(source: DescribedSource) -> NewSource:
    from weft.extraction.sources.adding import NewSource

    columns = source.columns
    chosen = (
        None
        if columns is None
        else [(name, None if kind is None else DataType.of_column(_declared(kind))) for name, kind in columns]
    )
    names = (source.rename, source.table, source.slot, source.publication)
    return NewSource(source.name, source.kind, source.at, source.key, source.every_us, source.ts, chosen, *names)
