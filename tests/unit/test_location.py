"""Where a home's data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import Refused, StorageError
from weft.location import Location


@pytest.mark.parametrize(
    "given", ["/srv/a home/x", "file:///srv/a%20home/x", "file:/srv/a%20home/x/", "/srv/./y/../a home/x/"]
)
def test_a_path_and_its_uri_are_one_place(given: str) -> None:
    place = Location.of(given)
    assert place == Location("/srv/a home/x")
    assert (place.uri, place.spark, str(place)) == ("file:///srv/a%20home/x", "file:///srv/a home/x", "/srv/a home/x")


def test_a_relative_path_is_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("home") == Location.of(tmp_path) / "home" == Location.of(Path("home"))


@pytest.mark.parametrize(
    "given",
    ["s3://bucket/home", Path("s3://bucket/home"), "hdfs://name/home", "abfss://box@host/home", "file://other/home"],
)
def test_another_scheme_is_refused_aloud(given: str | Path) -> None:
    with pytest.raises(Refused) as caught:
        Location.of(given)
    assert str(given).replace("s3:/b", "s3://b") in caught.value.message
    assert "needs a local folder" in caught.value.message
    assert "file:///" in str(caught.value.hint)


@pytest.mark.parametrize("given", ["/srv/a%20b", "/srv/[x]", "a*", "/srv/a\\b", "file:///srv/a%2520b", "/srv/a\nb"])
def test_a_path_that_spark_or_delta_would_misread_is_refused(given: str) -> None:
    with pytest.raises(Refused, match="would misread"):
        Location.of(given)
    assert Location.of("/srv/100% of it+&=#").path == "/srv/100% of it+&=#"


def test_places_join_and_part(tmp_path: Path) -> None:
    home = Location.of(tmp_path)
    table = home / "tables/1-msgs"
    assert (table.name, table.parent, table.parent.parent) == ("1-msgs", home / "tables", home)
    assert str(Location.of("/") / "x") == "/x"


@pytest.mark.parametrize("below", ["/etc/passwd", "../x", "a/../../x", "a//b", ".", ""])
def test_nothing_leads_out_of_a_home(below: str) -> None:
    with pytest.raises(StorageError, match="not a path below"):
        Location.of("/srv/home") / below


def test_files_are_read_whole_or_at_their_ends(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"PAR1middlePAR2")
    file = Location.of(tmp_path) / "f"
    assert (file.read(), file.ends(4), file.size(), file.exists()) == (b"PAR1middlePAR2", (b"PAR1", b"PAR2"), 14, True)
    with pytest.raises(OSError, match="Invalid argument"):
        file.ends(15)
    for ask in (Location.read, Location.size, Location.force):
        with pytest.raises(FileNotFoundError):
            ask(file.parent / "none")


def test_a_folder_is_listed_and_none_is_empty(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    (tmp_path / "d").mkdir()
    place = Location.of(tmp_path)
    assert sorted(place.names()) == ["d", "f"]
    assert (place / "none").names() == (place / "f").names() == []
    assert not (place / "none").exists()


def test_a_file_is_put_once_whole_and_with_its_folder(tmp_path: Path) -> None:
    file = Location.of(tmp_path) / "quarantine/abc"
    file.put(b"one")
    file.put(b"two")
    assert file.read() == b"one"
    assert file.parent.names() == ["abc"]


def test_a_put_that_fails_leaves_no_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    file = Location.of(tmp_path) / "abc"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            file.put(b"one")
    assert not file.exists()
    file.put(b"one")
    assert file.read() == b"one"


def test_one_is_alone_only_where_nobody_shares(tmp_path: Path) -> None:
    place = Location.of(tmp_path)
    with place.shared(), place.shared(), place.alone(0.0) as alone:
        assert not alone
    with place.alone(0.0) as alone:
        assert alone
        with place.alone(0.0) as second:
            assert not second
    with place.shared():
        pass


def test_who_is_alone_may_fail(tmp_path: Path) -> None:
    place = Location.of(tmp_path)
    with pytest.raises(BlockingIOError, match="of the block"), place.alone(0.0):
        raise BlockingIOError("of the block")
    with place.alone(0.0) as alone:
        assert alone
