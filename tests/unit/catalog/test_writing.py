from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from weft.algebra.schema import BIGINT
from weft.catalog import open_catalog
from weft.catalog.holder import is_gone, this_process
from weft.catalog.records import MIN_INSTANT
from weft.errors import CatalogError, ClockError, LeaseBusy, LeaseLost, NotFound

SECOND = 1_000_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_catalog(tmp_path, create=True, clock="replay", at=0) as catalog:
        catalog.create_table("t", [("a", BIGINT)])
        catalog.begin_load(1, "s", "file", None, 0)
    return tmp_path


def run(home: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"""
from pathlib import Path
from weft.catalog import open_catalog
from weft.catalog.holder import this_process
from weft.errors import *
catalog = open_catalog(Path({str(home)!r}), at=0)
{textwrap.dedent(body)}
"""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_one_holder_at_a_time_and_a_token_that_rises(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        first = catalog.acquire("tick", "a", 0, 10)
        with pytest.raises(LeaseBusy, match="tick"):
            catalog.acquire("load", "b", 9, 10)
        catalog.check(first.token)
        second = catalog.acquire("load", "b", 10, 10)
        assert second.token > first.token
        with pytest.raises(LeaseLost):
            catalog.check(first.token)
        catalog.release(first.token)  # a stale release does not take it from its holder
        assert catalog.lease() == second
        catalog.release(second.token)
        assert catalog.lease() is None
        with pytest.raises(LeaseLost, match="given back"):
            catalog.check(second.token)
        assert catalog.acquire("load", "a", 11, 10).token > second.token


def test_a_lease_that_ran_out_but_was_not_taken_is_still_good(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        lease = catalog.acquire("tick", "a", 0, 10)
        catalog.reserve(lease.token, 1, 1)
        catalog.renew(lease.token, 100, 10)
        with pytest.raises(LeaseBusy):
            catalog.acquire("tick", "b", 105, 10)


def test_two_processes_exclude_each_other_and_a_stale_token_writes_nothing(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        mine = catalog.acquire("tick", this_process(), 0, 10 * SECOND)
        other = run(
            home,
            """
            try:
                catalog.acquire("load", this_process(), 5_000_000)
            except LeaseBusy:
                print("busy")
            lease = catalog.acquire("load", "elsewhere:1:", 11_000_000)
            catalog.reserve(lease.token, 1, 1)
            print("took", lease.token)
            """,
        )
        assert other.stdout.split() == ["busy", "took", str(mine.token + 1)], other.stderr
        before = catalog.open_reservations()
        for write in (
            lambda: catalog.reserve(mine.token, 1, 1),
            lambda: catalog.commit_reservation(mine.token, 1, 0, 1, 5, 5),
            lambda: catalog.abandon_reservation(mine.token, 1),
            lambda: catalog.plan_tick(mine.token, 5, [], 5),
            lambda: catalog.commit_tick(mine.token, 1, None, {}, [], 5),
            lambda: catalog.renew(mine.token, 5),
            lambda: catalog.install(mine.token, "q", "u", "", "s", "b", [], [], None, "start", None, [], 5),
            lambda: catalog.set_state(mine.token, "q", "paused"),
            lambda: catalog.open_entry(mine.token, 1, 1, 1, None),
            lambda: catalog.mark_sent(mine.token, 1, 5),
            lambda: catalog.mark_failed(mine.token, 1, "", None),
            lambda: catalog.record_versions(mine.token, [("ledger", 1, 1)]),
            lambda: catalog.create_table("u", [("a", BIGINT)], token=mine.token),
        ):
            with pytest.raises(LeaseLost):
                write()
        assert catalog.open_reservations() == before
        assert catalog.table("t").rows == 0
        assert catalog.queries() == ()
        assert catalog.recorded_versions() == ()


def test_a_process_that_was_killed_gives_its_lease_up(home: Path) -> None:
    killed = run(
        home,
        """
        import os, signal
        catalog.acquire("tick", this_process(), 0, 10**15)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert killed.returncode == -9
    with open_catalog(home, at=0) as catalog:
        held = catalog.lease()
        assert held is not None
        assert is_gone(held.holder)
        assert catalog.acquire("tick", this_process(), 1).token == held.token + 1


def test_who_is_known_to_be_gone() -> None:
    host, pid, started = this_process().rsplit(":", 2)
    assert not is_gone(this_process())
    assert is_gone(f"{host}:{pid}:1{started}")  # the number was given to another process
    assert not is_gone(f"another{host}:{pid}:1{started}")
    assert not is_gone("someone")


def test_the_lease_is_given_back_after_an_error(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        with pytest.raises(ValueError, match="oops"), catalog.writing("tick", lambda: 5):
            raise ValueError("oops")
        assert catalog.lease() is None
        catalog.acquire("tick", "other", 0, 100)
        with pytest.raises(LeaseBusy), catalog.writing("tick", lambda: 5):
            pytest.fail("the lease is another's")


def test_writers_in_two_processes_never_lose_a_change(home: Path) -> None:
    program = f"""
from pathlib import Path
from weft.catalog import open_catalog
catalog = open_catalog(Path({str(home)!r}), at=0)
for _ in range(20):
    catalog.begin_load(1, "s", "file", None, 0)
"""
    both = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    with open_catalog(home, at=0) as catalog:
        assert len(catalog.loads(100)) == 41


def test_a_reservation_begins_at_the_earliest_open_instant(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        token = catalog.acquire("load", "a", 0).token
        first = catalog.reserve(token, 1, 1)
        assert first.floor == MIN_INSTANT
        assert catalog.open_reservations() == (first,)
        catalog.commit_reservation(token, first.reservation_id, 0, 3, 100, 200)
        table = catalog.table("t")
        assert (table.rows, table.version, table.first_ts, table.last_ts) == (3, 0, 100, 200)
        assert (catalog.home().last_ts, catalog.home().t0) == (200, 100)
        second = catalog.reserve(token, 1, 1)
        assert second.floor == 200
        assert second.reservation_id > first.reservation_id
        with pytest.raises(ClockError):
            catalog.commit_reservation(token, second.reservation_id, 1, 1, 199, 300)
        catalog.commit_reservation(token, second.reservation_id, 1, 1, 200, 300)
        assert catalog.reserve(token, 1, 1, at_least=1000).floor == 1000
        (recorded,) = catalog.recorded_versions()
        assert (recorded.path, recorded.version, recorded.rows) == ("tables/1-t", 1, 4)


def test_a_reservation_is_settled_once(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        token = catalog.acquire("load", "a", 0).token
        first = catalog.reserve(token, 1, 1)
        catalog.abandon_reservation(token, first.reservation_id)
        assert catalog.open_reservations() == ()
        with pytest.raises(CatalogError, match="not open"):
            catalog.commit_reservation(token, first.reservation_id, 0, 1, 5, 5)
        with pytest.raises(CatalogError, match="not open"):
            catalog.abandon_reservation(token, first.reservation_id)
        assert catalog.table("t").rows == 0


def test_a_batch_reserved_for_several_tables_shares_the_instant(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        catalog.create_table("u", [("a", BIGINT)])
        token = catalog.acquire("load", "a", 0).token
        both = [catalog.reserve(token, table, 1, at_least=50) for table in (1, 2)]
        for each in both:
            catalog.commit_reservation(token, each.reservation_id, 0, 1, 50, 50)
        assert [table.last_ts for table in catalog.tables()] == [50, 50]


def test_unknown_tables_are_refused(home: Path) -> None:
    with open_catalog(home, at=0) as catalog:
        token = catalog.acquire("load", "a", 0).token
        with pytest.raises(CatalogError):
            catalog.reserve(token, 77, 1)
        with pytest.raises(NotFound):
            catalog.table_by_id(77)
