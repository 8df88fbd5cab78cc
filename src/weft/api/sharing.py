"""Share queries by links, remember what a person has read, and let her unsubscribe by one click."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from weft.api.arguments import digest_times, length
from weft.api.requirements import requires
from weft.api.signing_in import AccountMethods, Issued
from weft.catalog.records import QueryRecord
from weft.catalog.secrets import SecretRecord
from weft.catalog.subscriptions import Subscription
from weft.catalog.users import UserRecord
from weft.configuration import require_zone
from weft.errors import NotAllowed, NotFound
from weft.rights.principal import Principal, Right
from weft.rights.secrets import verified

_SIGNED: Final = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
"""What the link in a letter says: the ID of the subscription, and until when it works (microseconds UTC)."""


class Sharing(AccountMethods):
    """The methods of ``Accounts`` for links, read marks and preferences."""

    @requires(Right.OWN, query="name")
    def share_link(self, name: str, *, expires: str | int | None = None, label: str | None = None) -> Issued:
        """Return a secret with which anybody reads the answers of a query, until the link is withdrawn or expires."""
        query = self.opened.catalog.queries.named(name)
        lasting = None if expires is None else length(expires)
        return self._issue("share", query_id=query.query_id, label=label, lasting_us=lasting)

    @requires(Right.OWN, query="name", logged=False)
    def share_links(self, name: str, *, after: int = 0, limit: int | None = None) -> tuple[SecretRecord, ...]:
        """Return at most ``limit`` valid links of a query with IDs above ``after``, without their secrets."""
        catalog = self.opened.catalog
        query_id, at = catalog.queries.named(name).query_id, self.opened.clock()
        return catalog.secrets.all("share", at, query_id=query_id, after=after, limit=limit)

    @requires(Right.OWN, query="name")
    def withdraw_link(self, name: str, link_id: int) -> SecretRecord:
        """Withdraw a link of a query.  Raise NotFound."""
        catalog = self.opened.catalog
        return catalog.secrets.withdraw("share", link_id, query_id=catalog.queries.named(name).query_id)

    @requires(Right.ANY)
    def of_share(self, secret: str, *, door: str = "page", address: str | None = None) -> Principal | None:
        """Return the principal of a link, who may read one query, or None if the link is not valid any more."""
        found = self._found("share", secret)
        if found is None or found.query_id is None:
            return None
        return Principal(query_id=found.query_id, door=door, address=address)

    @requires(Right.SELF)
    def prefer(self, *, digest: str | None = None, zone: str | None = None) -> UserRecord:
        """Set the own digest, such as ``daily@08:00``, and the own time zone.  None is the default of the home."""
        schedule = digest_times(digest, None)[0]
        chosen = None if zone is None else require_zone(zone)
        return self.opened.catalog.users.prefer(self._own_id(), schedule, chosen)

    @requires(Right.READ)
    def unread(self, query_ids: Collection[int]) -> dict[int, int] | None:
        """Map the IDs of those queries that the user may read to the numbers of her unread answers.

        Return None for a principal without an account.
        """
        if self.opened.principal.user_id is None:
            return None
        readable = [each.query_id for each in self._readable(query_ids)]
        return self.opened.catalog.marks.unread(self._own_id(), readable)

    @requires(Right.READ)
    def read_ordinals(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, frozenset[int]]:
        """Return the ordinals of the answers that the user has read, by the ID of the query.

        ``spans`` maps the IDs of queries to their first and last ordinals of interest.  Queries that the user may not
        read are left out.
        """
        readable = {each.query_id: spans[each.query_id] for each in self._readable(spans)}
        return self.opened.catalog.marks.is_read(self._own_id(), readable)

    @requires(Right.READ)
    def mark_read(self, query_id: int, ordinals: Collection[int] | None = None) -> None:
        """Mark answers of a query as read, by default all answers so far.  Raise NotFound."""
        query, marks = self._query(query_id), self.opened.catalog.marks
        if ordinals is None:
            marks.read_all(self._own_id(), query_id, query.rows)
        else:
            marks.read(self._own_id(), query_id, _within(ordinals, query))

    @requires(Right.READ)
    def mark_unread(self, query_id: int, ordinals: Collection[int]) -> None:
        """Mark answers of a query as unread.  Raise NotFound."""
        query = self._query(query_id)
        self.opened.catalog.marks.unread_again(self._own_id(), query_id, _within(ordinals, query))

    def _readable(self, query_ids: Collection[int]) -> tuple[QueryRecord, ...]:
        live = (each for each in self.opened.catalog.queries.by_ids(query_ids) if each.state != "removed")
        return self.opened.seen().among(live)

    def _query(self, query_id: int) -> QueryRecord:
        found = self._readable([query_id])
        if not found:
            raise NotFound(f"there is no query #{query_id}", hint="List the queries first.")
        return found[0]

    @requires(Right.ANY)
    def unsubscribe_by(self, token: str, *, address: str | None = None) -> Subscription:
        """End the subscription that the signed link of a letter names.

        Raise NotAllowed if the signature is wrong or the link has expired.
        """
        catalog = self.opened.catalog
        text = verified(catalog.link_key(), token)
        signed_for = None if text is None else _SIGNED.fullmatch(text)
        if signed_for is None:
            raise NotAllowed("this link is not valid", hint="Ask the sender of the letter to stop the letters.")
        if int(signed_for[2]) <= self.opened.clock():
            raise NotAllowed("this link has expired", hint="Use the link in a later letter, or ask its sender.")
        subscription = catalog.subscriptions.by_id(int(signed_for[1]))
        visitor = Principal(door="letter", address=address)
        key = catalog.audit.begin(visitor, subscription.channel, "unsubscribe_by", None, self.opened.clock())
        ended = catalog.subscriptions.end_by_link(subscription.sub_id)
        catalog.audit.end(key, "done")
        return ended


def _within(ordinals: Collection[int], query: QueryRecord) -> list[int]:
    return [each for each in ordinals if 1 <= each <= query.rows]
