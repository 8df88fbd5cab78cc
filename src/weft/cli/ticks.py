"""The commands ``tick`` and ``run``."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from weft.api.json.deliveries import delivered_json
from weft.api.json.ticks import next_by_time, ticked_json
from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.maintaining import describe_step
from weft.cli.printing import echo, instant, plain, print_json, table, working_on_spark
from weft.cli.sources import print_poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weft.api.weft import Weft
    from weft.delivery.outbox import Delivered
    from weft.errors import WeftError
    from weft.execution.maintenance import Step
    from weft.execution.ticks.tick_report import QueryOutcome, TickReport
    from weft.schedule.runner import Stop
    from weft.schedule.ticking import Ticked


_LINES: Final = 40
"""The maximum number of queries that a tick lists individually."""
_REASONS: Final = 5


def add_to(app: typer.Typer) -> None:
    """Register the commands with ``app``."""
    app.command(epilog=example("weft tick", "weft tick --now 1993-05-10 unanswered"))(tick)
    app.command(epilog=example("weft run"))(run)


def tick(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="The queries (default: all).")] = None,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Run one tick: find the answers that began since the last tick, and deliver them."""
    began = time.monotonic()
    with opened(home) as weft:
        with working_on_spark("ticking"):
            ticked = weft.tick(names or (), now=now)
        if json:
            print_json(ticked_json(weft, ticked, time.monotonic() - began))
        else:
            for report in ticked.reports:
                print_tick(weft, report)
            _print_deliveries(ticked.delivered)
            echo(f"in {time.monotonic() - began:.1f} s")
    if any(each.failed for report in ticked.reports for each in report.own):
        raise typer.Exit(1)


def print_tick(weft: Weft, report: TickReport) -> None:
    """Print the result of a tick: the window and the number of new rows of each query.

    For a query without new rows, print the reason.  If a tick has many queries, list only failed queries and the
    queries with the most new rows.
    """
    title = f"tick {report.tick_id}, up to {instant(report.t)}"
    if not report.queries:
        echo(f"{title}: no active queries.")
        return
    alike = {each.of(each.crowd.sample): len(each) for each in report.alike if len(each)}
    timely = weft.time_driven(each.query for each in (*report.own, *alike))
    shown: Sequence[QueryOutcome] = report.own
    counted: Sequence[QueryOutcome] = ()
    if report.queries > _LINES:
        ordered = sorted(report.own, key=lambda each: (not each.failed, -each.rows))
        listed = min(_LINES, sum(1 for each in ordered if each.failed or each.rows))
        shown, counted = ordered[:listed], ordered[listed:]
    rows = [
        (each.query.name, instant(each.tau, "the start"), f"{each.rows:,}", _remark(each, timely)) for each in shown
    ]
    if rows or not (counted or alike):
        table(("query", "window from", "new", ""), rows, title=title, right=(2,))
    else:
        echo(title, style="bold")
    _print_counts(counted, alike, timely)


def _print_counts(
    outcomes: Sequence[QueryOutcome], alike: Mapping[QueryOutcome, int], timely: Mapping[int, bool | None]
) -> None:
    """``alike`` maps an outcome without new rows to the number of queries that have it."""
    news = [each for each in outcomes if each.rows]
    if news:
        rows = sum(each.rows for each in news)
        echo(f"{_queries(len(news), more=True)} with {rows:,} new answer{'s' * (rows != 1)}")
    reasons = Counter(_remark(each, timely) for each in outcomes if not each.rows)
    for each, count in alike.items():
        reasons[_remark(each, timely)] += count
    for reason, count in reasons.most_common(_REASONS):
        echo(f"{_queries(count)}: {reason}" if reason else f"{_queries(count)} without new answers")
    if rest := reasons.total() - sum(count for _, count in reasons.most_common(_REASONS)):
        echo(f"{_queries(rest, more=True)} without new answers; see `weft tick --json` or `weft show NAME`")


def _queries(count: int, *, more: bool = False) -> str:
    return f"{count:,} {'more ' * more}quer{'y' if count == 1 else 'ies'}"


