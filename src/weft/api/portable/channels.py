"""Plan the changes of the channels of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from weft.api.arguments import digest_times
from weft.api.delivering import Delivering
from weft.api.portable.described import DescribedChannel, DescribedQuery, masked, revealed
from weft.api.standing import NewQuery, install
from weft.catalog.naming import folded
from weft.catalog.records import QueryRecord
from weft.catalog.subscriptions import Subscription
from weft.errors import Refused
from weft.execution.home import OpenHome

Step = tuple[str, str, Callable[[], object]]
"""An action, its detail, and the function that carries it out."""


def new_query(query: DescribedQuery, saved_id: int | None = None) -> NewQuery:
    """Return a query as ``Weft.install`` takes it, without channels.  No setting of the home replaces a value.

    ``saved_id`` is the ID of the saved query that was filled in.
    """
    return NewQuery(
        query.name,
        query.sql,
        query.user,
        query.every_us or 0,
        query.start,
        (),
        query.keep,
        query.language,
        query.allow_unbounded,
        query.discard_history,
        query.duplicates,
        saved_id=saved_id,
    )


def installable(home: OpenHome, query: DescribedQuery) -> NewQuery:
    """Return a query as ``new_query`` does once its saved query is there.  Raise NotFound if that is missing."""
    return new_query(query, None if query.saved is None else home.seen().saved(query.saved).saved_id)


@dataclass(frozen=True)
class NewChannels:
    """A query to install, with its channels by their names with secrets."""

    home: OpenHome
    query: DescribedQuery
    channels: tuple[DescribedChannel, ...]

    def install(self) -> None:
        """Install the query with its channels.  Those with another digest follow, from the first answer on."""
        groups: dict[tuple[str | None, str | None], list[str]] = {}
        for each in self.channels:
            groups.setdefault((each.digest, each.zone), []).append(each.to)
        (digest, zone), first = next(iter(groups.items()), ((None, None), ["cursor"]))
        new = replace(installable(self.home, self.query), to=tuple(first), digest=digest, zone=zone)
        install(self.home, new)
        delivering = Delivering(self.home)
        for (digest, zone), channels in [*groups.items()][1:]:
            delivering.subscribe(new.name, channels, from_start=True, digest=digest, zone=zone)
        muted = [each.to for each in self.channels if each.muted]
        if muted:
            delivering.mute(new.name, muted)


class ChannelPlan:
    """The channels of a folder, compared with those of a home."""

    def __init__(self, home: OpenHome, secrets: Mapping[str, str]) -> None:
        self._home, self._secrets, self._delivering = home, secrets, Delivering(home)
        self._present: dict[int, list[Subscription]] = {}
        for each in home.catalog.subscriptions.all():
            self._present.setdefault(each.query_id, []).append(each)
        self._known = {masked(each.channel): each.channel for some in self._present.values() for each in some}

    def of_new(self, query: DescribedQuery) -> NewChannels:
        """Return a new query with its channels.  Raise Refused for an invalid channel."""
        return NewChannels(self._home, query, tuple(self._wanted(query, {}).values()))

    def ended(self, query: DescribedQuery, record: QueryRecord) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield the channels that the folder no longer has."""
        present = self._of(record)
        for channel in sorted(present.keys() - self._wanted(query, present).keys()):
            yield masked(channel), partial(self._delivering.unsubscribe, record.name, channel)

    def changed(self, query: DescribedQuery, record: QueryRecord) -> Iterator[Step]:
        """Yield the channels that are new, or have another digest, or are muted or unmuted."""
        present = self._of(record)
        for channel, wanted in self._wanted(query, present).items():
            old, name = present.get(channel), masked(channel)
            if old is None:
                self._require_accepted(channel, record)
                times = {"digest": wanted.digest, "zone": wanted.zone}
                yield "channel added", name, partial(self._delivering.subscribe, record.name, channel, **times)
            elif (old.digest, old.zone) != (wanted.digest, wanted.zone):
                detail = f"{name}: {old.digest or 'at once'} → {wanted.digest or 'at once'}"
                yield "channel changed", detail, partial(self._set_digest, record.name, old.sub_id, wanted)
            if wanted.muted and (old is None or not old.muted):
                yield "channel muted", name, partial(self._delivering.mute, record.name, channel)
            if old is not None and old.muted and not wanted.muted:
                yield "channel unmuted", name, partial(self._delivering.unmute, record.name, channel)

    def _of(self, record: QueryRecord) -> dict[str, Subscription]:
        return {each.channel: each for each in self._present.get(record.query_id, ())}

    def _wanted(self, query: DescribedQuery, present: Mapping[str, Subscription]) -> dict[str, DescribedChannel]:
        """Return the channels by their canonical names with secrets.  Raise Refused for an invalid one."""
        from weft.delivery.registry import CURSOR, canonical

        wanted: dict[str, DescribedChannel] = {}
        for each in query.channels:
            name = revealed(each.to, self._known, self._secrets)
            name = name if name in present else canonical(name, self._home.folder)
            if name == CURSOR:
                raise Refused("every query has a cursor", hint="Omit the channel cursor.")
            if name in wanted:
                raise Refused(f"the channel {each.to} occurs twice", hint=f"Name it once in {folded(query.name)}.toml.")
            digest, zone = digest_times(each.digest, each.zone)
            wanted[name] = replace(each, to=name, digest=digest, zone=zone)
        return wanted

    def _require_accepted(self, channel: str, record: QueryRecord) -> None:
        from weft.delivery.registry import require_accepted
        from weft.storage.ledger import Answers

        home_id = self._home.catalog.home().home_id
        require_accepted([channel], self._home.folder, Answers(home_id, record.query_id, record.name, record.columns))

    def _set_digest(self, name: str, sub_id: int, wanted: DescribedChannel) -> None:
        with self._home.writing(f"change a channel of {name}") as writer:
            writer.subscriptions.set_digest(sub_id, wanted.digest, wanted.zone)
