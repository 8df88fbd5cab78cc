"""Homes whose data is on S3: commands, messages and secrets, without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow.fs
import pytest

from postgresql_server import Server
from s3_server import SECRET, environment, lossy
from weft.api import Weft
from weft.catalog.address import CatalogAddress
from weft.errors import CatalogError, Conflict
from weft.store import S3Store

Output = Any


def objects(place: S3Store) -> set[str]:
    """Return the first parts of the names of all objects below the place."""
    found = place.filesystem.get_file_info(pyarrow.fs.FileSelector(place.path, recursive=True, allow_not_found=True))
    return {each.path.removeprefix(f"{place.path}/").split("/")[0] for each in found if each.is_file}


COMMANDS = (
    "ingest file o.csv --table orders --ts-from at --key id",
    "install large -f large.sql --keep synopsis --user anna",
    "tick --now 2026-03-04",
    "results large",
    "quarantine list",
    "ingest file more.csv --table orders --ts-from at --key id",
    "loads undo 2",
    "ingest file more.csv --table orders --ts-from at --key id",
    "tick --now 2026-03-20",
    "results large",
    "loads list",
    "tables",
    "describe orders",
    "source add prices --kind csv --at prices.csv --key item",
    "view add dear -f dear.sql",
    "view refresh",
    "history dear",
    "views",
    "maintain --retain 0s",
    "results large",
    "describe results.large",
    "remove large --purge --now",
    "quarantine retry",
)
"""Commands that need no Spark."""


def write_files() -> None:
    """Write the files that the commands name. The second order has too many cells."""
    Path("o.csv").write_text(
        "id,amount,at\n1,10,2026-03-01\n2,20,2026-03-02,and,more\n3,30,2026-03-03\n4,40,2026-03-04\n"
    )
    Path("more.csv").write_text("id,amount,at\n7,70,2026-03-07\n8,5,2026-03-08\n")
    Path("large.sql").write_text("SELECT o.id FROM orders o WHERE o.amount > 25")
    Path("prices.csv").write_text("item,price\na,3\nb,30\n")
    Path("dear.sql").write_text("SELECT p.item FROM prices p WHERE p.price > 10")


def test_a_home_on_s3_does_what_a_local_one_does_and_has_no_data_in_its_folder(
    weft: Callable[..., Output], home: Path, bucket: S3Store
) -> None:
    place = bucket / "shop/home"
    made = weft("init", "--store", place.uri, "--clock", "replay")
    assert f"Its data is in {place}." in made.out and "one machine can use it" in made.out
    assert (home / "weft.toml").read_text() == f'store.url = "{place}"\n'
    weft("init", "local", "--clock", "replay")
    write_files()
    on_s3 = [weft(*each.split()) for each in COMMANDS]
    local = [weft(*each.split(), "--home", "local") for each in COMMANDS]
    assert [each.err for each in local if each.code] == []
    for command, one, other in zip(COMMANDS, on_s3, local, strict=True):
        assert (command, *lines_of(one)) == (command, *lines_of(other))
    about = [weft(each) for each in ("status", "config", "doctor")]
    assert [each.err + each.out for each in about if each.code] == []
    shown = "".join(each.out + each.err for each in (made, *on_s3, *about))
    assert SECRET not in shown
    assert f"{place} can be read and written; its catalog is a file, so one machine can use it" in shown
    assert {path.name for path in home.iterdir()} <= {
        "catalog.sqlite",
        "weft.toml",
        "logs",
        "files",
        "holders",
    } | DERIVED
    assert [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
    assert objects(place) >= {"weft-home", "tables", "ledger", "quarantine"}


def lines_of(output: Output) -> tuple[int, str, str]:
    """Return the exit code and the output without what depends on the time of day."""
    text = re.sub(r"in [0-9.]+ m?s|20[0-9-]{8} [0-9:]{8}( UTC)?|[0-9.,]+ [kM]?B", "T", output.out)
    return output.code, text, output.err


OWN = {"catalog.sqlite", "weft.toml", "logs", "files", "holders"}
DERIVED = {"arrangements", "present", "catalog.sqlite-wal", "catalog.sqlite-shm"}


def test_a_store_that_cannot_be_used_is_named_with_the_remedy(
    weft: Callable[..., Output], home: Path, bucket: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = (bucket / "home").uri

    def refused() -> str:
        output = weft("init", "--store", url)
        assert output.code in (1, 2) and SECRET not in output.err and not home.exists()
        return output.err

    output = weft("init", "--store", "s3://weft-no-such-bucket/home")
    assert "the bucket weft-no-such-bucket does not exist" in output.err and "Create the bucket" in output.err
    for place, reason in (("gs://bucket/home", "Weft needs a local folder"), ("/srv/home", "not an object store")):
        assert reason in weft("init", "--store", place).err
    with lossy(bucket, lambda method, path: "403") as behind:
        monkeypatch.setenv("AWS_ENDPOINT_URL", behind.access.endpoint or "")
        assert "refuses the access" in (output := refused()) and "AWS_SECRET_ACCESS_KEY" in output
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "the object store cannot be reached: http://127.0.0.1:9" in refused()
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    assert "AWS_ALLOW_HTTP forbids this" in refused()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9")
    assert "it should be a URL such as https://" in refused()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert "a part of the access key" in refused()
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "no profile 'nobody'" in refused()


def test_a_profile_in_the_files_of_aws_gives_the_access(
    weft: Callable[..., Output], home: Path, bucket: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    access = bucket.access
    for name in environment(access):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = other\naws_secret_access_key = other\n"
        f"[shop]\naws_access_key_id = {access.key}\naws_secret_access_key = {access.secret}\n"
    )
    (tmp_path / "config").write_text(f"[profile shop]\nregion = eu-west-3\nendpoint_url = {access.endpoint}\n")
    home.mkdir()
    (home / "weft.toml").write_text('[store]\nprofile = "shop"\n')
    assert weft("init", "--store", (bucket / "home").uri).code == 0
    data = Weft.open(home).catalog.data
    assert isinstance(data, S3Store)
    assert data.access == replace(access, region="eu-west-3")
    monkeypatch.setenv("AWS_PROFILE", "default")
    with Weft.open(home) as opened:
        assert isinstance(opened.catalog.data, S3Store) and opened.catalog.data.access.key == "other"
    (tmp_path / "credentials").write_text(f"[shop]\n{SECRET}\n")
    monkeypatch.setenv("AWS_PROFILE", "shop")
    output = weft("tables")
    assert "the profile 'shop' cannot be read" in output.err and SECRET not in output.err


def test_a_store_belongs_to_one_home(home: Path, bucket: S3Store, tmp_path: Path) -> None:
    url = (bucket / "home").uri
    Weft.open(home, create=True, store=url).close()
    Weft.open(home, create=True, store=url).close()  # again the same
    with pytest.raises(CatalogError, match="has the data of a home"):
        Weft.open(tmp_path / "other", create=True, store=url)
    with pytest.raises(Conflict, match=f"the data of the home is in {url}, and the command names {bucket}/two"):
        Weft.open(home, create=True, store=f"{bucket}/two")
    (home / "weft.toml").write_text(f'store.url = "{bucket}/two"\n')
    with pytest.raises(Conflict, match=f"belongs to the data in {url}, not to {bucket}/two"):
        Weft.open(home)
    (home / "weft.toml").unlink()
    with pytest.raises(Conflict, match=f"belongs to the data in {url}, not to {home}"):
        Weft.open(home)
    Weft.open(tmp_path / "local", create=True).close()
    with pytest.raises(Conflict, match="the data of the home is in"):
        Weft.open(tmp_path / "local", create=True, store=f"{bucket}/three")


def test_a_creation_that_dies_leaves_no_home_without_a_mark(
    home: Path, bucket: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, put = (bucket / "home").uri, S3Store.put_all

    def dies(place: S3Store, files: Mapping[str, bytes]) -> None:
        if "weft-home" in files and when == "after":
            put(place, files)
        if "weft-home" in files:
            raise KeyboardInterrupt
        put(place, files)

    for when in ("before", "after"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(S3Store, "put_all", dies)
            Weft.open(home, create=True, store=url)
        with pytest.raises(CatalogError, match="its catalog is empty"):
            Weft.open(home)
        marked = {"weft-home"} if when == "after" else set()
        assert {name for name in objects(bucket / "home") if "." not in name} == marked
    with pytest.raises(CatalogError, match="has the data of a home"):
        Weft.open(tmp_path / "other", create=True, store=url)
    with Weft.open(home, create=True, store=url) as weft:
        assert weft.catalog.home().home_id in (bucket / "home/weft-home").read().decode()
    assert objects(bucket / "home") == {"weft-home"}


def test_one_of_two_homes_gets_an_empty_store(
    home: Path, bucket: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that the store is empty. Then one is made before the other is marked, or both announce marks."""
    url, mark, put, both = (bucket / "home").uri, CatalogAddress.mark, S3Store.put_all, Barrier(2)

    def late(address: CatalogAddress, home_id: str) -> None:
        if address.home == home:
            Weft.open(tmp_path / "other", create=True, store=url).close()
        mark(address, home_id)

    def together(place: S3Store, files: Mapping[str, bytes]) -> None:
        put(place, files)
        if any(name.startswith("weft-home.") for name in files):
            both.wait(60)

    with monkeypatch.context() as patch, pytest.raises(Conflict, match="has the mark of another home"):
        patch.setattr(CatalogAddress, "mark", late)
        Weft.open(home, create=True, store=url)
    with Weft.open(tmp_path / "other") as weft:
        assert weft.catalog.home().home_id in (bucket / "home/weft-home").read().decode()
    assert objects(bucket / "home") == {"weft-home"}
    monkeypatch.setattr(S3Store, "put_all", together)
    with ThreadPoolExecutor(2) as threads:
        addresses = [CatalogAddress(tmp_path / name, None, bucket / "both") for name in ("one", "two")]
        errors = [each.exception() for each in [threads.submit(mark, each, "an id") for each in addresses]]
    assert all(each is None or isinstance(each, Conflict) for each in errors) and any(errors), errors
    assert len(objects(bucket / "both")) == sum(each is None for each in errors)


