"""Small files that become large as they are read are refused or quarantined, in bounded memory.

With a sixteenth of the limits, a bomb of an eighth of the size proves the same; those of full size are slow.  Each load
runs in a process of its own, forked from one that has imported everything, and its peak resident memory is measured.

The peak of a load within the bound has three parts: about 140 MiB for the libraries' pages that the first rows touch,
up to 90 MiB for the rows on their way from the file to the table, and what the limits allow, which the scale divides.
The rows on their way depend on the number of threads and on how they are scheduled, so the loads run with two threads
of each kind, whatever the machine has, and the bound leaves 60 MiB for chance.  A bomb held whole exceeds it by far.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MIB = 1 << 20
LIBRARIES = 160
"""MiB of memory that a load of a few rows takes after all modules are imported."""
CHANCE = 60
"""MiB by which the peaks of equal loads may differ."""
MOST = 1600
"""MiB of memory beyond these that a load may take with the limits of full size."""

FEW_THREADS = {
    "MALLOC_ARENA_MAX": "2",
    "OMP_NUM_THREADS": "2",  # of Arrow
    "RAYON_NUM_THREADS": "2",
    "TOKIO_WORKER_THREADS": "2",  # of delta-rs
    "GLIBC_TUNABLES": "",  # run.py keeps more free memory
}
SERVER = """
import gzip, importlib, json, os, pkgutil, sys
from contextlib import closing

import pyarrow
pyarrow.scalar(False)  # imports pandas

def lowered(module, *names):
    for name in names:
        assert getattr(module, name) // scale
        setattr(module, name, getattr(module, name) // scale)

scale = int(sys.argv[1])
os.cpu_count = lambda: 2
import weft.extraction.batches
lowered(weft.extraction.batches, "MAX_LINE", "MAX_RECORD", "MAX_BYTES")
weft.extraction.batches.batches_of.__kwdefaults__["max_bytes"] //= scale
import weft.api.weft, weft.extraction
for each in pkgutil.walk_packages(weft.extraction.__path__, "weft.extraction."):
    importlib.import_module(each.name)
from weft.extraction import byte_streams, logs
from weft.extraction.files import bulk, csv_pieces, parquet_pieces, text_records
from weft.extraction.mail import message, tar_archive
lowered(byte_streams, "_XZ_MEMORY")
lowered(logs, "_MOST_TEXT")
lowered(bulk, "BYTES")
lowered(csv_pieces, "CHUNK", "SMALLEST")
lowered(parquet_pieces, "MAX_PAGE")
lowered(text_records, "_MOST_LINES")
lowered(message, "MAX_HEADER", "MAX_LINES", "MAX_PARTS")
lowered(tar_archive, "_LEAST_ROOM")
from weft.api.weft import Weft
from weft.errors import WeftError

def loaded(home, how, path):
    with Weft.open(home, create=True) as weft:
        try:
            if how == "whole":
                return f"held {len(gzip.open(path).read())}"
            if how == "file":
                done = weft.ingest_file(path, "t")
            elif how == "mail":
                done = weft.ingest_mail(path)
            elif how == "log":
                done = weft.ingest_log(path, path)
            elif how == "append":
                weft.make_table("t", "a STRING")
                done = weft.append("t", open(path, "rb"))
            else:
                weft.add_source("t", how, path, "id")
                done = weft.poll_source("t")
            reasons = sorted({each.reason for each in weft.quarantined()})
            return f"stored {getattr(done, 'stored', 0)}; {', '.join(reasons)}"
        except WeftError as error:
            return f"{type(error).__name__}: {error}"

def memory(which):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status[which].split()[0]) // 1024

for line in sys.stdin:
    if os.fork():
        os.wait()
        continue
    before = memory("VmRSS")
    outcome = loaded(*json.loads(line))
    print(json.dumps([outcome, memory("VmHWM") - before]), flush=True)
    os._exit(0)
"""


@dataclass
class Loading:
    """A process that forks for each load; its limits are ``scale`` times smaller."""

    scale: int
    process: subprocess.Popen[str]

    def load(self, home: Path, how: str, path: Path) -> tuple[str, int]:
        """What is said of the load, and the memory it took in MiB."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([str(home), how, str(path)]) + "\n")
        self.process.stdin.flush()
        result, memory = json.loads(self.process.stdout.readline())
        return result, memory


@pytest.fixture(scope="module", params=[16, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
def loading(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loading]:
    folder = tmp_path_factory.mktemp("temporary")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(request.param)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **FEW_THREADS, "TMPDIR": str(folder)},
    ) as process:
        yield Loading(request.param, process)
        assert process.stdin is not None
        process.stdin.close()


def bomb_size(scale: int) -> int:
    """Bytes that a bomb becomes: 2 GiB, or 256 MiB where the limits are a sixteenth."""
    return 2048 * MIB // max(1, scale // 2)


