"""Random acts on a home, some by processes that are killed, stopped or work beside another, and their results."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import FileSelector

from delta_tables import opened as delta
from every_instant import Row
from mail_server import Post, serving
from replayed import first_instants
from scenario import attached
from soak.acts import SECONDS, STOP, STORE, Act, Clock, done, opened
from soak.model import HEADS, HOUR, Model, Query, joined, timeline
from web_server import DROP_AFTER, DROP_BEFORE, Web, web
from weft.catalog.records import QueryRecord
from weft.storage.ledger import read_rows
from weft.storage.verify import verify
from weft.store import Store

START = 1_700_000_000_000_000
MINUTE = 60_000_000
SOURCE = Path(__file__).resolve().parents[2] / "src" / "weft"
PATIENCE_SECONDS = 240.0
WEIGHTS = {
    "append": 40, "load": 10, "install": 9, "replace": 6, "remove": 4, "pause": 4, "resume": 5, "tick": 30,
    "deliver": 8, "poll": 16, "correct": 8, "refresh": 6, "view": 6, "maintain": 4, "clock": 25, "servers": 12,
}  # fmt: skip
WAYS = {"here": 170, "killed": 12, "ended": 10, "stopped": 3, "beside": 5}
"""Who acts: this process, one killed at a failpoint or after a random time, one that stops there for an hour, or one
beside another act."""
POINTS = {
    "append": ("ingest.reserved", "ingest.written", "ingest.committed", "commit.written"),
    "load": ("ingest.reserved", "ingest.written", "ingest.committed", "commit.written"),
    "replace": ("replace.checked", "replace.stored"),
    "tick": (
        "tick.planned", "tick.computed", "tick.written", "tick.recorded", "tick.counting", "tick.committed",
        "state.written", "state.recorded", "delivery.opened", "delivery.written", "delivery.marked", "delta.noted",
        "delta.committed", "mail.data", "mail.accepted", "webhook.begun", "webhook.sent", "webhook.answered",
    ),
    "poll": (
        "source.reserved", "source.staged", "source.written", "source.committed", "source.recorded", "view.written",
    ),
    "correct": ("source.reserved", "source.written", "source.committed", "view.written", "view.committed"),
}  # fmt: skip
"""The failpoints that an act may pass."""
MOVED = ("append", "load", "tick", "poll")
"""What another process may overtake: a replacement would begin at another instant after another tick."""
ALONE = ("replace", "remove", "pause", "resume", "view")
"""What names an object, on which another process does not act meanwhile."""
EXPECTED = ("ClockError", "LeaseBusy", "LeaseLost")
"""What an act may raise if the clock was set back or another process acts."""
SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cywgbG9uZyBlbm91Z2g="
TEXTS = (
    "SELECT o.id FROM orders o WHERE o.amount > {n}",
    "SELECT o.id FROM orders o JOIN orders p ON p.ref = o.id WHERE p.amount < {n}",
    "SELECT o.id FROM orders o WHERE o.ts < NOW() - INTERVAL 1 HOUR "
    "AND NOT EXISTS (SELECT * FROM orders p WHERE p.ref = o.id)",
    "SELECT o.id FROM orders o WHERE o.amount > {n} AND NOW() >= o.ts + INTERVAL 1 HOUR",
    "SELECT MAX(o.id) AS id FROM orders o WHERE o.amount < {n} GROUP BY o.ref",
)
MOST_QUERIES = 6
VIEWS = (
    "SELECT id FROM staff WHERE dept <> 'a'",
    "SELECT a.id, b.id AS other FROM staff a, staff b WHERE a.dept = b.dept AND a.id < b.id",
    "SELECT dept FROM heads WHERE n > 1",
)
MOST_VIEWS = 3


def deck(chance: random.Random, weights: dict[str, int], size: int) -> list[str]:
    """Each name in proportion to its weight, at least once, in a random order."""
    total = sum(weights.values())
    often = {name: max(1, round(size * weight / total)) for name, weight in weights.items()}
    cards = [name for name, count in often.items() for _ in range(count)]
    chance.shuffle(cards)
    return cards[:size] if len(cards) >= size else cards + chance.choices(list(often), k=size - len(cards))


@dataclass(frozen=True)
class Sample:
    """What a process and a home hold."""

    memory: int
    files_open: int
    threads: int
    files: int


def sample(home: Path, data: Store) -> Sample:
    """Measure this process and the home. The data may lie elsewhere than in the home."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    files = sum(len(names) for _, _, names in os.walk(home))
    if data.remote:
        files += len(data.filesystem.get_file_info(FileSelector(data.path, recursive=True)))
    own = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    return Sample(pages * os.sysconf("SC_PAGE_SIZE"), *own, files)


