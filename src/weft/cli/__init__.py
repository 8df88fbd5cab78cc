"""The command line, with one module for each group of commands.  Modules that import slowly are loaded on demand."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Final, NoReturn

_LONG_RUNNING: Final = frozenset({"bench", "demo", "run", "serve", "shell"})
"""The long-running commands, which benefit from Java's optimizing compiler."""
_ALLOCATIONS: Final = 300_000
"""The number of new objects after which a short command collects garbage. The imports make many objects and no
garbage: with Python's number, 700, collections take a tenth of the time of such a command."""
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C."""


def main() -> NoReturn:
    """Run the command of this process.  If the home has a server (``weft serve``), the server runs the command."""
    try:
        code = _run()
    except KeyboardInterrupt:  # while modules are imported, or after the command ended
        code = INTERRUPTED
    # At its end, Python looks for garbage in all objects, which takes a quarter of the time of a short command. DuckDB
    # prints a list of its objects that Python has not freed, so a process with DuckDB needs this search.
    if "duckdb" not in sys.modules:
        gc.freeze()
    sys.exit(code)


def _run() -> int:
    from weft.cli.server.address import command_first
    from weft.cli.terminal import escape_unencodable

    escape_unencodable()
    arguments = command_first(sys.argv[1:])
    code = _through_server(arguments)
    return _in_this_process(arguments) if code is None else code


def _in_this_process(arguments: list[str]) -> int:
    short = _LONG_RUNNING.isdisjoint(arguments[:1])
    if short:
        gc.set_threshold(_ALLOCATIONS)
    from weft.cli.app import run
    from weft.runtime.class_archive import make_in_background
    from weft.runtime.launch import expect_short_life

    if short:
        expect_short_life()
    if arguments[:1] == ["bench"]:  # remove the folder and end the processes, as on Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(arguments)
    if code == 0:
        make_in_background()
    return code


def _through_server(arguments: list[str]) -> int | None:
    from weft.cli.server.address import server_pointer

    if os.environ.get("WEFT_URL"):
        from weft.cli.server.network import run_over_network

        return run_over_network(arguments)
    pointer = server_pointer(arguments, os.environ)
    if pointer is None:
        return None
    from weft.cli.server.client import run_on_server

    return run_on_server(arguments, pointer)
