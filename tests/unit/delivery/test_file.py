from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from weft.algebra.schema import STRING
from weft.catalog.channel_folders import files_root
from weft.delivery.channel import About, Message
from weft.delivery.file import FileChannel
from weft.delivery.registry import canonical, open_channel
from weft.errors import Conflict, DeliveryError, Refused
from weft.storage.ledger import Answers, ResultRow


def message(*texts: str, first: int = 1) -> Message:
    rows = tuple(ResultRow(first + n, 0, 1, (text,)) for n, text in enumerate(texts))
    about = About("SELECT s FROM t", "ann", len(rows), Path("home"), "an id", 0, query_id=1, zone="UTC")
    return Message("1-1-1", "q", (("s", STRING),), rows, len(rows), about, attempt_at=0)


def sent(channel: FileChannel, *texts: str) -> None:
    channel.send(message(*texts), channel.prepare())


def test_lines_are_appended(tmp_path: Path) -> None:
    channel = FileChannel("deep/er/a.jsonl", tmp_path / "root")
    sent(channel, "x")
    sent(channel, "y", "z")
    lines = (tmp_path / "root/deep/er/a.jsonl").read_text().splitlines()
    assert [json.loads(line)["s"] for line in lines] == ["x", "y", "z"]


def test_csv_has_one_header(tmp_path: Path) -> None:
    channel = FileChannel("a.csv", tmp_path)
    sent(channel, "x")
    sent(channel, "=1+1")
    assert (tmp_path / "a.csv").read_text() == (
        "_ordinal,_first_at,_tick,s\n1,1970-01-01T00:00:00Z,1,x\n1,1970-01-01T00:00:00Z,1,'=1+1\n"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "b,c\n1,2\n"),
        ("a.csv", "_ordinal,_first_at,_tick,s,more\n"),
        ("a.jsonl", '{"_ordinal":1,"_first_at":"1970-01-01T00:00:00Z","_tick":1,"other":"x"}\n'),
        ("a.ndjson", '{"s":"x"}\n'),
        ("a.json", "[1, 2]\n"),
        ("a.json", "some text"),
    ],
)
def test_a_file_of_other_columns_is_left_alone(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    channel = FileChannel(name, tmp_path)
    with pytest.raises(Conflict, match="does not have the columns"):
        channel.require(Answers("an id", None, "q", (("s", STRING),)))
    with pytest.raises(DeliveryError, match="does not have the columns _ordinal, _first_at, _tick, s"):
        sent(channel, "x")
    assert (tmp_path / name).read_text() == content


def test_a_first_line_may_be_long(tmp_path: Path) -> None:
    channel = FileChannel("a.jsonl", tmp_path)
    sent(channel, "x" * 200_000)
    sent(channel, "y")
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 2


def test_a_line_without_its_end_is_not_run_into(tmp_path: Path) -> None:
    channel = FileChannel("a.jsonl", tmp_path)
    sent(channel, "x")
    with open(tmp_path / "a.jsonl", "a") as stream:
        stream.write('{"mine": 1}')
    sent(channel, "y")
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 3


def test_recovering_cuts_back_and_may_be_done_twice(tmp_path: Path) -> None:
    channel = FileChannel("a.jsonl", tmp_path)
    sent(channel, "x")
    before = (tmp_path / "a.jsonl").read_bytes()
    position = channel.prepare()
    channel.send(message("y"), position)
    assert channel.recover(position) == "undone"
    assert channel.recover(position) == "undone"
    assert (tmp_path / "a.jsonl").read_bytes() == before


def test_a_file_that_was_restored_from_a_copy_goes_on(tmp_path: Path) -> None:
    channel = FileChannel("a.jsonl", tmp_path)
    sent(channel, "x")
    position = channel.prepare()
    channel.send(message("torn"), position)
    shutil.copyfile(tmp_path / "a.jsonl", tmp_path / "copy")
    (tmp_path / "a.jsonl").rename(tmp_path / "old.jsonl")
    (tmp_path / "copy").rename(tmp_path / "a.jsonl")
    assert channel.recover(position) == "undone"
    channel.send(message("y"), position)
    assert (tmp_path / "a.jsonl").read_text().count("\n") == 2
    assert "torn" not in (tmp_path / "a.jsonl").read_text()


def test_what_begins_another_file_is_never_cut(tmp_path: Path) -> None:
    channel = FileChannel("a.jsonl", tmp_path)
    position = channel.prepare()
    (tmp_path / "a.jsonl").rename(tmp_path / "old.jsonl")
    (tmp_path / "a.jsonl").write_text("somebody's")
    assert channel.recover(position) == "unknown"
    assert (tmp_path / "a.jsonl").read_text() == "somebody's"


def test_another_file_or_a_shorter_one_is_never_cut(tmp_path: Path) -> None:
    channel = FileChannel("a.jsonl", tmp_path)
    sent(channel, "x")
    position = channel.prepare()
    (tmp_path / "a.jsonl").write_text("")
    assert channel.recover(position) == "unknown"
    (tmp_path / "a.jsonl").rename(tmp_path / "old.jsonl")
    assert channel.recover(position) == "unknown"
    (tmp_path / "a.jsonl").write_text("other " * 100)
    assert channel.recover(position) == "unknown"
    assert (tmp_path / "a.jsonl").read_text() == "other " * 100
    with pytest.raises(DeliveryError, match="replaced"):
        channel.send(message("y"), position)


@pytest.mark.parametrize(
    "path",
    ["../a.jsonl", "a/../../b.jsonl", "/etc/a.jsonl", "/a.csv", "", "a/", "a", "a.txt", "a.jsonl\0.csv", "..", "a/..",
     ".jsonl"],
)  # fmt: skip
def test_paths_that_leave_the_root_or_name_no_format_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Refused) as refused:
        FileChannel(path, tmp_path)
    assert refused.value.hint


