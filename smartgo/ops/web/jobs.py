"""
Jobs: work that takes longer than a request; started, watched, cancelled, their results kept for a while.

    >>> async def count(job: Job) -> dict[str, int]:
    ...     for number in range(10):
    ...         job.progress(number, 10, "counting")
    ...         job.add({"number": number})
    ...     return {"counted": 10}
    >>> view = jobs.start("count", call.principal, count)

A route that begins a job answers 202 with its L{JobView}; C{GET /jobs/{id}} tells how far it is, C{GET
/jobs/{id}/rows} gives its rows by pages, C{DELETE /jobs/{id}} cancels it, or forgets it where it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.ops.problems import Problem, problem_of
from smartgo.ops.security.principals import ADMIN, Principal
from smartgo.ops.web.pagination import ListQuery, Page, cut, page_of
from smartgo.ops.web.routes import READ, RouteCall, route

RUNNING: Final = 8
"""Jobs at once."""
SHARE: Final = 4
"""Jobs at once of one asker."""
SECONDS: Final = 3600.0
"""Until a job is ended that is not done by itself."""
KEPT: Final = 64
"""Jobs that have ended and are kept."""
KEPT_SECONDS: Final = 3600.0
ROWS: Final = 10_000
"""Rows of one job."""
ROWS_KEPT: Final = 50_000
"""Rows of all jobs together that have ended and are kept."""

State = Literal["running", "done", "failed", "cancelled"]


class JobView(msgspec.Struct, rename="camel"):
    """
    One job.

    @ivar kind: the kind of job, such as C{search}.
    @ivar who: who started it.
    @ivar done: steps done, of C{total}; C{total} is 0 if unknown.
    @ivar doing: the current step, in words.
    @ivar rows: rows so far; C{truncated}: there were more than are kept.
    @ivar result: the result, once the job is done.
    @ivar error: why it failed; C{code} is the problem's code.
    """

    id: str
    kind: str
    who: str
    state: State
    begun_ms: int
    ended_ms: int | None
    done: int
    total: int
    doing: str
    rows: int
    truncated: bool
    result: Any
    error: str | None
    code: str | None


class RestJob:
    """
    One job, as its work sees it.

    @ivar cancelled: whether it is to end; what it waits for is cancelled too.
    @ivar out_of_time: it is to end because it took L{SECONDS}, not because somebody wants it.
    """

    def __init__(self, id: str, kind: str, principal: Principal, now_ms: int, limit: int = ROWS) -> None:
        """@param limit: rows that it may have."""
        self.id = id
        self.kind = kind
        self.who = principal.name
        self.owner = ""
        self.state: State = "running"
        self.begun_ms = now_ms
        self.ended_ms: int | None = None
        self.ended_at = 0.0
        self.rows: list[Any] = []
        self._limit = limit
        self.truncated = False
        self.cancelled = False
        self.result: Any = None
        self.error: Problem | None = None
        self.work: Deferred[None] | None = None
        self.ends: IDelayedCall | None = None
        self.out_of_time = False
        self._done = 0
        self._total = 0
        self._doing = ""

    def progress(self, done: int, total: int = 0, doing: str = "") -> None:
        """Report progress."""
        self._done, self._total, self._doing = done, total, doing

    def add(self, row: Any) -> bool:
        """Keep a row: what msgspec writes as JSON. False: there are as many as may be, and it was not kept."""
        if len(self.rows) >= self._limit:
            self.truncated = True
            return False
        self.rows.append(row)
        return True

    def view(self) -> JobView:
        """Return the job as clients see it."""
        return JobView(
            self.id,
            self.kind,
            self.who,
            self.state,
            self.begun_ms,
            self.ended_ms,
            self._done,
            self._total,
            self._doing,
            len(self.rows),
            self.truncated,
            self.result,
            None if self.error is None else str(self.error),
            None if self.error is None else self.error.code,
        )


Work = Callable[[RestJob], Coroutine[Deferred[Any], Any, Any]]


class JobTable:
    """All jobs, in memory: they end with the process. Called on the reactor thread."""

    _log = Logger()

    def __init__(self, env: IEnvironment) -> None:
        self._env = env
        self._jobs: dict[str, RestJob] = {}

    def start(self, kind: str, principal: Principal, work: Work, limit: int = ROWS, owner: str = "") -> JobView:
        """
        Begin a job.

        @param work: is given its L{RestJob}; what it returns is the result, what it raises the error.
        @param limit: rows that it may have.
        @param owner: the sender and its address: one owner may have a share of all jobs.
        @raise Problem: 409, there are too many, or too many of this owner.
        """
        self._sweep()
        running = [one for one in self._jobs.values() if one.state == "running"]
        if len(running) >= RUNNING:
            raise Problem(
                409, f"{RUNNING} jobs are running already; wait for one to end, or cancel one", "too-many-jobs"
            )
        if owner and sum(one.owner == owner for one in running) >= SHARE:
            raise Problem(
                409, f"{SHARE} of your jobs are running already; wait for one to end, or cancel one", "too-many-jobs"
            )
        job = RestJob(self._env.random.token(8).hex(), kind, principal, self._env.clock.wall_ms(), limit)
        job.owner = owner
        self._jobs[job.id] = job
        job.ends = self._env.clock.callLater(SECONDS, self._out_of_time, job)
        job.work = Deferred.fromCoroutine(self._run(job, work))
        return job.view()

    def _out_of_time(self, job: RestJob) -> None:
        job.ends = None
        job.out_of_time = True
        self.end(job)

    async def _run(self, job: RestJob, work: Work) -> None:
        try:
            job.result = await work(job)
            job.state = "done"
        except CancelledError:
            self._stopped(job)
        except Exception as error:
            job.error = problem_of(error)
            if job.error is None:
                self._log.failure("job {id} ({kind}) failed", id=job.id, kind=job.kind)
                job.error = Problem(500, f"an internal error; the log has the details under the job's id {job.id}")
            job.state = "failed"
            if job.cancelled:
                self._stopped(job)
        if job.ends is not None:
            job.ends.cancel()
            job.ends = None
        job.ended_ms = self._env.clock.wall_ms()
        job.ended_at = self._env.clock.seconds()

    def _stopped(self, job: RestJob) -> None:
        """Set the state of a cancelled job: cancelled by somebody, or failed because it took too long."""
        job.state = "failed" if job.out_of_time else "cancelled"
        if job.out_of_time:
            job.error = Problem(504, f"the job did not end within {SECONDS / 3600:g} h and was stopped", "job-too-long")

    def get(self, id: str) -> RestJob:
        """Return a job. @raise Problem: 404, there is none, or it is no longer kept."""
        self._sweep()
        job = self._jobs.get(id)
        if job is None:
            raise Problem(404, f"there is no job {id}, or it is no longer kept", "job-not-found")
        return job

    def all(self) -> list[RestJob]:
        """Return all jobs, the oldest first."""
        self._sweep()
        return list(self._jobs.values())

    def end(self, job: RestJob) -> None:
        """Cancel a running job, or remove one that has ended."""
        if job.state == "running" and job.work is not None:
            job.cancelled = True
            job.work.cancel()
        else:
            self._jobs.pop(job.id, None)

    def stop(self) -> None:
        """Cancel all jobs."""
        for job in list(self._jobs.values()):
            if job.state == "running":
                self.end(job)

    def _sweep(self) -> None:
        oldest = self._env.clock.seconds() - KEPT_SECONDS
        ended = [one for one in self._jobs.values() if one.state != "running"]
        rows = 0
        for number, job in enumerate(reversed(ended)):
            rows += len(job.rows)
            if job.ended_at < oldest or number >= KEPT or (rows > ROWS_KEPT and number):
                del self._jobs[job.id]


JobId = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="The job's id.")]


class JobPath(msgspec.Struct):
    """One job."""

    id: JobId


JobsState = Annotated[State | None, Meta(description="Only those in this state.")]


class JobsQuery(ListQuery, kw_only=True):
    """Filters of jobs."""

    state: JobsState = None


_GONE: Final = {404: "There is no such job, or it is no longer kept."}


class JobsApi:
    """Jobs."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs

    @route("GET", "/jobs", scope=READ, query=JobsQuery, answer=Page[JobView], remote=False)
    def list(self, call: RouteCall[None, JobsQuery, None]) -> Page[JobView]:
        """List jobs that are running or ended within the last hour; sorted by begunMs, kind, who or state."""
        rows = [one.view() for one in self._jobs.all() if call.query.state in (None, one.state)]
        sorts = {
            "begunMs": lambda one: one.begun_ms,
            "kind": lambda one: one.kind,
            "who": lambda one: one.who,
            "state": lambda one: one.state,
        }
        return page_of(rows, call.query, sorts, lambda one: f"{one.kind} {one.id}", "-begunMs")

    @route("GET", "/jobs/{id}", scope=READ, path_type=JobPath, answer=JobView, remote=False, refuses=_GONE)
    def show(self, call: RouteCall[JobPath, None, None]) -> JobView:
        """Show the state of a job."""
        return self._jobs.get(call.path.id).view()

    @route(
        "GET",
        "/jobs/{id}/rows",
        scope=READ,
        path_type=JobPath,
        query=ListQuery,
        answer=Page[Any],
        remote=False,
        refuses=_GONE,
    )
    def rows(self, call: RouteCall[JobPath, ListQuery, None]) -> Page[Any]:
        """List the rows that a job has produced, in that order."""
        rows = self._jobs.get(call.path.id).rows
        if call.query.q:
            wanted = call.query.q.lower()
            rows = [one for one in rows if wanted in msgspec.json.encode(one).decode().lower()]
        return cut(rows, call.query, "found")

    @route(
        "DELETE",
        "/jobs/{id}",
        scope=READ,
        path_type=JobPath,
        remote=False,
        refuses=_GONE,
    )
    def end(self, call: RouteCall[JobPath, None, None]) -> None:
        """
        Cancel a running job, or remove one that has ended.

        Allowed for whoever started the job, and with the scope admin.
        """
        job = self._jobs.get(call.path.id)
        if job.who != call.principal.name and not call.principal.may(ADMIN):
            raise Problem(403, "this job was started by somebody else", "not-yours")
        self._jobs.end(job)
