"""Views that people would want of real tables, kept while their snapshots or changes are replayed.

At several instants and at the end all periods of each view are compared with what plain Python makes of all states that
the source ever had: state by state what holds, and the instants at which that changes.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from unit.extraction.test_real_directories import directory as directory  # a fixture
from weft.algebra.schema import DataType
from weft.api import Weft
from weft.instants import parse_instant

DAY = 86_400_000_000
Rows = list[dict[str, Any]]
State = Mapping[str, Rows]
"""Of each table the rows that it had."""
Held = dict[tuple[Any, ...], list[tuple[int, "int | None"]]]
"""Of each row its maximal periods, µs UTC."""
States = list[tuple[int, State]]
"""What the source was like, from each instant on."""


def periods_of(states: Iterable[tuple[int, Iterable[tuple[Any, ...]]]]) -> Held:
    """The periods of rows that are there from each of the instants on, up to the next."""
    found: Held = {}
    there: set[tuple[Any, ...]] = set()
    for at, rows in states:
        now = set(rows)
        for row in now - there:
            found.setdefault(row, []).append((at, None))
        for row in there - now:
            found[row][-1] = (found[row][-1][0], at)
        there = now
    return found


def each_state(rows: Callable[[State], Iterable[tuple[Any, ...]]]) -> Callable[[States, int], Held]:
    """A view whose rows at an instant are those of the state then."""
    return lambda states, now: periods_of((at, rows(state)) for at, state in states)


def grouped(rows: Iterable[dict[str, Any]], *by: str) -> dict[tuple[Any, ...], Rows]:
    found: dict[tuple[Any, ...], Rows] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in by)].append(row)
    return found


def members_of_several(state: State) -> Iterator[tuple[Any, ...]]:
    for key, rows in grouped(state["org_member"], "login").items():
        if len(rows) > 1:
            yield (*key, len(rows))


def outside_their_org(state: State) -> Iterator[tuple[Any, ...]]:
    known = grouped(state["org_member"], "org", "login")
    for row in state["team_member"]:
        if (row["org"], row["login"]) not in known:
            yield row["org"], row["team"], row["login"]


def lasting(states: States, now: int) -> Held:
    """Maintainers for more than 700 days in all, who are still there."""
    rows = lambda state: [tuple(r[n] for n in TEAM_MEMBER) for r in state["team_member"] if r["role"] == "maintainer"]  # noqa: E731
    held = periods_of((at, rows(state)) for at, state in states)
    kept: Held = defaultdict(list)
    for row, periods in held.items():
        length = sum((now + 1 if end is None else end) - begin for begin, end in periods)
        if length > 700 * DAY and periods[-1][1] is None:
            kept[row[:3]] = periods
    return kept


def leaders(state: State) -> Iterator[tuple[Any, ...]]:
    people, committees = grouped(state["legislator"], "bioguide"), grouped(state["committee"], "committee")
    for row in state["committee_member"]:
        if row["rank"] == 1 and row["party"] == "majority":
            for person in people.get((row["bioguide"],), ()):
                for committee in committees.get((row["committee"],), ()):
                    yield person["last"], person["state"], committee["name"]


def women(state: State) -> Iterator[tuple[Any, ...]]:
    for key, rows in grouped((r for r in state["legislator"] if r["gender"] == "F"), "chamber", "party").items():
        yield (*key, len(rows))


def gone(states: States, now: int) -> Held:
    """Those who were in Congress and are not."""
    held = periods_of((at, {(r["bioguide"], r["last"]) for r in state["legislator"]}) for at, state in states)
    return {row: periods for row, periods in held.items() if periods[-1][1] is not None}


def large_ones(state: State) -> Iterator[tuple[Any, ...]]:
    for row in state["incident"]:
        if (row["AcresBurned"] or 0) >= 10_000:
            yield row["id"], row["Name"]


def at_work(state: State) -> Iterator[tuple[Any, ...]]:
    for key, rows in grouped(state["incident"], "MajorIncident").items():
        own = [row["PersonnelInvolved"] for row in rows if row["PersonnelInvolved"] is not None]
        yield (*key, len(rows), sum(own) if own else None)


def of_the_week(states: States, now: int) -> Held:
    """How many versions of incidents were there within the last seven days, major ones and others."""
    rows = lambda state: [(r["id"], r["MajorIncident"], r["PercentContained"]) for r in state["incident"]]  # noqa: E731
    held = periods_of((at, rows(state)) for at, state in states)
    turns: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (_, major, _), periods in held.items():
        merged: list[list[int | None]] = []
        for begin, end in periods:
            until = None if end is None or end + 7 * DAY > now else end + 7 * DAY
            if merged and (merged[-1][1] is None or begin <= merged[-1][1]):
                merged[-1][1] = until
            else:
                merged.append([begin, until])
        for first, last in merged:
            assert first is not None
            turns[major][first] += 1
            if last is not None:
                turns[major][last] -= 1
    found: Held = defaultdict(list)
    for major, changes in turns.items():
        count = 0
        order = sorted(at for at, change in changes.items() if change)
        for at, after in zip(order, [*order[1:], None], strict=True):
            count += changes[at]
            if count:
                found[major, count].append((at, after))
    return found


TEAM_MEMBER = ("org", "team", "login", "role")


@dataclass(frozen=True)
class Watched:
    """A folder's tables with their keys and columns, and three views: text, and what Python makes of all states."""

    folder: str
    tables: Mapping[str, tuple[list[str], Mapping[str, str]]]
    views: Mapping[str, tuple[str, Callable[[States, int], Held]]]


