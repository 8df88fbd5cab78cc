"""Make the parser of the command that a command line names.

The parsers of the other commands are not made, because this would take longer than most commands run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache

import typer
from typer._click import Command
from typer.main import get_command, get_command_name
from typer.models import CommandInfo, TyperInfo


def parser(app: typer.Typer, arguments: Sequence[str]) -> Command:
    """Return the parser of the command or group that a command line names, else the parser of all commands."""
    return _parser(app, next((word for word in arguments[:1] if word in _parts(app)), None))


@cache
def _parser(app: typer.Typer, name: str | None) -> Command:
    if name is None:
        return get_command(app)
    part, own = copy(app), _parts(app)[name]
    part.registered_commands = [each for each in app.registered_commands if each is own]
    part.registered_groups = [each for each in app.registered_groups if each is own]
    return get_command(part)


@cache
def _parts(app: typer.Typer) -> Mapping[str, CommandInfo | TyperInfo]:
    """Return the commands and the groups of an application by name."""
    commands = {_name_of(each): each for each in app.registered_commands}
    return {**commands, **{str(each.name): each for each in app.registered_groups}}


def _name_of(command: CommandInfo) -> str:
    assert command.callback is not None
    return command.name or get_command_name(command.callback.__name__)
