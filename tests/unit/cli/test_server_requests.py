"""Requests of another form than the client's are refused with 400 and the reason; nothing runs."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from unit.cli.test_server import _serving
from weft.api.weft import Weft
from weft.cli import _through_server
from weft.cli.app import run
from weft.cli.server import address
from weft.cli.server.address import server_folder
from weft.cli.server.listen import listening
from weft.errors import Conflict, StorageError

GOOD: dict[str, Any] = {
    "key": "k",
    "arguments": ["tables"],
    "home": "weft-home",
    "folder": ".",
    "user": None,
    "width": 80,
    "height": 25,
    "variables": {},
    "terminals": [False, False, False],
    "encodings": ["utf-8", "utf-8"],
    "stdin": None,
}
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x\0y",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
    ["x", 1],
    [None] * 3,
)


@pytest.fixture
def served(home: Path) -> Iterator[Path]:
    assert run(["init"]) == 0
    with _serving(home):
        yield home


@contextmanager
def _line(home: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(str(Path(server_folder(home)) / "socket"))
        yield line


def _raw(home: Path, sent: bytes, *, whole: bool = False) -> bytes:
    """What is answered to these bytes; unless they are a whole request the connection is closed after them."""
    answer = b""
    with _line(home) as line, suppress(ConnectionError):
        line.sendall(sent)
        if not whole:
            line.shutdown(socket.SHUT_WR)
        while part := line.recv(65_536):
            answer += part
    return answer


def _posted(home: Path, about: str, body: bytes) -> tuple[int, bytes]:
    head = f"POST {about} HTTP/1.1\r\nHost: weft\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = _raw(home, head.encode() + body, whole=True)
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split()[1]), rest


def _requires_no_traceback(home: Path) -> None:
    log = home / "logs" / "serve.log"
    said = log.read_text() if log.exists() else ""
    assert "Traceback" not in said, said
    log = home / "logs" / "weft.log"
    assert not log.exists(), log.read_text()


def test_bodies_of_another_form_are_refused_with_the_reason(served: Path) -> None:
    for about in ("/greeting", "/command", "/interrupt", "/reload"):
        for body in (b"", b"\xff\xfe", b"{", b"[]", b"null", b'"x"', b"[" * 100_000, b"1" * 10_000, b"{}"):
            code, output = _posted(served, about, body)
            assert (code, bool(output)) == (400, True), (about, body[:20], output)
    for name in GOOD:
        code, output = _posted(served, "/command", json.dumps({k: v for k, v in GOOD.items() if k != name}).encode())
        assert (code, name.encode() in output) == (400, True)
    for field in ({"encodings": ["hex", "utf-8"]}, {"width": 10**9}, {"height": 10**9}):
        code, output = _posted(served, "/command", json.dumps({**GOOD, **field}).encode())
        assert (code, next(iter(field)).encode() in output) == (400, True)
    code, output = _posted(served, "/command", json.dumps(GOOD).encode())
    assert (code, b'{"end": 0}' in output) == (200, True)
    _requires_no_traceback(served)


@pytest.mark.parametrize("seed", range(3))
def test_random_json_is_run_or_refused(served: Path, seed: int) -> None:
    chance = random.Random(seed)
    codes = set()
    for _ in range(60):
        request = {**GOOD, **{name: chance.choice(ODD) for name in chance.sample(sorted(GOOD), chance.randint(1, 3))}}
        code, output = _posted(served, "/command", json.dumps(request).encode())
        codes.add(code)
        assert code in (200, 400), (request, output)
        assert code == 400 or json.loads(output.split(b"\n")[-2] if output[:1] == b"{" else _last(output)), output
    assert codes == {200, 400}
    _requires_no_traceback(served)
    assert _through_server(["tables"]) == 0


def _last(chunked: bytes) -> bytes:
    """The last line of JSON of an answer in chunks."""
    return next(part for part in reversed(chunked.split(b"\r\n")) if part.startswith(b"{")).splitlines()[-1]


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_hinder_nobody(served: Path, seed: int) -> None:
    chance = random.Random(seed)
    body = json.dumps(GOOD).encode()
    whole = b"POST /command HTTP/1.1\r\nHost: weft\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for _ in range(60):
        sent = bytearray(whole if chance.random() < 0.7 else chance.randbytes(chance.randint(0, 300)))
        for _ in range(chance.randint(0, 4)):
            if sent:
                sent[chance.randrange(len(sent))] = chance.randrange(256)
        _raw(served, bytes(sent[: chance.randint(0, len(sent))]) if chance.random() < 0.5 else bytes(sent))
    assert _through_server(["tables"]) == 0
    _requires_no_traceback(served)


def test_a_request_that_ends_early_and_two_with_one_key_hinder_nobody(served: Path) -> None:
    with _line(served) as line:
        line.sendall(b"POST /command HTTP/1.1\r\nHost: weft\r\nContent-Length: 100\r\n\r\n{")
    body = json.dumps(GOOD).encode()
    with _line(served) as first, _line(served) as second:
        for line in (first, second):
            line.sendall(b"POST /command HTTP/1.1\r\nHost: weft\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        for line in (first, second):
            assert line.recv(100).startswith(b"HTTP/1.1 200")
    assert _through_server(["tables"]) == 0
    _requires_no_traceback(served)


def test_a_server_that_refuses_a_request_leaves_the_command_to_this_process(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.cli.server.client._size", lambda: (0, 0))
    assert _through_server(["tables"]) is None


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_foreign_file_where_the_socket_goes_is_refused_and_stays(home: Path, kind: str) -> None:
    assert run(["init"]) == 0
    Path(server_folder(home)).mkdir(parents=True)
    foreign, there = home.parent / "notes.txt", Path(server_folder(home)) / address.SOCKET
    foreign.write_text("mine")
    if kind == "file":
        there.write_text("mine")
    elif kind == "folder":
        there.mkdir()
    else:
        there.symlink_to(foreign)
    with (
        Weft.open(home),
        pytest.raises(Conflict, match="another file has the path of the server's socket"),
        listening(home),
    ):
        pass
    assert foreign.read_text() == "mine"
    assert there.exists()


def test_a_socket_of_another_program_is_refused_and_stays(home: Path) -> None:
    assert run(["init"]) == 0
    Path(server_folder(home)).mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(Path(server_folder(home)) / address.SOCKET))
        other.listen()
        with Weft.open(home), pytest.raises(Conflict, match="another program listens"), listening(home):
            pass
        assert (Path(server_folder(home)) / address.SOCKET).is_socket()


def test_a_lock_that_is_a_link_is_refused_and_what_it_names_stays(home: Path) -> None:
    assert run(["init"]) == 0
    Path(server_folder(home)).mkdir(parents=True)
    foreign = home.parent / "notes.txt"
    foreign.write_text("mine")
    (Path(server_folder(home)) / address.LOCK).symlink_to(foreign)
    with Weft.open(home), pytest.raises(StorageError, match="lock"), listening(home):
        pass
    assert foreign.read_text() == "mine"
