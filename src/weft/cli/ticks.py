"""tick, run."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weft.cli.frame import HomeOption, JsonOption, example, opened
from weft.cli.maintaining import in_short
from weft.cli.printing import instant, iso, plain, say, say_json, table, working_on_spark
from weft.cli.sources import tell_polled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weft.api.weft import Weft
    from weft.delivery.outbox import Delivered
    from weft.errors import WeftError
    from weft.execution.maintenance import Step
    from weft.execution.tick_report import QueryOutcome, TickReport
    from weft.schedule.runner import Stop
    from weft.schedule.ticking import Ticked


_LINES: Final = 40
"""Queries that a tick tells of one by one."""
_REASONS: Final = 5


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft tick", "weft tick --now 1993-05-10 unanswered"))(tick)
    app.command(epilog=example("weft run"))(run)


def tick(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which queries (none: all).")] = None,
    now: Annotated[str | None, typer.Option(metavar="T", help="The clock, ISO 8601 (replay homes).")] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Run one tick: find every answer that began since the last one, and deliver it."""
    began = time.monotonic()
    with opened(home) as weft:
        with working_on_spark("ticking"):
            done = weft.tick(names or (), now=now)
        if json:
            say_json(as_json(weft, done, time.monotonic() - began))
        else:
            for report in done.reports:
                tell_tick(weft, report)
            _tell_delivered(done.delivered)
            say(f"in {time.monotonic() - began:.1f} s")
    if any(_set_aside(each) for report in done.reports for each in report.outcomes):
        raise typer.Exit(1)


def as_json(weft: Weft, done: Ticked, seconds: float | None = None) -> dict[str, Any]:
    """A tick as JSON has it."""
    timely = weft.time_driven(each.query for report in done.reports for each in report.outcomes)
    return {
        "ticks": [
            {
                "tick": report.tick_id,
                "t": iso(report.t),
                "queries": [
                    {
                        "name": each.query.name,
                        "from": iso(each.tau),
                        "to": iso(each.t),
                        "rows": each.rows,
                        "reason": each.reason,
                        "failed": _set_aside(each),
                        "next_by_time": iso(_next(each)),
                        "time_alone": timely[each.query.query_id],
                    }
                    for each in report.outcomes
                ],
            }
            for report in done.reports
        ],
        "delivered": _delivered_json(done.delivered),
        "seconds": None if seconds is None else round(seconds, 3),
    }


def _delivered_json(found: Sequence[Delivered] | None) -> list[dict[str, Any]] | None:
    if found is None:
        return None
    return [
        {"query": each.query_name, "channel": each.channel, "rows": each.rows, "error": each.error} for each in found
    ]


def tell_tick(weft: Weft, report: TickReport) -> None:
    """Prints a tick: for each query its window, its new rows, and why there are none.

    Of many queries a few lines: those that were set aside and those with most news; the others are counted.
    """
    title = f"tick {report.tick_id}, up to {instant(report.t)}"
    if not report.outcomes:
        say(f"{title}: no query is active.")
        return
    timely = weft.time_driven(each.query for each in report.outcomes)
    shown: Sequence[QueryOutcome] = report.outcomes
    counted: Sequence[QueryOutcome] = ()
    if len(report.outcomes) > _LINES:
        ordered = sorted(report.outcomes, key=lambda each: (not _set_aside(each), -each.rows))
        told = min(_LINES, sum(1 for each in ordered if _set_aside(each) or each.rows))
        shown, counted = ordered[:told], ordered[told:]
    rows = [
        (each.query.name, instant(each.tau, "the beginning"), f"{each.rows:,}", _remark(each, timely)) for each in shown
    ]
    if rows or not counted:
        table(("query", "window from", "new", ""), rows, title=title, right=(2,))
    else:
        say(title, style="bold")
    _tell_counted(counted, timely)


def _tell_counted(outcomes: Sequence[QueryOutcome], timely: Mapping[int, bool | None]) -> None:
    """A line for the queries with news among these, and one for each reason why others have none."""
    news = [each for each in outcomes if each.rows]
    if news:
        rows = sum(each.rows for each in news)
        say(f"{_queries(len(news), more=True)} with {rows:,} new answer{'s' * (rows != 1)}")
    reasons = Counter(_remark(each, timely) for each in outcomes if not each.rows)
    for reason, count in reasons.most_common(_REASONS):
        say(f"{_queries(count)}: {reason}" if reason else f"{_queries(count)} without a new answer")
    if left := reasons.total() - sum(count for _, count in reasons.most_common(_REASONS)):
        say(f"{_queries(left, more=True)} without a new answer; `weft tick --json` and `weft show NAME` say why")


