"""``weft bench web``: how fast the page answers while ticks run.

    weft bench web --queries 100000 --answers 1000000 --clients 50

The home has users, who each own the same share of the queries and ask for their own pages.  A few wide queries have
nearly all answers, as in a home where most queries are for few rows.  The clients are threads of another process.  Each
asks for one page after the other, in a random order, and thinks before each: with ``--think 0``, the clients are loops
that keep the server busy.  The report gives, for each kind of page, the time from the
request to the last byte: the median and the 99th percentile, for one client alone and for all clients during ticks.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from weft.api.standing import NewQuery
from weft.api.weft import Weft
from weft.bench.bench_home import COLUMNS, GROUPS, messages
from weft.bench.times import folder_for_tables, write_figures
from weft.runtime.session import stop_session

_WIDE: Final = 40
"""The number of wide queries, which have each message as an answer."""
_NEW: Final = 100
"""The number of messages that arrive before a tick."""
_USERS: Final = 20
_TICKS: Final = 5
_ADMINISTRATOR: Final = "root"

Serve = Callable[[Weft], AbstractContextManager[str]]
"""Serve the page of a home during the ``with`` block, and give its address."""


@dataclass(frozen=True)
class Caller:
    """A user with a token and the IDs of some of her queries, of which the first has many answers."""

    token: str
    queries: tuple[int, ...]
    is_admin: bool


@dataclass
class Measured:
    """What was measured: seconds by kind of page for one client and for all, and seconds of ticks without and with
    clients.
    """

    queries: int
    answers: int
    clients: int
    think: float = 0.0
    installed: float = 0.0
    first_tick: float = 0.0
    indexed: float = 0.0
    alone: dict[str, list[float]] = field(default_factory=dict)
    together: dict[str, list[float]] = field(default_factory=dict)
    quiet_ticks: list[float] = field(default_factory=list)
    busy_ticks: list[float] = field(default_factory=list)


def compare(
    queries: int,
    answers: int,
    clients: int,
    rounds: int,
    think: float,
    folder: Path | None,
    out: Path | None,
    progress: Callable[[str], None],
    serve: Serve,
) -> None:
    """Fill a home, measure its page and its ticks, print the results, and write the figures to ``out`` as JSON.

    A client asks ``rounds`` times for each kind of page.  Before each request, it waits for a random time whose mean is
    ``think`` seconds (exponentially distributed).  A client that is alone does not wait.
    """
    measured = Measured(queries, answers, clients, think)
    with folder_for_tables(folder) as place, _filled(place, measured) as weft:
        progress(
            f"{queries:,} queries installed in {measured.installed:.0f} s, first tick {measured.first_tick:.0f} s, "
            f"answers indexed in {measured.indexed:.0f} s"
        )
        callers = _callers(weft)
        measured.quiet_ticks = [_tick(weft) for _ in range(_TICKS)]
        with serve(weft) as url:
            measured.alone = _clients(url, callers[:1], 1, rounds, 0.0, lambda: None)
            measured.together = _clients(
                url, callers, clients, rounds, think, lambda: measured.busy_ticks.append(_tick(weft))
            )
    progress(report(measured))
    write_figures(out, json.dumps(asdict(measured), indent=2) + "\n", progress)
    stop_session()


def _filled(place: Path, measured: Measured) -> Weft:
    """Return a home with messages, users, queries and answers."""
    weft = Weft.open(place / "home", create=True, clock="replay")
    weft.make_table("msgs", {name: str(kind) for name, kind in COLUMNS})
    weft.accounts.add_user(_ADMINISTRATOR, "admin")
    for number in range(_USERS):
        weft.accounts.add_user(f"user{number}", "author")
    weft.accounts.grant("everyone", "read", "msgs")
    _load(weft, 0, measured.answers // _WIDE)
    begun = time.perf_counter()
    weft.install_all(list(_texts(measured.queries)))
    measured.installed = time.perf_counter() - begun
    measured.first_tick = _timed(lambda: weft.tick(now=_now(weft)))
    measured.indexed = _timed(weft.index_answers)
    return weft


def _load(weft: Weft, first: int, count: int) -> None:
    weft.append("msgs", messages(first, count).select([name for name, _ in COLUMNS]), ts_from="date")


def _texts(queries: int) -> Iterator[NewQuery]:
    """Yield the wide queries, then queries for an author in a group."""
    for number in range(queries):
        owner = f"user{number % _USERS}"
        if number < _WIDE:
            yield NewQuery(f"all-{number}", f"SELECT msgid, subject FROM msgs WHERE sender <> 'nobody{number}'", owner)
            continue
        sender, group = number % 5_000, GROUPS[(number // 5_000 + number) % len(GROUPS)]
        text = f"SELECT msgid, subject FROM msgs WHERE sender = 'user{sender}' AND newsgroup = '{group}'"
        yield NewQuery(f"of-{sender}-in-{number // 5_000}", text, owner)


def _now(weft: Weft) -> int:
    return (weft.table("msgs").last_ts or 0) + 1


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _tick(weft: Weft) -> float:
    _load(weft, weft.table("msgs").rows, _NEW)
    return _timed(lambda: weft.tick(now=_now(weft)))


def _callers(weft: Weft) -> list[Caller]:
    """Return the administrator and the users."""
    own: dict[str, list[int]] = {}
    for query in weft.queries(limit=1_000):
        own.setdefault(query.user, []).append(query.query_id)
    names = (_ADMINISTRATOR, *own)
    return [
        Caller(
            weft.accounts.create_token(name, scopes=("read", "install", "admin")).secret,
            tuple(own.get(name, own["user0"])),
            name == _ADMINISTRATOR,
        )
        for name in names
    ]


def pages(caller: Caller, random: Random) -> Iterator[tuple[str, str]]:
    """Yield (kind, path) for each kind of page that a caller may see."""
    first, some = caller.queries[0], random.choice(caller.queries)
    yield "inbox", "/"
    yield "search", f"/?q=word{random.randrange(997)}"
    yield "queries", "/queries"
    yield "queries with a word", "/queries?q=misc"
    yield "query", f"/queries/{some}"
    yield "answers", f"/queries/{first}/answers"
    yield "answer", f"/queries/{first}/answers/{random.randrange(1, 500)}"
    yield "feed", f"/queries/{first}/answers.atom"
    yield "100 answers as JSON", f"/queries/{first}/answers.json?limit=100"
    yield "list as JSON", "/queries.json?limit=100"
    yield "tables", "/tables"
    yield "deliveries", "/deliveries"
    if caller.is_admin:
        yield "system", "/system"
        yield "metrics", "/metrics"


def _clients(
    url: str, callers: Sequence[Caller], clients: int, rounds: int, think: float, meanwhile: Callable[[], None]
) -> dict[str, list[float]]:
    """Return the seconds of each request by kind of page.  Call ``meanwhile`` until the clients have ended."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        asked = pool.apply_async(ask, (url, list(callers), clients, rounds, think))
        while not asked.ready():
            meanwhile()
            asked.wait(0.1)
        return asked.get()


