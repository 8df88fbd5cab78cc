"""An error in the delivery of one query is recorded for its subscription. The messages of the others are sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft.delivery import delta, feed, file, outbox, program
from weft.delivery.mail import channel as mail
from weft.delivery.mail import mailbox
from weft.delivery.webhook import channel as webhook
from weft.errors import LeaseLost, StorageError
from weft.storage import ledger

SETTINGS = """
[smtp]
host = "localhost"
from = "weft@example.com"
[webhook]
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
private = true
[exec]
commands = ["true"]
"""
RENDERED = {
    "file:bad.jsonl": (file, "json_line"),
    "file:bad.csv": (file, "csv_line"),
    "delta:bad": (delta, "append_answers"),
    "feed:bad": (feed, "entry_of"),
    "exec:true": (program, "json_line"),
    "email:a@example.com": (mail, "letter"),
    "imap://localhost:9/bad?tls=off": (mailbox, "letter"),
    "webhook:https://localhost:9/x": (webhook, "answers_json"),
    "webhook:https://localhost:9/x#as=slack": (webhook, "text_json"),
}
ERRORS = (RuntimeError("injected"), KeyError("injected"), OSError(5, "injected"))


def raising(error: BaseException) -> Callable[..., Any]:
    def injected(*_: Any, **__: Any) -> Any:
        raise error

    return injected


def two(site: Any, channel: str) -> tuple[int, int]:
    """A query whose delivery fails, installed before one whose answers go to a program."""
    (site.home / "weft.toml").write_text(SETTINGS)
    bad, good = site.install("bad", channel), site.install("good", "delta:good")
    for each in (bad, good):
        site.tick(each, 3)
    return bad, good


@pytest.mark.parametrize("channel", RENDERED)
def test_what_rendering_raises_stops_no_other_query(channel: str, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ERRORS[list(RENDERED).index(channel) % len(ERRORS)]
    if channel == "delta:bad":
        usual = delta.append_answers
        two(site, channel)

        def append(place: Any, answers: Any, rows: Any) -> Any:
            if answers.name == "bad":
                raise error
            return usual(place, answers, rows)

        patched: Any = append
    else:
        two(site, channel)
        patched = raising(error)
    with monkeypatch.context() as patch:
        patch.setattr(*RENDERED[channel], patched)
        result = {each.query_name: each for each in site.deliver()}
    assert (result["good"].rows, result["good"].error) == (3, None)
    assert result["bad"].rows == 0 and not result["bad"].parked
    assert "injected" in (result["bad"].error or "")
    (waiting,) = (each for each in site.catalog.subscriptions.all() if each.last_error)
    assert "injected" in (waiting.last_error or "") and waiting.next_attempt_at is not None
    assert not [each for each in site.catalog.outbox.unsent() if each.state == "pending"]
    if channel.startswith(("file:", "delta:", "feed:", "exec:")):
        (again,) = site.deliver(waiting.next_attempt_at)
        assert (again.rows, again.error) == (3, None)
    if channel == "file:bad.jsonl":
        assert site.ordinals("bad.jsonl") == [1, 2, 3]


@pytest.mark.parametrize("step", ["prepare", "open", "rows"])
def test_what_the_other_steps_raise_stops_no_other_query(step: str, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    two(site, "file:bad.jsonl")
    usual_rows, usual_open = outbox.read_rows, outbox.open_channel
    with monkeypatch.context() as patch:
        match step:
            case "prepare":
                patch.setattr(file.FileChannel, "prepare", raising(RuntimeError("injected")))
            case "open":

                def opened(text: str, *home: Any) -> Any:
                    if text == "file:bad.jsonl":
                        raise RuntimeError("injected")
                    return usual_open(text, *home)

                patch.setattr(outbox, "open_channel", opened)
            case "rows":

                def read(data: Any, query: Any, *given: Any) -> Any:
                    yield from usual_rows(data, query, 0, 1)
                    if query.name == "bad":
                        raise KeyError("injected")
                    yield from usual_rows(data, query, 1)

                patch.setattr(outbox, "read_rows", read)
        result = {each.query_name: each for each in site.deliver()}
    assert (result["good"].rows, result["good"].error) == (3, None)
    assert result["bad"].rows == 0 and "injected" in (result["bad"].error or "")
    (waiting,) = (each for each in site.catalog.subscriptions.all() if each.last_error)
    (again,) = site.deliver(waiting.next_attempt_at)
    assert (again.rows, again.error) == (3, None)
    assert site.ordinals("bad.jsonl") == [1, 2, 3]


@pytest.mark.parametrize(
    ("channel", "where"), [("email:a@example.com", mail), ("webhook:https://localhost:9/x", webhook)]
)
def test_a_message_that_may_have_gone_is_not_taken_for_undone(
    channel: str, where: Any, site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(site, channel)
    with monkeypatch.context() as patch:
        patch.setattr(where, "submit" if where is mail else "post", raising(RuntimeError("injected")))
        result = {each.query_name: each for each in site.deliver()}
    assert (result["good"].rows, result["good"].error) == (3, None)
    (bad,) = (each for each in site.catalog.subscriptions.all() if each.last_error)
    assert "may have been sent" in (bad.last_error or "")


@pytest.mark.parametrize("error", [LeaseLost("injected"), StorageError("injected"), KeyboardInterrupt()])
def test_an_error_of_the_home_is_raised(error: BaseException, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    two(site, "file:bad.jsonl")
    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(ledger, "_decoded", raising(error))
        site.deliver()
    assert not [each for each in site.catalog.subscriptions.all() if each.last_error]
    site.deliver()
    assert site.ordinals("bad.jsonl") == [1, 2, 3]


def test_a_query_that_is_removed_with_its_answers_meanwhile_stops_no_other(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, _ = two(site, "file:bad.jsonl")
    usual = outbox.read_rows

    def read(data: Any, query: Any, *given: Any) -> Any:
        if query.query_id == bad:
            site.writer.queries.remove("bad", 1, purge=True)
            raise StorageError("the answer 1 of bad is not in the ledger")
        yield from usual(data, query, *given)

    with monkeypatch.context() as patch:
        patch.setattr(outbox, "read_rows", read)
        result = {each.query_name: (each.rows, each.error) for each in site.deliver()}
    assert result == {"bad": (0, None), "good": (3, None)}