KUBERNETES = Watched(
    "kubernetes-org",
    {
        "org_member": (["org", "login"], dict.fromkeys(("org", "login", "role"), "STRING")),
        "team_member": (["org", "team", "login"], dict.fromkeys(TEAM_MEMBER, "STRING")),
    },
    {
        "several": (
            "SELECT login, COUNT(*) AS orgs FROM org_member GROUP BY login HAVING COUNT(*) > 1",
            each_state(members_of_several),
        ),
        "outside": (
            "SELECT t.org, t.team, t.login FROM team_member t WHERE NOT EXISTS "
            "(SELECT 1 FROM org_member m WHERE m.org = t.org AND m.login = t.login)",
            each_state(outside_their_org),
        ),
        "lasting": (
            "SELECT t.org, t.team, t.login FROM team_member t "
            "WHERE t.role = 'maintainer' AND PERIOD_LENGTH(t) > INTERVAL 700 DAYS AND PERIOD_END(t) >= NOW()",
            lasting,
        ),
    },
)
CONGRESS = Watched(
    "congress",
    {
        "legislator": (
            ["bioguide"],
            dict.fromkeys(("bioguide", "last", "gender", "chamber", "state", "party"), "STRING"),
        ),
        "committee": (["committee"], dict.fromkeys(("committee", "name"), "STRING")),
        "committee_member": (
            ["committee", "bioguide"],
            {"committee": "STRING", "bioguide": "STRING", "party": "STRING", "rank": "INT"},
        ),
    },
    {
        "leaders": (
            "SELECT l.last, l.state, c.name FROM committee_member m JOIN legislator l ON l.bioguide = m.bioguide "
            "JOIN committee c ON c.committee = m.committee WHERE m.rank = 1 AND m.party = 'majority'",
            each_state(leaders),
        ),
        "women": (
            "SELECT chamber, party, COUNT(*) AS n FROM legislator WHERE gender = 'F' GROUP BY chamber, party",
            each_state(women),
        ),
        "gone": (
            "SELECT l.bioguide, l.last FROM (SELECT bioguide, last FROM legislator) AS l WHERE PERIOD_END(l) < NOW()",
            gone,
        ),
    },
)
FIRES = Watched(
    "ca-fires",
    {
        "incident": (
            ["id"],
            {
                "id": "STRING",
                "Name": "STRING",
                "AcresBurned": "DOUBLE",
                "PercentContained": "DOUBLE",
                "MajorIncident": "BOOLEAN",
                "PersonnelInvolved": "BIGINT",
            },
        )
    },
    {
        "large": ("SELECT id, Name FROM incident WHERE AcresBurned >= 10000", each_state(large_ones)),
        "at_work": (
            "SELECT MajorIncident, COUNT(*) AS n, SUM(PersonnelInvolved) AS people FROM incident "
            "GROUP BY MajorIncident",
            each_state(at_work),
        ),
        "of_the_week": (
            "SELECT MajorIncident, COUNT(*) AS n "
            "FROM (SELECT DISTINCT id, MajorIncident, PercentContained FROM incident) AS i "
            "GROUP BY MajorIncident, MOVING_WINDOW(INTERVAL 7 DAYS)",
            of_the_week,
        ),
    },
)


