"""status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.frame import HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import instant, iso, plain, say, say_json, size

if TYPE_CHECKING:
    from weft.api.health import Health


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(epilog=example("weft status", "weft status --json --max-lag 1h"))(status)


def status(
    max_lag: Annotated[
        str, typer.Option("--max-lag", metavar="15m", help="How long news may wait for a tick in a home that is well.")
    ] = "15m",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Tell how the home does: queries, ticks, deliveries, server, disk; exit code 0: all is well, 1: it is not."""
    from weft.cli.server.client import state
    from weft.instants import parse_interval

    with opened(home) as weft:
        found = weft.health(max_lag_us=parse_interval(max_lag))
        well, server, fix = state(home_folder(home))
    problems = [*found.problems, *([] if well else [f"the server: {server}" + (f"; {fix}" if fix else "")])]
    if json:
        say_json(_as_json(found, server, problems))
    else:
        tick = found.last_tick
        total = sum(found.queries.values())
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(found.queries.items()))
        lag = "-" if found.lag_us is None else _lag(found.lag_us)
        say(f"queries     {total:,}" + (f": {states}" if states else ""))
        say("ticks       " + (f"the last up to {instant(tick.t)}, {tick.state}" if tick else "none yet"))
        say(f"lag         {lag}")
        say(f"deliveries  {found.due:,} due, {found.failed:,} failed, {found.parked:,} parked, {found.muted:,} muted")
        say(f"server      {plain(server)}")
        say(f"free disk   {size(found.free_bytes)}")
        for problem in problems:
            say(f"NOT WELL: {plain(problem)}", style="bold red")
        if not problems:
            say("All is well.", style="green")
    if problems:
        raise typer.Exit(1)


def _lag(micros: int) -> str:
    """In whole seconds: nobody waits for the rest."""
    from weft.instants import format_interval

    seconds = micros // 1_000_000
    return format_interval(seconds * 1_000_000) if seconds else "under 1s" if micros else "nothing waits"


def _as_json(found: Health, server: str, problems: list[str]) -> dict[str, Any]:
    tick = found.last_tick
    return {
        "healthy": not problems,
        "problems": problems,
        "at": iso(found.at),
        "queries": dict(found.queries),
        "last_tick": None
        if tick is None
        else {"tick": tick.tick_id, "t": iso(tick.t), "state": tick.state, "committed_at": iso(tick.committed_at)},
        "lag_seconds": None if found.lag_us is None else found.lag_us / 1_000_000,
        "deliveries": {"due": found.due, "failed": found.failed, "parked": found.parked, "muted": found.muted},
        "server": server,
        "free_bytes": found.free_bytes,
    }
