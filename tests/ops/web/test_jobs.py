"""Long work: begun, looked at, cancelled, forgotten."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.security.principals import ADMIN, READ, Principal
from smartgo.ops.web.jobs import KEPT, KEPT_SECONDS, ROWS, ROWS_KEPT, RUNNING, SECONDS, SHARE, JobTable, RestJob
from tests.fakes import FakeEnvironment
from tests.ops.front import Front

SOMEBODY = Principal("somebody", frozenset({READ}))


class JobTests(SynchronousTestCase):
    """The table of jobs."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.jobs = JobTable(self.env)
        self.waiting: list[Deferred[Any]] = []

    async def wait(self, job: RestJob) -> Any:
        """Work that waits for the test."""
        self.waiting.append(Deferred())
        job.progress(1, 2, "waiting")
        job.add({"row": 1})
        return await self.waiting[-1]

    def test_done(self) -> None:
        """A job tells how far it is, and then what came out."""
        view = self.jobs.start("search", SOMEBODY, self.wait)
        job = self.jobs.get(view.id)
        self.assertEqual((view.state, view.who, view.kind), ("running", "somebody", "search"))
        self.assertEqual((job.view().done, job.view().total, job.view().doing), (1, 2, "waiting"))
        self.waiting[0].callback({"found": 3})
        self.assertEqual((job.view().state, job.view().result, job.view().rows), ("done", {"found": 3}, 1))

    def test_cancelled(self) -> None:
        """A job that is cancelled stops what it waits for."""
        job = self.jobs.get(self.jobs.start("search", SOMEBODY, self.wait).id)
        self.jobs.end(job)
        self.assertEqual(job.view().state, "cancelled")
        self.jobs.end(job)
        self.assertRaises(Problem, self.jobs.get, job.id)

    def test_out_of_time(self) -> None:
        """A job that goes on for an hour is ended, and says why; one that ended before is left alone."""
        before = self.jobs.get(self.jobs.start("search", SOMEBODY, self.wait).id)
        self.waiting[0].callback(7)
        job = self.jobs.get(self.jobs.start("search", SOMEBODY, self.wait).id)
        self.env.clock.advance(SECONDS - 1)
        self.assertEqual(job.view().state, "running")
        self.env.clock.advance(1)
        view = job.view()
        self.assertEqual((view.state, view.code, view.rows), ("failed", "job-too-long", 1))
        self.assertEqual(view.error, "the job did not end within 1 h and was stopped")
        self.assertEqual((before.view().state, before.view().result), ("done", 7))
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_failed(self) -> None:
        """A job that fails says why; a mistake of ours is told to the log alone."""
        for error, code in (
            (PeerRefused(17, "no topic"), "topic-not-exist"),
            (RuntimeError("x"), "internal-server-error"),
        ):
            job = self.jobs.get(self.jobs.start("search", SOMEBODY, self.wait).id)
            self.waiting[-1].errback(error)
            self.assertEqual((job.view().state, job.view().code), ("failed", code))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)

    def test_share(self) -> None:
        """One asker may have so many, and others the rest."""
        for _ in range(SHARE):
            self.jobs.start("search", SOMEBODY, self.wait, owner="reader 10.0.0.1")
        problem = self.assertRaises(Problem, self.jobs.start, "search", SOMEBODY, self.wait, owner="reader 10.0.0.1")
        self.assertEqual((problem.status, problem.code), (409, "too-many-jobs"))
        self.jobs.start("search", SOMEBODY, self.wait, owner="boss 10.0.0.1")
        self.waiting[0].callback(None)
        self.jobs.start("search", SOMEBODY, self.wait, owner="reader 10.0.0.1")

    def test_bounds(self) -> None:
        """So many run, so many are kept and for so long, with so many rows."""
        for _ in range(RUNNING):
            self.jobs.start("search", SOMEBODY, self.wait)
        self.assertEqual(self.assertRaises(Problem, self.jobs.start, "search", SOMEBODY, self.wait).status, 409)
        for waiter in self.waiting:
            waiter.callback(None)
        for _ in range(KEPT):
            self.jobs.start("search", SOMEBODY, self.wait)
            self.waiting[-1].callback(None)
        self.assertEqual(len(self.jobs.all()), KEPT)
        job = RestJob("1", "search", SOMEBODY, 0)
        self.assertTrue(all(job.add(number) for number in range(ROWS)))
        self.assertFalse(job.add(1))
        self.assertTrue(job.view().truncated)
        self.env.clock.advance(KEPT_SECONDS + 1)
        self.assertEqual(self.jobs.all(), [])

    def test_many_rows(self) -> None:
        """Jobs with many rows are forgotten sooner, the oldest first, and never the last one."""

        async def fill(job: RestJob) -> None:
            for number in range(ROWS):
                job.add(number)

        views = [self.jobs.start("search", SOMEBODY, fill) for _ in range(ROWS_KEPT // ROWS + 2)]
        kept = [job.id for job in self.jobs.all()]
        self.assertEqual(kept, [view.id for view in views[2:]])

    def test_stop(self) -> None:
        """A stop cancels what runs."""
        job = self.jobs.get(self.jobs.start("search", SOMEBODY, self.wait).id)
        self.jobs.stop()
        self.assertEqual(job.state, "cancelled")


class JobsApiTests(SynchronousTestCase):
    """Jobs over the API."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    async def count(self, job: RestJob) -> Any:
        """Work that is done at once."""
        for number in range(5):
            job.add({"number": number})
        return {"counted": 5}

    async def wait(self, job: RestJob) -> Any:
        """Work that never is."""
        await Deferred()

    def test_rows(self) -> None:
        """Rows are given by pages, in their order, and searched."""
        job_id = self.front.ops.jobs.start("count", SOMEBODY, self.count).id
        self.assertEqual(self.front.get(f"/jobs/{job_id}")["result"], {"counted": 5})
        page = self.front.get(f"/jobs/{job_id}/rows?limit=3")
        self.assertEqual([one["number"] for one in page["items"]], [0, 1, 2])
        rest = self.front.get(f"/jobs/{job_id}/rows?limit=3&cursor={page['next']}")
        self.assertEqual([one["number"] for one in rest["items"]], [3, 4])
        self.assertEqual(self.front.get(f"/jobs/{job_id}/rows?q=number%22:4")["total"], 1)
        self.assertEqual(self.front.get("/jobs?state=done")["items"][0]["id"], job_id)
        self.assertEqual(self.front.get("/jobs?state=running")["items"], [])

    def test_not_yours(self) -> None:
        """Who did not begin a job does not end it, but for admins."""
        self.front.ops.tokens.create("boss", [ADMIN])
        reader = self.front.ops.tokens.create("reader", [READ])[1]
        boss = self.front.ops.tokens.create("chief", [ADMIN])[1]
        job_id = self.front.ops.jobs.start("wait", SOMEBODY, self.wait).id
        self.assertEqual(self.front.ask("DELETE", f"/jobs/{job_id}", token=reader).code, "not-yours")
        self.assertEqual(self.front.ask("DELETE", f"/jobs/{job_id}", token=boss).status, 204)
        self.assertEqual(self.front.get(f"/jobs/{job_id}", token=reader)["state"], "cancelled")
        self.assertEqual(self.front.ask("GET", "/jobs/0123456789abcdef", token=reader).status, 404)