def ask(url: str, callers: Sequence[Caller], clients: int, rounds: int, think: float) -> dict[str, list[float]]:
    """Ask for the pages in as many threads as ``clients``.  This runs in a process of its own."""
    found: dict[str, list[float]] = {}
    lock = threading.Lock()

    def one(number: int) -> None:
        random, caller = Random(number), callers[number % len(callers)]
        for _ in range(rounds):
            chosen = list(pages(caller, random))
            random.shuffle(chosen)
            for kind, path in chosen:
                time.sleep(random.expovariate(1 / think) if think else 0.0)
                seconds = _asked(url, caller.token, path)
                with lock:
                    found.setdefault(kind, []).append(seconds)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return found


def _asked(url: str, token: str, path: str) -> float:
    """Return the seconds of a request.  Raise ConnectionError if the server refuses it."""
    there = urlsplit(url)
    begun = time.perf_counter()
    with closing(HTTPConnection(there.hostname or "", there.port, timeout=600)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        response.read()
    if response.status != 200:
        raise ConnectionError(f"{path}: the server answered {response.status}")
    return time.perf_counter() - begun


def report(measured: Measured) -> str:
    """Return a line for each kind of page, and one about ticks.

    >>> few = Measured(1, 2, 3, alone={"inbox": [0.1, 0.3]}, together={"inbox": [0.5]}, quiet_ticks=[1], busy_ticks=[3])
    >>> print(report(few))
    inbox: alone 200 ms, 99 of 100 in 300 ms; 3 clients 500 ms, 99 of 100 in 500 ms
    tick 1.00 s, with the clients 3.00 s
    """
    lines = [
        f"{kind}: alone {_shown(measured.alone, kind)}; {measured.clients} clients {_shown(measured.together, kind)}"
        for kind in measured.together
    ]
    quiet, busy = (statistics.median(each) if each else 0.0 for each in (measured.quiet_ticks, measured.busy_ticks))
    return "\n".join([*lines, f"tick {quiet:.2f} s, with the clients {busy:.2f} s"])


def _shown(times: Mapping[str, Sequence[float]], kind: str) -> str:
    known = sorted(times.get(kind, [0.0]))
    worst = known[min(len(known) * 99 // 100, len(known) - 1)]
    return f"{statistics.median(known) * 1000:.0f} ms, 99 of 100 in {worst * 1000:.0f} ms"
