"""Ticks as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.json.deliveries import delivered_json
from weft.api.json.values import Fields, iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.api.weft import Weft
    from weft.execution.ticks.tick_report import QueryOutcome
    from weft.schedule.ticking import Ticked


def ticked_json(weft: Weft, ticked: Ticked, seconds: float | None = None) -> Fields:
    """Return the result of a tick that took ``seconds``."""
    timely = weft.time_driven(each.query for report in ticked.reports for each in report.outcomes)
    return {
        "ticks": [
            {
                "tick": report.tick_id,
                "t": iso(report.t),
                "queries": [_outcome(each, timely) for each in report.outcomes],
            }
            for report in ticked.reports
        ],
        "delivered": delivered_json(ticked.delivered),
        "seconds": None if seconds is None else round(seconds, 3),
    }


def _outcome(each: QueryOutcome, timely: Mapping[int, bool | None]) -> Fields:
    return {
        "name": each.query.name,
        "from": iso(each.tau),
        "to": iso(each.t),
        "rows": each.rows,
        "reason": each.reason,
        "failed": each.failed,
        "next_by_time": iso(next_by_time(each)),
        "time_alone": timely[each.query.query_id],
    }


def next_by_time(outcome: QueryOutcome) -> int | None:
    """Return the next instant (microseconds UTC) at which time alone makes an answer appear, or None."""
    from weft.execution.windows import NEVER

    return None if outcome.next_due is None or outcome.next_due >= NEVER else outcome.next_due
