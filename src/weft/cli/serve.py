"""serve."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from weft.cli.frame import HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import say, say_json
from weft.cli.ticks import PollOption, keep_ticking, tell_maintained, tell_trouble
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
        help="Do not tick a small home that is thrown away some twenty times after the start, while no command is "
        "under way. With it Java has compiled what is done often, and typed commands are quick.",
    ),
]

ReloadOption = Annotated[
    bool,
    typer.Option(
        "--reload",
        help="Have the server that runs end what is under way and begin anew, with this terminal's settings.",
    ),
]

_WARM = "Warm: typed commands need not wait for Java's compilers any more."


def add_to(app: typer.Typer) -> None:
    """Adds the command; what comes through the door is run by the same application."""

    @app.command(epilog=example("weft serve", "weft serve --home mine --poll 1m"))
    def serve(
        home: HomeOption = None,
        json: JsonOption = False,
        poll: PollOption = "10s",
        no_rehearsal: ColdOption = False,
        reload: ReloadOption = False,
    ) -> None:
        """Do as `run`, and run the commands that are typed elsewhere for this home, with one Spark that stays warm.

        Ctrl-C or SIGTERM stops after the tick and the commands that are under way, which have 20 s to end; a second
        Ctrl-C stops at once.
        """
        if reload:
            _reload(home, json)
            return
        pace = parse_interval(poll)
        try:
            variables = _open(home, json, pace, lambda arguments: run(app, arguments), not no_rehearsal)
            if variables is not None:
                _begin_anew(variables)
        except KeyboardInterrupt:
            # At once: Python would wait for the threads of commands under way; what they leave is settled later.
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        if not json:
            say("Stopped; nothing is lost: commands run without the server again.")


def _reload(home: Path | None, json: bool) -> None:
    """Has the server of the home take over the settings of this process."""
    from weft.cli.server import address
    from weft.cli.server.client import reloaded
    from weft.configuration import configuration

    folder = home_folder(home)
    variables = address.settings(os.environ)
    named = configuration(folder).smtp_password_env
    if named and os.environ.get(named):
        variables[named] = os.environ[named]
    process = reloaded(folder, variables)
    if json:
        say_json({"process": process, "variables": sorted(variables)})
    else:
        told = ", ".join(sorted(variables)) or "none but WEFT_HOME"
        say(f"Process {process} serves {folder} anew, with the variables of this terminal: {told}.")


def _begin_anew(variables: Mapping[str, str]) -> NoReturn:
    """Runs this very command again in this process, with other settings."""
    from weft.cli.server import address
    from weft.runtime.session import stop_session

    stop_session()  # the JVM is this process's child, and would stay one
    others = {name: value for name, value in os.environ.items() if name not in address.settings(os.environ)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**others, **variables})


def _open(
    home: Path | None, json: bool, pace_us: int, line: Callable[[Sequence[str]], int], rehearsed: bool
) -> Mapping[str, str] | None:
    """Serves the home until a signal or `--reload` asks to stop; return the variables for a restart, if any."""
    from weft.cli.server.listen import listening
    from weft.cli.server.server import Door, answering
    from weft.demo import rehearsal
    from weft.schedule.runner import stopped_by_signals

    with opened(home) as weft, stopped_by_signals() as stop, listening(weft.home) as listener:
        door = Door(weft, line, stop.ask)
        with answering(door, listener):
            door.warm(rehearsal.days if rehearsed else None, lambda: None if json else say(_WARM))
            _serve(weft, stop, pace_us, json)
    return door.reload


def _serve(weft: Weft, stop: Stop, pace_us: int, json: bool) -> None:
    """Ticks until ``stop``, or, where the clock is moved by hand, only maintains the home until then."""
    from weft.schedule.idle import Idle

    if not json:
        say(f"Serving {weft.home}; commands typed elsewhere find it. Ctrl-C stops it.")
    if weft.catalog.home().clock == "wall":
        keep_ticking(weft, stop, pace_us, json)
        return
    if not json:
        say("Its clock is replay: it ticks by `weft tick --now T` only.")
    idle = Idle(weft.opened, partial(tell_maintained, weft, json), partial(tell_trouble, weft, json))
    while not stop.wished:
        if not idle.step(stop.cancel_token):
            stop.wait(pace_us)