def test_an_absolute_path_under_the_root_is_taken(tmp_path: Path) -> None:
    assert FileChannel(str(tmp_path / "x/a.jsonl"), tmp_path).address == "file:x/a.jsonl"
    with pytest.raises(Refused):
        FileChannel(str(tmp_path) + "-other/a.jsonl", tmp_path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.jsonl").write_text("secret\n")
    (root / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (root / "folder").symlink_to(outside)
    (root / "new.jsonl").symlink_to(outside / "new.jsonl")
    for path in ("link.jsonl", "folder/secret.jsonl", "folder/new.jsonl", "new.jsonl"):
        channel = FileChannel(path, root)
        with pytest.raises(DeliveryError, match="symbolic link"):
            channel.prepare()
        with pytest.raises(DeliveryError):
            channel.send(message("x"), '{"offset": 0, "tail": "", "inode": 1}')
        with pytest.raises(DeliveryError):
            channel.recover('{"offset": 0, "tail": "", "inode": 1}')
    assert (outside / "secret.jsonl").read_text() == "secret\n"
    assert not (outside / "new.jsonl").exists()


def test_an_object_other_than_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for path in ("pipe.jsonl", "folder.jsonl"):
        with pytest.raises(DeliveryError):
            FileChannel(path, tmp_path).prepare()


def test_channels_are_known_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert canonical("cursor", tmp_path) == "cursor"
    assert open_channel("cursor", tmp_path, "5f0c") is None
    assert canonical("FILE:./a//b.jsonl", tmp_path) == "file:a/b.jsonl"
    assert files_root(tmp_path) == tmp_path / "files"
    for text in ("email", "mail:a@example.org", "files:a.jsonl", "", "cursor:x"):
        with pytest.raises(Refused, match="is not a channel"):
            canonical(text, tmp_path)
    monkeypatch.setenv("WEFT_FILES_ROOT", str(tmp_path / "elsewhere"))
    assert canonical(f"file:{tmp_path}/elsewhere/a.csv", tmp_path) == "file:a.csv"
