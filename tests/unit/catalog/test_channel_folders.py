"""The marks of the folders in which the machines of a home deliver."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.catalog.channel_folders import mark_roots, shared_root, unmark_roots
from weft.errors import FolderElsewhere


def home(place: Path, server: str) -> Path:
    """Make the folder of a home with a catalog on a server. Its channels write into a folder of all homes."""
    place.mkdir()
    files = place.with_name("files")
    (place / "weft.toml").write_text(f'catalog.url = "postgresql://{server}/weft"\nfiles.root = "{files}"\n')
    return place


def test_homes_on_two_servers_with_the_same_schema_have_their_own_marks(tmp_path: Path) -> None:
    one, two = home(tmp_path / "one", "first"), home(tmp_path / "two", "second")
    mark_roots(one, "id-of-one")
    assert shared_root("file", one, "id-of-one") == tmp_path / "files"
    with pytest.raises(FolderElsewhere, match="is not the folder in which the machines of this home deliver file:"):
        shared_root("file", two, "id-of-two")
    assert shared_root("file", two, None) == tmp_path / "files"


def test_a_deleted_copy_leaves_the_mark_that_its_original_needs(tmp_path: Path) -> None:
    original, copy = home(tmp_path / "original", "first"), home(tmp_path / "copy", "second")
    for each in (original, copy):
        mark_roots(each, "id-of-both")
    unmark_roots(copy, "id-of-both")
    assert shared_root("file", original, "id-of-both") == tmp_path / "files"
    assert list((copy / "delta").iterdir()) == []


def test_a_mark_of_an_older_version_is_renamed(tmp_path: Path) -> None:
    one, two = home(tmp_path / "one", "first"), home(tmp_path / "two", "second")
    (tmp_path / "files").mkdir()
    (tmp_path / "files/.weft-weft").touch()
    for _ in range(2):
        assert shared_root("file", one, "id-of-one") == tmp_path / "files"
    with pytest.raises(FolderElsewhere):
        shared_root("file", two, "id-of-two")