def bound(scale: int) -> int:
    """MiB of memory that a load may take."""
    return LIBRARIES + CHANCE + MOST // scale


Pack = Callable[[bytes], bytes]


def _zip(raw: bytes) -> bytes:
    return gzip.compress(raw, 1)


def _xz(raw: bytes) -> bytes:
    return lzma.compress(raw, preset=0)


def _as_is(raw: bytes) -> bytes:
    return raw


def _stream(
    unit: bytes, head: bytes = b"", pack: Pack = _zip, size: Callable[[int], int] = bomb_size
) -> Callable[[int], bytes]:
    """``head`` and then the unit until it is a bomb, packed as one stream after the other."""

    def made(scale: int) -> bytes:
        block = unit * max(1, 8 * MIB // len(unit))
        return (pack(head) if head else b"") + pack(block) * (size(scale) // len(block))

    return made


def _lines(
    line: Callable[[int], bytes], head: bytes = b"", size: Callable[[int], int] = bomb_size
) -> Callable[[int], bytes]:
    """As ``_stream``, of lines that are almost as long as is allowed."""
    return lambda scale: _stream(line(MIB // scale), head, size=size)(scale)


def texts_of(scale: int) -> int:
    """How many texts as long as a line may be make a bomb."""
    return bomb_size(scale) // (MIB // scale)


def _parquet(values: Callable[[pa.Array], pa.Array]) -> Callable[[int], bytes]:
    """A text of a MiB that the file has once, in many rows."""

    def made(scale: int) -> bytes:
        count = texts_of(scale)
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), ["x" * (MIB // scale)])
        column = values(texts)
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": range(len(column)), "v": column}), sink, compression="zstd")
        return sink.getvalue()

    return made


def _lists(texts: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(range(0, len(texts) + 1, 4), texts)


def _maps(texts: pa.Array) -> pa.Array:
    structs = pa.StructArray.from_arrays([texts], ["a"])
    return pa.MapArray.from_arrays(range(len(texts) + 1), pa.array(["k"] * len(texts)), structs)


def _page(scale: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": pa.array(["x" * (1280 * MIB // scale)])}), sink, compression="zstd")
    return sink.getvalue()


def _row(scale: int) -> bytes:
    return b'{"a": "' + b"a" * (bomb_size(scale)) + b'"}'


def _member(kind: bytes, scale: int, size: int | None = None) -> bytes:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, bomb_size(scale) if size is None else size
    return member.tobuf(tarfile.GNU_FORMAT)


def _tar(kind: bytes, unit: bytes, size: int | None = None, pack: Pack = _as_is) -> Callable[[int], bytes]:
    return lambda scale: _stream(unit, _member(kind, scale, size), pack)(scale)


def _letter(head: str, body: str) -> bytes:
    return f"From: a@b.c\nMessage-ID: <1@b.c>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n{head}\n{body}".encode()


LETTER = _letter("", "text\n")
PARTS = "Content-Type: multipart/mixed; boundary=b\n"
ROW = b"id,v\n1,2\n"
FIELDS = "".join(json.dumps({"n": {f"a{n}": {f"b{m}": {"c": 1} for m in range(90)}}}) + "\n" for n in range(90))
LONG = "a line of more than"
LARGE = "larger than"


def _wide(scale: int) -> bytes:
    """Each line has another column, whose name is almost a line long."""
    return _zip(b"".join(b'{"id": 1, "' + b"x" * (MIB // scale - 100) + b'%d": 1}\n' % n for n in range(9)))


def _deep(size: int) -> bytes:
    return b'{"id": 1, "v": ' + b"[" * (size // 2 - 50) + b"]" * (size // 2 - 50) + b"}\n"


def _many_lines(size: int) -> bytes:
    """A record whose quotes span as many lines as it may have."""
    return b'"' + b"a" * (size // 4) + b'\n",'


def _header(scale: int) -> bytes:
    return _zip(b"a: b\n" * (11 * MIB // scale))


def _parts(body: str) -> Callable[[int], bytes]:
    return lambda scale: _zip(_letter(PARTS, "--b\n\n" + body * (48 * MIB // scale // len(body))))


def _large_dictionary(_: int) -> bytes:
    return lzma.compress(b"a" * MIB, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 29}])


BOMBS: dict[str, tuple[str, str, Callable[[int], bytes], str]] = {
    "a line without end before the header": ("file", "x.csv.gz", _stream(b"a"), LONG),
    "the same in bzip2": ("file", "x.csv.bz2", _stream(b"a", pack=bz2.compress), LONG),
    "the same in xz": ("file", "x.csv.xz", _stream(b"a", pack=_xz), LONG),
    "xz with a large dictionary": ("file", "x.csv.xz", _large_dictionary, "no header line"),
    "a line without end behind the header": ("file", "x.csv.gz", _stream(b"a", ROW), LONG),
    "records of many lines": ("file", "x.csv.gz", _lines(_many_lines, ROW), "invalid CSV"),
    "long lines of JSON": (
        "file",
        "x.jsonl.gz",
        _lines(lambda size: b'{"v": "%s"}\n' % (b"a" * (size - 99))),
        "stored {texts}",
    ),
    "a line of JSON without end": ("file", "x.jsonl.gz", _stream(b"["), "the file has no columns"),
    "deep JSON": ("file", "x.jsonl.gz", _lines(_deep, b'{"id": 1}\n'), "invalid JSON"),
    "names of columns": ("file", "x.jsonl.gz", _wide, "Refused"),
    "fields of a type": ("file", "x.jsonl.gz", lambda _: _zip(FIELDS.encode()) * 3, "stored 270"),
    "gzip in gzip": ("file", "x.csv.gz", lambda scale: _zip(_zip(_stream(b"a")(scale))), "no header line"),
    "text of no encoding": ("file", "x.csv.gz", _stream(b"\xff", ROW), LONG),
    "a dictionary of Parquet": ("file", "x.parquet", _parquet(lambda texts: texts), "stored {texts}"),
    "a dictionary in lists": ("file", "x.parquet", _parquet(_lists), "stored {lists}"),
    "a dictionary in maps of structs": ("file", "x.parquet", _parquet(_maps), "stored {texts}"),
    "a list longer than a record": (
        "file",
        "x.parquet",
        _parquet(lambda texts: pa.ListArray.from_arrays([0, len(texts)], texts)),
        "the limit is",
    ),
    "a page of Parquet": ("file", "x.parquet", _page, "a page of"),
    "a mailbox without lines": ("mail", "x.mbox.gz", _stream(b"a", b"From a\n" + LETTER), LARGE),
    "a mailbox of many lines": ("mail", "x.mbox.gz", _stream(b"a" * 255 + b"\n", b"From a\n" + LETTER), LARGE),
    "an article without end": ("mail", "1.gz", _stream(b"a\n", LETTER), LARGE),
    "a news folder": ("mail", "news/group/1.gz", _stream(b"a\n", LETTER), LARGE),
    "a maildir": ("mail", "mail/cur/1:2,S", _stream(b"a\n", LETTER), LARGE),
    "a large header": ("mail", "1.gz", _header, "a header of more than"),
    "many parts": ("mail", "1.gz", _parts("--b\n\n\n"), "may start a part"),
    "many lines in parts": ("mail", "1.gz", _parts("\n"), "may start a part"),
    "a long name in tar": ("mail", "x.tar", _tar(tarfile.GNUTYPE_LONGNAME, b"a"), "no valid member header"),
    "a long header in tar": ("mail", "x.tar", _tar(tarfile.XHDTYPE, b"9"), "no valid member header"),
    "what follows in tar": ("mail", "x.tar", _tar(tarfile.REGTYPE, b"a", 0), "could be read"),
    "an archive that fills the disk": (
        "mail",
        "x.tar.gz",
        _tar(tarfile.REGTYPE, b"a", pack=_zip),
        "the decompressed archive is larger than",
    ),
    "a log without lines": ("log", "x.log.gz", _stream(b"a"), "MiB of text"),
    "a row to append": ("append", "x.jsonl", _row, LONG),
    "a tracked file": ("csv", "x.csv.gz", _stream(b"a"), LONG),
    "a tracked file of long lines": ("csv", "x.csv.gz", _stream(b"a", b"id,v\n1,2\n"), LONG),
    "a tracked feed": ("changes", "x.jsonl.gz", _stream(b"["), "the file has no columns"),
}


LIKE_OTHERS = (
    "the same in bzip2", "the same in xz", "records of many lines", "deep JSON", "gzip in gzip", "a news folder",
    "a maildir", "many lines in parts", "a tracked file", "a tracked feed",
)  # fmt: skip
"""Bombs that the same code meets as others. Only ``make test-long`` loads them."""

measured = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak resident memory is read from Linux"
)


@measured
@pytest.mark.parametrize(
    "bomb", [pytest.param(each, marks=pytest.mark.slow) if each in LIKE_OTHERS else each for each in BOMBS]
)
def test_a_bomb_takes_bounded_memory(tmp_path: Path, loading: Loading, bomb: str) -> None:
    how, name, made, expected = BOMBS[bomb]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made(loading.scale))
    result, memory = loading.load(tmp_path / "home", how, tmp_path / Path(name).parts[0])
    path.unlink()
    print(f"{bomb}: {memory} MiB, {result[:200]}")
    texts = texts_of(loading.scale)
    assert expected.format(texts=texts, lists=texts // 4) in result
    assert memory < bound(loading.scale), result


@measured
def test_a_bomb_held_whole_exceeds_the_bound(tmp_path: Path, loading: Loading) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(_stream(b"a")(loading.scale))
    result, memory = loading.load(tmp_path / "home", "whole", path)
    assert result == f"held {bomb_size(loading.scale)}"
    assert memory > bound(loading.scale)
