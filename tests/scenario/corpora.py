"""The real corpora, divided into any number of parts, with the paper's queries over groups in the corpora.

The expected answers are hand-written SQL in closed form. DuckDB evaluates the SQL over the stored rows without Weft.
"""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from replayed import DAY, Row, micros, replay_home
from weft.api import Weft
from weft.bench.bench_home import QUERIES

FOUR_WEEKS = 28 * DAY
UNREADABLE = ("sci.crypt/16027", "sci.electronics/53718")
"""Two articles whose Date has an offset of 17 hours from UTC. They go to the quarantine."""


@dataclass(frozen=True)
class Part:
    """Files that arrive together, and the instant of the next tick. Later parts have no rows before this instant."""

    paths: tuple[Path, ...]
    t: int


class Corpus(Protocol):
    """A corpus. ``groups`` are the groups of Q1, Q2 (a prefix) and Q3."""

    name: str
    groups: tuple[str, str, str]
    stored: int

    def parts(self, count: int, folder: Path) -> list[Part]:
        """Write the corpus to ``folder`` in ``count`` parts in the order of arrival."""

    def load(self, weft: Weft, part: Part) -> int:
        """Load a part, and return the number of stored rows."""


class News:
    """20 Newsgroups: fifteen spools, merged by the running maximum of Date in the order of the article numbers."""

    name = "20news"
    groups = ("comp.graphics", "comp.sys.", "sci.crypt")
    stored = 24_331

    def __init__(self, data: Path) -> None:
        self.folder = data / "netnews" / "20news"

    def parts(self, count: int, folder: Path) -> list[Part]:
        own = self._own_times()
        cuts, until = cut(sorted(own.values()), count)
        archives: dict[Path, tarfile.TarFile] = {}
        for path in sorted(self.folder.glob("*.tar.gz")):
            for name, raw in _members(path):
                number = bisect_right(cuts, own[name])
                target = folder / f"{number:02d}" / path.name.removesuffix(".gz")
                if target not in archives:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    archives[target] = tarfile.open(target, "w")  # noqa: SIM115
                entry = tarfile.TarInfo(name)
                entry.size = len(raw)
                archives[target].addfile(entry, io.BytesIO(raw))
        for archive in archives.values():
            archive.close()
        return [Part(tuple(sorted((folder / f"{n:02d}").iterdir())), t) for n, t in enumerate(until)]

    def load(self, weft: Weft, part: Part) -> int:
        done = weft.ingest_mail(part.paths, ts_from="date", ts_order="arrival")
        assert done.late == 0
        return done.stored

    def _own_times(self) -> dict[str, int]:
        """Map GROUP/ARTICLENUMBER to the running maximum of Date, from the index next to the archives."""
        with gzip.open(self.folder / "index.csv.gz", "rt", encoding="utf-8", newline="") as file:
            entries = sorted(csv.DictReader(file), key=lambda entry: (entry["group"], int(entry["article"])))
        latest: dict[str, int] = {}
        found = {}
        for entry in entries:
            name, group = f"{entry['group']}/{entry['article']}", entry["group"]
            if name not in UNREADABLE:
                date = datetime.strptime(entry["date_utc"], "%Y-%m-%dT%H:%M:%SZ")
                latest[group] = max(latest.get(group, 0), micros(date.replace(tzinfo=timezone.utc)))
            found[name] = latest[group]
        return found


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the articles of an archive in the order of their numbers."""
    with tarfile.open(path) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        for member in sorted(files, key=lambda member: int(member.name.rpartition("/")[2])):
            content = archive.extractfile(member)
            assert content is not None
            yield member.name.removeprefix("./"), content.read()


class Lists:
    """linux-xfs and linux-ext4, with the instants at which their archives stored each message."""

    name = "linux"
    groups = ("linux-ext4", "linux-x", "linux-ext4")
    stored = 124_890

    def __init__(self, data: Path) -> None:
        self.file = data / "mail-large" / "linux-lists.parquet"

    def parts(self, count: int, folder: Path) -> list[Part]:
        folder.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(config={"threads": 2})
        rows = "SELECT *, epoch_us(ts) AS us FROM read_parquet(?)"
        times = [
            us for (us,) in connection.execute(f"SELECT us FROM ({rows}) ORDER BY us", [str(self.file)]).fetchall()
        ]
        cuts, until = cut(times, count)
        parts = []
        for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, times[-1] + 1], strict=True)):
            path = folder / f"{number:02d}.parquet"
            connection.execute(
                "COPY (SELECT msgid, sender, subject, newsgroup, COALESCE(inreplyto, refs[-1]) AS inreplyto, ts "
                f"FROM ({rows}) WHERE us >= {low} AND us < {high} ORDER BY ts, newsgroup, seq) TO '{path}'",
                [str(self.file)],
            )
            parts.append(Part((path,), until[number]))
        return parts

    def load(self, weft: Weft, part: Part) -> int:
        done = weft.ingest_file(part.paths[0], "msgs", ts_from="ts")
        assert (done.late, done.quarantined, done.known) == (0, 0, 0)
        return done.stored


def cut(times: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Return the beginnings of all parts except the first, and the instant of the tick after each part.

    ``times`` is sorted. Arrivals and the instants four weeks later are spread evenly over the ticks. Ticks are
    alternately as late and as early as possible. The last tick is five weeks after the last row.
    """
    events = sorted([*times, *(time + FOUR_WEEKS for time in times if time + FOUR_WEEKS < times[-1])])
    distinct = sorted(set(times))
    places = [0]
    for number in range(1, count):
        wanted = bisect_left(distinct, events[len(events) * number // count])
        places.append(min(max(wanted, places[-1] + 1), len(distinct) - count + number))
    cuts = [distinct[place] for place in places]
    before = [times[bisect_left(times, begin) - 1] for begin in cuts[1:]]
    until = [
        begin if number % 2 else last + 1 for number, (begin, last) in enumerate(zip(cuts[1:], before, strict=True))
    ]
    return cuts[1:], [*until, times[-1] + 35 * DAY]


def texts(corpus: Corpus) -> dict[str, str]:
    """Return Q1 to Q5 over groups of the corpus."""
    one, prefix, replied = corpus.groups
    found = dict(QUERIES)
    found["Q1"] = found["Q1"].replace("comp.databases", one)
    found["Q2"] = found["Q2"].replace("comp.sys.", prefix)
    found["Q3"] = found["Q3"].replace("comp.databases", replied)
    assert all(name in text for name, text in zip(corpus.groups, found.values(), strict=False))
    return found


def install(weft: Weft, corpus: Corpus) -> None:
    for name, text in texts(corpus).items():
        weft.install(name, text, user="someone")


def arrived(home: Path, corpus: Corpus, parts: Sequence[Part]) -> Weft:
    """Return a home with the five queries in which the parts arrived one after another, with a tick after each part."""
    weft = replay_home(home)
    corpus.load(weft, parts[0])
    install(weft, corpus)
    weft.tick(now=parts[0].t)
    for part in parts[1:]:
        corpus.load(weft, part)
        weft.tick(now=part.t)
    return weft


def stored(weft: Weft) -> pa.Table:
    """Return those columns of the stored messages that the closed forms and the timelines need."""
    folder = weft.home / weft.catalog.tables.named("msgs").path
    return DeltaTable(folder).to_pyarrow_table(columns=["msgid", "newsgroup", "inreplyto", "ts"])


def closed_forms(rows: pa.Table, corpus: Corpus, t: int) -> dict[str, Mapping[Row, int]]:
    """Map the answers of each query before ``t`` to their first instants, by SQL in closed form."""
    one, prefix, replied = corpus.groups
    connection = duckdb.connect(config={"threads": 2})
    connection.register("given", rows.set_column(3, "ts", rows.column("ts").cast(pa.int64())))
    connection.execute("CREATE TABLE m AS SELECT * FROM given")
    late = f"m.ts + {FOUR_WEEKS} + 1"
    selects = {
        "Q1": f"SELECT msgid, ts AS first_at FROM m WHERE newsgroup = '{one}'",
        "Q2": f"SELECT msgid, ts AS first_at FROM m WHERE starts_with(newsgroup, '{prefix}')",
        "Q3": "SELECT m.msgid, greatest(m.ts, r.ts) AS first_at FROM m JOIN m AS r ON r.inreplyto = m.msgid "
        f"WHERE r.newsgroup = '{replied}'",
        "Q4": f"SELECT m.msgid, {late} AS first_at FROM m LEFT JOIN (SELECT inreplyto, min(ts) AS answered FROM m "
        f"GROUP BY inreplyto) AS r ON r.inreplyto = m.msgid WHERE answered IS NULL OR answered > {late}",
        "Q5": "SELECT m.msgid, greatest(m.ts, r.ts, rr.ts) AS first_at FROM m JOIN m AS r ON r.inreplyto = m.msgid "
        "JOIN m AS rr ON rr.inreplyto = r.msgid WHERE m.inreplyto IS NULL",
    }
    found = {}
    for name, select in selects.items():
        grouped = f"SELECT msgid, min(first_at) FROM ({select}) WHERE first_at < {t} GROUP BY msgid"
        found[name] = {(msgid,): first_at for msgid, first_at in connection.execute(grouped).fetchall()}
    return found


def threads(rows: pa.Table, wanted: int) -> pa.Table:
    """Return whole threads with about ``wanted`` rows in total. Their answers do not depend on other messages."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root.setdefault(name, name) != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    pairs = list(zip(rows.column("msgid").to_pylist(), rows.column("inreplyto").to_pylist(), strict=True))
    for msgid, parent in pairs:
        find(msgid)
        if parent is not None:
            root[find(msgid)] = find(parent)
    members: dict[str, list[int]] = {}
    for number, (msgid, _) in enumerate(pairs):
        members.setdefault(find(msgid), []).append(number)
    of_size = [members[name] for name in sorted(members) if 2 <= len(members[name]) <= 25]
    chosen: list[int] = []
    for numbers in of_size[:: max(1, len(of_size) * 6 // wanted)]:
        chosen += numbers if len(chosen) < wanted else []
    return rows.take(pa.array(chosen))
