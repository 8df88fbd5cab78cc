"""Commands on the server of WEFT_URL: the same output as on the machine of the home."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from weft.api.weft import Weft
from weft.cli import _through_server
from weft.cli.app import run
from weft.cli.server.door import command_route
from weft.cli.server.network import with_file_as_stdin
from weft.cli.server.server import LocalServer
from weft.web.serving import Address, page_served

Typed = Callable[..., tuple[int | None, str, str]]


@pytest.fixture
def made(home: Path) -> Path:
    for line in (
        ["init", "--clock", "replay"],
        ["table", "create", "votes", "id INT, who STRING"],
        ["tick", "--now", "2026-03-01"],
        ["append", "votes", "id=1", "who=zoë"],
        ["install", "q", "SELECT v.id, v.who FROM votes v", "--user", "anna", "--keep", "synopsis"],
        ["tick", "--now", "2026-03-02"],
    ):
        assert run(line) == 0
    return home


@pytest.fixture
def served(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of the home, which WEFT_URL names."""
    with Weft.open(made) as weft:
        server = LocalServer(weft, run)
        with page_served(weft, Address(port=0), lambda site: [command_route(server, site)]) as address:
            monkeypatch.setenv("WEFT_URL", address.url)
            monkeypatch.setenv("WEFT_TOKEN", address.page_key or "")
            yield address.url
        server.close()