def _queries(count: int, *, more: bool = False) -> str:
    return f"{count:,} {'more ' * more}quer{'y' if count == 1 else 'ies'}"


def _remark(each: QueryOutcome, timely: Mapping[int, bool | None]) -> str:
    if each.rows:
        return ""
    why = plain(each.reason or "")
    when = _next(each)
    if when is not None:
        return f"{why}; next by time alone: {instant(when)}"
    if _set_aside(each) or (timely[each.query.query_id] and each.next_due is None):
        return why
    return f"{why}; time alone adds none" if why else "time alone adds none"


def _set_aside(each: QueryOutcome) -> bool:
    """Whether the query failed in this tick."""
    return each.query.state == "failed"


def _next(each: QueryOutcome) -> int | None:
    from weft.execution.due import NEVER

    return None if each.next_due is None or each.next_due >= NEVER else each.next_due


def _tell_delivered(found: Sequence[Delivered] | None) -> None:
    if found is None:
        say("Another process is delivering; what is new goes to channels with the next tick.")
    for each in found or ():
        if each.rows:
            say(f"{each.rows:,} answer{'s' * (each.rows != 1)} of {each.query_name} to {each.channel}")
        if each.error:
            parked = "; parked: `weft resume` tries it again" if each.parked else "; it will be tried again"
            say(
                f"{each.channel} did not take answers of {each.query_name}: {plain(each.error)}{parked}", style="yellow"
            )


PollOption = Annotated[
    str, typer.Option("--poll", metavar="10s", help="How often queries without --every are run, if something arrived.")
]


def run(home: HomeOption = None, json: JsonOption = False, poll: PollOption = "10s") -> None:
    """Tick for ever, each query at least as often as its --every; Ctrl-C or SIGTERM stops after the current tick."""
    from weft.instants import parse_interval
    from weft.schedule.runner import stopped_by_signals

    pace = parse_interval(poll)
    with opened(home) as weft, stopped_by_signals() as stop:
        if not json and weft.catalog.home().clock == "wall":
            say(f"Running {weft.home}; Ctrl-C stops it.")
        keep_ticking(weft, stop, pace, json)
        if not json:
            say("Stopped; nothing is lost: the next tick goes on from here.")


def keep_ticking(weft: Weft, stop: Stop, pace_us: int, json: bool) -> None:
    """Ticks by timeliness until ``stop``, each tick and delivery told as it comes; raises as ``Weft.run``."""

    def ticked(done: Ticked) -> None:
        if json:
            say_json(as_json(weft, done), lines=True)
            return
        for report in done.reports:
            news = [each for each in report.outcomes if each.rows]
            if len(news) > _LINES:
                news.sort(key=lambda each: -each.rows)
            told = news[:_LINES]
            new = ", ".join(f"{each.query.name} +{each.rows:,}" for each in told)
            if left := news[len(told) :]:
                new += f", {_queries(len(left), more=True)} +{sum(each.rows for each in left):,}"
            failed = [each for each in report.outcomes if _set_aside(each)]
            say(f"{instant(report.t)}  tick {report.tick_id}: {new or 'nothing new'}")
            for each in failed:
                say(f"  {each.query.name} {plain(each.reason or '')}", style="yellow")
        _tell_delivered(done.delivered)

    def delivered(found: list[Delivered]) -> None:
        if json:
            say_json({"ticks": [], "delivered": _delivered_json(found)}, lines=True)
        else:
            _tell_delivered(found)

    troubled, maintained = partial(tell_trouble, weft, json), partial(tell_maintained, weft, json)
    polled = partial(tell_polled, weft, json)
    with _told_of_another(weft, json):
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
def _told_of_another(weft: Weft, json: bool) -> Iterator[None]:
    from weft.schedule.presence import ticking_alone

    with ticking_alone(weft.home) as other:
        if other is not None:
            _tell_other(other, json)
        yield


def _tell_other(process: int, json: bool) -> None:
    told = f"Process {process} ticks this home already. Both may run, one tick at a time; one is enough."
    say(told, style="yellow", err=json)


def tell_trouble(weft: Weft, json: bool, error: WeftError) -> None:
    """Prints what went wrong and will be tried again, in a line."""
    told = f"{instant(weft.clock())}  {plain(error.message)}; trying again"
    say(told, style="yellow", err=json)


def tell_maintained(weft: Weft, json: bool, step: Step) -> None:
    """Prints what maintenance did while nothing was due, in a line."""
    if json:
        say_json({"ticks": [], "delivered": [], "maintained": asdict(step)}, lines=True)
    else:
        say(f"{instant(weft.clock())}  {in_short(step)}")
