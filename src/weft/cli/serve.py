"""serve."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.printing import say
from weft.cli.ticks import PollOption, keep_ticking, tell_maintained, tell_trouble
from weft.cli.troubles import INTERRUPTED, run
from weft.instants import parse_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from weft.api.home import Weft
    from weft.schedule.runner import Stop

ColdOption = Annotated[
    bool,
    typer.Option(
        "--no-rehearsal",
        help="Do not tick a small home that is thrown away some twenty times after the start, while no command is "
        "under way. With it Java has compiled what is done often, and typed commands are quick.",
    ),
]

_WARM = "Warm: typed commands need not wait for Java's compilers any more."


def add_to(app: typer.Typer) -> None:
    """Adds the command; what comes through the door is run by the same application."""

    @app.command(epilog=example("weft serve", "weft serve --home mine --poll 1m"))
    def serve(
        home: HomeOption = None, json: JsonOption = False, poll: PollOption = "10s", no_rehearsal: ColdOption = False
    ) -> None:
        """Do as `run`, and run the commands that are typed elsewhere for this home, with one Spark that stays warm.

        Ctrl-C or SIGTERM stops after the tick and the commands that are under way, a second Ctrl-C at once.
        """
        pace = parse_interval(poll)
        try:
            _open(home, json, pace, lambda arguments: run(app, arguments), not no_rehearsal)
        except KeyboardInterrupt:
            # At once: Python would wait for the threads of commands under way; what they leave is settled later.
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        if not json:
            say("Stopped; nothing is lost: commands run without the server again.")


def _open(home: Path | None, json: bool, pace_us: int, line: Callable[[Sequence[str]], int], rehearsed: bool) -> None:
    """Serves the home until a signal asks to stop."""
    from weft.cli.door.opening import listening
    from weft.cli.door.server import Door, answering
    from weft.demo import rehearsal
    from weft.schedule.runner import stopped_by_signals

    with opened(home) as weft, stopped_by_signals() as stop, listening(weft.home) as listener:
        door = Door(weft, line)
        with answering(door, listener):
            door.warm(rehearsal.days if rehearsed else None, lambda: None if json else say(_WARM))
            _serve(weft, stop, pace_us, json)


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
        if not idle.step(stop.wish):
            stop.wait(pace_us)