@pytest.fixture
def typed(served: str, capsys: pytest.CaptureFixture[str]) -> Typed:
    """A function that types a command and returns its exit code and its output."""

    def call(*arguments: str) -> tuple[int | None, str, str]:
        capsys.readouterr()
        code = _through_server(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


COMMANDS = (
    "queries",
    "queries --json",
    "show q",
    "results q",
    "results q --json",
    "results q --csv",
    "tables",
    "describe votes",
    "describe results.q --json",
    "explain q",
    "why q 1",
    "why q 1 --json",
    "why q 9",
    "loads --json",
    "quarantine list",
    "deliveries",
    "views",
    "sources",
    "saved list",
    "show nothing",
    "show",
    "try SELECT",
)


def test_the_output_is_that_of_a_local_command(typed: Typed, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in COMMANDS:
        there = typed(*line.split())
        capsys.readouterr()
        code = run(line.split())
        here = capsys.readouterr()
        assert (there[0], there[1]) == (code, here.out), line
        if line != "show":  # the usage of a command is drawn in a box on its own terminal
            assert there[2] == here.err, line


def test_a_query_is_installed_from_a_file_paused_and_removed(typed: Typed) -> None:
    Path("late.sql").write_text("SELECT v.id FROM votes v -- zoë")
    code, out, err = typed("install", "late", "-f", "late.sql", "--user", "ben")
    assert (code, err) == (0, ""), err
    assert out.startswith("Installed late for ben")
    assert "zoë" in typed("show", "late")[1]
    assert typed("pause", "late")[0] == 0
    assert typed("remove", "late")[0] == 0


def test_rows_are_appended_from_a_file_and_from_stdin(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("votes.jsonl").write_text('{"id": 2, "who": "b"}\n')
    assert "1 stored" in typed("append", "votes", "--file=votes.jsonl")[1]
    assert "1 stored" in typed("append", "votes", "id=3")[1]
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"id": 4}\n{"id": 5}\n'))
    assert "2 stored" in typed("append", "votes", "-f", "-")[1]


REFUSED = {
    "ingest file votes.csv --table votes": "a path on your machine",
    "table attach x /etc": "a path on your machine",
    "source add x --kind csv --at /etc/passwd --key a": "a path on your machine",
    "results q --follow": "--follow works on the machine of the home only",
    "queries --home elsewhere": "--home names a folder",
    "config": "works on the machine of a home",
    "doctor": "works on the machine of a home",
    "init": "works on the machine of a home",
    "serve": "works on the machine of a home",
    "try -f missing.sql": "the file cannot be read",
}


def test_commands_that_need_the_machine_are_refused_over_the_network(typed: Typed) -> None:
    for line, words in REFUSED.items():
        code, out, err = typed(*line.split())
        assert (code, out) == (2, ""), line
        assert words in err
        assert "\n  " in err, "the message says what to do"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.org", "others could read your token"),
        ("ftp://127.0.0.1", "not the address of a server"),
        ("http://127.0.0.1:99999", "no valid port"),
        ("http://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_a_wrong_address_is_refused(typed: Typed, monkeypatch: pytest.MonkeyPatch, url: str, words: str) -> None:
    monkeypatch.setenv("WEFT_URL", url)
    code, _, err = typed("queries")
    assert code in (1, 2)
    assert words in err


def test_help_needs_no_server(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_URL", "http://127.0.0.1:1")
    assert typed("queries", "--help") == (None, "", "")
    assert typed() == (None, "", "")


def test_a_file_travels_as_stdin(home: Path) -> None:
    Path("a.sql").write_text("SELECT 1")
    for words in (["-f", "a.sql"], ["--file", "a.sql"], ["--file=a.sql"], ["-fa.sql"]):
        sent, stdin = with_file_as_stdin(["try", *words])
        assert stdin == "SELECT 1"
        assert "a.sql" not in " ".join(sent)
    assert with_file_as_stdin(["show", "--", "-f", "a.sql"]) == (["show", "--", "-f", "a.sql"], None)


def test_commands_do_what_the_user_of_the_token_may_do(
    typed: Typed, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Weft.open(made) as home:
        home.install("hidden", "SELECT v.id FROM votes v", user="anna")
        home.accounts.add_user("bo", "reader")
        home.accounts.grant("bo", "read", "results.q")
        token = home.accounts.create_token("bo").secret
    monkeypatch.delenv("WEFT_TOKEN")
    code, out, err = typed("queries")
    assert (code, out) == (2, "")
    assert "needs a token" in err
    assert "Set WEFT_TOKEN to a token from `weft token create`." in err
    assert "takes the key in its file page.key" in err
    monkeypatch.setenv("WEFT_TOKEN", token)
    assert [each["name"] for each in json.loads(typed("queries", "--json")[1])] == ["q"]
    assert "zoë" in typed("results", "q")[1]
    for line in (["results", "hidden"], ["show", "hidden"], ["explain", "hidden"]):
        assert typed(*line)[0] == 2
        assert "hidden" in typed(*line)[2]
    for line in (["install", "x", "SELECT v.id FROM votes v"], ["append", "votes", "id=9"], ["status"], ["pause", "q"]):
        assert typed(*line)[0] == 2, line
    assert "votes" not in typed("tables")[1]


def test_commands_over_tls(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "certificate", "key")}
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(files["ca"]))
    issued.private_key_pem.write_to_path(str(files["key"]))
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(files["certificate"]), append=number > 0)
    with Weft.open(made) as weft:
        server, address = LocalServer(weft, run), Address("localhost", 0, files["certificate"], files["key"])
        with page_served(weft, address, lambda site: [command_route(server, site)]) as there:
            monkeypatch.setenv("WEFT_URL", there.url)
            monkeypatch.setenv("WEFT_TOKEN", there.page_key or "")
            assert _through_server(["queries"]) == 1
            assert "SSL_CERT_FILE" in capsys.readouterr().err
            monkeypatch.setenv("SSL_CERT_FILE", str(files["ca"]))
            assert _through_server(["queries"]) == 0
            assert "anna" in capsys.readouterr().out
            monkeypatch.setenv("WEFT_URL", there.url.replace("localhost", "127.0.0.1"))
            assert _through_server(["queries"]) == 1
            refused = capsys.readouterr().err
            assert "Check the name of the server in WEFT_URL" in refused and "SSL_CERT_FILE" not in refused
        server.close()
