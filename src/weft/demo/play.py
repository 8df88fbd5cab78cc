"""Run the demo through the Python API: six weeks of a small NetNews, and six standing queries of two users."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from weft.api.weft import Weft
from weft.catalog import layout
from weft.demo.netnews import BEGIN, Article, articles, write_spool
from weft.errors import Conflict
from weft.execution.ticks.tick_report import QueryOutcome
from weft.execution.windows import NEVER
from weft.instants import format_instant

WEEKS: Final = 6
_PER_DAY: Final = 14
_SHOWN: Final = 3

QUESTION: Final = Article(
    "1993Apr06.lonely@example.org",
    "lena",
    "temporal join without a DBMS clock?",
    BEGIN + timedelta(days=1, hours=10),
    ("comp.databases",),
    (),
    "How would you join two histories on overlapping periods?",
)
ANSWER: Final = Article(
    "1993May11.late@example.org",
    "goran",
    "Re: temporal join without a DBMS clock?",
    BEGIN + timedelta(days=36, hours=9),
    ("comp.databases",),
    (QUESTION.msgid,),
    "Sorry for the delay. See the paper on continuous queries.",
)

QUERIES: Final = (
    (
        "databases",
        "anna",
        "SELECT msgid, subject FROM msgs WHERE newsgroup = 'comp.databases'",
        "Q1: news of one group",
    ),
    (
        "comp-sys",
        "ben",
        "SELECT msgid, subject FROM msgs WHERE newsgroup LIKE 'comp.sys.%'",
        "Q2: of all comp.sys groups",
    ),
    (
        "discussed",
        "ben",
        "SELECT m.msgid, m.subject FROM msgs m, msgs m1 "
        "WHERE m1.inreplyto = m.msgid AND m1.newsgroup = 'comp.databases'",
        "Q3: what someone replied to in comp.databases",
    ),
    (
        "unanswered",
        "anna",
        "SELECT m.msgid, m.subject FROM msgs m WHERE m.ts < NOW() - INTERVAL 4 WEEKS "
        "AND NOT EXISTS (SELECT * FROM msgs m1 WHERE m1.inreplyto = m.msgid)",
        "Q4: older than four weeks, and nobody has replied",
    ),
    (
        "chains",
        "anna",
        "SELECT m.msgid, m.subject FROM msgs m, msgs m1, msgs m2 "
        "WHERE m.inreplyto IS NULL AND m1.inreplyto = m.msgid AND m2.inreplyto = m1.msgid",
        "Q5: first messages of chains longer than two",
    ),
    ("space", "ben", "SELECT msgid, subject FROM msgs WHERE newsgroup = 'sci.space'", "Q1 again, for another group"),
)
"""The name, user, text and meaning of each query.

The first five queries are those of the paper (section 6). The sixth query repeats the first for another user and group.
"""


class Stage(Protocol):
    """The output of the demo."""

    def heading(self, text: str) -> None:
        """Print the heading of a section."""

    def line(self, text: str = "") -> None:
        """Print a line."""

    def command(self, text: str) -> None:
        """Print the command for the next step."""

    def working(self, text: str) -> AbstractContextManager[object]:
        """Show progress during a slow step."""

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table."""


@dataclass
class _Demo:
    weft: Weft
    home: Path
    stage: Stage
    weeks: list[list[Article]]
    numbers: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)


def fresh_folder(wanted: Path) -> Path:
    """Return the path ``wanted``, or the path with a number appended if this folder exists."""
    folder, number = wanted, 1
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def play(home: Path, stage: Stage, *, catalog: str | None = None, store: str | None = None) -> None:
    """Run the demo in a new home in the folder ``home``. Raise Conflict if the folder exists.

    ``catalog`` and ``store`` are the places of the catalog and the data, as in ``Weft.open``.
    """
    if home.exists():
        raise Conflict(
            f"{home} already exists",
            hint="Name another folder with --home. Without --home, the demo creates a new folder.",
        )
    began = time.monotonic()
    with Weft.open(home, clock="replay", create=True, catalog=catalog, store=store) as weft:
        demo = _Demo(weft, home, stage, weeks())
        _begin(demo)
        for week in range(WEEKS):
            _week(demo, week)
        _end(demo, time.monotonic() - began)


