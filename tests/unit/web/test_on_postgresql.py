"""The lists and the search of a home with its catalog on PostgreSQL: they show what the same home on SQLite shows."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import insert
from starlette.testclient import TestClient

from weft.api.standing import NewQuery
from weft.api.weft import Weft
from weft.catalog import ddl, liveness
from weft.web.app import application
from weft.web.site import Site

MANY = 2_000
BEYOND_ASCII = {"overview": "Übersicht", "street": "ΟΔΟΣ", "city": "İstanbul", "road": "Straße"}
"""Words in the text of a query and in the description of a saved query, by the name of both."""
PAGES = (
    *(
        "/",
        "/?show=unread",
        "/?q=customer",
        "/?q=customer+7",
        "/?q=ÄPFEL",
        "/queries",
        "/queries?q=O_1",
        "/queries?q=%25",
    ),
    *("/queries?q=ÄRMEL", "/queries?state=failed", "/queries?state=troubled", "/queries/1", "/queries/1/share"),
    *("/queries/2/answers", "/tables", "/tables?q=B", "/views", "/saved", "/saved?q=LATE", "/users", "/users?q=U19"),
    *(
        "/users?after=u500",
        "/audit",
        "/deliveries",
        "/synopses",
        "/system",
        "/queries.json?limit=7",
        "/queries.json?text=_19",
    ),
    *(
        "/tables.json?limit=2",
        "/saved.json",
        "/users.json?limit=3",
        "/api/v1/users?limit=5&after=u77",
        "/api/v1/groups",
    ),
    *("/api/v1/grants?limit=5", "/api/v1/grants?about=orders&limit=9", "/api/v1/search?text=customer&limit=3"),
    *("/api/v1/audit?limit=5", "/api/v1/deliveries", "/api/v1/messages", "/api/v1/sources", "/api/v1/views"),
)


class Visitors(NamedTuple):
    """Browsers of an administrator, and of an author who may read a part of the queries."""

    ada: TestClient
    anna: TestClient


def fill(weft: Weft) -> None:
    """Make 2,000 users, and 2,000 queries with an answer each, of which an author may read every 20th of others."""
    weft.make_table("orders", "id INT, customer STRING", keys=["id"])
    for name in ("a", "B", "ab", "_c"):
        weft.make_table(name, "id INT")
    day = dt.datetime(2026, 3, 1)
    names_of_customers = [*(f"customer {n}" for n in range(MANY)), "Äpfel"]
    rows = [{"id": n, "customer": name, "ts": day} for n, name in enumerate(names_of_customers)]
    weft.append("orders", rows, ts_from="ts")
    weft.accounts.add_user("ada", "admin")
    names = [f"{'uU'[number % 2]}{number}" for number in range(MANY)]
    with weft.opened.catalog._database.changing() as connection:  # at once: a transaction for each takes a minute
        values = {"role": "author", "state": "active", "added_at": 0}
        connection.execute(insert(ddl.users), [{"name": name, "folded": name.casefold(), **values} for name in names])
    weft.accounts.add_user("anna", "author")
    weft.accounts.add_group("sales")
    weft.accounts.add_member("sales", "anna")
    weft.accounts.grant("everyone", "read", "orders")
    names = [f"{'oO'[n % 2]}_{n}" for n in range(MANY)]
    texts = (f"SELECT o.id, o.customer FROM orders o WHERE o.id = {n}" for n in range(MANY))
    weft.install_all(
        NewQuery(name, text, "anna" if n % 5 == 0 else "ada")
        for n, (name, text) in enumerate(zip(names, texts, strict=True))
    )
    weft.install("Ärmel", "SELECT o.id, o.customer FROM orders o WHERE o.customer > 'customer'", user="anna")
    for name, word in BEYOND_ASCII.items():
        weft.install(name, f"SELECT o.id FROM orders o WHERE o.customer = '{word}'", user="ada")
        text = "SELECT o.id FROM orders o WHERE o.id > {{least}}"
        weft.save_query(name, text, ["least:int"], description=f"100% {word}")
    for name in names[::20]:
        weft.accounts.grant("sales", "read", f"results.{name}")
    weft.save_query(
        "late", "SELECT o.id FROM orders o WHERE o.id > {{least}}", ["least:int"], description="Late orders"
    )
    weft.tick(now="2026-03-02")
    weft.pause("o_10")
    weft.index_answers()


@pytest.fixture(scope="module")
def homes(postgresql: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Visitors, Visitors]]:
    """The visitors of the home on SQLite, and those of the home on PostgreSQL."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(liveness, "_RECONNECT_US", 0)  # the server has started later than the times of the tests
        yield from _served([None, f"{postgresql}&schema=web"], tmp_path_factory.mktemp("homes"))


