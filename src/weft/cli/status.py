"""The command ``status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.frame import HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import echo, instant, iso, plain, print_json, size

if TYPE_CHECKING:
    from weft.api.health import Health


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``."""
    app.command(epilog=example("weft status", "weft status --json --max-lag 1h"))(status)


def status(
    max_lag: Annotated[
        str,
        typer.Option("--max-lag", metavar="15m", help="Report a problem if new rows have waited longer for a tick."),
    ] = "15m",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Show the state of the home: queries, ticks, deliveries, server, disk; exit code 1 if there is a problem."""
    from weft.cli.server.client import server_state
    from weft.instants import parse_interval

    with opened(home) as weft:
        health = weft.health(max_lag_us=parse_interval(max_lag))
        server_ok, server, fix = server_state(home_folder(home))
    problems = [*health.problems, *([] if server_ok else [f"the server: {server}" + (f"; {fix}" if fix else "")])]
    if json:
        print_json(_as_json(health, server, problems))
    else:
        tick = health.last_tick
        total = sum(health.queries.values())
        states = ", ".join(f"{count:,} {state}" for state, count in sorted(health.queries.items()))
        lag = "-" if health.lag_us is None else _lag(health.lag_us)
        echo(f"queries     {total:,}" + (f": {states}" if states else ""))
        echo("ticks       " + (f"last up to {instant(tick.t)}, {tick.state}" if tick else "none yet"))
        echo(f"lag         {lag}")
        channels = f"{health.due:,} due, {health.failed:,} failed, {health.parked:,} parked, {health.muted:,} muted"
        echo(f"deliveries  {channels}")
        echo(f"catalog     {plain(health.catalog)}")
        echo(f"server      {plain(server)}")
        echo(f"free disk   {size(health.free_bytes)}")
        if health.purged_until is not None:
            echo(f"purged      answers whose files `weft maintain` deletes from {instant(health.purged_until)} on")
        for problem in problems:
            echo(f"PROBLEM: {plain(problem)}", style="bold red")
        if not problems:
            echo("No problems.", style="green")
    if problems:
        raise typer.Exit(1)


def _lag(micros: int) -> str:
    from weft.instants import format_interval

    seconds = micros // 1_000_000
    return format_interval(seconds * 1_000_000) if seconds else "under 1s" if micros else "no new rows wait"


def _as_json(health: Health, server: str, problems: list[str]) -> dict[str, Any]:
    tick = health.last_tick
    return {
        "healthy": not problems,
        "problems": problems,
        "at": iso(health.at),
        "queries": dict(health.queries),
        "last_tick": None
        if tick is None
        else {"tick": tick.tick_id, "t": iso(tick.t), "state": tick.state, "committed_at": iso(tick.committed_at)},
        "lag_seconds": None if health.lag_us is None else health.lag_us / 1_000_000,
        "deliveries": {"due": health.due, "failed": health.failed, "parked": health.parked, "muted": health.muted},
        "catalog": health.catalog,
        "server": server,
        "free_bytes": health.free_bytes,
        "purged_until": iso(health.purged_until),
    }
