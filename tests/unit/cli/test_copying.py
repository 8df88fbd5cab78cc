"""`weft copy`: the copy answers and goes on like the original, after kills and damage too, on either catalog."""

from __future__ import annotations

import json
import re
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import forked
from s3_server import environment, new_bucket
from unit.cli.conftest import Output
from weft.api import Weft
from weft.api.copying import Copied, _Transfers
from weft.errors import CatalogError, Conflict, Refused, StorageError
from weft.storage.verify import Finding, verify
from weft.store import LocalStore, S3Access, S3Store, Store, transfer
from weft.store.transfer import walk

LARGE = "SELECT o.id, o.amount FROM orders o WHERE o.amount > 500"
EARLY = "SELECT a.id FROM orders a, orders b WHERE a.ts < b.ts AND a.amount < b.amount"
READS = (
    "tables",
    "describe orders",
    "queries",
    "show large",
    "results large",
    "results early",
    "views",
    "view show sums",
    "sources",
    "history staff",
    "loads list",
    "quarantine list",
    "deliveries large",
    "status --json",
)


@pytest.fixture
def bucket(s3_access: S3Access, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """An empty bucket, which AWS's variables reach."""
    for name, value in environment(s3_access).items():
        monkeypatch.setenv(name, value)
    return new_bucket(s3_access)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a table, a tracked table, a view, synopses, deliveries, a quarantine and a removed query."""
    home = tmp_path_factory.mktemp("template") / "home"
    orders, staff = home.with_name("o.csv"), home.with_name("staff.csv")
    orders.write_text("id,at,amount\n1,1997-03-01,20\n2,1997-03-02,900\n9,1997-03-02,x\n")
    staff.write_text("id,name\n1,Ann\n2,Ben\n")
    with Weft.open(home, create=True, clock="replay") as made:
        made.ingest_file(orders, "orders", ts_from="at", keys=["id"], types="amount BIGINT")
        made.add_source("staff", "csv", staff, "id")
        made.poll_source("staff", now="1997-03-02")
        made.add_view("sums", "SELECT COUNT(*) AS n FROM staff")
        made.install("large", LARGE, keep="synopsis", to="file:large.csv", user="maya")
        made.install("early", EARLY, keep="synopsis", allow_unbounded=True)
        made.install("gone", LARGE, keep="synopsis")
        made.remove("gone", purge=True)
        made.tick(now="1997-03-03")
        made.refresh_views()
    (home / "weft.toml").write_text('install.user = "ann"  # a remark\n')
    return home


@pytest.fixture
def made(template: Path, home: Path) -> Path:
    """A copy of the template by hand."""
    return Path(shutil.copytree(template, home))


def answers(weft: Callable[..., Output], home: Path) -> dict[str, str]:
    """Return what the commands that read print for a home."""
    output = {each: weft(*each.split(), "--home", str(home)) for each in READS}
    assert [(name, each.err) for name, each in output.items() if each.code] == []
    return {name: _plain(each.out, home) for name, each in output.items()}


def _plain(text: str, home: Path) -> str:
    """Return a text without the place of the home, the catalog, and the times of the wall clock."""
    text = re.sub(r"20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?", "<now>", text.replace(str(home), "HOME"))
    lines = [line for line in text.splitlines() if not line.strip().startswith(('"catalog":', '"free_bytes":'))]
    return "\n".join(re.sub("[─ ]+", " ", line) for line in lines)


def go_on(weft: Callable[..., Output], home: Path) -> tuple[str, str, dict[str, str]]:
    """Load and tick once more. Return the output of both, the delivered file, and the output of other commands."""
    Path("more.csv").write_text("id,at,amount\n2,1997-03-02,900\n3,1997-03-04,700\n4,1997-03-04,5\n")
    arguments = ("--table", "orders", "--ts-from", "at", "--key", "id", "--home", str(home))
    loaded = weft("ingest", "file", "more.csv", *arguments)
    ticked = weft("tick", "--now", "1997-03-06", "--json", "--home", str(home))
    assert (loaded.code, ticked.code) == (0, 0), loaded.err + ticked.err
    assert json.loads(ticked.out)["delivered"] == [
        {"query": "large", "channel": "file:large.csv", "rows": 1, "error": None}
    ]
    lines = (home / "files" / "large.csv").read_text()
    with Weft.open(home) as opened:
        assert verify(opened.catalog) == []
        installed = opened.install("next", LARGE, keep="synopsis")
        assert installed.query_id == 4  # the ID of the removed query is not given again
    return loaded.out, lines, answers(weft, home)


def kill(home: Path, to: Path, point: str, *options: str) -> None:
    """Copy in another process, which is killed at a failpoint."""
    command = [sys.executable, "-m", "weft", "copy", str(home), str(to), *options]
    died = forked.run(command, point, text=True)
    assert died.returncode == -signal.SIGKILL, (point, died.stderr)


def test_copies_answer_and_go_on_as_the_original_does(
    weft: Callable[..., Output], made: Path, url: str, tmp_path: Path
) -> None:
    before = answers(weft, made)
    copies = [tmp_path / name for name in ("folder", "server", "back")]
    output = [weft("copy", str(made), str(copies[0]))]
    output.append(weft("copy", str(made), str(copies[1]), "--catalog", url))
    output.append(weft("copy", str(copies[1]), str(copies[2]), "--json"))
    assert [each.code for each in output] == [0, 0, 0], [each.err for each in output]
    assert "with 6 rows, 2 answers, 1 record in quarantine" in output[0].out and "All were verified." in output[0].out
    assert output[2].json["quarantined"] == 1 and output[2].json["resumed"] is False
    assert (copies[1] / "weft.toml").read_text().splitlines()[0] == f'catalog.url = "{url}"'
    assert not (copies[1] / "catalog.sqlite").exists()
    assert [(each / "weft.toml").read_text() for each in (copies[0], copies[2])] == [
        'install.user = "ann"  # a remark\n'
    ] * 2
    assert [answers(weft, each) for each in copies] == [before] * 3
    expected = go_on(weft, made)
    assert expected[1].count("\n") == 3 and expected[2] != before
    assert [go_on(weft, each) for each in copies] == [expected] * 3
    assert all("ok  " in each or not each for each in weft("doctor", "--home", str(copies[1])).out.splitlines())


@pytest.mark.parametrize(
    ("on_server", "points"),
    [
        (False, ("copy.begun", "copy.file:7", "copy.catalog", "copy.recorded", "copy.verified")),
        (True, ("copy.file", "copy.catalog", "copy.recorded")),
    ],
)
def test_a_killed_copy_is_no_home_and_continues(
    weft: Callable[..., Output], made: Path, url: str, tmp_path: Path, on_server: bool, points: Sequence[str]
) -> None:
    to, options = tmp_path / "copy", ["--catalog", url] if on_server else []
    for point in points:
        kill(made, to, point, *options)
        output = weft("tables", "--home", str(to))
        assert output.code != 0 and "unfinished copy of a home" in output.err, point
        assert weft("init", str(to)).code != 0
    output = weft("tick", "--now", "1997-03-04", "--home", str(made))  # the home goes on between the attempts
    assert output.code == 0, output.err
    output = weft("copy", str(made), str(to), *options, "--json")
    assert output.code == 0 and output.json["resumed"], output.err
    assert answers(weft, to) == answers(weft, made)
    assert go_on(weft, to) == go_on(weft, made)
    assert not (to / "copying.json").exists()


def test_a_home_is_moved_to_s3_and_back(
    weft: Callable[..., Output], made: Path, url: str, bucket: S3Store, tmp_path: Path
) -> None:
    """The copy to S3 is killed, and damaged meanwhile."""
    before, away, back = answers(weft, made), tmp_path / "away", tmp_path / "back"
    place = bucket / "homes/away"
    for point in ("copy.file:7", "copy.recorded"):
        kill(made, away, point, "--store", place.uri, "--catalog", url)
        assert "unfinished copy of a home" in weft("tables", "--home", str(away)).err
    name = next(each for each in walk(place) if each.endswith(".parquet"))
    whole = (place / name).read()
    (place / name).remove()
    (place / name).put(whole[:-1] + b"?")
    output = weft("copy", str(made), str(away), "--store", place.uri, "--catalog", url)
    assert output.code == 0 and "Finished the copy" in output.out, output.err
    assert (place / name).read() == whole and "copying.json" not in walk(place)
    assert not (away / "tables").exists() and answers(weft, away) == before
    refused = weft("copy", str(made), str(tmp_path / "third"), "--store", place.uri)
    assert refused.code == 2 and "is not empty" in refused.err and not (tmp_path / "third").exists()
    assert weft("copy", str(away), str(back)).code == 0
    assert (back / "weft.toml").read_text() == (made / "weft.toml").read_text()
    assert answers(weft, back) == before
    assert go_on(weft, away) == go_on(weft, back) == go_on(weft, made)


def test_damage_in_a_half_done_copy_is_found(weft: Callable[..., Output], made: Path, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    kill(made, to, "copy.recorded")
    files = [path for path in to.rglob("*") if path.is_file() and path.name not in ("copying.json", "catalog.sqlite")]
    whole = {path: path.read_bytes() for path in files if path.stat().st_size}
    for path, raw in whole.items():
        path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    (to / "tables" / "1-orders" / "stray.parquet").write_bytes(b"of a compaction before")
    assert weft("copy", str(made), str(to)).code == 0
    assert {path: path.read_bytes() for path in whole} == whole
    assert not (to / "tables" / "1-orders" / "stray.parquet").exists()


def test_a_copy_that_reads_back_differently_is_an_error(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to, follow = tmp_path / "copy", LocalStore.follow

    def damaging(place: LocalStore) -> None:
        follow(place)
        if place.path.startswith(str(to)) and place.path.endswith(".parquet"):
            Path(place.path).write_bytes(b"PAR1")

    with Weft.open(made) as opened:
        with monkeypatch.context() as patch:
            patch.setattr(LocalStore, "follow", damaging)
            with pytest.raises(StorageError, match="the copy differs from"):
                opened.copy(to)
        with pytest.raises(CatalogError, match="unfinished copy"):
            Weft.open(to)
        assert opened.copy(to).resumed


def test_a_place_with_other_content_is_refused(
    weft: Callable[..., Output], made: Path, url: str, tmp_path: Path
) -> None:
    full, other = tmp_path / "full", tmp_path / "other"
    full.mkdir()
    (full / "note.txt").write_text("mine")
    with Weft.open(other, create=True, clock="replay") as one, Weft.open(made) as opened:
        for place in (full, other):
            with pytest.raises(Conflict, match="is not empty"):
                opened.copy(place)
        for place in (made, made / "files" / "copy", tmp_path):
            with pytest.raises(Conflict):
                opened.copy(place)
        kill(made, tmp_path / "begun", "copy.file")
        for copying in (lambda: one.copy(tmp_path / "begun"), lambda: opened.copy(tmp_path / "begun", catalog=url)):
            with pytest.raises(
                Conflict, match="the unfinished copy of another home, or of this home with other options"
            ):
                copying()
        assert opened.copy(tmp_path / "served", catalog=url).resumed is False
        with pytest.raises(Conflict, match=r"is already the catalog of the home .*served"):
            opened.copy(tmp_path / "again", catalog=url)
    assert (full / "note.txt").read_text() == "mine" and [each.name for each in full.iterdir()] == ["note.txt"]
    assert not (tmp_path / "again").exists() and not (made / "files" / "copy").exists()
    with Weft.open(tmp_path / "served") as served, pytest.raises(Conflict, match="is already the catalog"):
        served.copy(tmp_path / "again", catalog=url)


def test_a_refusal_leaves_nothing_behind(
    made: Path, url: str, bucket: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Weft.open(made) as opened:
        opened.copy(tmp_path / "served", catalog=url)
        place = bucket / "homes/refused"
        with pytest.raises(Conflict, match="is already the catalog"):
            opened.copy(tmp_path / "again", store=place.uri, catalog=url)
        assert walk(bucket) == {} and not (tmp_path / "again").exists()
        (tmp_path / "file").write_text("")
        with pytest.raises(StorageError, match="the home cannot be copied: Not a directory"):
            opened.copy(tmp_path / "file" / "copy")
        monkeypatch.setattr("weft.api.copying._claim", lambda *_: pytest.fail("the password would be written"))
        with pytest.raises(Refused, match="password"):
            opened.copy(tmp_path / "secret", catalog="postgresql://weft:secret@localhost/weft")
        assert not (tmp_path / "secret").exists()


def test_a_copy_is_a_home_only_after_it_was_verified(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are copied after the transaction of the catalog, which a server would end if it waited for them."""
    to, committed = tmp_path / "copy", []
    rest = _Transfers.remove_others

    def remove_others(transfers: _Transfers) -> None:
        with closing(sqlite3.connect(to / "catalog.sqlite", timeout=0)) as there:
            there.execute("BEGIN IMMEDIATE")
            committed.append(there.execute("SELECT count(*) FROM home").fetchone())
        rest(transfers)

    monkeypatch.setattr(_Transfers, "remove_others", remove_others)
    with Weft.open(made) as opened:
        with monkeypatch.context() as patch:
            patch.setattr("weft.api.copying.verify", lambda _: [Finding("tables/1-orders", "damaged", "remedy")])
            with pytest.raises(StorageError, match="the copy is damaged:\ntables/1-orders"):
                opened.copy(to)
        with pytest.raises(CatalogError, match="unfinished copy"):
            Weft.open(to)
        assert opened.copy(to).resumed
    assert committed == [(1,), (1,)]


def test_a_copy_is_of_one_point_though_the_home_works(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load, a tick, a compaction and a purge happen while the files are copied."""
    begun: list[int] = []
    monkeypatch.setenv("WEFT_RETENTION", "0s")

    def works(source: Store, target: Store) -> int:
        if not begun:
            begun.append(1)
            with Weft.open(made) as other:
                Path("more.csv").write_text("id,at,amount\n5,1997-03-03,600\n8,1997-03-03,y\n")
                other.ingest_file("more.csv", "orders", ts_from="at", keys=["id"])
                other.tick(now="1997-03-05")
                list(other.maintain())
        return transfer.transfer(source, target)

    monkeypatch.setattr("weft.api.copying.transfer", works)
    with Weft.open(made) as opened:
        copied = opened.copy(tmp_path / "copy")
        assert begun and isinstance(copied, Copied)
        with Weft.open(tmp_path / "copy") as copy:
            assert verify(copy.catalog) == []
            assert [row.values for row in copy.results("large")] == [row.values for row in opened.results("large")]
            assert len(copy.quarantined()) == len(opened.quarantined()) == copied.quarantined == 2
            assert [table.rows for table in copy.catalog.tables.all()] == [
                table.rows for table in opened.catalog.tables.all()
            ]
            for record in copy.quarantined():
                assert (tmp_path / "copy" / "quarantine" / record.sha256).exists()
            assert copy.catalog.lease() is copy.catalog.lease("deliver") is None


def test_settings_of_every_form_are_copied(made: Path, url: str, tmp_path: Path) -> None:
    with Weft.open(made) as opened:
        opened.copy(tmp_path / "served", catalog=url)
    (tmp_path / "served" / "weft.toml").write_text(
        f'[catalog]\nurl = "{url}"\n\n[smtp]\nhost = "mail.example.com"\npassword = "p"\n'
    )
    (tmp_path / "served" / "weft.toml").chmod(0o600)
    with Weft.open(tmp_path / "served") as served:
        served.copy(tmp_path / "file")
        served.copy(tmp_path / "other", catalog=f"{url}&schema=other")
    file, other = (tmp_path / name / "weft.toml" for name in ("file", "other"))
    assert file.read_text() == '[smtp]\nhost = "mail.example.com"\npassword = "p"\n'
    assert other.read_text().startswith(f'[catalog]\nurl = "{url}&schema=other"\n')
    assert file.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(tmp_path / "file")
    (tmp_path / "served" / "weft.toml").write_text(f'catalog = {{ url = "{url}" }}\n')
    with (
        Weft.open(tmp_path / "served") as served,
        pytest.raises(Refused, match=r"cannot be copied without catalog\.url"),
    ):
        served.copy(tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_an_attached_table_is_read_in_place_by_the_copy(tmp_path: Path) -> None:
    """The rows stay with the other program, and the instants that Weft has found for them are copied."""
    theirs = tmp_path / "theirs"
    write_deltalake(theirs, pa.table({"id": [1, 2]}))
    with Weft.open(tmp_path / "home", create=True) as opened:
        opened.attach_table("orders", theirs)
        opened.install("all", "SELECT o.id FROM orders o", keep="synopsis")
        opened.tick()
        write_deltalake(theirs, pa.table({"id": [3]}), mode="append")
        opened.tick()
        DeltaTable(theirs).optimize.compact()
        opened.tick()
        instants = list((tmp_path / "home" / "tables").rglob("_instants/*"))
        opened.copy(tmp_path / "copy")
        assert instants and len([*(tmp_path / "copy" / "tables").rglob("_instants/*")]) == len(instants)
        write_deltalake(theirs, pa.table({"id": [4]}), mode="append")
        with Weft.open(tmp_path / "copy") as copy:
            for each in (opened, copy):
                each.tick()
                assert verify(each.catalog) == []
                assert [row.values for row in each.results("all")] == [(1,), (2,), (3,), (4,)]
