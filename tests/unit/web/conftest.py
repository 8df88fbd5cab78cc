"""Homes whose queries tick without Spark, and browsers of their pages."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from shown_pages import MARKUP
from weft.api.weft import Weft
from weft.web.api_v1 import endpoints
from weft.web.app import application
from weft.web.site import Site


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of the API wait for their jobs, however busy the machine is."""
    monkeypatch.setattr(endpoints, "PATIENCE_SECONDS", 60.0)


@pytest.fixture
def weft(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Weft]:
    """A home with the replay clock: empty, or with data for a test that asks for ``filled``."""
    home = tmp_path / "home"
    if "filled" in request.fixturenames:
        shutil.copytree(request.getfixturevalue("filled_home"), home)
    with Weft.open(home, create=True, clock="replay") as opened:
        yield opened


@pytest.fixture
def browser(weft: Weft) -> Iterator[TestClient]:
    """A browser that shows the page of the home."""
    yield from _browser(weft)


@pytest.fixture
def filled(weft: Weft) -> Weft:
    """The home with tables, and with queries that have answers."""
    return weft


@pytest.fixture(scope="session")
def filled_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with data, which is filled once and copied for each test."""
    home = tmp_path_factory.mktemp("web") / "home"
    with Weft.open(home, create=True, clock="replay") as opened:
        fill(opened)
    return home


@pytest.fixture(scope="module")
def full(filled_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weft]:
    """A home as ``filled`` is, for all tests of a module, which only read."""
    home = tmp_path_factory.mktemp("web") / "home"
    shutil.copytree(filled_home, home)
    with Weft.open(home) as opened:
        yield opened


@pytest.fixture(scope="module")
def reader(full: Weft) -> Iterator[TestClient]:
    """A browser that only reads the page of the home ``full``."""
    yield from _browser(full)


def _browser(weft: Weft) -> Iterator[TestClient]:
    site = Site(weft, hosts=frozenset({"testserver"}))
    with TestClient(application(site)) as client:
        client.get(f"/open/{site.key}", follow_redirects=False)
        yield client


def fill(weft: Weft) -> None:
    """Make two tables and two queries with answers.  Names and values contain markup."""
    weft.make_table("orders", "id INT, customer STRING, total DOUBLE", keys=["id"])
    weft.make_table("empty", "note STRING")
    customers = (MARKUP if n == 2 else f"customer {n}" for n in range(1, 8))
    weft.append(
        "orders",
        [
            {"id": n, "customer": customer, "total": n * 10.5, "ts": dt.datetime(2026, 3, n, 10)}
            for n, customer in enumerate(customers, 1)
        ],
        ts_from="ts",
    )
    weft.install("all-orders", "SELECT o.id, o.customer FROM orders o", user=MARKUP, keep="synopsis")
    weft.install("dear", "SELECT o.id, o.total FROM orders o WHERE o.total > 50", user="ben", keep="synopsis")
    weft.tick(now="2026-03-10")
