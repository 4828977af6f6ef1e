"""The three faces of the client behind one blocking interface, so that one list of cases runs on each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from inspect import iscoroutine
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread

import smartgo
import smartgo.aio
import smartgo.sync
from smartgo import ClientTLS, RealEnvironment, ReceivedMessage
from smartgo.aio import TLSFiles

Heard = Callable[[list[ReceivedMessage]], object]
"""What a case does with messages, at once."""


class Face:
    """
    One face, used from a thread that may block.

    @cvar name: for the names of tests.
    """

    name: str

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function or a class of the face where it belongs; return its result, or raise its error."""
        raise NotImplementedError

    def client(self, registry: str, tls: TLSFiles | None = None, **options: Any) -> Any:
        """Return a client that was started."""
        raise NotImplementedError

    def kind(self, name: str) -> Any:
        """Return a class of the face by its name."""
        raise NotImplementedError

    def listener(self, heard: Heard) -> Any:
        """Return a listener of the face's kind."""
        return heard

    def close(self) -> None:
        """End what the face needs."""


class TwistedFace(Face):
    """Deferreds, on trial's reactor."""

    name = "twisted"

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._env = RealEnvironment(reactor)

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return blockingCallFromThread(self._reactor, function, *args, **kwargs)

    def client(self, registry: str, tls: TLSFiles | None = None, **options: Any) -> Any:
        made = None
        if tls is not None:
            made = ClientTLS(self._env, tls.trust, tls.certificate, tls.key, tls.password, tls.name)
        return self.do(smartgo.Client, self._env, registry, tls=made, **options)

    def kind(self, name: str) -> Any:
        return getattr(smartgo, name)

    def close(self) -> None:
        self.do(self._env.threads.stop)

    def listener(self, heard: Heard) -> Any:
        def listen(messages: list[ReceivedMessage]) -> Deferred[None]:
            deferred: Deferred[None] = Deferred()
            deferred.addCallback(lambda _: heard(messages))
            self._reactor.callLater(0, deferred.callback, None)
            return deferred

        return listen


class AioFace(Face):
    """Coroutines, on a loop in a thread of its own."""

    name = "asyncio"

    def __init__(self) -> None:
        self._loop = self.make_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="face-loop", daemon=True)
        self._thread.start()

    def make_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop to run on."""
        return asyncio.new_event_loop()

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def call() -> Any:
            result = function(*args, **kwargs)
            return await result if iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()

    def client(self, registry: str, tls: TLSFiles | None = None, **options: Any) -> Any:
        client = smartgo.aio.Client(registry, tls=tls, **options)
        self.do(client.start)
        return client

    def kind(self, name: str) -> Any:
        return getattr(smartgo.aio, name)

    def listener(self, heard: Heard) -> Any:
        async def listen(messages: list[ReceivedMessage]) -> None:
            await asyncio.sleep(0)
            heard(messages)

        return listen

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class SyncFace(Face):
    """Calls that block."""

    name = "blocking"

    def do(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    def client(self, registry: str, tls: TLSFiles | None = None, **options: Any) -> Any:
        client = smartgo.sync.Client(registry, tls=tls, **options)
        client.start()
        return client

    def kind(self, name: str) -> Any:
        return getattr(smartgo.sync, name)


class OnTwisted:
    """For test cases on the face of Deferreds."""

    def face(self) -> Face:
        """Return the face."""
        return TwistedFace(reactor)


class OnAsyncio:
    """For test cases on the face of coroutines."""

    def face(self) -> Face:
        """Return the face."""
        return AioFace()


class Blocking:
    """For test cases on the face of calls that block."""

    def face(self) -> Face:
        """Return the face."""
        return SyncFace()
