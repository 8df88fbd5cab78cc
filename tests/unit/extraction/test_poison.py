"""Whatever bytes there are: a row or a reason, never an exception, and text that any store takes."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from letters import AT, letter, read
from weft.extraction.files.text_records import CsvRecords, Dialect, json_records
from weft.extraction.mail.mbox import split_mbox

PIECES = st.lists(
    st.sampled_from(
        [
            b"From a@b Mon Apr  5 00:00:00 1993\n", b"From: x\n", b"Message-ID: <1@x>\n", b"Date: 5 Apr 93 00:00 GMT\n",
            b"Content-Type: multipart/mixed; boundary=b\n", b"Content-Type: text/plain; charset=", b"utf-8\n", b"--b\n",
            b"Content-Transfer-Encoding: base64\n", b"\n", b"\r\n", b"\0", b"\xff", b"=?utf-8?b?", b"?=", b"<", b">",
            b"References: ", b"Newsgroups: a,b\n", b"MIME-Version: 1.0\n", b"aGVsbG8=", b" ", b"--b--", b"\x85", b":",
        ]
    )
    | st.binary(max_size=12),
    max_size=30,
).map(b"".join)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(PIECES)
def test_any_bytes_give_rows_or_a_reason(raw: bytes) -> None:
    for message in (raw, letter(raw), letter() + raw):
        found = read(message)
        if isinstance(found, str):
            assert found
            continue
        for values in found:
            for value in values.values():
                if isinstance(value, str):
                    value.encode("utf-8")
                    assert "\0" not in value
            assert values["msgid"]
            assert isinstance(values["date"], int)
            assert 0 <= values["date"] <= AT + 86_400_000_000
            assert all(c >= " " for name in ("sender", "subject", "newsgroup") for c in str(values[name] or ""))


@settings(max_examples=200, deadline=None)
@given(PIECES)
def test_an_mbox_gives_back_its_bytes(raw: bytes) -> None:
    records = list(split_mbox(io.BufferedReader(io.BytesIO(raw))))
    given_back = b"".join(record.raw for record in records)
    # Nothing but blank lines may be missing.
    assert [line for line in given_back.split(b"\n") if line.strip()] == [
        line for line in raw.split(b"\n") if line.strip()
    ]


LINES = st.lists(
    st.sampled_from([b'"', b",", b"\n", b"\r\n", b"a", b"\0", b"\xff", b"{", b"}", b'"a":', b"1", b"[", b"\\", b"\r"])
    | st.binary(max_size=5),
    max_size=40,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_csv_and_json_lines_give_back_their_bytes(raw: bytes) -> None:
    for records in (
        CsvRecords(io.BufferedReader(io.BytesIO(raw)), Dialect()),
        json_records(io.BufferedReader(io.BytesIO(raw))),
    ):
        found = list(records)
        given_back = b"".join(record.raw for record in found)
        kept = raw.removeprefix(b"\xef\xbb\xbf")
        assert b"".join(given_back.split()) == b"".join(kept.split())
        assert all((record.cells is None) == (record.problem is not None) or record.problem for record in found)
