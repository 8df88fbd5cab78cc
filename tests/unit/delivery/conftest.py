from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import forked
from answered import answer
from definitions import definition
from weft.algebra.schema import BIGINT, STRING
from weft.catalog import Catalog, Writer, open_catalog
from weft.delivery.outbox import Delivered, deliver


@dataclass
class Site:
    """A home with one query, and ticks that give it answers."""

    home: Path
    catalog: Catalog
    writer: Writer
    sender: Writer

    def install(self, name: str, *channels: str) -> int:
        return self.writer.queries.install(
            definition(name, columns=(("n", BIGINT), ("s", STRING)), channels=channels), 0
        ).query_id

    def tick(self, query_id: int, rows: int) -> None:
        answer(self.writer, query_id, rows)

    def killed(self, point: str, at: int = 0, *, certainly: bool = True) -> bool:
        """Runs one delivery in a process of its own that dies at the point, if it comes there; whether it did."""
        program = f"""
from pathlib import Path
from weft.catalog import Writer, open_catalog
from weft.delivery import outbox
outbox.MESSAGE_ROWS = 4
home = Path({str(self.home)!r})
catalog = open_catalog(home, at=0)
sender = Writer(catalog._database, catalog.lease('deliver'))
outbox.deliver(catalog, home, {at}, sender=sender)
"""
        command = [sys.executable, "-c", program]
        done = forked.run(command, point, text=True)
        assert done.returncode == -9 or (done.returncode == 0 and not certainly), done.stderr
        return done.returncode == -9

    def deliver(self, at: int = 0) -> list[Delivered]:
        return deliver(self.catalog, self.home, at, sender=self.sender)

    def file(self, name: str) -> Path:
        return self.home / "files" / name

    def ordinals(self, name: str) -> list[int]:
        return [json.loads(line)["_ordinal"] for line in self.file(name).read_text().splitlines()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    home = tmp_path / "home"
    catalog = open_catalog(home, create=True, clock="wall", at=0)
    return Site(home, catalog, catalog.writer("test", "test", 0), catalog.sender("test", 0))