def _served(catalogs: list[str | None], folder: Path) -> Iterator[tuple[Visitors, Visitors]]:
    opened, visitors = [], []
    for number, catalog in enumerate(catalogs):
        weft = Weft.open(folder / f"home{number}", create=True, clock="replay", catalog=catalog)
        fill(weft)
        opened.append(weft)
        clients = []
        for name in ("ada", "anna"):
            client = TestClient(application(Site(weft, hosts=frozenset({"testserver"}))))
            scopes = ["read", "install", *(["admin"] if name == "ada" else [])]
            client.headers["authorization"] = f"Bearer {weft.accounts.create_token(name, scopes=scopes).secret}"
            clients.append(client)
        visitors.append(Visitors(*clients))
    yield visitors[0], visitors[1]
    for weft in opened:
        weft.close()


def _shown(client: TestClient, path: str) -> tuple[int, list[str]]:
    """Return the status of a page, and its links and items without the instants of the machine's clock."""
    response = client.get(path)
    text = re.sub(r"20[0-9]{2}-[0-9]{2}-[0-9T:. Z+-]+", "", response.text)
    return response.status_code, [
        unescape(each)
        for each in re.findall(r'href="([^"]*)"|"name": ?"([^"]*)"|<li>([^<]*)', text)
        for each in each
        if each
    ]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_the_same(homes: tuple[Visitors, Visitors], path: str) -> None:
    for sqlite, postgresql in zip(*homes, strict=True):
        there = _shown(postgresql, path)
        assert there[0] in (200, 403, 404)
        assert there == _shown(sqlite, path)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *(("Übersicht", "overview"), ("ÜBERSICHT", "overview"), ("übersicht", "overview"), ("ΟΔΟΣ", "street")),
        *(("İstanbul", "city"), ("Straße", "road"), ("% ü", "overview"), ("Ü%", None), ("Ü_E", None)),
    ],
)
def test_words_beyond_ascii_are_found(homes: tuple[Visitors, Visitors], word: str, name: str | None) -> None:
    for home in homes:
        shown = home.ada.get("/saved", params={"q": word}).text
        assert [each for each in BEYOND_ASCII if f">{each}</a>" in shown] == ([] if name is None else [name])
        if "%" not in word:
            found = home.ada.get("/queries.json", params={"text": word}).json()["items"]
            assert [each["name"] for each in found] == ([] if name is None else [name])


@pytest.mark.parametrize("path", ["/queries", "/users", "/", "/?show=unread", "/queries?q=_1"])
def test_the_first_pages_of_a_list_are_the_same(homes: tuple[Visitors, Visitors], path: str) -> None:
    """The next page begins where the last one ends, also by row values and by names without case."""
    for sqlite, postgresql in zip(*homes, strict=True):
        following, pages = path, 0
        while following and pages < 6:
            assert (shown := _shown(postgresql, following)) == _shown(sqlite, following)
            assert shown[1]
            found = re.search(r'<a href="([^"]+)" rel="next">', postgresql.get(following).text)
            following, pages = unescape(found[1]) if found else "", pages + 1
        assert pages > 1 or shown[0] == 403
