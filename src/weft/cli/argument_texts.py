"""Check that every argument of every command is UTF-8 text.

Paths are exempt: a file that is read may have any name that the file system allows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from weft.printable import require_text


def check_arguments(app: typer.Typer) -> None:
    """Add the check to the commands of the application and its groups; it raises Refused for invalid text."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _checking(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            check_arguments(group.typer_instance)


def _checking(callback: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(callback)
    def checked(**arguments: Any) -> Any:
        for value in arguments.values():
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, str):
                    require_text(each, "an argument")
        return callback(**arguments)

    return checked