def snapshots(place: Path, watched: Watched) -> States:
    """The states that there are snapshots of."""
    with (place / "versions.csv").open() as file:
        times = {int(each["v"]): parse_instant(each["time"]) for each in csv.DictReader(file)}
    found: dict[int, dict[str, Rows]] = defaultdict(dict)
    for table in watched.tables:
        for path in sorted((place / "snapshots").glob(f"{table}.v*.jsonl.gz")):
            with gzip.open(path, "rt") as lines:
                found[int(path.name.split(".v")[1][:5])][table] = [json.loads(line) for line in lines]
    return [(times[version], found[version]) for version in sorted(found)]


def versions(place: Path, table: str, key: str) -> States:
    """All states of one table, by its changes."""
    rows: dict[Any, dict[str, Any]] = {}
    found: dict[int, State] = {}
    with gzip.open(place / "changes.jsonl.gz", "rt") as lines:
        for line in lines:
            change = json.loads(line)
            if change["op"] == "D":
                del rows[change["key"][key]]
            else:
                rows[change["key"][key]] = {**change["key"], **change["row"]}
            found[parse_instant(change["time"])] = {table: [*rows.values()]}
    return [*found.items()]


def check(weft: Weft, watched: Watched, states: States, now: int) -> int:
    """Compares all periods of each view with what Python makes of the states so far; how many there are."""
    periods = 0
    for name, (_, expected) in watched.views.items():
        result: Held = defaultdict(list)
        for each in weft.history(name).stretches:
            result[each.values].append((each.begin, each.end))
        wanted = expected([each for each in states if each[0] <= now], now)
        assert {row: sorted(each) for row, each in result.items()} == dict(wanted), (name, now)
        periods += sum(map(len, wanted.values()))
    return periods


def add(weft: Weft, watched: Watched, kind: Any, place: Callable[[str], Path]) -> None:
    for table, (key, columns) in watched.tables.items():
        chosen = [(name, DataType.parse(type)) for name, type in columns.items()]
        given = {"table": table} if kind == "changes" else {}
        weft.add_source(table, kind, str(place(table)), key, columns=chosen, **given)


def kept(weft: Weft, watched: Watched, at: int) -> None:
    """Keeps the views as after a poll; they are added at the second."""
    if not weft.views():
        for name, (text, _) in watched.views.items():
            weft.add_view(name, text)
    assert {each.trouble for each in weft.refresh_views(now=at)} == {None}


@pytest.mark.data
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("watched", "each"),
    [(KUBERNETES, 2), *(pytest.param(every, 1, marks=pytest.mark.slow) for every in (KUBERNETES, CONGRESS))],
    ids=lambda given: str(getattr(given, "folder", given)),
)
def test_views_over_replayed_snapshots(directory: Path, tmp_path: Path, watched: Watched, each: int) -> None:
    """A source sees one of ``each`` snapshots."""
    states = snapshots(directory / watched.folder, watched)[::each]
    files = {table: tmp_path / f"{table}.jsonl" for table in watched.tables}
    periods = 0
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        for number, (at, state) in enumerate(states):
            for table, rows in state.items():
                files[table].write_text("".join(json.dumps(row) + "\n" for row in rows))
            if not number:
                add(weft, watched, "jsonl", files.__getitem__)
            for table in watched.tables:
                weft.poll_source(table, now=at, allow_empty=True)
            kept(weft, watched, at)
            if number % 3 == 2 or number == len(states) - 1:
                periods += check(weft, watched, states, at)
    assert periods > 1_000


@pytest.mark.data
@pytest.mark.timeout(600)
def test_views_over_replayed_changes(directory: Path, tmp_path: Path) -> None:
    place = directory / "ca-fires"
    states = versions(place, "incident", "id")
    with gzip.open(place / "changes.jsonl.gz", "rt") as file:
        lines = file.readlines()
    feed = tmp_path / "incident.jsonl"
    feed.write_text(lines[0])
    periods = 0
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        add(weft, FIRES, "changes", lambda table: feed)
        cuts = [200, 1_000, 1_100, 2_500, 4_000, len(lines)]
        done = 1
        for cut in cuts:
            while cut < len(lines) and json.loads(lines[cut])["time"] == json.loads(lines[cut - 1])["time"]:
                cut += 1  # what is of one version comes at once
            with feed.open("a") as file:
                file.writelines(lines[done:cut])
            at = parse_instant(json.loads(lines[cut - 1])["time"])
            done = cut
            assert weft.poll_source("incident", now=at).late == 0
            kept(weft, FIRES, at)
            periods += check(weft, FIRES, states, at)
        later = at + 8 * DAY  # the last week passes with nothing new
        kept(weft, FIRES, later)
        periods += check(weft, FIRES, states, later)
    assert periods > 3_000
