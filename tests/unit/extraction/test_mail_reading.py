"""Sources: what is one, in which order it is read, how several are merged."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from letters import AT, letter, spool
from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import MAX_LINE, RejectedRecord, Row, Timing, TsOrder
from weft.extraction.mail.arrival_order import read_mail
from weft.instants import DAY_US

ENVELOPE = b"From a@b Mon Apr  5 00:00:00 1993\n"


def articles(*days: int, name: str = "m", **headers: str | None) -> dict[str, bytes]:
    """Articles numbered from 9, 10, … with those days of April 1993."""
    return {
        str(9 + n): letter(Message_ID=f"<{name}{9 + n}>", Date=f"{day} Apr 93 00:00 GMT", **headers)
        for n, day in enumerate(days)
    }


def mbox(messages: Iterable[bytes]) -> bytes:
    return b"".join(ENVELOPE + message + b"\n" for message in messages)


def packed(files: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, raw in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return out.getvalue()


def loaded(
    *paths: Path, ts_from: str | None = None, ts_order: TsOrder = "own", newsgroup: str | None = None
) -> list[Row | RejectedRecord]:
    return list(read_mail(paths, newsgroup=newsgroup, timing=Timing(ts_from, ts_order), at=AT))


def ids(items: Iterable[Row | RejectedRecord]) -> list[str]:
    return [str(item.values["msgid"]) if isinstance(item, Row) else f"!{item.position}" for item in items]


def day(item: Row | RejectedRecord) -> int | None:
    assert isinstance(item, Row)
    return None if item.own_time is None else time.gmtime(item.own_time // 1_000_000).tm_mday


def test_articles_come_by_their_number_not_by_their_name(tmp_path: Path) -> None:
    spool(tmp_path / "sci.space", articles(1, 2, 3))
    assert ids(loaded(tmp_path)) == ["m9", "m10", "m11"]


def test_the_own_time_is_the_date_and_in_the_order_of_arrival_the_running_maximum(tmp_path: Path) -> None:
    spool(tmp_path, articles(3, 1, 5, 4))
    assert [day(item) for item in loaded(tmp_path, ts_from="date")] == [3, 1, 5, 4]
    assert [day(item) for item in loaded(tmp_path, ts_from="date", ts_order="arrival")] == [3, 3, 5, 5]
    assert [day(item) for item in loaded(tmp_path)] == [None] * 4


def test_rows_come_with_their_records_where_that_is_wanted(tmp_path: Path) -> None:
    files = articles(3, 1, Newsgroups="a.b,c.d")
    spool(tmp_path, files)
    for order in ("own", "arrival"):
        timing = Timing("date", order)  # type: ignore[arg-type]
        items = list(read_mail([tmp_path], newsgroup=None, timing=timing, at=AT, origins=True))
        origins = [item.origin for item in items if isinstance(item, Row)]
        assert [origin and (origin.position, origin.raw) for origin in origins] == [
            (name, raw) for name, raw in files.items() for _ in range(2)
        ]


def test_how_far_ahead_a_date_may_lie(tmp_path: Path) -> None:
    spool(
        tmp_path, {"1": letter(Date="Wed, 15 Nov 2023 22:13:20 GMT"), "2": letter(Date="Wed, 15 Nov 2023 22:13:21 GMT")}
    )
    first, second = loaded(tmp_path)
    assert isinstance(first, Row)
    assert isinstance(second, RejectedRecord)
    assert second.reason.endswith("more than 1d ahead of the clock")
    timing = Timing(future_us=2 * DAY_US)
    assert all(isinstance(item, Row) for item in read_mail([tmp_path], newsgroup=None, timing=timing, at=AT))


def test_sources_are_merged_by_their_order_of_arrival(tmp_path: Path) -> None:
    spool(tmp_path / "a", articles(3, 1, 6, name="a"))
    spool(tmp_path / "b", articles(2, 3, 5, name="b"))
    merged = loaded(tmp_path, ts_from="date", ts_order="arrival")
    assert ids(merged) == ["b9", "a9", "a10", "b10", "b11", "a11"]
    assert [day(item) for item in merged] == [2, 3, 3, 3, 5, 6]
    assert ids(loaded(tmp_path / "b", tmp_path / "a")) == ["b9", "b10", "b11", "a9", "a10", "a11"]


def test_rejected_records_keep_their_place_and_bytes(tmp_path: Path) -> None:
    files = articles(3, 1) | {"12": letter(Message_ID=None), "7": b"\0", "13": letter(Message_ID="<z>")}
    spool(tmp_path, files)
    found = loaded(tmp_path, ts_from="date")
    assert ids(found) == ["!7", "m9", "m10", "!12", "z"]
    rejected = [item for item in found if isinstance(item, RejectedRecord)]
    assert [item.raw for item in rejected] == [b"\0", files["12"]]
    assert {item.source for item in rejected} == {str(tmp_path)}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_every_form_of_the_same_articles_reads_the_same(tmp_path: Path, pack: type[bytes]) -> None:
    files = articles(3, 1, 5, Newsgroups=None)
    spool(tmp_path / "plain" / "sci.space", {name: pack(raw) for name, raw in files.items()})
    (tmp_path / "t.tar.gz").write_bytes(pack(packed({f"sci.space/{n}": r for n, r in reversed(files.items())})))
    (tmp_path / "sci.space").write_bytes(pack(mbox(files.values())))
    expected = loaded(tmp_path / "plain", ts_from="date")
    assert ids(expected) == ["m9", "m10", "m11"]
    assert {item.values["newsgroup"] for item in expected if isinstance(item, Row)} == {"sci.space"}
    assert loaded(tmp_path / "t.tar.gz", ts_from="date") == expected
    assert loaded(tmp_path / "sci.space", ts_from="date") == expected


def test_the_stem_of_a_file_is_its_group(tmp_path: Path) -> None:
    (tmp_path / "2004-April.txt.gz").write_bytes(gzip.compress(mbox([letter(Newsgroups=None)])))
    [item] = loaded(tmp_path)
    assert isinstance(item, Row)
    assert item.values["newsgroup"] == "2004-April"
    [item] = loaded(tmp_path, newsgroup="r-devel")
    assert isinstance(item, Row)
    assert item.values["newsgroup"] == "r-devel"


def test_mboxes_of_a_directory_are_sources_of_their_own(tmp_path: Path) -> None:
    spool(tmp_path, {f"{n}.txt": mbox(articles(d, d + 1, name=n).values()) for n, d in (("april", 3), ("june", 1))})
    assert ids(loaded(tmp_path, ts_from="date", ts_order="arrival")) == ["june9", "june10", "april9", "april10"]
    assert ids(loaded(tmp_path, ts_from="date")) == ["april9", "april10", "june9", "june10"]


def test_a_separator_needs_a_date_and_a_header_after_it(tmp_path: Path) -> None:
    body = "text\nFrom here on it is all 12:30 and 1993\nno header\n\nFrom CRAN Policy:\n\nend\n"
    (tmp_path / "box").write_bytes(mbox([letter(body), letter(Message_ID="<2@x>")]))
    first, second = loaded(tmp_path / "box")
    assert isinstance(first, Row)
    assert isinstance(second, Row)
    assert first.values["body"] == body
    assert second.values["body"] == "Hello\n"
    without_blank_lines = (ENVELOPE + letter("a\n") + ENVELOPE + letter("b\n")).replace(b"<1@x>", b"<1@x>")
    (tmp_path / "box").write_bytes(without_blank_lines)
    assert [item.values["body"] for item in loaded(tmp_path / "box") if isinstance(item, Row)] == ["a\n", "b\n"]


def test_text_before_the_first_message_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "box").write_bytes(b"\n\n" + mbox([letter()]))
    assert ids(loaded(tmp_path / "box")) == ["1@x"]
    spool(tmp_path / "d", {"1": b"From me, no envelope\nX\n" + mbox([letter()])})
    assert ids(loaded(tmp_path / "d")) == ["!1: message 1 (byte 0)", "1@x"]


def test_a_line_of_many_megabytes_is_rejected_and_the_next_message_read(tmp_path: Path) -> None:
    long = letter("x" * (3 * MAX_LINE) + "\nend\n")
    (tmp_path / "box").write_bytes(mbox([long, letter(Message_ID="<2@x>")]))
    rejected, after = loaded(tmp_path / "box")
    assert isinstance(rejected, RejectedRecord)
    assert "a line of more than 1 MiB" in rejected.reason
    assert rejected.raw == ENVELOPE + long + b"\n"
    assert ids([after]) == ["2@x"]
    spool(tmp_path / "d", {"1": long})
    [rejected] = loaded(tmp_path / "d")
    assert isinstance(rejected, RejectedRecord)
    assert rejected.raw == long


def test_a_record_too_large_to_hold_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("mail.mbox", "byte_streams"):
        monkeypatch.setattr(f"weft.extraction.{module}.MAX_RECORD", 1_000)
    large = letter("0123456789\n" * 300)
    (tmp_path / "box").write_bytes(mbox([large, letter(Message_ID="<2@x>")]))
    spool(tmp_path / "d", {"1": large})
    for path, whole in ((tmp_path / "box", ENVELOPE + large + b"\n"), (tmp_path / "d", large)):
        pieces = [item for item in loaded(path) if isinstance(item, RejectedRecord)]
        assert len(pieces) > 3
        assert b"".join(piece.raw for piece in pieces) == whole
        assert len({piece.position for piece in pieces}) == len(pieces)
    assert ids(loaded(tmp_path / "box"))[-1] == "2@x"


def test_an_archive_cut_short_gives_what_it_holds(tmp_path: Path) -> None:
    messages = [letter("x" * 500 + f"{n}\n", Message_ID=f"<{n}@x>") for n in range(200)]
    (tmp_path / "box.gz").write_bytes(gzip.compress(mbox(messages))[:-200])
    found = ids(loaded(tmp_path / "box.gz", ts_from="date"))
    assert found[0] == "0@x"
    assert found[-1].startswith("!message")
    whole = packed({f"g/{n}": raw for n, raw in enumerate(messages)})
    (tmp_path / "t.tar").write_bytes(whole[: len(whole) // 2])
    found = ids(loaded(tmp_path / "t.tar"))
    assert found[:2] == ["0@x", "1@x"]
    assert any(each.startswith("!g/") for each in found)
    (tmp_path / "t.tgz").write_bytes(gzip.compress(whole)[:-300])
    found = ids(loaded(tmp_path / "t.tgz"))
    assert found[0] == "0@x"
    assert found[-1] == "!archive" or any(each.startswith("!") for each in found)


def test_a_tar_damaged_in_the_middle_is_reported(tmp_path: Path) -> None:
    files = {f"g/{n}": letter(Message_ID=f"<{n}@x>") for n in range(1, 6)}
    raw = bytearray(packed(files))
    raw[2 * 1024 : 2 * 1024 + 100] = b"?" * 100
    (tmp_path / "t.tar").write_bytes(raw)
    found = loaded(tmp_path / "t.tar")
    assert ids(found)[:2] == ["1@x", "2@x"]
    [rest] = [item for item in found if isinstance(item, RejectedRecord)]
    assert b"<5@x>" in rest.raw


def test_links_in_a_tar_are_the_article_and_nothing_outside(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("a/1")
        member.size = len(letter(Newsgroups=None))
        archive.addfile(member, io.BytesIO(letter(Newsgroups=None)))
        for name, kind, target in (("b/7", tarfile.LNKTYPE, "a/1"), ("b/8", tarfile.SYMTYPE, "/etc/passwd")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, target
            archive.addfile(link)
    (tmp_path / "t.tar").write_bytes(out.getvalue())
    found = loaded(tmp_path / "t.tar")
    assert [item.values["newsgroup"] for item in found if isinstance(item, Row)] == ["a", "b"]
    [rejected] = [item for item in found if isinstance(item, RejectedRecord)]
    assert rejected.raw == b"/etc/passwd"


def test_a_directory_with_links_pipes_and_hidden_files(tmp_path: Path) -> None:
    spool(tmp_path / "d", {"1": letter(), ".overview": b"x"})
    (tmp_path / "d" / "2").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "d" / "3")
    assert ids(loaded(tmp_path / "d")) == ["1@x", "!2", "!3"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/1\xff", "wb") as file:
        file.write(letter(Newsgroups=None))
    [item] = loaded(tmp_path)
    assert isinstance(item, Row)
    assert item.values["newsgroup"] == "caf\\xe9"


def test_paths_that_cannot_be_read_are_said_before_anything(tmp_path: Path) -> None:
    spool(tmp_path / "d", {"1": letter()})
    os.mkfifo(tmp_path / "pipe")
    for bad, error in (("nowhere", NotFound), ("pipe", ExtractionError)):
        with pytest.raises(error, match=bad):
            read_mail([tmp_path / "d", tmp_path / bad], newsgroup=None, timing=Timing(), at=AT)
    with pytest.raises(Refused):
        read_mail([], newsgroup=None, timing=Timing(), at=AT)
    with pytest.raises(Refused, match="size"):
        read_mail([tmp_path / "d"], newsgroup=None, timing=Timing("size"), at=AT)


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert loaded(tmp_path / "empty") == []


def test_many_sources_need_few_open_files(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spool(tmp_path, {f"m{n}.mbox": mbox([letter(Message_ID=f"<{n}@x>")] * 2) for n in range(150)})
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
    try:
        assert len(loaded(tmp_path, ts_from="date", ts_order="arrival")) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_large_mbox_is_not_held(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "box"
    with path.open("wb") as file:
        for n in range(2_000):
            file.write(ENVELOPE + letter(("x" * 900 + "\n") * 10, Message_ID=f"<{n}@x>") + b"\n")
    tracemalloc.start()
    count = sum(1 for _ in read_mail([path], newsgroup=None, timing=Timing("date", "arrival"), at=AT))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2_000
    assert peak < 4 << 20
