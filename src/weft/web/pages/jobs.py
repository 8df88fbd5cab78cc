"""The page of a job, and its cancellation."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.web.jobs import Go, Job
from weft.web.visits import Visit, page


def show(visit: Visit) -> Response:
    """Show the progress of a job, or its result.  A browser that follows the job goes on to its outcome."""
    job = _job(visit)
    if not job.is_over:
        return visit.show("job.html", job=job)
    if not visit.for_part:
        if not visit.is_admin:
            job.require_current(visit.weft.accounts.reach())
        return visit.outcome(job)
    response = visit.show("job.html", job=job)
    response.headers["hx-redirect"] = job.outcome.path if isinstance(job.outcome, Go) else visit.path
    return response


def cancel(visit: Visit) -> Response:
    """Cancel a job.  It ends at the next point that leaves nothing incomplete."""
    job = _job(visit)
    visit.site.jobs.cancel(job)
    job.wait(1.0)
    return visit.go(f"/jobs/{job.job_id}")


def _job(visit: Visit) -> Job:
    return visit.site.jobs.find(visit.part("job_id"), visit.owner_or_all, visit.scopes, visit.user_id)


ROUTES: Final = (
    Route("/jobs/{job_id}", page(show)),
    Route("/jobs/{job_id}/cancel", page(cancel), methods=["POST"]),
)
