"""Small files that become large as they are read: refused or in quarantine, in bounded memory.

Each load runs in a process of its own, whose greatest resident memory is measured.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MIB = 1 << 20
MOST = 800
"""MiB of memory that a load may take, most of it for Python's libraries and a few records of 64 MiB."""

LOAD = """
import json, sys
from weft.api.home import Weft
from weft.errors import WeftError
how, path = sys.argv[2:]
with Weft.open(sys.argv[1], create=True) as weft:
    try:
        if how == "file":
            done = weft.ingest_file(path, "t")
        elif how == "mail":
            done = weft.ingest_mail(path)
        elif how == "append":
            weft.make_table("t", "a STRING")
            done = weft.append("t", open(path, "rb"))
        else:
            done = weft.add_source("t", how, path, "id")
            weft.poll_source("t")
        told = f"stored {getattr(done, 'stored', 0)}, quarantined {getattr(done, 'quarantined', 0)}"
    except WeftError as error:
        told = f"{type(error).__name__}: {error}"
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([told, int(status["VmHWM"].split()[0]) // 1024]))
"""


def _repeated(pack: Callable[[bytes], bytes], block: bytes, times: int, head: bytes = b"", tail: bytes = b"") -> bytes:
    """Compressed bytes of ``head``, the block so many times, and ``tail``, as one stream after the other."""
    return (pack(head) if head else b"") + pack(block) * times + (pack(tail) if tail else b"")


def _zip(raw: bytes) -> bytes:
    return gzip.compress(raw, 1)


def _dictionary() -> bytes:
    """A text of a MiB, 3,000 times, of which the file has it once."""
    rows = pa.table({"id": range(3_000), "v": pa.DictionaryArray.from_arrays([0] * 3_000, ["x" * MIB])})
    return _parquet(rows)


def _parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()


def _tar(kind: bytes, size: int) -> bytes:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def _letter(head: str, body: str) -> str:
    return f"From: a@b.c\nMessage-ID: <1@b.c>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n{head}\n{body}"


LETTER = _letter("", "text\n").encode()
WIDE = "".join(json.dumps({"id": n, "x" * MIB + str(n): 1})[:MIB] + "\n" for n in range(3)) + json.dumps(
    {"x" * 90_000: 1}
)
FIELDS = "".join(json.dumps({"n": {f"a{n}": {f"b{m}": {"c": 1} for m in range(90)}}}) + "\n" for n in range(90))
DEEP = b'{"id": 1, "v": ' + b"[" * 400_000 + b"]" * 400_000 + b"}\n"
PARTS = "Content-Type: multipart/mixed; boundary=b\n"

BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "a line without end before the header": ("file", "x.csv.gz", lambda: _repeated(_zip, b"a" * 32 * MIB, 24)),
    "the same in bzip2": ("file", "x.csv.bz2", lambda: _repeated(bz2.compress, b"a" * 32 * MIB, 20)),
    "the same in xz": ("file", "x.csv.xz", lambda: _repeated(lzma.compress, b"a" * 32 * MIB, 20)),
    "xz with a large dictionary": (
        "file",
        "x.csv.xz",
        lambda: lzma.compress(b"a" * MIB, filters=[{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 30}]),
    ),
    "a line without end behind the header": (
        "file",
        "x.csv.gz",
        lambda: _repeated(_zip, b"a" * 32 * MIB, 20, b"id,v\n1,2\n"),
    ),
    "a record of many lines": (
        "file",
        "x.csv.gz",
        lambda: _repeated(_zip, (b'"' + b"a" * 100_000 + b'\n",') * 320, 24, b"id,v\n1,2\n"),
    ),
    "blank lines": ("file", "x.csv.gz", lambda: _repeated(_zip, b"\n" * 32 * MIB, 10, b"id,v\n1,2\n")),
    "long lines of JSON": (
        "file",
        "x.jsonl.gz",
        lambda: _repeated(_zip, (b'{"id": 1, "v": "' + b"a" * (MIB - 100) + b'"}\n') * 32, 24),
    ),
    "a line of JSON without end": ("file", "x.jsonl.gz", lambda: _repeated(_zip, b"[" * 32 * MIB, 20)),
    "deep JSON": ("file", "x.jsonl.gz", lambda: _repeated(_zip, DEEP * 10, 4, b'{"id": 1}\n')),
    "names of columns": ("file", "x.jsonl.gz", lambda: _zip(WIDE.encode())),
    "fields of a type": ("file", "x.jsonl.gz", lambda: _repeated(_zip, FIELDS.encode(), 3)),
    "gzip in gzip": ("file", "x.csv.gz", lambda: _zip(_zip(_repeated(_zip, b"a" * 32 * MIB, 10)))),
    "text of no encoding": ("file", "x.csv.gz", lambda: _repeated(_zip, b"\xff" * 32 * MIB, 20, b"id,v\n1,2\n")),
    "a Parquet dictionary": ("file", "x.parquet", _dictionary),
    "a Parquet value": ("file", "x.parquet", lambda: _parquet(pa.table({"v": pa.array(["x" * 300 * MIB])}))),
    "a mailbox without lines": (
        "mail",
        "x.mbox.gz",
        lambda: _repeated(_zip, b"a" * 32 * MIB, 20, b"From a\n" + LETTER),
    ),
    "an article without end": ("mail", "1.gz", lambda: _repeated(_zip, b"a\n" * 16 * MIB, 24, LETTER)),
    "a large header": ("mail", "1.gz", lambda: _repeated(_zip, b"a: b\n" * 2 * MIB, 6)),
    "many parts": ("mail", "1.gz", lambda: _zip(_letter(PARTS, "--b\n\n\n" * 4 * MIB).encode())),
    "many lines in parts": ("mail", "1.gz", lambda: _zip(_letter(PARTS, "--b\n\n" + "\n" * 50 * MIB).encode())),
    "a long name in tar": (
        "mail",
        "x.tar.gz",
        lambda: _repeated(_zip, b"a" * 32 * MIB, 24, _tar(tarfile.GNUTYPE_LONGNAME, 768 * MIB)),
    ),
    "a long header in tar": (
        "mail",
        "x.tar.gz",
        lambda: _repeated(_zip, b"9" * 32 * MIB, 24, _tar(tarfile.XHDTYPE, 768 * MIB)),
    ),
    "what follows in tar": ("mail", "x.tar.gz", lambda: _repeated(_zip, b"a" * 32 * MIB, 24, _tar(b"0", 0))),
    "a row to append": ("append", "x.jsonl", lambda: b'{"a": "' + b"a" * 800 * MIB + b'"}'),
    "a tracked file": ("csv", "x.csv.gz", lambda: _repeated(_zip, b"a" * 32 * MIB, 24)),
    "a tracked feed": ("changes", "x.jsonl.gz", lambda: _repeated(_zip, b"[" * 32 * MIB, 20)),
}


def _loaded(tmp_path: Path, how: str, name: str, raw: bytes) -> Iterator[str | int]:
    path = tmp_path / name
    path.write_bytes(raw)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path / "home"), how, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30)),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=240,
        check=False,
    )
    path.unlink()
    assert done.returncode == 0, done.stderr[-2000:]
    yield from json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the greatest resident memory is told by Linux")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_takes_bounded_memory(tmp_path: Path, bomb: str) -> None:
    how, name, made = BOMBS[bomb]
    told, peak = _loaded(tmp_path, how, name, made())
    assert int(peak) < MOST, told
    assert "MemoryError" not in str(told)
    print(f"{bomb}: {peak} MiB, {str(told)[:150]}")
