from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import forked
from definitions import definition
from weft.algebra.schema import BIGINT
from weft.catalog import Catalog, Writer
from weft.catalog.database import Database
from weft.catalog.liveness import FileLocks, this_process
from weft.catalog.loads import ACTIVE_TTL_US
from weft.catalog.records import Choice
from weft.catalog.subscriptions import Subscription
from weft.errors import CatalogError, ClockError, LeaseBusy, LeaseLost, NotFound
from weft.instants import MIN_INSTANT

SECOND = 1_000_000

Opened = Callable[..., Catalog]


@pytest.fixture
def home(tmp_path: Path, opened: Opened) -> Path:
    with opened(tmp_path, create=True, clock="replay", at=0) as catalog:
        catalog.tables.create("t", [("a", BIGINT)])
        catalog.loads.begin(1, "s", "file", None, 0)
    return tmp_path


def run(home: Path, body: str) -> subprocess.CompletedProcess[str]:
    program = f"""
from pathlib import Path
from weft.catalog import open_catalog
from weft.catalog.liveness import this_process
from weft.errors import *
catalog = open_catalog(Path({str(home)!r}), at=0)
{textwrap.dedent(body)}
"""
    return forked.run([sys.executable, "-c", program], text=True)


def test_one_holder_at_a_time_and_a_token_that_rises(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        first = catalog.writer("tick", "a", 0, 10)
        with pytest.raises(LeaseBusy, match="tick"):
            catalog.writer("load", "b", 9, 10)
        first.check()
        second = catalog.writer("load", "b", 10, 10)
        assert second.lease.token > first.lease.token
        with pytest.raises(LeaseLost):
            first.check()
        first.release()  # a stale release does not take it from its holder
        assert catalog.lease() == second.lease
        second.release()
        assert catalog.lease() is None
        with pytest.raises(LeaseLost, match="already released"):
            second.check()
        assert catalog.writer("load", "a", 11, 10).lease.token > second.lease.token


def test_a_lease_that_ran_out_but_was_not_taken_is_still_good(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        writer = catalog.writer("tick", "a", 0, 10)
        writer.reservations.reserve(1, 1)
        writer.renew(100, 10)
        with pytest.raises(LeaseBusy):
            catalog.writer("tick", "b", 105, 10)


def test_a_lease_whose_return_could_not_be_written_is_free_for_the_same_process(
    home: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home, at=0) as catalog, opened(home, at=0) as other:

        def full(_: Database) -> None:
            raise CatalogError("the disk is full")

        with (
            monkeypatch.context() as patch,
            pytest.raises(CatalogError, match="full"),
            catalog.writing("tick", lambda: 0) as writer,
        ):
            patch.setattr(Database, "changing", full)
        assert catalog.lease() == writer.lease
        elsewhere = run(
            home,
            """
            try:
                catalog.writer("load", this_process(), 5)
            except LeaseBusy:
                print("busy")
            """,
        )
        assert elsewhere.stdout == "busy\n", elsewhere.stderr
        with other.writing("tick", lambda: 5) as again:
            assert again.lease.token == writer.lease.token + 1
            with pytest.raises(LeaseLost):
                writer.check()
            with pytest.raises(LeaseBusy):
                catalog.writer("load", this_process(), 5)
        assert catalog.lease() is None


def test_two_processes_exclude_each_other_and_a_stale_token_writes_nothing(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        mine = catalog.writer("tick", this_process(), 0, 10 * SECOND)
        other = run(
            home,
            """
            try:
                catalog.writer("load", this_process(), 5_000_000)
            except LeaseBusy:
                print("busy")
            writer = catalog.writer("load", "elsewhere:1:", 11_000_000)
            writer.reservations.reserve(1, 1)
            print("took", writer.lease.token)
            """,
        )
        assert other.stdout.split() == ["busy", "took", str(mine.lease.token + 1)], other.stderr
        before = catalog.reservations.still_open()
        for write in (
            lambda: mine.reservations.reserve(1, 1),
            lambda: mine.reservations.commit(1, 0, 1, 5, 5),
            lambda: mine.reservations.abandon(1),
            lambda: mine.ticks.plan(5, Choice(), 5),
            lambda: mine.ticks.commit(1, {}, [], 5),
            lambda: mine.renew(5),
            lambda: mine.queries.install(definition(), 5),
            lambda: mine.queries.set_state("q", "paused"),
            lambda: mine.tables.record_versions([("ledger", 1, 1)]),
            lambda: mine.tables.create("u", [("a", BIGINT)]),
        ):
            with pytest.raises(LeaseLost):
                write()
        assert catalog.reservations.still_open() == before
        assert catalog.tables.named("t").rows == 0
        assert catalog.queries.all() == ()
        assert catalog.tables.versions() == ()


def test_a_process_that_was_killed_gives_its_lease_up(home: Path, opened: Opened) -> None:
    killed = run(
        home,
        """
        import os, signal
        catalog.writer("tick", this_process(), 0, 10**15)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert killed.returncode == -9
    with opened(home, at=0) as catalog:
        held = catalog.lease()
        assert held is not None
        noticed(lambda: catalog._database.is_gone(held.holder, 1))
        assert catalog.writer("tick", this_process(), 1).lease.token == held.token + 1


def test_who_is_known_to_be_gone(home: Path, opened: Opened) -> None:
    there, elsewhere, third = (opened(home, at=0)._database for _ in range(3))
    assert third.is_gone(this_process(), 0)  # nothing is held before it is announced
    there.announce(this_process())
    elsewhere.announce(this_process())
    assert not there.is_gone(this_process(), 0)
    there.close()
    assert not third.is_gone(this_process(), 0)
    elsewhere.close()
    noticed(lambda: third.is_gone(this_process(), 0))
    for unknown in ("someone", f"{socket.gethostname()}:{os.getpid()}:1", "process 1 of a, b"):
        third.announce(unknown)
        assert not third.is_gone(unknown, 0)


def test_files_of_processes_that_ended_are_removed(home: Path, opened: Opened) -> None:
    folder = home / "holders"
    with opened(home, at=0) as catalog:
        folder.mkdir(exist_ok=True)
        (folder / ("0" * 32)).write_text("")
        with catalog.writing("tick", lambda: 5):
            assert len(list(folder.iterdir())) == 1
    with opened(home, at=0) as catalog, catalog.writing("tick", lambda: 5):
        assert len(list(folder.iterdir())) == 1


def test_many_that_announce_themselves_at_once_all_count_as_alive(home: Path, opened: Opened) -> None:
    """Each removes what others have left, and none what another has just made."""
    program = f"""
import sys
from pathlib import Path
from weft.catalog import open_catalog
from weft.catalog.liveness import this_process
database = open_catalog(Path({str(home)!r}), at=0)._database
sys.stdin.readline()
database.announce(this_process())
print(this_process(), flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(3)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
    here = opened(home, at=0)._database
    for child in children:
        assert child.stdout is not None
        assert not here.is_gone(child.stdout.readline().strip(), 0)
    for child in children:
        child.communicate(timeout=60)


def test_a_forked_process_is_another_holder() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, this_process().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).decode().partition(" of ")[0] == f"process {child}"
    assert this_process().partition(" of ")[0] == f"process {os.getpid()}"


def test_threads_of_one_process_exclude_each_other(home: Path, opened: Opened) -> None:
    with (
        opened(home, at=0) as catalog,
        catalog.writing("tick", lambda: 5),
        pytest.raises(LeaseBusy, match="tick"),
    ):
        catalog.writer("load", this_process(), 5)


def test_who_writes_and_who_delivers_do_not_exclude_each_other(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog, catalog.writing("tick", lambda: 5) as writer:
        stale = catalog.sender("a", 5, 10)
        with pytest.raises(LeaseBusy, match="deliver"):
            catalog.sender("b", 6)
        sender = catalog.sender("b", 15)
        subscription = Subscription(1, 1, "file:a.jsonl", 0, "active", 0, None, None, muted=False, round=0)
        for send in (
            lambda: stale.outbox.open(subscription, 1, None, "{}"),
            lambda: stale.outbox.mark_sent(1, 15),
            lambda: stale.outbox.mark_failed(1, "", None),
            lambda: stale.subscriptions.note_failure(1, "", None),
        ):
            with pytest.raises(LeaseLost):
                send()
        with pytest.raises(CatalogError, match="needs the lease to deliver"):
            writer.outbox.mark_sent(1, 15)
        with pytest.raises(CatalogError, match="needs the lease to write"):
            sender.ticks.plan(5, Choice(), 5)
        assert writer.queries.install(definition(), 5).query_id == 1
        sender.check()
        writer.check()


def test_a_change_that_needs_the_lease_is_refused_without_it(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog, pytest.raises(CatalogError, match="needs the lease to write"):
        catalog.queries.install(definition(), 5)


def test_the_lease_is_given_back_after_an_error(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        with pytest.raises(ValueError, match="oops"), catalog.writing("tick", lambda: 5):
            raise ValueError("oops")
        assert catalog.lease() is None
        catalog.writer("tick", "other", 0, 100)
        with pytest.raises(LeaseBusy), catalog.writing("tick", lambda: 5):
            pytest.fail("the lease is another's")


def test_writers_in_two_processes_never_lose_a_change(home: Path, opened: Opened) -> None:
    program = f"""
from pathlib import Path
from weft.catalog import open_catalog
catalog = open_catalog(Path({str(home)!r}), at=0)
for _ in range(20):
    catalog.loads.begin(1, "s", "file", None, 0)
"""
    both = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    with opened(home, at=0) as catalog:
        assert len(catalog.loads.latest(100)) == 41


def test_a_reservation_begins_where_its_rows_do_and_not_before_f(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        writer = catalog.writer("load", "a", 0)
        assert catalog.reservations.earliest() is None
        first = writer.reservations.reserve(1, 1, at_least=100)
        assert first.floor == catalog.reservations.earliest() == 100
        assert catalog.reservations.still_open() == (first,)
        writer.reservations.commit(first.reservation_id, 0, 3, 100, 200)
        table = catalog.tables.named("t")
        assert (table.rows, table.version, table.first_ts, table.last_ts) == (3, 0, 100, 200)
        assert (catalog.home().last_ts, catalog.home().t0) == (200, 100)
        second = writer.reservations.reserve(1, 1)
        assert second.floor == MIN_INSTANT
        assert second.reservation_id > first.reservation_id
        writer.reservations.commit(second.reservation_id, 1, 1, 30, 300)
        assert (catalog.home().last_ts, catalog.home().t0) == (300, 30)
        writer.ticks.commit(writer.ticks.plan(150, Choice(()), 150).tick_id, {}, [], 150)
        third = writer.reservations.reserve(1, 1)
        assert third.floor == 150
        with pytest.raises(ClockError):
            writer.reservations.commit(third.reservation_id, 2, 1, 149, 300)
        writer.reservations.abandon(third.reservation_id)
        assert writer.reservations.reserve(1, 1, at_least=1000).floor == 1000
        (recorded,) = catalog.tables.versions()
        assert (recorded.path, recorded.version, recorded.rows) == ("tables/1-t", 1, 4)


def test_a_reservation_is_settled_once(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        writer = catalog.writer("load", "a", 0)
        first = writer.reservations.reserve(1, 1)
        writer.reservations.abandon(first.reservation_id)
        assert catalog.reservations.still_open() == ()
        with pytest.raises(CatalogError, match="not open"):
            writer.reservations.commit(first.reservation_id, 0, 1, 5, 5)
        with pytest.raises(CatalogError, match="not open"):
            writer.reservations.abandon(first.reservation_id)
        assert catalog.tables.named("t").rows == 0


def test_a_batch_reserved_for_several_tables_shares_the_instant(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        catalog.tables.create("u", [("a", BIGINT)])
        writer = catalog.writer("load", "a", 0)
        both = [writer.reservations.reserve(table, 1, at_least=50) for table in (1, 2)]
        for each in both:
            writer.reservations.commit(each.reservation_id, 0, 1, 50, 50)
        assert [table.last_ts for table in catalog.tables.all()] == [50, 50]


def test_unknown_tables_are_refused(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        writer = catalog.writer("load", "a", 0)
        with pytest.raises(CatalogError):
            writer.reservations.reserve(77, 1)
        with pytest.raises(NotFound):
            catalog.tables.by_id(77)


def test_time_begins_with_the_least_ts_before_the_first_tick(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog:
        writer = catalog.writer("load", "a", 0)

        def stored(ts: int) -> int | None:
            made = writer.reservations.reserve(1, 1)
            writer.reservations.commit(made.reservation_id, catalog.tables.named("t").version + 1, 1, ts, ts)
            return catalog.home().t0

        assert [stored(ts) for ts in (500, 300, 400)] == [500, 300, 300]
        tick = writer.ticks.plan(100, Choice(()), 7)
        assert stored(200) == 300  # it will be run again as it was planned
        writer.ticks.commit(tick.tick_id, {}, [], 7)
        assert stored(250) == 300


def test_a_load_that_holds_f_keeps_every_tick_where_it_is(home: Path, opened: Opened) -> None:
    with opened(home, at=0) as catalog, catalog.writing("load", lambda: 5) as writer:
        writer.ticks.commit(writer.ticks.plan(100, Choice(()), 7).tick_id, {}, [], 7)
        other = writer.loads.begin(1, "x", "file", "d", 5)
        writer.loads.activate(1, 5)
        assert catalog.reservations.earliest() is None
        writer.loads.activate(other, 5, hold=True)
        assert catalog.reservations.earliest() == 100
        assert writer.ticks.plan(100, Choice(()), 8).t == 100
        writer.ticks.abandon(writer.ticks.planned().tick_id)  # type: ignore[union-attr]
        with pytest.raises(ClockError, match="a running load may add rows"):
            writer.ticks.plan(101, Choice(()), 8)
        writer.loads.forget_dead(6)
        assert writer.loads.is_active(other)
        catalog.loads.deactivate(other)
        assert (catalog.reservations.earliest(), writer.loads.is_active(1)) == (None, True)


def test_a_load_that_died_or_fell_silent_holds_nothing(home: Path, opened: Opened) -> None:
    body = """
    with catalog.writing("load", lambda: 5) as writer:
        writer.loads.activate(1, 5, hold=True)
    """
    assert run(home, body).returncode == 0
    with opened(home, at=0) as catalog, catalog.writing("tick", lambda: 5) as writer:
        assert writer.loads.is_active(1)
        noticed(lambda: forgotten(writer, 1))
        writer.loads.activate(1, 5, hold=True)
        writer.loads.renew(1, 50)
        writer.loads.forget_dead(5 + ACTIVE_TTL_US)
        assert writer.loads.is_active(1)
        writer.loads.forget_dead(50 + ACTIVE_TTL_US)
        assert not writer.loads.is_active(1)


def noticed(happened: Callable[[], bool]) -> None:
    """Wait for what a PostgreSQL server notices a moment later: that a session or its process has ended."""
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def forgotten(writer: Writer, load: int) -> bool:
    writer.loads.forget_dead(6)
    return not writer.loads.is_active(load)


def held_by(home: Path, *before: str) -> subprocess.Popen[str]:
    """A process that holds the lease to write, a deliver lease not, until its stdin ends; ``before`` starts it."""
    program = f"""
import sys
from pathlib import Path
from weft.catalog import open_catalog
from weft.catalog.liveness import this_process
catalog = open_catalog(Path({str(home)!r}), at=0)
with catalog.writing("load", lambda: 5) as writer:
    writer.loads.activate(1, 5)
    print("held", flush=True)
    sys.stdin.read()
"""
    child = subprocess.Popen(
        [*before, sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def namespace(*kinds: str) -> tuple[str, ...]:
    """How a process is started in namespaces of its own, as a container has them."""
    command = ("unshare", *kinds, "--pid", "--fork", "--kill-child", "--mount-proc")
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("NOT TRIED WITH NAMESPACES: this machine does not let unshare make them")
    return command


def test_a_process_that_ended_and_was_not_waited_for_is_gone(home: Path, opened: Opened) -> None:
    child = held_by(home)
    with child, opened(home, at=0) as catalog:
        with pytest.raises(LeaseBusy, match=f"load \\(process {child.pid} of "):
            catalog.writer("tick", this_process(), 6)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        clock = itertools.count(6).__next__
        with catalog.writing("tick", clock, wait_us=100) as writer:  # a server notices a moment later
            assert writer.loads.is_active(1)
            noticed(lambda: forgotten(writer, 1))


@pytest.mark.parametrize("kinds", [(), ("--uts",)], ids=["same host name", "another host name"])
def test_a_process_of_a_container_is_known_by_its_lock_and_not_by_its_number(
    home: Path, opened: Opened, kinds: tuple[str, ...]
) -> None:
    renamed = ("sh", "-c", 'hostname elsewhere; exec "$@"', "sh") if kinds else ()
    clock = itertools.count(6).__next__
    child = held_by(home, *namespace(*kinds), *renamed)
    with child, opened(home, at=0) as catalog:
        with pytest.raises(LeaseBusy, match=r"load \(process 1 of "):  # the number is another process's here
            catalog.writer("tick", this_process(), clock())
        child.kill()
        with catalog.writing("tick", clock, wait_us=100):  # what unshare started ends a moment later
            program = f"""
from pathlib import Path
from weft.catalog import open_catalog
from weft.catalog.liveness import this_process
from weft.errors import LeaseBusy
try:
    open_catalog(Path({str(home)!r}), at=0).writer("load", this_process(), 7)
except LeaseBusy:
    print("busy")
"""
            command = [*namespace(), sys.executable, "-c", program]
            inside = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert inside.stdout == "busy\n", inside.stderr


def test_what_weft_has_not_put_among_the_holders_stays_and_hinders_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "holders"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    os.mkfifo(folder / ("0" * 32))  # opening it to read would wait for a writer
    liveness = FileLocks(folder)
    liveness.announce(this_process())
    assert (folder / "notes.txt").read_text() == "mine"
    liveness.close()


def test_a_child_that_outlives_a_killed_process_does_not_keep_it_alive(home: Path, opened: Opened) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from weft.catalog import open_catalog
from weft.catalog.liveness import this_process
catalog = open_catalog(Path({str(home)!r}), at=0)
catalog._database.announce(this_process())
print(this_process(), flush=True)
if not os.fork():
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
signal.pause()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        holder, forked = parent.stdout.readline().strip(), parent.stdout.readline().strip()
        here = opened(home, at=0)._database
        assert (forked, here.is_gone(holder, 0)) == ("forked", False)
        parent.kill()
        parent.wait()
        noticed(lambda: here.is_gone(holder, 0))
