"""One query, whose answers go to every kind of channel at once, killed at random steps: law 6 for all of them.

Where the steps are is read from the code.  A file, a Delta table, a feed, a folder of mail and the cursor then have
each answer once; programs, letters and webhooks have each at least once, in messages that say the same whenever they
have the same id.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from imap_server import PASSWORD, ImapServer, imap_server
from mail_server import Post, serving
from unit.delivery.test_feed import ordinals as in_feed
from unit.delivery.test_mail import ANN
from unit.delivery.test_mailbox import texts
from unit.delivery.test_webhook import SECRET
from web_server import Web, web
from weft.catalog import layout
from weft.storage.ledger import read_rows

pytestmark = [pytest.mark.filterwarnings("ignore:Requiring AUTH"), pytest.mark.timeout(600)]
SOURCE = Path(__file__).resolve().parents[3] / "src" / "weft"
LATER = 3_600 * 1_000_000
KILLS = 5
"""In one home; 2 homes in `make test`, 100 in `make test-long`."""


def points() -> list[str]:
    """The durable steps of the outbox and its channels, as the code names them."""
    files = [*(SOURCE / "delivery").rglob("*.py"), SOURCE / "storage/answer_tables.py", SOURCE / "storage/table.py"]
    found = {name for path in files for name in re.findall(r'failpoint\("([^"]+)"\)', path.read_text())}
    return sorted(found - {"digest.noted"})  # of subscriptions to digests: test_digest.py


@dataclass
class Places:
    """A home whose query goes everywhere, and the servers that take what it sends."""

    site: Any
    query: int
    post: Post
    server: Web
    dovecot: ImapServer

    @property
    def rows(self) -> int:
        """How many answers there are."""
        return int(self.site.catalog.queries.by_id(self.query).rows)

    def undelivered(self) -> bool:
        """Whether anything is still to be sent."""
        return any(each.delivered < self.rows for each in self.site.catalog.subscriptions.all())


@pytest.fixture
def places(site: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    post, server = Post(), Web()
    monkeypatch.setenv("ANA_PASSWORD", PASSWORD)
    with serving(post) as smtp, web(server) as port, imap_server() as dovecot:
        (site.home / "weft.toml").write_text(
            f"[smtp]\nhost = '127.0.0.1'\nport = {smtp}\ntls = 'none'\nfrom = 'weft@example.com'\ntimeout = 5\n"
            f"[webhook]\nsecret = '{SECRET}'\nprivate = true\ntimeout = 5\n"
            f"[exec]\ncommands = ['tee -a {site.home}/received']\n"
        )
        served = (f"email:{ANN}", f"webhook:http://127.0.0.1:{port}/in", f"exec:tee -a {site.home}/received")
        channels = ("file:a.jsonl", "file:b.csv", "delta:t", "feed:f", dovecot.uri(), *served)
        yield Places(site, site.install("q", *channels), post, server, dovecot)


def test_the_steps_of_every_channel_are_among_them() -> None:
    kinds = Counter(name.partition(".")[0] for name in points())
    assert set(kinds) == {"commit", "delivery", "delta", "exec", "feed", "imap", "mail", "webhook"}
    assert kinds["delivery"] >= 4


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 102))])
def test_kills_at_random_lose_nothing_and_double_nothing(places: Places, seed: int) -> None:
    chance, at, died = random.Random(seed), 0, 0
    while died < KILLS:
        at += LATER
        if not places.undelivered() or chance.random() < 0.3:
            places.site.tick(places.query, chance.randint(1, 9))
        point = f"{chance.choice(points())}:{chance.choice((1, 1, 2))}"
        died += places.site.killed(point, at, certainly=False)
    for _ in range(3):  # what was under way is settled, then sent, then the rest
        at += LATER
        places.site.deliver(at)
    assert not places.undelivered()
    assert places.site.catalog.outbox.unsent() == ()
    _require_once(places)
    _require_the_same_id(places)


def _require_once(places: Places) -> None:
    home, wanted = places.site.home, list(range(1, places.rows + 1))
    assert [
        row.ordinal for row in read_rows(layout.data(home), places.site.catalog.queries.by_id(places.query))
    ] == wanted
    assert places.site.ordinals("a.jsonl") == wanted
    with places.site.file("b.csv").open(newline="") as lines:
        assert [int(row["_ordinal"]) for row in csv.DictReader(lines)] == wanted
    assert sorted(DeltaTable(str(home / "delta/t")).to_pyarrow_table()["_ordinal"].to_pylist()) == wanted
    assert in_feed(places.site.file("f.atom")) == wanted[:-101:-1]
    assert texts(places.dovecot, "INBOX") == [f"text {n}" for n in wanted]


def _require_the_same_id(places: Places) -> None:
    wanted = {f"text {n}" for n in range(1, places.rows + 1)}
    lines = (places.site.home / "received").read_text().splitlines()
    assert {json.loads(line)["s"] for line in lines} == wanted
    letters = [(each.message["Message-ID"], re.findall(r"text \d+$", each.text, re.M)) for each in places.post.letters]
    whole = [each for each in places.server.requests if each.body]
    posted = [
        (each.headers["webhook-id"], [row["s"] for row in json.loads(each.body)["data"]["rows"]]) for each in whole
    ]
    for taken in (letters, posted):
        said: dict[str, list[str]] = {}
        for key, rows in taken:
            assert said.setdefault(key, rows) == rows
        every = [row for rows in said.values() for row in rows]
        assert sorted(every) == sorted(wanted), "each answer is in the messages of one id"
