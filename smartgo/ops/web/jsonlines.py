"""Answers of many lines, made as fast as the client takes them: exports."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.ops.problems import Problem, problem_of
from smartgo.ops.web.openapi import LINES
from smartgo.ops.web.request import OpsRequest
from smartgo.ops.web.stalltimer import StallTimer


@implementer(IPushProducer)
class LineStream:
    """
    One answer to one client. Nothing is made ahead of what the client takes; one that takes nothing is cut. Where the
    lines cannot be made to their end the connection is cut too, so that nobody takes them for all.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        request: OpsRequest,
        chunks: AsyncGenerator[bytes, None],
        ended: Callable[[LineStream], None],
        stuck: float,
    ) -> None:
        """
        @param chunks: whole lines; it is closed at the end.
        @param ended: called once at the end.
        @param stuck: seconds after which a client that reads nothing is cut.
        """
        self._request = request
        self._chunks = chunks
        self._ended = ended
        self._stall_timer = StallTimer(clock, stuck, self.abort)
        self._work: Deferred[None] | None = None
        self._paused: Deferred[None] | None = None
        self._over = False

    def begin(self) -> None:
        """Send the headers and start sending lines."""
        request = self._request
        request.setHeader(b"Content-Type", LINES.encode())
        request.notifyFinish().addBoth(self._close)
        request.registerProducer(self, True)
        self._work = Deferred.fromCoroutine(request.timed(self._run()))

    async def _run(self) -> None:
        try:
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    self._request.write(chunk)
                    if self._paused is not None:
                        await self._paused
        except CancelledError:
            return  # the client is gone
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                self._log.failure("writing the lines of request {id} failed", id=self._request.id)
                problem = Problem(500, "an internal error; the log has the details under the request's id")
            self._request.unregisterProducer()
            self._request.answer_problem(problem)  # or cut, where lines were sent already
            return
        self._request.unregisterProducer()
        self._request.finish()

    def abort(self) -> None:
        """Abort the connection."""
        if not self._over:
            transport: Any = self._request.transport
            if transport is not None:
                transport.abortConnection()

    # -- flow --------------------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Pause reading the source: the client is slow."""
        if self._paused is None:
            self._paused = Deferred()
            self._stall_timer.begin()

    def resumeProducing(self) -> None:
        """Resume reading the source."""
        paused, self._paused = self._paused, None
        self._stall_timer.end()
        if paused is not None and not paused.called:
            paused.callback(None)

    def stopProducing(self) -> None:
        """Do nothing: the end of the request follows."""

    def _close(self, _: object) -> None:
        self._over = True
        self._stall_timer.close()
        if self._work is not None:
            self._work.cancel()
        self._request.producer = None
        self._ended(self)
