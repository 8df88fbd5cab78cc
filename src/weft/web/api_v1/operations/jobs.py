"""The jobs of slow operations."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from weft.api.json.values import iso
from weft.errors import Conflict, NotFound
from weft.web.api_v1.operation import Caller, Fields, Operation
from weft.web.jobs import Job, Value
from weft.web.operation_names import named_operations
from weft.web.problems import problem_of

JobId = Annotated[str, Field(min_length=1, max_length=100, description="The id of the job.")]


def job_json(job: Job) -> Fields:
    """Return a job with its result or its problem."""
    return {
        "id": job.job_id,
        "what": job.title,
        "state": job.state,
        "progress": job.said,
        "began": iso(job.began),
        "ended": iso(job.ended),
        "result": job.outcome.value if isinstance(job.outcome, Value) else None,
        "problem": None if job.error is None else problem_of(job.error, named_operations),
    }


def list_jobs(caller: Caller) -> Fields:
    """List your jobs, the newest first.

    An administrator sees the jobs of all users. Another token shows only jobs of tokens that have no other scopes than
    its own.
    """
    reach = caller.weft.accounts.reach()
    jobs = caller.jobs.listed(caller.owner, caller.scopes, caller.user_id)
    stale = [not caller.sees_all and each.is_stale(reach) for each in jobs]
    hidden = [{"result": None, **({"problem": None} if each else {})} for each in stale]
    items = [{**job_json(each), **hides} for each, hides in zip(jobs, hidden, strict=True)]
    return {"items": items, "next": None}


def _found(caller: Caller, job: str) -> Job:
    """Return a job that the caller may see, with an outcome that she may see.  Raise NotFound or Conflict."""
    found = caller.jobs.find(job, caller.owner, caller.scopes, caller.user_id)
    if not caller.sees_all:
        found.require_current(caller.weft.accounts.reach())
    return found


def show_job(caller: Caller, job: JobId) -> Fields:
    """Show a job, with its result when it is done.

    If you have lost a right since its start, it is refused: run the operation again. The result of a long operation is
    also refused if any rights changed while it ran.
    """
    return job_json(_found(caller, job))


def cancel_job(caller: Caller, job: JobId) -> Fields:
    """Ask a job to stop."""
    found = _found(caller, job)
    caller.jobs.cancel(found)
    return job_json(found)


OPERATIONS: Final = (
    Operation("GET", "/jobs", list_jobs, "jobs", "any", errors=()),
    Operation("GET", "/jobs/{job}", show_job, "jobs", "any", errors=(NotFound, Conflict)),
    Operation("DELETE", "/jobs/{job}", cancel_job, "jobs", "any", errors=(NotFound, Conflict), slow=False),
)
