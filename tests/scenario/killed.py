"""Homes after the kill of a process, and the conditions that they must satisfy after the work is repeated (law 6)."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from delta_tables import opened
from every_instant import Timeline
from letters import letter, spool
from replayed import Row, answers_table, first_instants, ledger_rows, stored_rows
from scenario import attached, pipeline
from weft.api import Weft
from weft.storage.verify import verify

DAY = pipeline.DAY


def write_sources(folder: Path) -> Path:
    """Write two spools and a CSV file: replies, cross-posts, unordered and late articles, and unreadable articles."""
    first, more = {}, {}
    for number in range(1, 21):
        group = "comp.databases" if number % 3 else "comp.sys.sun,comp.databases"
        day = 1 + number // 2 - (3 if number % 7 == 0 else 0)
        first[f"{number}"] = _article(number, day, group, number - 4 if number % 4 == 0 else None)
    first |= {"21": b"\0", "22": letter(Date="never")}
    for number in range(30, 45):
        day = 5 if number < 32 else 8 + number // 2 - 5
        group = "sci.space" if number % 2 else "comp.databases"
        more[f"{number}"] = _article(number, day, group, number - 29 if number % 3 == 0 else None)
    spool(folder / "first", first)
    spool(folder / "more", more | {"50": letter(Message_ID=None)})
    votes = [f"v{n},{1 + n % 9}@x,{n % 4 or ''},1993-04-{10 + n // 2:02d} 0{n % 9}:00" for n in range(13)]
    (folder / "votes.csv").write_text("\n".join(["voter,msgid,points,at", *votes, "torn,3@x"]) + "\n")
    return folder


def _article(number: int, day: int, group: str, parent: int | None) -> bytes:
    return letter(
        Message_ID=f"<{number}@x>",
        Date=f"{day} Apr 93 {number % 24:02d}:00 GMT",
        Newsgroups=group,
        Subject=f"=about {number}",
        References=None if parent is None else f"<{parent}@x>",
    )


def run_process(home: Path, sources: Path, *steps: str, failpoint: str | None = None, own_jvm: bool = False) -> int:
    """Run steps of the pipeline in a separate process, and return its exit code (-9: killed).

    If Spark is needed, the process uses the JVM of the tests. With ``own_jvm``, it starts another JVM.
    """
    done = pipeline_process(home, sources, *steps, failpoint=failpoint, variables={} if own_jvm else attached.door())
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def pipeline_process(
    home: Path, sources: Path, *steps: str, failpoint: str | None, variables: Mapping[str, str], patience: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run steps of the pipeline in a separate process with further environment variables, for ``patience`` seconds."""
    killed = {} if failpoint is None else {"WEFT_FAILPOINT": failpoint}
    command = [sys.executable, "-m", "scenario.pipeline", str(home), str(sources), *steps]
    return subprocess.run(
        command,
        env=attached.surroundings({**variables, **killed}),
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


@dataclass(frozen=True)
class Contents:
    """The contents of a home, which must be the same with and without a kill."""

    tables: dict[str, list[Row]]
    ledger: list[Row]
    files: dict[str, list[Row]]
    quarantine: list[Row]


def contents(weft: Weft) -> Contents:
    """Check laws 1 and 2 and the records of the home, and return its contents and the delivered answers."""
    _require_settled(weft)
    files = {}
    for name, (_, channel) in pipeline.QUERIES.items():
        if channel != "cursor":
            files[name] = _lines(weft.home / "files" / channel.removeprefix("file:"))
            cursor = [row.ordinal for row in weft.results(name)]
            assert [int(line[0]) for line in files[name]] == cursor == list(range(1, len(cursor) + 1)), name
    held = sorted((kept.position, kept.reason) for kept in weft.quarantined())
    tables = {name: stored_rows(weft, name) for name in ("msgs", "votes")}
    return Contents(tables, ledger_rows(weft.catalog.data), files, held)


def _require_settled(weft: Weft) -> None:
    catalog = weft.catalog
    assert catalog.reservations.still_open() == ()
    assert catalog.ticks.planned() is None
    assert catalog.lease() is catalog.lease("deliver") is None
    assert [entry for entry in catalog.outbox.unsent() if entry.state == "pending"] == []
    assert verify(catalog) == []
    for record in catalog.tables.all():
        assert record.rows == len(stored_rows(weft, record.name)), record.name
    assert sum(query.rows for query in catalog.queries.all()) == len(ledger_rows(weft.catalog.data))


def _lines(path: Path) -> list[Row]:
    """Return the rows of the file without the tick, because a repeated tick may have another number."""
    text = path.read_text()
    if path.suffix == ".csv":
        rows = [tuple(row) for row in csv.reader(text.splitlines())][1:]
    else:
        rows = [tuple(json.loads(line).values()) for line in text.splitlines()]
    return [(ordinal, first_at, *values) for ordinal, first_at, _tick, *values in rows]


def require_laws(weft: Weft) -> None:
    """Check laws 1 and 2: the delivered answers and first instants equal those of the texts evaluated at every
    instant.
    """
    catalog = weft.catalog
    read = {f"{name}_answers": answers_table(weft, name) for name in ("unanswered", "liked")}
    tables = {t.name: opened(catalog.data / t.path).to_pyarrow_table() for t in catalog.tables.all()}
    timeline = Timeline(tables | read)
    moments = {name: ["ts"] for name in (*tables, *read)}
    instants = timeline.instants(moments, catalog.home().watermark, (0, DAY, 2 * DAY, 3 * DAY))
    for name, (text, _) in pipeline.QUERIES.items():
        own = re.sub(r"results\.(\w+)", r"\1_answers", text)
        assert first_instants(weft, name) == timeline.first(own, instants), name
