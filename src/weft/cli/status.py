"""The command ``status``."""

from __future__ import annotations

from typing import Annotated

import typer

from weft.api.json.homes import health_json
from weft.cli.frame import HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import echo, instant, plain, print_json, size


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
        print_json(health_json(health, server, problems))
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
