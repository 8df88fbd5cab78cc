"""The command line: one file a group of commands; nothing heavy is loaded before a command needs it."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

_LASTING: Final = frozenset({"bench", "demo", "run", "serve", "shell"})
"""Commands whose JVM lives long enough for Java's optimizing compiler to pay for itself."""


def main() -> NoReturn:
    """Runs the command of this process, through the door of ``weft serve`` where the home has one.

    Exit code 0 for success, 2 for a refusal, 1 for a failure, 130 for Ctrl-C.
    """
    from weft.cli.server.address import command_first
    from weft.cli.terminal import escape_what_cannot_be_shown

    escape_what_cannot_be_shown()
    arguments = command_first(sys.argv[1:])
    code = _through_door(arguments)
    if code is None:
        code = _here(arguments)
    sys.exit(code)


def _here(arguments: list[str]) -> int:
    from weft.cli.app import run
    from weft.runtime.class_archive import make_in_background
    from weft.runtime.launch import expect_short_life

    if _LASTING.isdisjoint(arguments[:1]):
        expect_short_life()
    code = run(arguments)
    if code == 0:
        make_in_background()
    return code


def _through_door(arguments: list[str]) -> int | None:
    from weft.cli.server.address import door_of

    pointer = door_of(arguments, os.environ)
    if pointer is None:
        return None
    from weft.cli.server.client import INTERRUPTED, answered

    try:
        return answered(arguments, pointer)
    except KeyboardInterrupt:  # before the command was sent, or after its end
        return INTERRUPTED
