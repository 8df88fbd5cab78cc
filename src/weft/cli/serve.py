"""The command ``serve``."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from weft.cli.frame import HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import echo, print_json
from weft.cli.ticks import PollOption, keep_ticking, print_maintenance, print_retry
from weft.cli.troubles import INTERRUPTED, run
from weft.instants import parse_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from weft.api.weft import Weft
    from weft.schedule.runner import Stop

ColdOption = Annotated[
    bool,
    typer.Option(
        "--no-rehearsal",
        help="Do not rehearse after the start. A rehearsal ticks a small temporary home some twenty times while no "
        "command runs, so that Java compiles frequent code and later commands are fast.",
    ),
]

ReloadOption = Annotated[
    bool,
    typer.Option(
        "--reload",
        help="Make the running server finish its work and restart with this terminal's settings.",
    ),
]

_WARM = "Warm: commands no longer wait for Java's compilers."


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``.  The server runs its commands with the same application."""

    @app.command(epilog=example("weft serve", "weft serve --home mine --poll 1m"))
    def serve(
        home: HomeOption = None,
        json: JsonOption = False,
        poll: PollOption = "10s",
        no_rehearsal: ColdOption = False,
        reload: ReloadOption = False,
    ) -> None:
        """Tick like `run`, and run the commands typed in other terminals for this home, with one warm Spark session.

        Ctrl-C or SIGTERM stops the server after the current tick and the running commands, which have 20 s to end; a
        second Ctrl-C stops it at once.
        """
        if reload:
            _reload(home, json)
            return
        pace = parse_interval(poll)
        try:
            variables = _open(home, json, pace, lambda arguments: run(app, arguments), not no_rehearsal)
            if variables is not None:
                _restart(variables)
        except KeyboardInterrupt:
            # Exit immediately, because Python would wait for the running commands.  The next writer settles the
            # interrupted work.
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        if not json:
            echo("Stopped without loss. Commands now run without the server.")


def _reload(home: Path | None, json: bool) -> None:
    from weft.cli.server import address
    from weft.cli.server.client import reload_server
    from weft.configuration import configuration

    folder = home_folder(home)
    variables = address.settings(os.environ)
    named = configuration(folder).smtp_password_env
    if named and os.environ.get(named):
        variables[named] = os.environ[named]
    process = reload_server(folder, variables)
    if json:
        print_json({"process": process, "variables": sorted(variables)})
    else:
        names = ", ".join(sorted(variables)) or "none but WEFT_HOME"
        echo(f"Process {process} serves {folder}, restarted with the variables of this terminal: {names}.")


def _restart(variables: Mapping[str, str]) -> NoReturn:
    from weft.cli.server import address
    from weft.runtime.session import stop_session

    stop_session()  # the JVM is a child of this process and would survive
    others = {name: value for name, value in os.environ.items() if name not in address.settings(os.environ)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**others, **variables})


def _open(
    home: Path | None, json: bool, pace_us: int, line: Callable[[Sequence[str]], int], rehearse: bool
) -> Mapping[str, str] | None:
    """Return the environment variables for a restart, or None."""
    from weft.cli.server.listen import listening
    from weft.cli.server.server import LocalServer, serving
    from weft.demo import rehearsal
    from weft.schedule.runner import stopped_by_signals

    with opened(home) as weft, stopped_by_signals() as stop, listening(weft.home) as listener:
        server = LocalServer(weft, line, stop.ask)
        with serving(server, listener):
            server.warm(rehearsal.days if rehearse else None, lambda: None if json else echo(_WARM))
            _serve(weft, stop, pace_us, json)
    return server.reload


def _serve(weft: Weft, stop: Stop, pace_us: int, json: bool) -> None:
    """With the replay clock, only maintain the home."""
    from weft.schedule.runner import Idle

    if not json:
        echo(f"Serving {weft.home} for commands from any terminal. Ctrl-C stops the server.")
    if weft.catalog.home().clock == "wall":
        keep_ticking(weft, stop, pace_us, json)
        return
    if not json:
        echo("The home has the replay clock: only `weft tick --now T` ticks it.")
    idle = Idle(weft.opened, partial(print_maintenance, weft, json), partial(print_retry, weft, json))
    while not stop.wished:
        if not idle.step(stop.cancel_token):
            stop.wait(pace_us)