@dataclass
class Soak:
    """A home, its servers, and the model of what it must have."""

    folder: Path
    chance: random.Random
    post: Post
    server: Web
    port: int
    variables: dict[str, str]
    """Those of a process that needs Spark: it uses the JVM of this one."""
    model: Model = field(default_factory=Model)
    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    number: int = 0
    names: int = 0

    def __post_init__(self) -> None:
        self.clock = Clock(self.folder / "clock")
        self.source: dict[int, str] = {1: "a", 2: "b"}
        self._write_source()
        self.weft = opened(self.folder)
        self.weft.make_table("orders", "id BIGINT, amount BIGINT, ref BIGINT")
        self.weft.add_source("staff", "csv", str(self.folder / "staff.csv"), "id")
        self._act({"act": "poll"})
        self.weft.add_view("heads", HEADS)

    def run(self, acts: int) -> None:
        """Do as many acts as ``acts`` says, and compare the home with the model at the end."""
        kinds, ways = deck(self.chance, WEIGHTS, acts), deck(self.chance, WAYS, acts)
        for kind, way in zip(kinds, ways, strict=True):
            self.step(kind, way)
            self.samples.append(sample(self.weft.home, self.weft.catalog.data))
        self.check()

    def step(self, kind: str, way: str) -> None:
        """Do one act. A process that is killed gets a kind of act that passes failpoints."""
        if way in ("killed", "stopped") and kind not in (POINTS if way == "killed" else MOVED):
            kind = self.chance.choice(list(POINTS if way == "killed" else MOVED))
        way = "here" if way == "beside" and kind in ALONE else way
        self.counts[kind] += 1
        if kind == "clock":
            self.clock.move(self.chance.choice((MINUTE, 5 * MINUTE, HOUR, 2 * HOUR, 26 * HOUR, -MINUTE, -HOUR)))
        elif kind == "servers":
            self._servers()
        elif (act := self._drawn(kind)) is None:
            self.counts[f"{kind}, nothing to do"] += 1
        elif way == "here":
            self._act(act)
        else:
            self.counts[way] += 1
            getattr(self, f"_{way}")(act)

    def _servers(self) -> None:
        """Make the servers of the channels fail or work again."""
        says = [self.chance.choice(("503 Busy", "500 No", DROP_BEFORE, DROP_AFTER, "200 OK")) for _ in range(3)]
        self.server.says, self.server.conversations = [*says, "200 OK"], 0
        self.post.refuses = self.chance.choice(({}, {"ann@example.com": "451 later"}))

    def _drawn(self, kind: str) -> Act | None:
        """Return an act of this kind, or None if the home has no object for it."""
        chance, queries = self.chance, self.model.queries
        match kind:
            case "append":
                return {"act": kind, "rows": self._rows()}
            case "load":
                return {"act": kind, **self._file()}
            case "install":
                return self._new_query()
            case "poll":
                self._change_source()
                return {"act": kind}
            case "correct":
                return self._correction()
            case "view":
                return self._view()
            case "replace" | "remove" | "pause" | "resume":
                paused = {"pause": False, "resume": True}.get(kind)
                may = [
                    name
                    for name, query in queries.items()
                    if (paused is None or query.paused == paused) and (kind != "replace" or query.keep == "history")
                ]
                if not may or (kind == "remove" and len(queries) < 3):
                    return None
                name = chance.choice(may)
                return {
                    "act": kind,
                    "name": name,
                    "purge": chance.random() < 0.5,
                    "text": self._other_text(name),
                    "ran_to": self._query(name).tau,
                }
        return {"act": kind}

    def _rows(self) -> list[tuple[int, int, int]]:
        rows = []
        for _ in range(self.chance.randint(1, 6)):
            self.number += 1
            rows.append((self.number, self.chance.randrange(100), self.chance.randint(0, self.number)))
        return rows

    def _file(self) -> dict[str, Any]:
        rows, name = self._rows(), f"load-{self.number}.csv"
        with (self.folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("id", "amount", "ref"), *rows])
        return {"file": name, "rows": rows}

    def _text(self, texts: Sequence[str]) -> str:
        return self.chance.choice(texts).format(n=self.chance.randrange(10, 90))

    def _other_text(self, name: str) -> str:
        while (text := self._text(TEXTS)) == self.model.queries[name].text:
            pass
        return text

    def _new_query(self) -> Act | None:
        if len(self.model.queries) >= MOST_QUERIES:
            return None
        self.names += 1
        name = f"q{self.names}"
        channels = (
            f"file:{name}.jsonl", f"delta:{name}", "email:ann@example.com?unknown=again",
            f"webhook:http://127.0.0.1:{self.port}/{name}",
        )  # fmt: skip
        keep = "synopsis" if self.chance.random() < 0.2 else "history"
        text = self._text(TEXTS[:1] if keep == "synopsis" else TEXTS)
        return {"act": "install", "name": name, "text": text, "to": channels[self.names % len(channels)], "keep": keep}

    def _view(self) -> Act:
        """Add a view, or remove one that is not ``heads``."""
        if len(self.model.views) == MOST_VIEWS or (len(self.model.views) > 1 and self.chance.random() < 0.5):
            return {"act": "remove view", "name": self.chance.choice(list(self.model.views)[1:])}
        self.names += 1
        return {"act": "add view", "name": f"v{self.names}", "text": self.chance.choice(VIEWS)}

    def _change_source(self) -> None:
        for _ in range(self.chance.randint(0, 3)):
            key = self.chance.randint(1, 8)
            if key in self.source and self.chance.random() < 0.3:
                del self.source[key]
            else:
                self.source[key] = self.chance.choice("abc")
        self._write_source()

    def _write_source(self) -> None:
        lines = ["id,dept", *(f"{key},{dept}" for key, dept in sorted(self.source.items()))]
        (self.folder / "staff.csv").write_text("\n".join(lines) + "\n")

    def _correction(self) -> Act | None:
        first = min((each[0][0] for each in self.model.staff.values() if each), default=None)
        last = min(self.model.last_poll, self.clock())
        if first is None or last - first < 10:
            return None
        begin, end = sorted(self.chance.sample(range(first, last), 2))
        key = self.chance.choice(list(self.model.staff))
        return {"act": "correct", "id": key, "begin": begin, "end": end, "dept": self.chance.choice(("a", "b", None))}

    def _act(self, act: Act) -> None:
        """Do an act in this process."""
        self._record(act, done(self.weft, act))

    def _killed(self, act: Act) -> None:
        """Do an act in a process that dies at a random failpoint, if it passes that one."""
        child = self._child(act, self._failpoint(act))
        self._record(act, self._outcome(child))

    def _ended(self, act: Act) -> None:
        """Do an act in a process that dies after a random time, if it takes longer."""
        child = self._child(act, None, **{SECONDS: f"{0.5 * self.chance.random() ** 2 + 0.001:.3f}"})
        self._record(act, self._outcome(child))

    def _stopped(self, act: Act) -> None:
        """Stop a process at a failpoint for longer than its lease, and act meanwhile."""
        child = self._child(act, self._failpoint(act), **{STOP: "yes"})
        stopped = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if stopped is not None and stopped.si_code == os.CLD_STOPPED:
            self.counts["stopped and overtaken"] += 1
            self.clock.move(HOUR)
            self._act({"act": "append", "rows": self._rows()})
            self._act({"act": "tick"})
            child.send_signal(signal.SIGCONT)
        self._record(act, self._outcome(child))

    def _beside(self, act: Act) -> None:
        """Act in two processes at once."""
        child = self._child(act, None)
        self._act({"act": "append", "rows": self._rows()})
        self._act({"act": "tick"})
        self._record(act, self._outcome(child))

    def _failpoint(self, act: Act) -> str:
        return self.chance.choice(POINTS[act["act"]])

    def _child(self, act: Act, failpoint: str | None, **variables: str) -> subprocess.Popen[str]:
        if failpoint is not None:
            variables["WEFT_FAILPOINT"] = failpoint
        if act["act"] == "tick" or STORE in os.environ:
            variables = {**self.variables, **variables}
        return subprocess.Popen(
            [sys.executable, "-m", "soak.acts", str(self.folder), json.dumps(act)],
            env=attached.surroundings(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _outcome(self, child: subprocess.Popen[str]) -> str:
        out, trouble = child.communicate(timeout=PATIENCE_SECONDS)
        if child.returncode in (-signal.SIGKILL, -signal.SIGPROF):
            return "killed"
        assert child.returncode == 0, trouble
        return out.strip().splitlines()[-1]

    def _record(self, act: Act, how: str) -> None:
        """Record an act in the model. If its process failed or died, look up whether it took effect."""
        kind = how.partition(":")[0]
        self.outcomes[f"{act['act']} {kind}" if kind != "done" else "done"] += 1
        assert kind in ("done", "killed", *EXPECTED), f"{act}\n{how}"
        if kind != "done":
            with self.weft.writing("soak"):
                pass
        if act["act"] == "poll":
            self._polled(kind)
        elif kind == "done" or self._happened(act):
            self._note(act)

    def _happened(self, act: Act) -> bool:
        """Return whether an act took effect although its process did not report it. No act takes effect in part."""
        query = {each.name: each for each in self.weft.queries()}.get(act.get("name", ""))
        match act["act"]:
            case "append" | "load":
                there = set(self._orders()).intersection(key for key, _, _ in act["rows"])
                assert len(there) in (0, len(act["rows"])), f"a part of {act} is there: {there}"
                return bool(there)
            case "install":
                return query is not None
            case "remove":
                return query is None
            case "add view" | "remove view":
                return (act["name"] in {each.name for each in self.weft.views()}) == (act["act"] == "add view")
            case "replace":
                return query is not None and query.sql == act["text"]
            case "pause" | "resume":
                return query is not None and (query.state == "paused") == (act["act"] == "pause")
            case "correct":
                return self._history("staff") != self.model.history()
        return False

    def _note(self, act: Act) -> None:
        model = self.model
        match act["act"]:
            case "append" | "load":
                model.appended(act["rows"])
            case "install":
                model.queries[act["name"]] = Query(act["text"], act["to"], act["keep"])
            case "replace":
                query = model.queries[act["name"]]
                query.earlier.append((query.text, act["ran_to"] or 0))
                query.text = act["text"]
            case "remove":
                del model.queries[act["name"]]
            case "add view":
                model.views[act["name"]] = act["text"]
            case "remove view":
                del model.views[act["name"]]
            case "pause" | "resume":
                model.queries[act["name"]].paused = act["act"] == "pause"
            case "correct":
                model.corrected(act["id"], act["begin"], act["end"], act["dept"])

    def _polled(self, kind: str) -> None:
        """After a poll, perhaps a second one, the history has the state of the source, from one instant on."""
        if kind != "done":
            done(self.weft, {"act": "poll"})
        held, before = self._history("staff"), self.model.history()
        if held != before:
            (at,) = _instants(held) - _instants(before)
            assert self.model.last_poll < at, "a poll changed the past"
            self.model.polled(self.source, at)
            assert held == self.model.history()

    def _query(self, name: str) -> QueryRecord:
        return next(each for each in self.weft.queries() if each.name == name)

    def _orders(self) -> dict[int, tuple[int, int]]:
        try:
            data = self._table().select(["id", "amount", "ref"]).to_pylist()
        except TableNotFoundError:  # the first append died before its commit
            return {}
        assert len({row["id"] for row in data}) == len(data), "a row is stored twice"
        return {row["id"]: (row["amount"], row["ref"]) for row in data}

    def _table(self) -> Any:
        return delta(self.weft.catalog.data / self.weft.table("orders").path).to_pyarrow_table()

    def _history(self, name: str) -> dict[Row, list[Any]]:
        found = self.weft.history(name).stretches
        return joined((each.values, (each.begin, each.end)) for each in found)

    def check(self) -> None:
        """Compare the home with the model, after everything that waits is done."""
        self.server.says, self.post.refuses = ["200 OK"], {}
        watermark = self.weft.catalog.home().watermark or START
        self.clock.move(max(0, watermark - self.clock()) + HOUR)
        self._polled("again")
        assert done(self.weft, {"act": "tick"}) == "done"
        self._deliver_all()
        assert verify(self.weft.catalog) == []
        assert self._orders() == self.model.orders
        assert self._history("staff") == self.model.history()
        assert {each.name for each in self.weft.views()} == set(self.model.views)
        for name, text in self.model.views.items():
            assert self._history(name) == self.model.view(text), (name, text)
        self._check_queries()

    def _deliver_all(self) -> None:
        subscriptions = self.weft.catalog.subscriptions
        for _ in range(4):
            parked = {each.query_id for each in subscriptions.all() if each.state == "parked"}
            for query in self.weft.queries():  # the subscription of a removed query stays parked
                if query.query_id in parked:
                    self.weft.resume(query.name)
                    if query.state == "paused":
                        self.weft.pause(query.name)
            self.clock.move(26 * HOUR)
            self.weft.deliver()
        rows = {each.query_id: each.rows for each in self.weft.queries()}
        late = [each for each in subscriptions.all() if each.delivered < rows.get(each.query_id, 0)]
        assert late == []

    def _check_queries(self) -> None:
        assert {each.name for each in self.weft.queries()} == set(self.model.queries)
        made, instants = timeline(self._table(), self.weft.catalog.home().watermark or START)
        for name, query in self.model.queries.items():
            record = self._query(name)
            assert record.state == ("paused" if query.paused else "active"), record.reason
            found = first_instants(self.weft, name)
            assert found == query.answers(made, instants, record.tau or 0), (name, query)
            self._check_channel(name, query, [row.ordinal for row in read_rows(self.weft.catalog.data, record)])
            self.outcomes["answers"] += len(found)

    def _check_channel(self, name: str, query: Query, ordinals: Sequence[int]) -> None:
        """A file and a Delta table have each answer once; messages with the same id say the same."""
        wanted, home = sorted(ordinals), self.weft.home
        match query.to.partition(":")[0]:
            case "file":
                file = home / "files" / f"{name}.jsonl"
                lines = file.read_text().splitlines() if file.exists() else []
                assert [json.loads(line)["_ordinal"] for line in lines] == wanted, name
            case "delta":
                table = home / "delta" / name
                found = DeltaTable(str(table)).to_pyarrow_table()["_ordinal"].to_pylist() if table.exists() else []
                assert sorted(found) == wanted, name
            case kind:
                self._check_messages(name, kind, wanted)

    def _check_messages(self, name: str, kind: str, wanted: Sequence[int]) -> None:
        said: dict[str, list[int]] = {}
        for key, ordinals in self._posted(name) if kind == "webhook" else self._letters(name):
            assert said.setdefault(key, ordinals) == ordinals, f"two messages of {name} have one id"
        assert sorted(each for ordinals in said.values() for each in ordinals) == list(wanted), name

    def _posted(self, name: str) -> Iterator[tuple[str, list[int]]]:
        for request in self.server.requests:
            if request.target == f"/{name}" and request.body:
                data = json.loads(request.body)["data"]
                yield request.headers["webhook-id"], list(range(data["first"], data["last"] + 1))

    def _letters(self, name: str) -> Iterator[tuple[str, list[int]]]:
        """The key of a letter has its first and its last ordinal, and its text how many answers it has."""
        for letter in self.post.letters:
            if found := re.match(rf"{name}: ([\d,]+) new answer", letter.text):
                key = str(letter.message["Message-ID"])
                first, last = map(int, re.findall(r"\d+", key)[1:3])
                assert int(found[1].replace(",", "")) == last - first + 1, letter.text
                yield key, list(range(first, last + 1))


def _instants(held: dict[Row, list[Any]]) -> set[int]:
    return {at for periods in held.values() for period in periods for at in period if at is not None}


@contextmanager
def soak(folder: Path, seed: int, variables: Callable[[], dict[str, str]]) -> Iterator[Soak]:
    """Create a home and its servers. ``variables`` are those of a process that ticks."""
    (folder / "clock").write_text(str(START))
    post, server, home = Post(), Web(), folder / "home"
    with serving(post) as smtp, web(server) as port:
        home.mkdir()
        (home / "weft.toml").write_text(
            f"[smtp]\nhost = '127.0.0.1'\nport = {smtp}\ntls = 'none'\nfrom = 'weft@example.com'\ntimeout = 5\n"
            f"[webhook]\nsecret = '{SECRET}'\nprivate = true\ntimeout = 5\n"
        )
        running = Soak(folder, random.Random(seed), post, server, port, variables())
        try:
            yield running
        finally:
            running.weft.close()