def _remark(each: QueryOutcome, timely: Mapping[int, bool | None]) -> str:
    if each.rows:
        return ""
    why = plain(each.reason or "")
    when = next_by_time(each)
    if when is not None:
        return f"{why}; next due {instant(when)}"
    if each.failed or (timely[each.query.query_id] and each.next_due is None):
        return why
    return f"{why}; no answer is due by time alone" if why else "no answer is due by time alone"


def _print_deliveries(deliveries: Sequence[Delivered] | None) -> None:
    if deliveries is None:
        echo("Another process is delivering; the next tick sends the new answers.")
    for each in deliveries or ():
        if each.rows:
            echo(f"{each.rows:,} answer{'s' * (each.rows != 1)} of {each.query_name} to {each.channel}")
        if each.error:
            parked = "; parked until `weft resume`" if each.parked else "; to be retried"
            echo(f"delivery of {each.query_name} to {each.channel} failed: {plain(each.error)}{parked}", style="yellow")


PollOption = Annotated[
    str, typer.Option("--poll", metavar="10s", help="How often to run queries without --every, if rows have arrived.")
]


def run(home: HomeOption = None, json: JsonOption = False, poll: PollOption = "10s") -> None:
    """Tick until Ctrl-C or SIGTERM, each query at least as often as its --every; the current tick is completed."""
    from weft.instants import parse_interval
    from weft.schedule.runner import stopped_by_signals

    pace = parse_interval(poll)
    with opened(home) as weft, stopped_by_signals() as stop:
        if not json and weft.catalog.home().clock == "wall":
            echo(f"Running {weft.home}; Ctrl-C stops it.")
        keep_ticking(weft, stop, pace, json)
        if not json:
            echo("Stopped without loss: the next tick continues from here.")


def keep_ticking(weft: Weft, stop: Stop, pace_us: int, json: bool) -> None:
    """Tick the queries at their intervals until ``stop``.  Print each tick and delivery."""

    def ticked(tick: Ticked) -> None:
        if json:
            print_json(ticked_json(weft, tick), lines=True)
            return
        for report in tick.reports:
            news = [each for each in report.own if each.rows]
            if len(news) > _LINES:
                news.sort(key=lambda each: -each.rows)
            new = ", ".join(f"{each.query.name} +{each.rows:,}" for each in news[:_LINES])
            if rest := news[_LINES:]:
                new += f", {_queries(len(rest), more=True)} +{sum(each.rows for each in rest):,}"
            failed = [each for each in report.own if each.failed]
            echo(f"{instant(report.t)}  tick {report.tick_id}: {new or 'nothing new'}")
            for each in failed:
                echo(f"  {each.query.name} {plain(each.reason or '')}", style="yellow")
        _print_deliveries(tick.delivered)

    def delivered(deliveries: list[Delivered]) -> None:
        if json:
            print_json({"ticks": [], "delivered": delivered_json(deliveries)}, lines=True)
        else:
            _print_deliveries(deliveries)

    troubled, maintained = partial(print_retry, weft, json), partial(print_maintenance, weft, json)
    polled = partial(print_poll, weft, json)
    with _warn_of_another(weft, json):
        weft.run(
            stop,
            ticked=ticked,
            delivered=delivered,
            troubled=troubled,
            maintained=maintained,
            polled=polled,
            pace_us=pace_us,
        )


@contextmanager
def _warn_of_another(weft: Weft, json: bool) -> Iterator[None]:
    from weft.schedule.runner import ticking_alone

    with ticking_alone(weft.home) as other:
        if other is not None:
            _print_other(other, json)
        yield


def _print_other(process: str, json: bool) -> None:
    text = (
        f"Process {process} already ticks this home. Both processes can run, one tick at a time: if one ends, the "
        "other goes on."
    )
    echo(text, style="yellow", err=json)


def print_retry(weft: Weft, json: bool, error: WeftError) -> None:
    """Print an error on one line before a retry."""
    text = f"{instant(weft.clock())}  {plain(error.message)}; trying again"
    echo(text, style="yellow", err=json)


def print_maintenance(weft: Weft, json: bool, step: Step) -> None:
    """Print a maintenance step in one line."""
    if json:
        print_json({"ticks": [], "delivered": [], "maintained": asdict(step)}, lines=True)
    else:
        echo(f"{instant(weft.clock())}  {describe_step(step)}")
