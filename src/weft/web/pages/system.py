"""The state of the home: what is wrong, the last ticks, the leases, the disk, and the jobs."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.web.jobs import Job, Outcome, Shown
from weft.web.visits import Visit, page

_TICKS: Final = 10


def show(visit: Visit) -> Response:
    """Show errors first, then the current activity."""
    weft = visit.weft
    return visit.show(
        "system.html",
        health=weft.health(),
        ticks=weft.latest_ticks(_TICKS),
        leases=weft.leases(),
        now=weft.clock(),
        jobs=visit.site.jobs.listed(visit.owner_or_all, visit.scopes, visit.user_id)[:20],
    )


def examine(visit: Visit) -> Response:
    """Run the checks of ``weft doctor``."""
    weft = visit.weft

    def work(job: Job) -> Outcome:
        checks = []
        for each in weft.doctor():
            checks.append(each)
            job.say(f"{len(checks)} checks: {each.name}")
        return Shown("doctor.html", {"checks": checks})

    return visit.work("examine the installation", work)


ROUTES: Final = (
    Route("/system", page(show)),
    Route("/system/doctor", page(examine), methods=["POST"]),
)