def weeks() -> list[list[Article]]:
    """Return the demo's articles as one list per week."""
    everything = sorted([*articles(WEEKS * 7, _PER_DAY), QUESTION, ANSWER], key=lambda each: each.date)
    weekly: list[list[Article]] = [[] for _ in range(WEEKS)]
    for article in everything:
        weekly[(article.date - BEGIN).days // 7].append(article)
    return weekly


def write_week(news: Path, week: int, articles: Sequence[Article], numbers: dict[str, int]) -> Path:
    """Write one week's articles as a news spool and return the week's folder.

    The second week has a broken article. ``news`` is the parent folder. ``numbers`` maps each group to its last article
    number. The function updates this mapping.
    """
    folder = news / f"week-{week + 1}"
    write_spool(articles, folder, numbers)
    if week == 1:
        broken = folder / "sci" / "space" / "99999"
        broken.parent.mkdir(parents=True, exist_ok=True)
        broken.write_bytes(b"From: nobody\nSubject: line noise\nMessage-ID: <noise@example.org>\n\n\x00\x00\x00")
    return folder


def _begin(demo: _Demo) -> None:
    stage, home = demo.stage, demo.home
    stage.heading(f"A new home: {home}")
    stage.line("It has the replay clock: the six weeks from 5 April 1993 pass in a few seconds.")
    _ingest(demo, 0)
    stage.heading("Standing queries")
    for name, user, sql, meaning in QUERIES:
        channels = [f"file:{name}.jsonl"] if name == "unanswered" else []
        stage.command(f'install {name} "{sql}" --user {user}' + "".join(f" --to {each}" for each in channels))
        stage.line(f"  {meaning}")
        demo.weft.install(name, sql, user=user, to=channels)
    same = demo.weft.show("space").sharing
    stage.line(f"databases and space differ only in a constant: {same} queries share one plan.")


def _week(demo: _Demo, week: int) -> None:
    if week:
        demo.stage.heading(f"Week {week + 1}")
        _ingest(demo, week)
    end = BEGIN + timedelta(days=7 * (week + 1))
    demo.stage.command(f"tick --now {end:%Y-%m-%d}")
    with demo.stage.working("ticking"):
        ticked = demo.weft.tick(now=end)
    outcomes = ticked.reports[-1].outcomes
    demo.stage.table(("query", "user", "new", "first new answers"), [_row(demo, each) for each in outcomes])
    _remark(demo, end)


def _ingest(demo: _Demo, week: int) -> None:
    folder = write_week(demo.home / "news", week, demo.weeks[week], demo.numbers)
    demo.stage.command(f"ingest mail {folder} --ts-from date")
    text = "loading" if week else "starting Spark, then loading"
    with demo.stage.working(text):
        load = demo.weft.ingest_mail([folder], ts_from="date")
    demo.stage.line(f"  {load.stored} stored, {load.known} known, {load.quarantined} quarantined, {load.late} late")


def _row(demo: _Demo, outcome: QueryOutcome) -> tuple[str, str, str, str]:
    query = outcome.query
    after = demo.seen.get(query.name, 0)
    rows = list(islice(demo.weft.results(query.name, after=after), outcome.rows))
    demo.seen[query.name] = after + len(rows)
    answers = "\n".join(f"{row.ordinal}. {row.values[1]}" for row in rows[:_SHOWN])
    if len(rows) > _SHOWN:
        answers += f"\n   … and {len(rows) - _SHOWN} more"
    return query.name, query.user, str(outcome.rows), answers or _why_none(outcome)


def _why_none(outcome: QueryOutcome) -> str:
    due = outcome.next_due
    when = f"\nnext due: {format_instant(due)}" if due is not None and due < NEVER else ""
    return (outcome.reason or "") + when


def _remark(demo: _Demo, end: datetime) -> None:
    if QUESTION.date + timedelta(weeks=4) < end <= QUESTION.date + timedelta(weeks=5):
        row = _find(demo, "unanswered")
        demo.stage.line(
            f"{QUESTION.subject!r} of {QUESTION.date:%d %B} has no reply. It is an answer since {row}, when it became "
            "four weeks old. No message caused this: time passed."
        )
    if ANSWER.date <= end < ANSWER.date + timedelta(weeks=1):
        row = _find(demo, "discussed")
        demo.stage.line(
            f"The reply arrived on {ANSWER.date:%d %B}, after the question was reported as unanswered. That answer was "
            f"true and stays delivered, once. The question is an answer of 'discussed' since {row}."
        )


def _find(demo: _Demo, name: str) -> str:
    rows = (row for row in demo.weft.results(name) if row.values[0] == QUESTION.msgid)
    return next((format_instant(row.first_at) for row in rows), "never")


def _end(demo: _Demo, seconds: float) -> None:
    stage, home = demo.stage, demo.home
    table = demo.weft.tables()[0]
    answers = sum(query.rows for query in demo.weft.queries())
    stage.heading("Done")
    stage.line(f"{table.rows} messages, {answers} answers, each delivered once, in {seconds:.0f} seconds.")
    stage.line(
        f"The articles are in {home}/news, the answers of one query in {layout.files_folder(home)}/unanswered.jsonl."
    )
    stage.line("One article was unreadable; it is in quarantine.")
    stage.line()
    stage.line("Next, type:")
    for line in (
        "results unanswered --limit 5",
        'explain "SELECT msgid FROM msgs WHERE date > NOW()"',
        "try \"SELECT sender, subject FROM msgs WHERE newsgroup = 'sci.space'\"",
        "quarantine list",
    ):
        stage.command(line)
    stage.line("To load your own mail: weft ingest mail YOUR.mbox. For all commands: weft --help.")
