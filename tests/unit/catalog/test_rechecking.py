"""Queries whose owner loses a right are paused, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weft.algebra.schema import DataType
from weft.catalog import Catalog, Writer, ddl
from weft.catalog.queries import change_query
from weft.catalog.records import QueryDefinition
from weft.catalog.subscriptions import mark_behind
from weft.catalog.users import UserLimits
from weft.rights.policy import Thing
from weft.rights.principal import Right, Role

Opened = Callable[..., Catalog]
INT = DataType("INT")
TABLES = ("first", "second")


@pytest.fixture
def catalog(tmp_path: Path, opened: Opened) -> Catalog:
    made = opened(tmp_path / "home", create=True, clock="replay", at=0)
    for name in TABLES:
        made.tables.create(name, [("a", INT)])
    return made


@pytest.fixture
def writer(catalog: Catalog) -> Iterator[Writer]:
    with catalog.writing("test", lambda: 1) as writer:
        yield writer


def user(catalog: Catalog, name: str, role: Role = "author") -> None:
    catalog.users.add(name, role, UserLimits(), 0)


def install(writer: Writer, name: str, owner: str, needs: tuple[int, ...], **more: object) -> int:
    definition = QueryDefinition(name, owner, "", f"plan of {name}", "{}", (), (("a", INT),), needs=needs, **more)  # type: ignore[arg-type]
    return writer.queries.install(definition, 0).query_id


def grant(catalog: Catalog, name: str, kind: str, key: object, right: Right = Right.READ) -> None:
    catalog.grants.grant(name, right, Thing(kind, str(key)), "root", 0)  # type: ignore[arg-type]


def paused(catalog: Catalog) -> dict[str, str | None]:
    return {each.name: each.reason for each in catalog.queries.all() if each.state == "paused"}


def test_queries_of_nobody_and_of_administrators_run(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "root", "admin")
    user(catalog, "anna")
    install(writer, "a", "root", (1,))
    install(writer, "b", "nobody", (2,))
    assert writer.rechecks.due()
    writer.rechecks.run()
    assert not writer.rechecks.due()
    assert paused(catalog) == {}


def test_the_lost_right_is_the_reason(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "anna")
    grant(catalog, "anna", "table", 1)
    install(writer, "a", "anna", (1,))
    install(writer, "b", "anna", (1, 2))
    install(writer, "c", "anna", ())
    writer.rechecks.run()
    assert paused(catalog) == {"b": "its owner anna may not read second"}
    catalog.grants.revoke("anna", Right.READ, Thing("table", "1"))
    writer.rechecks.run()
    assert paused(catalog) == {"a": "its owner anna may not read first", "b": "its owner anna may not read second"}


def test_rights_of_groups_and_of_everyone_count(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "anna")
    catalog.users.add_group("team")
    catalog.users.add_member("team", "anna")
    grant(catalog, "team", "table", 1)
    grant(catalog, "everyone", "table", 2)
    install(writer, "a", "anna", (1,))
    install(writer, "b", "anna", (2,))
    writer.rechecks.run()
    assert paused(catalog) == {}
    catalog.users.remove_member("team", "anna")
    writer.rechecks.run()
    assert paused(catalog).keys() == {"a"}
    catalog.grants.revoke("everyone", Right.READ, Thing("table", "2"))
    writer.rechecks.run()
    assert paused(catalog).keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda catalog: catalog.users.remove("anna"), "its owner anna was removed"),
        (
            lambda catalog: catalog.users.change("anna", role="reader"),
            "its owner anna is a reader, and readers install no queries",
        ),
    ],
)
def test_an_owner_who_is_no_author_any_more(
    catalog: Catalog, writer: Writer, change: Callable[[Catalog], object], reason: str
) -> None:
    user(catalog, "anna")
    install(writer, "a", "anna", ())
    writer.rechecks.run()
    assert paused(catalog) == {}
    change(catalog)
    writer.rechecks.run()
    assert paused(catalog) == {"a": reason}


def test_the_results_of_others_need_a_right(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "anna")
    user(catalog, "bo")
    grant(catalog, "bo", "table", 1)
    of_bo = install(writer, "of_bo", "bo", (1,))
    of_anna = install(writer, "of_anna", "anna", ())
    grant(catalog, "anna", "query", of_bo)
    install(writer, "over_both", "anna", (), reads=(of_bo, of_anna))
    writer.rechecks.run()
    assert paused(catalog) == {}
    catalog.grants.revoke("anna", Right.READ, Thing("query", str(of_bo)))
    writer.rechecks.run()
    assert paused(catalog) == {"over_both": "its owner anna may not read results.of_bo"}


def test_queries_over_the_results_of_a_paused_query_follow(catalog: Catalog, writer: Writer) -> None:
    for name in ("anna", "bo"):
        user(catalog, name)
    user(catalog, "root", "admin")
    grant(catalog, "bo", "table", 1)
    below = install(writer, "below", "bo", (1,))
    grant(catalog, "anna", "query", below)
    middle = install(writer, "middle", "anna", (), reads=(below,))
    install(writer, "above", "anna", (), reads=(middle,))
    install(writer, "of_root", "root", (), reads=(middle,))
    install(writer, "apart", "anna", ())
    writer.rechecks.run()
    assert paused(catalog) == {}
    catalog.grants.revoke("bo", Right.READ, Thing("table", "1"))
    writer.rechecks.run()
    assert paused(catalog) == {
        "below": "its owner bo may not read first",
        "middle": "it reads results.below, whose owner has lost a right",
        "above": "it reads results.middle, whose owner has lost a right",
    }
    assert catalog.rechecks.trouble("anna", (), (below,)) is not None
    assert catalog.rechecks.trouble("root", (), (below,)) is None


def test_channels_need_a_right_to_their_kind(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "anna")
    grant(catalog, "anna", "channel", "email", Right.CHANNEL)
    for name, channel in (("mail", "email:a@b.c"), ("hook", "webhook:https://x"), ("shell", "exec:x"), ("none", None)):
        install(writer, name, "anna", (), channels=() if channel is None else (channel,))
    writer.rechecks.run()
    assert paused(catalog).keys() == {"hook", "shell"}
    catalog.grants.revoke("anna", Right.CHANNEL, Thing("channel", "email"))
    writer.rechecks.run()
    assert paused(catalog).keys() == {"hook", "shell", "mail"}


def test_nothing_is_delivered_of_a_query_whose_owner_lost_a_right(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "anna")
    grant(catalog, "anna", "channel", "email", Right.CHANNEL)
    grant(catalog, "anna", "table", 1)
    query_id = install(writer, "a", "anna", (1,), channels=("email:a@b.c",))
    with catalog._database.changing() as connection:
        change_query(connection, query_id, next_ordinal=5)
        mark_behind(connection, ddl.subscriptions.c.query_id == query_id)
    assert len(catalog.subscriptions.waiting(10, 10)) == 1
    writer.queries.set_state("a", "paused")
    assert len(catalog.subscriptions.waiting(10, 10)) == 1  # `weft pause` lets waiting answers go
    writer.queries.set_state("a", "active")
    catalog.grants.revoke("anna", Right.READ, Thing("table", "1"))
    with catalog.delivering(lambda: 1) as sender:
        sender.rechecks.run()
        assert sender.subscriptions.waiting(10, 10) == ()
    assert catalog.rechecks.due()  # only a check under the write lease counts
    writer.rechecks.run()
    assert not catalog.rechecks.due()


def test_the_check_of_one_query_agrees_with_that_of_all(catalog: Catalog, writer: Writer) -> None:
    user(catalog, "anna")
    grant(catalog, "anna", "table", 1)
    cases = {"a": ((1,), ()), "b": ((2,), ()), "c": ((1, 2), ()), "d": ((1,), ("webhook:https://x",))}
    for name, (needs, channels) in cases.items():
        install(writer, name, "anna", needs, channels=channels)
    writer.rechecks.run()
    alone = {
        name: catalog.rechecks.trouble("anna", needs, (), {each.partition(":")[0] for each in channels})
        for name, (needs, channels) in cases.items()
    }
    assert {name for name, reason in alone.items() if reason is not None} == paused(catalog).keys() == {"b", "c", "d"}
