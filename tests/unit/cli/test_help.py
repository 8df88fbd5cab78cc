"""Every command teaches itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer.main

from weft.cli.app import app


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, each in getattr(command, "commands", {}).items():
        yield (*path, name)
        yield from _commands(each, (*path, name))


COMMANDS = sorted(_commands(typer.main.get_command(app)))
GROUPS = (("loads",), ("table",), ("channel",), ("ingest",), ("quarantine",), ("source",), ("view",))
"""Commands that are nothing but others."""


def test_the_commands_of_the_main_job_are_there() -> None:
    wanted = (
        "init prepare doctor tables describe try shell explain install tick run results queries show pause resume "
        "remove demo"
    )
    assert {(name,) for name in wanted.split()} <= set(COMMANDS)
    assert {("ingest", "mail"), ("ingest", "file"), ("quarantine", "list"), ("quarantine", "retry")} <= set(COMMANDS)
    assert {("bench", "tapestry"), ("bench", "commands")} <= set(COMMANDS)


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_help_ends_with_an_example(command: tuple[str, ...], weft: Callable[..., Any]) -> None:
    told = weft(*command, "--help")
    assert told.code == 0
    assert "Example:" in told.out
    assert "weft " in told.out.split("Example:")[1]


@pytest.mark.parametrize(
    "command",
    # What runs on files alone has none.
    [c for c in COMMANDS if c not in GROUPS and c not in (("prepare",), ("monitor",)) and c[0] != "bench"],
    ids=" ".join,
)
def test_every_command_knows_the_home(command: tuple[str, ...], weft: Callable[..., Any]) -> None:
    assert "--home" in weft(*command, "--help").out