def test_two_folders_share_a_store_and_a_catalog_on_postgresql(
    weft: Callable[..., Output],
    home: Path,
    bucket: S3Store,
    database_server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, store = database_server.uri(database_server.new_database()), (bucket / "home").uri
    monkeypatch.chdir(tmp_path)
    write_files()
    with Weft.open(home, create=True, clock="replay", catalog=url, store=store) as one:
        one.ingest_file(tmp_path / "o.csv", "orders", ts_from="at", keys=["id"])
        places = ("--catalog", url, "--store", store)
        output = weft("init", "second", *places).out
        assert output.startswith("second is one more folder of a home with the replay clock.\n")
        assert "\nfile: channels need the folder of the other machines: name it in files.root.\n" in output
        assert weft("init", str(home), *places).out.startswith(f"{home} is a home with the replay clock.\n")
        monkeypatch.setenv("WEFT_FILES_ROOT", str(home / "files"))
        output = weft("init", "another", *places).out
        assert "file: channels" not in output and "delta: channels" in output
        with Weft.open(tmp_path / "second", create=True, catalog=url, store=store) as two:
            assert [table.rows for table in two.tables()] == [3]
            two.ingest_file(tmp_path / "more.csv", "orders", ts_from="at", keys=["id"])
        assert [table.rows for table in one.tables()] == [5]
    with pytest.raises(Conflict, match=f"belongs to the data in {store}"):
        Weft.open(tmp_path / "third", create=True, catalog=url, store=f"{bucket}/other")
    with pytest.raises(Conflict, match=f"belongs to the data in {store}"):
        Weft.open(tmp_path / "fourth", create=True, catalog=url)


def test_a_store_that_is_gone_later_is_no_damage(
    weft: Callable[..., Output], home: Path, bucket: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    weft("init", "--store", (bucket / "home").uri, "--clock", "replay")
    write_files()
    assert weft(*COMMANDS[0].split()).code == 0
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for command in ("ingest file more.csv --table orders --ts-from at --key id", "describe orders"):
        output = weft(*command.split())
        assert output.code == 1 and "the object store cannot be reached: http://127.0.0.1:9" in output.err, output.err
    output = weft("doctor")
    assert output.code == 1 and "BAD store" in output.out and "cannot be reached" in output.out
