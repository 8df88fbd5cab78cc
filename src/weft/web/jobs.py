"""Run long operations in threads: each job has an address, reports its progress, and can be cancelled.

A page waits two seconds for its job.  The browser goes to the page of the job after that, or if the outcome is a page.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from weft.errors import Conflict, NotFound, WeftError
from weft.faults import isolated_error
from weft.interruption import CancelToken, Stopped, cancellable_by, progress_reported_to, stop_here
from weft.rights.policy import Reach
from weft.rights.principal import Scope

_AT_ONCE: Final = 8
"""The maximum number of long jobs, and of brief jobs, that run at the same time.  Further jobs wait."""
_OF_ONE: Final = {False: 4, True: 32}
"""The maximum number of unfinished long jobs (False), and of unfinished brief jobs (True), of one person."""
_KEPT: Final = 200
"""The maximum number of ended jobs of one person that are kept: so many of pages, and so many of the HTTP API."""
_KEPT_IN_ALL: Final = 2_000
"""The maximum number of ended jobs of all persons that are kept."""
_INSIST_SECONDS: Final = 0.3
_GRACE_SECONDS: Final = 20.0

JobState = Literal["running", "done", "failed", "cancelled"]
Scopes: TypeAlias = frozenset[Scope] | None
"""The scopes of a token, or None for somebody who has signed in without one."""


@dataclass(frozen=True)
class Go:
    """The outcome of a job that leads to another page, which shows ``notice`` once."""

    path: str
    notice: str = ""


@dataclass(frozen=True)
class Shown:
    """The outcome of a job that is a page: a template and its values."""

    template: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Value:
    """The outcome of a job of the HTTP API: a value for JSON."""

    value: Any


Outcome: TypeAlias = Go | Shown | Value


@dataclass
class Job:
    """A piece of work for the person ``by``.  ``back`` is the page from which it came.

    A ``brief`` job waits for the lease at most, and neither computes nor reads much.
    ``user_id`` is the ID of this person, or None for the owner of the home.
    ``scopes`` are those of the token that started the job (None: all).
    ``of_api`` is true for a job of the HTTP API.
    ``reach`` is what the person could read at the end of the job, or None if her rights may have changed during it.
    ``began`` and ``ended`` are instants of the wall clock (microseconds UTC).  ``said`` is the last news of the work.
    """

    job_id: str
    title: str
    by: str
    back: str
    began: int
    brief: bool = False
    scopes: Scopes = None
    user_id: int | None = None
    of_api: bool = False
    reach: Reach | None = None
    state: JobState = "running"
    said: str = ""
    ended: int | None = None
    outcome: Outcome | None = None
    error: WeftError | None = None
    cancel_token: CancelToken = field(default_factory=CancelToken, repr=False)
    _started: float = field(default_factory=time.monotonic, repr=False)
    _over: threading.Event = field(default_factory=threading.Event, repr=False)

    def say(self, news: str) -> None:
        """Report the progress of the work.  Raise Stopped if the job was cancelled."""
        self.said = news
        stop_here()

    def counted(self, what: str) -> Callable[[int], None]:
        """Return a function that reports a number of records."""
        return lambda count: self.say(f"{count:,} {what}")

    def wait(self, seconds: float) -> bool:
        """Return whether the job has ended, after waiting for at most ``seconds``."""
        return self._over.wait(seconds)

    @property
    def person(self) -> tuple[str, int | None]:
        """The name and the ID of the person."""
        return self.by, self.user_id

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self._over.is_set()

    def is_seen(self, by: str | None, scopes: Scopes, user_id: int | None) -> bool:
        """Return whether the person ``by`` with this ID may see the job with a token of these scopes.

        A token shows only what it could have started itself, because the outcome can contain rows.  For administrators
        (``by`` is None) it shows the jobs of all, if it may read.
        """
        if by is None:
            return scopes is None or "read" in scopes
        covered = scopes is None or (self.scopes is not None and self.scopes <= scopes)
        return self.person == (by, user_id) and covered

    def is_stale(self, reach: Reach) -> bool:
        """Return whether the job shows an outcome or an error, and may have read what the person may no longer read.

        ``reach`` is what she may read at present.
        """
        shows = self.error is not None or isinstance(self.outcome, Shown | Value)
        return shows and not (self.reach is not None and self.reach.is_kept_by(reach))

    def require_current(self, reach: Reach) -> None:
        """Raise Conflict if the job is stale (``is_stale``).  The page to which a job leads checks rights itself."""
        if self.is_stale(reach):
            raise Conflict("rights have changed since the job began", hint="Run it again.")

    def keep_reach(self, before: Reach, after: Reach) -> None:
        """Keep what the person could read at the end, unless her rights may have changed since the start.

        The own work of a brief job may change rights, and reads no rows.
        """
        same = (before.version, before.barred) == (after.version, after.barred)
        self.reach = after if same or self.brief else None

    def end(self, state: JobState) -> None:
        """Record the end of the job.  Its instant does not need the clock, which a catalog that is gone lacks."""
        lasted = int((time.monotonic() - self._started) * 1_000_000)
        self.state, self.ended = state, self.began + lasted
        self._over.set()


Work: TypeAlias = Callable[[Job], Outcome]


@contextmanager
def _reach_kept(job: Job, reach: Callable[[], Reach] | None) -> Iterator[None]:
    """Keep what the person can read at the end of the job.  If the catalog cannot be read, the outcome is hidden."""
    if reach is None:
        yield
        return
    before = reach()
    try:
        yield
    finally:
        with suppress(WeftError):
            job.keep_reach(before, reach())


class Jobs:
    """The jobs of one page.  ``clock`` is the wall clock.  Defects are written to the folder ``logs``."""

    def __init__(self, clock: Callable[[], int], logs: Path) -> None:
        self._clock, self._logs = clock, logs
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._threads = {brief: ThreadPoolExecutor(_AT_ONCE, "weft-job") for brief in _OF_ONE}

    def start(
        self,
        title: str,
        by: str,
        back: str,
        work: Work,
        *,
        brief: bool = False,
        scopes: Scopes = None,
        user_id: int | None = None,
        reach: Callable[[], Reach] | None = None,
        of_api: bool = False,
    ) -> Job:
        """Start a job, see ``Job``.  Brief jobs do not wait for long ones.

        ``reach`` returns what the person may read at present.  Without it, only administrators see the outcome.

        Raise Conflict if the person has too many unfinished jobs of this length.
        """
        job = Job(secrets.token_urlsafe(12), title, by, back, self._clock(), brief, scopes, user_id, of_api)
        with self._lock:
            own = [each for each in self._jobs.values() if each.person == job.person]
            if sum(1 for each in own if not each.is_over and each.brief == brief) >= _OF_ONE[brief]:
                raise Conflict(
                    f"{_OF_ONE[brief]} of your jobs still run", hint="Wait until one of them has ended, or cancel it."
                )
            self._forget([each for each in own if each.of_api == of_api], _KEPT)
            self._forget(list(self._jobs.values()), _KEPT_IN_ALL)
            self._jobs[job.job_id] = job
        self._threads[brief].submit(copy_context().run, self._run, job, work, reach)
        return job

    def _run(self, job: Job, work: Work, reach: Callable[[], Reach] | None) -> None:
        state: JobState = "failed"
        try:
            with _reach_kept(job, reach), cancellable_by(job.cancel_token), progress_reported_to(job.say):
                stop_here()
                job.outcome = work(job)
            state = "done"
        except Stopped:
            state = "cancelled"
        except Exception as error:  # noqa: BLE001 - a defect in one job must not end the others
            job.error = isolated_error(error, self._logs, self._clock, job.title)
        finally:
            job.end(state)

    def _forget(self, jobs: Sequence[Job], kept: int) -> None:
        """Forget the jobs that ended first, so that ``kept`` of those that have ended are left."""
        ended = sorted((each for each in jobs if each.is_over), key=lambda each: each.ended or 0)
        for each in ended[: max(len(ended) - kept, 0)]:
            del self._jobs[each.job_id]

    def find(self, job_id: str, by: str | None, scopes: Scopes = None, user_id: int | None = None) -> Job:
        """Return a job that the person ``by`` may see: see ``Job.is_seen``.  Raise NotFound."""
        job = self._jobs.get(job_id)
        if job is None or not job.is_seen(by, scopes, user_id):
            raise NotFound(
                "there is no such job",
                hint=f"The server keeps the last {_KEPT} results of a person, and {_KEPT_IN_ALL:,} of all, until it "
                "stops. Send the form again.",
            )
        return job

    def listed(self, by: str | None, scopes: Scopes = None, user_id: int | None = None) -> tuple[Job, ...]:
        """Return the jobs that the person ``by`` may see, the newest first: see ``Job.is_seen``."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if job.is_seen(by, scopes, user_id)]
        return tuple(reversed(jobs))

    def cancel(self, job: Job) -> None:
        """Cancel a job at a point that leaves no work incomplete."""
        if not job.cancel_token.cancelled:
            job.cancel_token.cancelled = True
            threading.Thread(target=self._insist, args=(job,), name="weft-job-stop", daemon=True).start()

    def _insist(self, job: Job) -> None:
        """Cancel repeatedly, because a cancellation does not affect jobs of Spark that start later."""
        while not job.is_over:
            job.cancel_token.cancel()
            job.wait(_INSIST_SECONDS)

    def close(self) -> None:
        """Cancel the running jobs after a time of grace, and wait for their end."""
        until = time.monotonic() + _GRACE_SECONDS
        running = [job for job in self.listed(None) if not job.is_over]
        for job in running:
            if not job.wait(max(until - time.monotonic(), 0)):
                self.cancel(job)
        for threads in self._threads.values():
            threads.shutdown()
