"""Every command teaches itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import typer.main

from weft.cli.app import app
from weft.cli.parsers import parser


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, each in getattr(command, "commands", {}).items():
        yield (*path, name)
        yield from _commands(each, (*path, name))


COMMANDS = sorted(_commands(typer.main.get_command(app)))
GROUPS = (
    ("loads",),
    ("table",),
    ("channel",),
    ("ingest",),
    ("quarantine",),
    ("source",),
    ("view",),
    ("user",),
    ("group",),
    ("token",),
    ("saved",),
)
"""Commands that are nothing but others."""


def test_the_commands_of_the_main_job_are_there() -> None:
    wanted = (
        "init prepare doctor tables describe try shell explain install tick run results queries show pause resume "
        "remove demo"
    )
    assert {(name,) for name in wanted.split()} <= set(COMMANDS)
    assert {("ingest", "mail"), ("ingest", "file"), ("quarantine", "list"), ("quarantine", "retry")} <= set(COMMANDS)
    assert {("bench", "tapestry"), ("bench", "commands")} <= set(COMMANDS)


def test_the_parser_of_one_command_is_that_of_all() -> None:
    def outline(command: Any) -> list[Any]:
        inner = getattr(command, "commands", {})
        return [command.name, [each.opts for each in command.params], *map(outline, inner.values())]

    every: Any = parser(app, [])
    assert sorted(_commands(every)) == COMMANDS
    for name, command in every.commands.items():
        part: Any = parser(app, [name, "--json"])
        assert outline(part) == [*outline(every)[:2], outline(command)]


def test_help_ends_with_an_example(weft: Callable[..., Any]) -> None:
    output = {command: weft(*command, "--help") for command in [(), *COMMANDS]}
    assert not [command for command, each in output.items() if each.code != 0]
    assert not [command for command, each in output.items() if "weft " not in each.out.partition("Example:")[2]]


def test_every_command_knows_the_home(weft: Callable[..., Any]) -> None:
    # What runs on files alone has none, and `weft copy` and `weft destroy` have it as an argument.
    on_files = {("copy",), ("destroy",), ("prepare",), ("monitor",)}
    commands = [each for each in COMMANDS if each not in GROUPS and each not in on_files and each[0] != "bench"]
    assert commands
    assert not [command for command in commands if "--home" not in weft(*command, "--help").out]
